"""What varies and what runs it: methods, search spaces, training, search, final runs, executors, commands."""
