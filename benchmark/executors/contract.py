"""What a suite asks of an executor; nothing else in the code knows where a job runs."""

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import ParamSpec, TypeVar
from typing import Protocol as Interface

from protocols.datasets.files import size_text

P = ParamSpec("P")
T = TypeVar("T")
_SHOWN = 4  # workers in one line


class JobExecutor(Interface):
    """`concurrent.futures.Executor` with a number of workers, their memory and an end at once."""

    @property
    def workers(self) -> int:
        """Pieces of work that run at once; where workers come and go, as many as there are now."""

    @property
    def peak_memory(self) -> Mapping[str, int]:
        """The most bytes that each worker has held, by its name; a worker of which nothing is known is absent."""

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Begin the work; a worker that dies of it is a `WorkerDied` in the future."""

    def stop(self) -> None:
        """Wait for nothing: unfinished work is lost, finished work is not."""


class WorkerDied(Exception):
    """A piece of work whose workers have died, again and again; the text says how."""

    def __init__(self, message: str, peak_memory_bytes: int = 0) -> None:
        super().__init__(message)
        self.peak_memory_bytes = peak_memory_bytes


class ClusterAway(Exception):
    """The scheduler of a cluster has been away for too long; the same command goes on when it is back."""


def memory_text(peaks: Mapping[str, int]) -> str | None:
    """One line on the memory of all workers, those with the most first; None where nothing is known."""
    most = sorted(peaks.items(), key=lambda item: -item[1])
    shown = ", ".join(f"{name} {size_text(peak)}" for name, peak in most[:_SHOWN])
    more = f", and {len(most) - _SHOWN} with less" if len(most) > _SHOWN else ""
    return f"Memory at its most: {shown}{more}." if most else None
