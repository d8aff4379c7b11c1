"""Runs work in this process, one piece after the other: for tests, for debugging a loss, for a single small job."""

from collections.abc import Callable
from concurrent.futures import Executor, Future

from benchmark.bench import Bench
from benchmark.executors.contract import P, T
from benchmark.executors.worker import hold


class InlineExecutor(Executor):
    """`submit` returns when the work is done."""

    workers = 1

    def __init__(self, bench: Bench) -> None:
        self.peak_memory: dict[str, int] = {}  # the command itself is no worker
        hold(bench)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Run now; an exception of the work is kept in the future, an interrupt is not."""
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future

    def stop(self) -> None:
        """Nothing runs between two calls."""

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Nothing to wait for."""
        del wait, cancel_futures
