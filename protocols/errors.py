"""Errors a user can mend: each is one line that says what was found, what was wanted and the way out."""

from collections.abc import Iterable
from difflib import get_close_matches


class ProtocolError(ValueError):
    """A protocol, split, batch or audit that cannot hold."""


class DataError(ProtocolError):
    """A data set that cannot be read as it stands."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A sentence that offers the nearest of the known names, with a space before it, or nothing."""
    near = nearest(name, known)
    return f" Did you mean {near!r}?" if near else ""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that a slip of the fingers could have turned into `name`, if there is one."""
    # At difflib's own 0.6, margn is taken for mean; two letters of four in the wrong order are 0.75.
    return next(iter(get_close_matches(name, list(known), n=1, cutoff=0.7)), None)
