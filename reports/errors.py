"""Errors a user can mend: each is one line that says what was found, what was wanted and the way out."""


class ReportError(ValueError):
    """A report that the records at hand cannot support."""
