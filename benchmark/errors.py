"""Errors a user can mend: each is one line that says what was found, what was wanted and the way out."""


class BenchmarkError(ValueError):
    """A method, search or suite that cannot run as asked."""


class Interrupted(Exception):
    """The suite was stopped; everything finished is in the store, unless the words say otherwise."""


def words_of(error: Exception) -> str:
    """What somebody else's exception says, for the brackets in a line of ours: the system's words or its first line."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")
