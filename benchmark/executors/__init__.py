"""Where jobs run: each executor has `concurrent.futures.Executor` semantics, a number of `workers`, and `stop()`."""

import os
from pathlib import Path

import torch

from benchmark.bench import Bench
from benchmark.errors import BenchmarkError
from benchmark.executors.contract import JobExecutor
from benchmark.executors.inline import InlineExecutor
from benchmark.executors.processes import WorkerPool
from protocols.errors import did_you_mean
from results.store import Store

EXECUTORS = ("inline", "processes", "dask")
MOST_WORKERS = 4096
Scheduler = str | Path  # of a Dask cluster: its address, or the file that holds it


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def usual_workers(device: str) -> int:
    """Worker processes where nobody says how many: one a GPU, or one a core."""
    return torch.cuda.device_count() if device == "cuda" else usable_cores()


def check_executor(name: str, workers: int | None, scheduler: str | None, scheduler_file: Path | None) -> None:
    """Refuse an unknown executor, a number of workers that cannot work, or a cluster that is named twice or not at all.

    Raises:
        BenchmarkError: in one line, with the way out.
    """
    if name not in EXECUTORS:
        hint = did_you_mean(name, EXECUTORS)
        raise BenchmarkError(f"no executor named {name!r}.{hint} Known: {', '.join(EXECUTORS)}.")
    if workers is not None and not 1 <= workers <= MOST_WORKERS:
        raise BenchmarkError(f"--workers is {workers}; it must be at least 1, and at most {MOST_WORKERS:,}.")
    named = [given for given in (scheduler, scheduler_file) if given is not None]
    if name != "dask" and named:
        raise BenchmarkError(f"a Dask scheduler ({named[0]}) goes with --executor dask; this is {name}.")
    if name == "dask" and len(named) != 1:
        raise BenchmarkError(
            "--executor dask wants the scheduler of a running cluster: --scheduler tcp://HOST:PORT or "
            "--scheduler-file PATH; one of them."
        )
    if name == "dask" and workers is not None:
        raise BenchmarkError(f"--workers is {workers}; a Dask cluster has as many as were started. Leave it out.")


def make_executor(name: str, bench: Bench, workers: int, store: Store, scheduler: Scheduler | None) -> JobExecutor:
    """An executor whose workers hold `bench`; those of a cluster write to `store` themselves.

    Raises:
        BenchmarkError: if a cluster cannot be reached, or its workers cannot take part.
    """
    if name == "inline":
        return InlineExecutor(bench)
    if name == "processes":
        return WorkerPool(bench, workers)
    assert scheduler is not None, "check_executor() comes first"
    from benchmark.executors.cluster import ClusterExecutor  # here, because Dask is an extra

    return ClusterExecutor(bench, store, scheduler)
