"""Where jobs run: each executor has `concurrent.futures.Executor` semantics, a number of `workers`, and `stop()`."""

import os

from benchmark.bench import Bench
from benchmark.errors import BenchmarkError
from benchmark.executors.inline import InlineExecutor
from benchmark.executors.processes import WorkerPool
from protocols.errors import did_you_mean

EXECUTORS: dict[str, type[InlineExecutor] | type[WorkerPool]] = {"inline": InlineExecutor, "processes": WorkerPool}


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def check_executor(name: str, workers: int) -> None:
    """Refuse an unknown executor, or a number of workers that cannot work.

    Raises:
        BenchmarkError: in one line, with the way out.
    """
    if name not in EXECUTORS:
        hint = did_you_mean(name, EXECUTORS)
        raise BenchmarkError(f"no executor named {name!r}.{hint} Known: {', '.join(EXECUTORS)}.")
    if workers < 1:
        raise BenchmarkError(f"--workers is {workers}; it must be at least 1.")


def make_executor(name: str, bench: Bench, workers: int) -> InlineExecutor | WorkerPool:
    """An executor whose workers hold `bench`."""
    check_executor(name, workers)
    return EXECUTORS[name](bench, workers)
