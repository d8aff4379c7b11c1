"""The command line, a file for each family of commands; these may see all four rooms."""
