"""Statistics over runs, as pure functions."""
