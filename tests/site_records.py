"""Records of any number of methods and data sets, each as full as one that a run writes, for the tests of the site."""

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from statistics import fmean
from typing import Any

from protocols.catalogue import protocol_named
from protocols.derive import derive
from reports.published_sizes import SIZES
from results.record import Check, FoldRecord, Identity, Metrics, Provenance, Record, RunRecord, Validation
from results.study import Study

METHODS = (
    "untrained", "contrastive", "triplet", "ms", "ms-miner", "norm-softmax", "proxy-nca", "proxy-anchor", "arcface",
    "cosface", "fastap", "snr", "soft-triple", "margin", "ntxent", "xbm-contrastive", "ccp-contrastive",
    "hpl-proxy-anchor", "lifted", "n-pairs",
)  # fmt: skip
DATASETS = ("cub200", "cars196", "sop", "inshop")
PROVENANCE = Provenance(
    created_at="2024-05-01T12:00:00+00:00",
    versions={"python": "3.12.3", "torch": "2.9.0", "torchvision": "0.24.0", "pytorch-metric-learning": "2.9.0",
              "optuna": "5.0.0", "numpy": "2.3.1", "scipy": "1.16.0", "pillow": "11.3.0", "mlrc-harness": "0.2.0"},
    device="NVIDIA A100-SXM4-80GB",
    threads=1,
    code_revision="5b8c7869638a",
    trunk_weights="e4f8d62cb4c1a1f2f6cf4b4a4c4f7d3a2d1c0b9f8e7d6c5b4a39281706f5e4d3",
)  # fmt: skip


def site_records(
    methods: Sequence[str] = METHODS,
    datasets: Sequence[str] = DATASETS,
    *settings: str,
    n_trials: int = 0,
    base: str = "mlrc",
) -> list[Record]:
    """The final runs of all methods on all data sets under a protocol with some settings, and trials of searches."""
    protocol = derive(protocol_named(base), settings)
    shared = {"title": protocol.title, "digest": protocol.digest(), "values": protocol.values()}
    return [
        record for dataset in datasets for method in methods for record in _records(method, dataset, shared, n_trials)
    ]


def study_of(record: Record, space: str) -> Study:
    """The search of a record's method, over a space as JSON."""
    identity = record.identity
    return Study(
        **identity.comparison._asdict(),
        protocol_title=identity.protocol["title"],
        dataset_name=identity.dataset["name"],
        method=identity.method,
        method_code=identity.method_code,
        optuna_name="",
        space=space,
        space_hash="",
        n_trials=50,
        n_finished=50,
        n_failed=0,
        best_trial=0,
        best_hyperparameters=None,
        best_value=None,
        best_standard_error=None,
        updated_at="2024-05-01T12:00:00+00:00",
    )


def _records(method: str, dataset: str, protocol: Mapping[str, Any], n_trials: int) -> Iterator[Record]:
    searching, drawn = random.Random(f"{method} {dataset} search"), random.Random(f"{method} {dataset}")
    values = protocol["values"]
    level = drawn.uniform(0.15, 0.28)
    for trial in range(1, n_trials + 1):
        of = _identity(method, dataset, protocol, 0, searching.uniform(0.0, 1.0))
        worth = level - 0.2 * abs(of.hyperparameters["margin"] - 0.4)
        for fold in range(values["folds"]["n_folds"]):
            yield _fold(
                of, fold, worth + searching.gauss(0.0, 0.004), searching, f"2024-04-01T{trial // 60:02}:{trial % 60:02}"
            )
    for run in range(1, values["finals"]["n_runs"] + 1):
        of = _identity(method, dataset, protocol, run, 0.3841)
        folds = [_fold(of, fold, level + drawn.gauss(0.0, 0.004), drawn) for fold in range(values["folds"]["n_folds"])]
        yield from folds
        if len(folds) > 1:
            yield _run(of, folds, fmean(fold.test["map_at_r"] for fold in folds if fold.test) + 0.04)


def _identity(method: str, dataset: str, protocol: Mapping[str, Any], run: int, margin: float) -> Identity:
    return Identity(
        protocol=dict(protocol),
        dataset={
            "name": dataset,
            "standard_name": dataset if dataset in DATASETS else "",
            "content_hash": sha256(dataset.encode()).hexdigest()[:12],
            "n_classes": SIZES[dataset].n_classes if dataset in SIZES else 200,
            "n_images": SIZES[dataset].n_images if dataset in SIZES else 11788,
        },
        split={"kind": "wrapped", "digest": sha256(f"split {dataset}".encode()).hexdigest()[:12]},
        method=method,
        method_code="",
        hyperparameters={"margin": margin, "w_lr": 0.00031622776601683794},
        purpose="final" if run else "search",
        run=run,
    )


