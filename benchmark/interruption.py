"""Ctrl-C during a suite: the first lets running folds finish, the second ends them, and so does a request to terminate.

The first only sets a flag, from the first line of a command on: Python drops an exception that is raised while it calls
back for a weak reference, as it often does while torch is imported, and a dropped Ctrl-C would train on to the end.
"""

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from benchmark.console import say_error
from benchmark.errors import Interrupted


class _Request:
    """Whether the command was asked to stop, and what is told of it."""

    def __init__(self) -> None:
        self.is_made = False
        self.stop: Callable[[], None] | None = None

    def first(self, *_: object) -> None:
        """The first Ctrl-C."""
        self.is_made = True
        signal.signal(signal.SIGINT, signal.default_int_handler)
        if self.stop is None:
            say_error("Stopping; press Ctrl-C again to stop at once.")
        else:
            self.stop()
            say_error("Stopping when the running folds are done; press Ctrl-C again to stop at once.")

    def terminate(self, number: int, frame: FrameType | None) -> None:
        """A request to terminate: at once, and nothing new begins should the exception be dropped."""
        self.is_made = True
        if self.stop is not None:
            self.stop()
        signal.default_int_handler(number, frame)


_requests: list[_Request] = []  # one while a command listens


@contextmanager
def interruptible() -> Iterator[None]:
    """Listen for Ctrl-C until the end of the block; a block within another one is a part of it."""
    if _requests:
        yield
        return
    request = _Request()
    before = signal.signal(signal.SIGINT, request.first), signal.signal(signal.SIGTERM, request.terminate)
    _requests.append(request)
    try:
        yield
    finally:
        _requests.remove(request)
        signal.signal(signal.SIGINT, before[0])
        signal.signal(signal.SIGTERM, before[1])


@contextmanager
def stopped_by(stop: Callable[[], None]) -> Iterator[None]:
    """Within a listening block: the first Ctrl-C calls `stop`, and so does one that came before.

    Raises:
        Interrupted: at once, if Ctrl-C came before.
    """
    leave_if_asked()
    request = _requests[-1]
    request.stop = stop
    try:
        yield
    finally:
        request.stop = None


def leave_if_asked() -> None:
    """Go no further where Ctrl-C has come.

    Raises:
        Interrupted: if it has.
    """
    if _requests and _requests[-1].is_made:
        raise Interrupted
