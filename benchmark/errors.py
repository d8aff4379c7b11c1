"""Errors a user can mend: each is one line that says what was found, what was wanted and the way out."""


class BenchmarkError(ValueError):
    """A method, search or suite that cannot run as asked."""


class Interrupted(Exception):
    """The suite was stopped; everything finished is in the store."""
