"""A suite small enough for a test and real in all its parts: striped shapes, a derived `demo`, a store in a folder."""

from dataclasses import replace
from pathlib import Path

from benchmark.bench import Bench
from benchmark.executors.worker import hold
from benchmark.methods.entry import Value
from protocols.catalogue import DEMO_V1
from protocols.datasets import load_dataset
from protocols.derive import derive
from protocols.spec import Protocol
from protocols.splits import make_split
from results.record import FoldRecord

SETTINGS = ("max_steps=4", "cadence.evaluate_every_steps=2", "n_trials=3", "n_startup_trials=2", "n_runs=2")
DATA = "shapes:shifted?train=8&test=6"
MARGINS: dict[str, Value] = {"pos_margin": 0.2, "neg_margin": 0.9}


def tiny_protocol(*settings: str) -> Protocol:
    """`demo` cut down to seconds, with further settings."""
    return derive(DEMO_V1, [*SETTINGS, *settings])


def tiny_bench(folder: Path, *settings: str) -> Bench:
    """A bench of it that this process holds."""
    protocol, index = tiny_protocol(*settings), load_dataset(DATA)
    bench = Bench(
        protocol=protocol,
        index=index,
        split=make_split(index.classes, protocol.folds, index.test_classes),
        artifacts=folder / "embeddings",
        threads=1,
        device="cpu",
    )
    hold(bench)
    return bench


def without_timings(record: FoldRecord) -> FoldRecord:
    """The record without what may differ between two runs of one job."""
    provenance = replace(record.provenance, created_at="", code_revision="")
    return replace(record, seconds={}, peak_memory_bytes=0, provenance=provenance)
