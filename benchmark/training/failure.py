"""States in which a fold ends without a result; each is named in its record, never turned into a number."""

import traceback
from pathlib import Path

import torch

from results.record import FoldRecord, Reason, Record

RESULT_REASONS = ("non-finite", "collapsed", "method-error")  # a method's doing; others: the machine's or the data's
_OUT_OF_MEMORY = ("not enough memory", "out of memory", "cannot allocate memory")


class FoldFailure(Exception):
    """A fold that cannot go on."""

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(message)
        self.reason: Reason = reason


def raised_by_method(error: BaseException) -> FoldFailure:
    """An exception out of a method's code, with the place it came from, in one line."""
    if isinstance(error, FoldFailure):
        return error
    if is_out_of_memory(error):
        return FoldFailure("out-of-memory", one_line(error))
    last = traceback.extract_tb(error.__traceback__)[-1]
    return FoldFailure("method-error", f"{one_line(error)} ({Path(last.filename).name}, line {last.lineno})")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether an exception says that host or device memory ran out."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and any(phrase in str(error).lower() for phrase in _OUT_OF_MEMORY)


def one_line(error: BaseException) -> str:
    """The exception's type and the first line of its text, printable and without a full stop."""
    text = error.msg if isinstance(error, SyntaxError) else str(error)  # its str() repeats file and line
    first = next(iter(text.strip().splitlines()), "")
    printable = "".join(sign if sign.isprintable() else "?" for sign in first)  # a terminal would obey the others
    return f"{type(error).__name__}: {printable}".rstrip(".: ")


def is_result(record: Record) -> bool:
    """Whether a record says something of the method, so that running the job again would say the same."""
    return not isinstance(record, FoldRecord) or record.outcome == "done" or record.reason in RESULT_REASONS
