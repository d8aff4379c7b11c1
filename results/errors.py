"""Errors a user can mend: each is one line that says what was found, what was wanted and the way out."""


class ResultsError(ValueError):
    """A record, store or reference table that cannot be read or written."""


class StoreUnavailable(ResultsError):
    """A store that was in use and cannot be used for now. What it holds is whole: the same command goes on from it."""
