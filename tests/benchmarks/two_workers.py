"""How much more two worker processes of one thread each get done than one, on two cores: at least 1.8 times.

A suite of contrastive and norm-softmax under `mini` on the shifted shapes, search and final runs, through the real
driver, pools and store. No job stops early: where jobs differ in length, the end of the suite would measure luck. The
clock starts when the workers of both pools have run jobs, so their start, imports and decoding are left out on both
sides. One worker and two alternate, each time on a new store. The fastest round of each side counts, because other
processes only ever add time. Two numbers tell the driver from the machine: `busy`, the share of two workers' time that
went into jobs, and `job_slowdown`, how much longer the same jobs take with another worker beside them (shared memory).

Run `python tests/benchmarks/two_workers.py`: one JSON line, exit code 1 if the bound is missed. About a minute.
"""

import json
import sys
import tempfile
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from time import perf_counter

import optuna
from optuna.storages import RDBStorage
from rich.console import Console

from benchmark.bench import Bench
from benchmark.campaign import expected_work
from benchmark.executors.processes import WorkerPool
from benchmark.executors.worker import perform
from benchmark.methods.registry import method_entry
from benchmark.options import SuiteOptions
from benchmark.progress import SuiteProgress
from benchmark.suite import Driver
from benchmark.workshop import Suite, assemble
from results.store import Store

BOUND = 1.8  # seconds of one worker / seconds of two
ROUNDS = 2
STEPS = 200  # up to 1000 in `mini`; shorter jobs make the work between them weigh more
PHASES = ("search", "finals")
OPTIONS = SuiteOptions(
    ("contrastive", "norm-softmax"),
    settings=(
        f"max_steps={STEPS}",
        f"cadence.patience={STEPS}",
        "n_trials=2",
        "n_startup_trials=1",  # so that the last trial is the sampler's own proposal
        "n_runs=1",
    ),
    workers=2,
)


def started_pool(bench: Bench, workers: int) -> WorkerPool:
    """A pool of which every worker has imported and decoded all it needs."""
    pool = WorkerPool(bench, workers)
    job = bench.job(method_entry("contrastive"), {"pos_margin": 0.2, "neg_margin": 0.6}, run=0, fold=0)
    for future in [pool.submit(perform, replace(job, seed=seed)) for seed in range(2 * workers)]:
        future.result()
    return pool


def run_once(suite: Suite, pool: WorkerPool, folder: Path) -> tuple[float, float]:
    """Seconds of the suite from an empty store to its last record, and the sum of the seconds of its jobs."""
    expected = {entry.name: expected_work(entry, suite.bench, PHASES) for entry in suite.entries}
    with closing(Store.open(str(folder / "store.db"))) as store:
        storage = RDBStorage(store.url)
        with SuiteProgress(expected, suite.bench.n_folds, Console(quiet=True)) as progress:
            began = perf_counter()
            problems = Driver(suite.bench, store, pool, progress).run(suite.entries, storage, PHASES)
            seconds = perf_counter() - began
        assert not problems, problems
        in_jobs = sum(sum(record.seconds.values()) for record in store.records())
    return seconds, in_jobs


def measure(folder: Path) -> dict[int, list[tuple[float, float]]]:
    """What `run_once` found for each number of workers, round after round."""
    suite = assemble(replace(OPTIONS, store=str(folder / "suite.db")))
    pools = [started_pool(suite.bench, workers) for workers in (1, 2)]
    found: dict[int, list[tuple[float, float]]] = {1: [], 2: []}
    try:
        for number in range(ROUNDS):
            for pool in pools:
                place = folder / f"{number}-{pool.workers}"
                place.mkdir()
                found[pool.workers].append(run_once(suite, pool, place))
    finally:
        for pool in pools:
            pool.stop()
    return found


def main() -> int:
    """Measure, print, and say whether the bound holds."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder))
    (one_s, one_in_jobs_s), (two_s, two_in_jobs_s) = min(found[1]), min(found[2])
    ratio = one_s / two_s
    report = {
        "benchmark": "two_workers",
        "ratio": round(ratio, 3),
        "at_least": BOUND,
        "busy": round(two_in_jobs_s / (2 * two_s), 3),
        "job_slowdown": round(two_in_jobs_s / one_in_jobs_s, 3),
    }
    seconds = {f"{workers}_s": [round(value, 2) for value, _ in rounds] for workers, rounds in found.items()}
    print(json.dumps(report | seconds))
    return int(ratio < BOUND)


if __name__ == "__main__":
    sys.exit(main())
