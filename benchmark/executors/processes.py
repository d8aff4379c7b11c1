"""Worker processes, each with as many torch threads as its bench says."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from typing import ParamSpec, TypeVar

from benchmark.bench import Bench
from benchmark.executors.worker import hold
from benchmark.memory import prefer_huge_pages

P = ParamSpec("P")
T = TypeVar("T")


class WorkerPool(ProcessPoolExecutor):
    """Processes started afresh (spawn: no inherited locks, CUDA works, the same on every system)."""

    def __init__(self, bench: Bench, workers: int) -> None:
        self.workers = workers
        prefer_huge_pages()
        super().__init__(
            workers, mp_context=multiprocessing.get_context("spawn"), initializer=_start_worker, initargs=(bench,)
        )

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Hand over work, to a new worker while there are fewer than `workers`.

        A worker starts with Ctrl-C blocked: one that it ended among its imports would leave this process writing its
        bench into a pipe that nobody reads.
        """
        if not hasattr(signal, "pthread_sigmask"):  # Windows
            return super().submit(fn, *args, **kwargs)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            return super().submit(fn, *args, **kwargs)
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

    def stop(self) -> None:
        """End the workers now; work in progress is lost, finished work is not."""
        for process in list((self._processes or {}).values()):
            process.kill()
        self.shutdown(wait=True, cancel_futures=True)  # they are dead: this only closes their pipes


def _start_worker(bench: Bench) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides what it means
    threading.Thread(target=_end_with_parent, daemon=True).start()
    hold(bench)


def _end_with_parent() -> None:
    """A killed parent closes no queue, so a worker would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
