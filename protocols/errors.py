"""Errors a user can mend: each is one line that says what was found, what was wanted and the way out."""

from collections.abc import Iterable
from difflib import get_close_matches


class ProtocolError(ValueError):
    """A protocol, split, batch or audit that cannot hold."""


class DataError(ProtocolError):
    """A data set that cannot be read as it stands."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A sentence that offers the nearest of the known names, with a space before it, or nothing."""
    near = get_close_matches(name, list(known), n=1)
    return f" Did you mean {near[0]!r}?" if near else ""
