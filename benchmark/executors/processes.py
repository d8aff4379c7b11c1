"""One worker process a core (or as many as asked), each with its share of the torch threads."""

import multiprocessing
import os
import signal
import threading
from concurrent.futures import ProcessPoolExecutor

from benchmark.bench import Bench
from benchmark.executors.worker import hold


class WorkerPool(ProcessPoolExecutor):
    """Processes started afresh (spawn: no inherited locks, CUDA works, the same on every system)."""

    def __init__(self, bench: Bench, workers: int) -> None:
        self.workers = workers
        super().__init__(
            workers, mp_context=multiprocessing.get_context("spawn"), initializer=_start_worker, initargs=(bench,)
        )

    def stop(self) -> None:
        """End the workers now; work in progress is lost, finished work is not."""
        for process in list((self._processes or {}).values()):
            process.kill()
        self.shutdown(wait=False, cancel_futures=True)


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
