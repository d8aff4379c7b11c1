"""The analyses that the sources show, one file a figure: each a picture and the numbers behind it. Never torch."""
