"""Errors a user can mend: each is one line that says what was found, what was wanted and the way out."""


class ProtocolError(ValueError):
    """A protocol, split, batch or audit that cannot hold."""


class DataError(ProtocolError):
    """A data set that cannot be read as it stands."""
