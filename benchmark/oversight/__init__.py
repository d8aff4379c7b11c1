"""What a suite would cost, how far it is, and whether its records hold."""
