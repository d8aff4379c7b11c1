"""Errors a user can mend: each is one line that says what was found, what was wanted and the way out."""


class ResultsError(ValueError):
    """A record, store or reference table that cannot be read or written."""
