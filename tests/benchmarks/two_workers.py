"""How much more two worker processes of one thread each get done than one on two cores: at least 1.8 times.

A suite of contrastive and norm-softmax under `mini` on the shifted shapes, search and final runs, through the real
driver, pools and store. Every job has the same number of steps: with early stopping the end of a search would measure
luck. The workers of both pools are started, with everything imported and all images decoded, before the clock starts.
One and two workers alternate, each time on a new store, and the median of the ratios counts.

Run `python tests/benchmarks/two_workers.py`: one JSON line, exit code 1 if the bound is missed. About a minute.
"""

import json
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from statistics import median

import optuna
from optuna.storages import RDBStorage
from rich.console import Console

from benchmark.bench import Bench
from benchmark.executors.processes import WorkerPool
from benchmark.executors.worker import perform
from benchmark.methods.registry import method_entry
from benchmark.progress import SuiteProgress
from benchmark.suite import Driver, expected_work
from protocols.catalogue import protocol_named
from protocols.datasets import load_dataset
from protocols.splits import make_split
from results.store import Store

BOUND = 1.8  # seconds of one worker / seconds of two
ROUNDS = 2
STEPS = 200  # a job of `mini` has up to 1000; shorter ones make what is done between jobs weigh more
METHODS = ("contrastive", "norm-softmax")
PHASES = ("search", "finals")


def small_bench(artifacts: Path) -> Bench:
    """`mini` with 3 trials and 1 run of `STEPS` steps; the last trial is the sampler's own proposal."""
    protocol = protocol_named("mini")
    schedule = replace(protocol.schedule, max_steps=STEPS, cadence=replace(protocol.schedule.cadence, patience=STEPS))
    search = replace(protocol.search, n_trials=3, n_startup_trials=2)
    finals = replace(protocol.finals, n_runs=1)
    protocol = replace(protocol, derived=True, schedule=schedule, search=search, finals=finals)
    index = load_dataset("shapes:shifted")
    split = make_split(index.classes, protocol.folds, index.test_classes)
    return Bench(protocol=protocol, index=index, split=split, artifacts=artifacts, threads=1, device="cpu")
