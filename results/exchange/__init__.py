"""Results in files: written whole, read with every check, merged without contradiction."""