def _metrics(of: Identity, map_at_r: float) -> Metrics:
    """Those that the protocol asks for, each following from one."""
    known = {"precision_at_1": 2.4, "r_precision": 1.3, "map_at_r": 1.0}
    recall = {name: 2.4 + 0.2 * math.log2(int(name.rpartition("_")[2])) for name in of.metrics if name not in known}
    return {name: min(factor * map_at_r, 1.0) for name, factor in {**known, **recall}.items()}


def _fold(of: Identity, number: int, value: float, drawn: random.Random, made: str = "") -> FoldRecord:
    n_steps = 200 * drawn.randint(12, 40)
    steps = range(200, n_steps + 1, 200)
    curve = tuple(
        Validation(
            step=step, map_at_r=value * (1.2 - math.exp(-step / 900) + drawn.gauss(0, 0.01)), loss=2 + 900 / step
        )
        for step in steps
    )
    is_final = of.purpose == "final"
    return FoldRecord(
        id=sha256(f"{of} {number}".encode()).hexdigest()[:16],
        identity=of,
        fold=number,
        seed=drawn.randrange(2**32),
        outcome="done",
        curve=curve,
        best_step=max(curve, key=lambda point: point.map_at_r).step,
        n_steps=n_steps,
        n_images_seen=32 * n_steps,
        validation=_metrics(of, 1.2 * value),
        test=_metrics(of, value) if is_final else None,
        evaluation_audit={"queries": 5924, "left_out": 0, "smallest_r": 40, "largest_r": 59} if is_final else None,
        audit=_audit(n_steps, is_final),
        seconds={"setup": 1.52, "train": 0.11 * n_steps, "validate": 61.2, "test": 20.4},
        peak_memory_bytes=3 * 2**30,
        provenance=_made(made),
        method_state=_chain(n_steps) if of.method.startswith("ccp") else None,
        in_force={
            "batch": [4] * 8,
            "batchnorm": {"mode": "frozen", "n_layers": 69},
            "coverage": {"n_batches": n_steps, "n_classes": 75, "n_images": 4400, "of_classes": 75, "of_images": 4412},
            "optimiser": {"class": "RMSprop", "groups": [{"alpha": 0.99, "lr": 1e-06, "momentum": 0.9}]},
            "transforms": {"crop_px": 227, "resize_px": 256, "train_crop": "random"},
            "trunk": {"class": "BNInception", "features": 1024, "pooling": "average"},
        },
    )


def _made(minute: str) -> Provenance:
    return Provenance(**{**vars(PROVENANCE), "created_at": f"{minute}:00+00:00"}) if minute else PROVENANCE


def _audit(n_steps: int, is_final: bool) -> tuple[Check, ...]:
    details = {
        "trunk input": "two-valued probe arrives as 0 and 255 in the order BGR",
        "classes disjoint": "classes: 75 train, 25 validation, 100 test",
        "embedding width": "128-D, l2: lengths from 1 to 1",
        "batch shape": f"{n_steps} batches of 8 classes x 4 checked in {n_steps} steps",
        "images seen": f"{32 * n_steps} seen; {n_steps} steps x 32 = {32 * n_steps}",
        "batch norm": "69 layers: statistics and affine weights bit-equal before and after",
        "test images opened": "0 before the final evaluation, 5924 in it" if is_final else "0; expected 0",
    }
    return tuple(Check(name=name, passed=True, detail=detail) for name, detail in details.items())


def _chain(n_steps: int) -> dict[str, Any]:
    starts = [0, n_steps // 3 // 200 * 200, n_steps // 2 // 200 * 200]
    return {"problems": [{"after_step": start, "lambda": 2e-4} for start in starts]}


def _run(of: Identity, folds: Sequence[FoldRecord], value: float) -> RunRecord:
    return RunRecord(
        id=sha256("".join(fold.id for fold in folds).encode()).hexdigest()[:16],
        identity=of,
        members=tuple(fold.id for fold in folds),
        test=_metrics(of, value),
        embedding_dim=512,
        evaluation_audit={"queries": 5924, "left_out": 0, "smallest_r": 40, "largest_r": 59},
        seconds={"evaluation": 3.21},
        provenance=PROVENANCE,
    )
