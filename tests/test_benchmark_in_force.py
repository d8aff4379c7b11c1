"""What a finished record says was in force, read from the job's objects, is what the papers' protocols write down.

The numbers below are written out by hand, not taken from the catalogue. A network's job runs on small crops and random
weights, because a step on a full image takes seconds; the sizes come from a job under the protocol as published, and
where it takes many steps to see what is in force, the trunk is `mini`'s.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from conftest import draw_images
from torch import Tensor

from benchmark.bench import Bench
from benchmark.executors.worker import hold, perform
from benchmark.methods.entry import Value
from benchmark.methods.registry import method_entry
from benchmark.training.learner import Learner
from benchmark.training.training import run_fold
from protocols.audit import Audit
from protocols.catalogue import PUBLISHED, protocol_named
from protocols.datasets import load_dataset
from protocols.datasets.index import ImageIndex
from protocols.derive import derive
from protocols.fold import FoldImages, Indices
from protocols.splits import make_split
from protocols.transforms import Box
from protocols.trunks.batchnorm import freeze_batchnorm
from results.record import FoldRecord, from_json, to_json

MARGINS: dict[str, Value] = {"pos_margin": 0.2, "neg_margin": 0.9}
SMALL = {"conv3": ("resize_px=8", "crop_px=8"), "bn-inception": ("resize_px=31", "crop_px=31")}
CROPPED = {"sizes": {"resize_px": 256, "crop_px": 227}, "area": (0.16, 1.0), "aspect": (0.75, 4 / 3), "flips": 0.5}
WHOLE = {"sizes": {"resize_px": 32, "crop_px": 32}, "area": None, "aspect": None, "flips": 0.0}  # nothing is drawn
BGR_255 = {"channels": "BGR", "scale": 255.0, "mean": [104.0, 117.0, 128.0], "std": [1.0, 1.0, 1.0], "per_image": False}
RGB_255 = {"channels": "RGB", "scale": 255.0, "mean": [127.0] * 3, "std": [128.0] * 3, "per_image": False}
RGB_1 = {
    **{"channels": "RGB", "scale": 1.0, "per_image": False},
    **{"mean": [0.485, 0.456, 0.406], "std": [0.229, 0.224, 0.225]},
}
STANDARDISED = {"channels": "gray", "scale": 1.0, "mean": [0.0], "std": [1.0], "per_image": True}
RMSPROP = {"class": "RMSprop", "lr": 1e-6, "weight_decay": 1e-4, "momentum": 0.9}


def adam(lr: float, beta2: float) -> dict[str, Any]:
    return {"class": "Adam", "lr": lr, "weight_decay": 1e-4, "betas": [0.9, beta2]}


@dataclass(frozen=True, kw_only=True)
class Written:
    """A protocol as it is written down; the defaults are the reality check's."""

    trunk: str = "BNInception"
    pooling: str = "average"
    features: int = 1024
    dim: int = 128
    batchnorm: tuple[str, int] = ("frozen", 69)
    n_trunk: int = 11_295_240 - (1024 * 1000 + 1000) - 20_032  # weights without classifier and batch norm
    normalisation: str = "l2"
    input: dict[str, Any]
    transforms: dict[str, Any]
    optimiser: dict[str, Any]
    batch: tuple[int, int]  # classes, images of each
    evaluate_every_steps: int


MLRC = Written(input=BGR_255, transforms=CROPPED, optimiser=RMSPROP, batch=(8, 4), evaluate_every_steps=200)
CCP = replace(MLRC, normalisation="lipschitz", optimiser=adam(1e-5, 0.99), evaluate_every_steps=25)
CONVENTIONAL = replace(CCP, pooling="average+max", dim=512, normalisation="l2", batch=(32, 4))
MINI = Written(
    trunk="Conv3",
    features=64,
    batchnorm=("none", 0),
    n_trunk=(9 * 16 + 16) + (9 * 16 * 32 + 32) + (9 * 32 * 64 + 64),
    input=STANDARDISED,
    transforms=WHOLE,
    optimiser=adam(3e-3, 0.999),
    batch=(8, 4),
    evaluate_every_steps=50,
)
WRITTEN = {
    "mlrc": MLRC,
    "mlrc-batch256": replace(MLRC, batch=(64, 4)),
    "ccp": CCP,
    "ccp-ablation": CCP,
    "conventional-bninception": CONVENTIONAL,
    "conventional-resnet50": replace(
        CONVENTIONAL,
        trunk="ResNet50",
        features=2048,
        batchnorm=("frozen", 53),
        n_trunk=25_557_032 - (2048 * 1000 + 1000) - 53_120,
        input=RGB_1,
        batch=(24, 4),
    ),
    "lite": replace(
        MLRC,
        trunk="EfficientNetLite0",
        features=1280,
        batchnorm=("frozen", 49),
        n_trunk=4_652_008 - (1280 * 1000 + 1000) - 42_016,
        input=RGB_255,
        optimiser=adam(1e-5, 0.999),
        evaluate_every_steps=50,
    ),
    "mini": MINI,
    "demo": replace(MINI, evaluate_every_steps=40),
}


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> ImageIndex:
    """88 classes for training, so that three quarters of them fill a batch of 64 classes."""
    return load_dataset(str(draw_images(tmp_path_factory.mktemp("classes") / "images", n_classes=176, n_images=2)))


def bench(index: ImageIndex, name: str, *settings: str) -> Bench:
    protocol = derive(protocol_named(name), settings)
    split = make_split(index.classes, protocol.folds, index.test_classes)
    return Bench(protocol=protocol, index=index, split=split, artifacts=Path("none"), threads=1, device="cpu")


def small(index: ImageIndex, name: str, *settings: str) -> Bench:
    trunk = protocol_named(name).trunk.name
    sizes = SMALL.get(trunk, ("resize_px=32", "crop_px=32"))
    return bench(index, name, "trunk.weights=random", "max_steps=1", *sizes, *settings)


def light(index: ImageIndex, name: str, *settings: str) -> Bench:
    """The protocol's schedule and transforms, on the trunk of `mini` and few images: a step takes a millisecond."""
    trunk = ("trunk.name=conv3", "trunk.batchnorm=none", "trunk.pooling=average", "input.channels=gray")
    values = ("input.mean=[0]", "input.std=[1]", "input.scale=1", "input.per_image=true", "batch.size=8")
    return bench(index, name, "trunk.weights=random", *trunk, *values, *settings)


def finished(bench: Bench, method: str, hyperparameters: dict[str, Value] | None = None, run: int = 0) -> FoldRecord:
    record = run_fold(bench.job(method_entry(method), hyperparameters or {}, run, 0), bench)
    assert record.outcome == "done", record.message
    assert from_json(to_json(record)) == record
    return record


FIFTY, FEW_PIXELS = ("max_steps=50", "cadence.evaluate_every_steps=50"), ("resize_px=128", "crop_px=8")
NUMERICS = {
    "deterministic_algorithms": True,
    "matmul_tf32": False,
    "cudnn_tf32": False,
    "cudnn_deterministic": False,  # the first switch covers it
    "cudnn_benchmark": False,
}


def test_a_worker_rounds_as_it_should_and_its_record_says_so(index: ImageIndex, tmp_path: Path) -> None:
    asked = replace(small(index, "mini"), artifacts=tmp_path)
    hold(asked)
    record = perform(asked.job(method_entry("contrastive"), MARGINS, 0, 0))
    assert isinstance(record, FoldRecord)
    assert record.in_force is not None
    assert record.in_force["numerics"] == NUMERICS


def test_every_published_protocol_is_written_down_here() -> None:
    assert WRITTEN.keys() == {protocol.name for protocol in PUBLISHED}


@pytest.mark.parametrize("name", WRITTEN)
def test_the_sizes_and_the_input_of_a_finished_job_are_the_written_ones(
    index: ImageIndex, name: str, tmp_path: Path
) -> None:
    published = bench(index, name)
    few = replace(published, artifacts=tmp_path, split=replace(published.split, test=published.split.test[:2]))
    found = finished(few, "pixels", run=1).in_force
    assert found is not None
    assert found.pop("numerics").keys() == NUMERICS.keys()
    assert found == {"sizes": WRITTEN[name].transforms["sizes"], "input": WRITTEN[name].input}


def follows(drawn: dict[str, Any], written: dict[str, Any], n_images: int) -> bool:
    """Whether what was drawn for so many images begins and ends where it is written, and no flip is too many."""
    if drawn["n_images"] != (n_images if written["area"] else 0):
        return False
    if abs(drawn["n_flipped"] - written["flips"] * drawn["n_images"]) > 3 * n_images**0.5:
        return False
    for name in ("area", "aspect") if written["area"] else ():
        (least, most), (low, high) = drawn[name], written[name]
        # Sides are whole pixels; of areas near 1 few have an aspect that fits.
        if not low - 0.01 < least < low + 0.05 or not high - 0.15 < most < high + 0.01:
            return False
    return True


@pytest.mark.parametrize("name", WRITTEN)
def test_crops_and_flips_of_a_finished_job_are_drawn_from_the_written_ranges(index: ImageIndex, name: str) -> None:
    found = finished(light(index, name, *FIFTY, *FEW_PIXELS), "contrastive", MARGINS).in_force
    assert found is not None
    assert follows(found["drawn"], WRITTEN[name].transforms, n_images=50 * 8)


@pytest.mark.parametrize("name", WRITTEN)
def test_network_optimiser_batch_and_schedule_of_a_finished_job_are_the_written_ones(
    index: ImageIndex, name: str
) -> None:
    written, found = WRITTEN[name], finished(small(index, name), "contrastive", MARGINS).in_force
    assert found is not None
    assert found["trunk"] == {
        **{"class": written.trunk, "weights": "random"},
        **{"features": written.features, "pooling": written.pooling},
    }
    assert (found["batchnorm"]["mode"], found["batchnorm"]["n_layers"]) == written.batchnorm
    assert found["embedder"] == {"in_features": written.features, "out_features": written.dim}
    assert found["normalisation"] == written.normalisation
    assert found["n_trainable"] == written.n_trunk + written.features * written.dim + written.dim
    n_classes, n_images = written.batch
    assert found["batch"] == [n_images] * n_classes
    assert found["warmup_steps"] == 0
    (group,) = found["optimiser"]["groups"]
    assert group["n_weights"] == found["n_trainable"]
    assert {"class": found["optimiser"]["class"], **group}.items() >= written.optimiser.items()


@pytest.mark.parametrize(
    ("name", "counts", "own_lr", "warmup_steps"),
    [
        ("mlrc", [1] * 32, 0.03, 0),  # searched
        ("ccp", [1] * 32, 1e-3, 100),  # 100 x the network's, after an epoch in which the trunk rests
        ("conventional-bninception", [4] * 32, 1e-3, 100),
        ("mini", [1] * 32, 0.03, 0),
    ],
)
def test_a_method_with_weights_of_its_own_has_its_batch_rate_and_warm_up(
    index: ImageIndex, name: str, counts: list[int], own_lr: float, warmup_steps: int
) -> None:
    hyperparameters: dict[str, Value] = {"temperature": 0.1} | ({"w_lr": 0.03} if warmup_steps == 0 else {})
    found = finished(small(index, name), "norm-softmax", hyperparameters).in_force
    assert found is not None
    network, own = found["optimiser"]["groups"]
    assert found["batch"] == counts
    assert found["warmup_steps"] == warmup_steps
    assert network["lr"] == WRITTEN[name].optimiser["lr"]
    assert own["lr"] == pytest.approx(own_lr)
    assert (own["n_weights"], own["weight_decay"]) == (66 * WRITTEN[name].dim, 1e-4)


@pytest.mark.parametrize(
    ("name", "dataset", "every"),
    [
        *((name, "none of the papers'", written.evaluate_every_steps) for name, written in WRITTEN.items()),
        *(("mlrc", "cub200", 200), ("mlrc", "cars196", 500)),  # 2000 for sop: test_protocols_catalogue
        *(("ccp", "cub200", 25), ("ccp", "cars196", 25), ("ccp", "sop", 250), ("ccp", "inshop", 250)),
    ],
)
def test_the_validations_of_a_finished_job_come_when_it_is_written_for_its_data_set(
    index: ImageIndex, name: str, dataset: str, every: int
) -> None:
    tiny = ("resize_px=8", "crop_px=8", "train_crop=centre", "flip_probability=0")
    few = light(replace(index, standard_name=dataset), name, f"max_steps={every + 1}", *tiny)
    record = finished(few, "contrastive", MARGINS)
    assert record.in_force is not None
    assert record.in_force["validations"]["number"] == 2
    assert record.in_force["validations"]["steps_between"] == [1, every]
    assert [point.step for point in record.curve] == [every, every + 1]


@pytest.mark.parametrize(
    ("unit", "patience", "after"),
    [("evaluations", 3, {"validations": 3, "steps": 12}), ("steps", 9, {"validations": 3, "steps": 12})],
)
def test_how_long_training_went_on_after_its_best_is_told(
    index: ImageIndex, unit: str, patience: int, after: dict[str, int]
) -> None:
    stopping = (f"cadence.patience={patience}", f"cadence.patience_unit={unit}", "cadence.evaluate_every_steps=4")
    found = finished(small(index, "mini", "max_steps=100", "lr=1e-30", *stopping), "contrastive", MARGINS).in_force
    assert found is not None
    assert found["validations"] == {"number": 4, "steps_between": [4, 4], "after_best": after}


@pytest.mark.parametrize("steps", [1, 3])
def test_the_images_and_classes_that_training_has_seen_are_counted(
    index: ImageIndex, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    seen: set[int] = set()
    train_batch = FoldImages.train_batch

    def watched(images: FoldImages, chosen: Indices, seeds: list[int]) -> Tensor:
        seen.update(chosen.tolist())
        return train_batch(images, chosen, seeds)

    monkeypatch.setattr(FoldImages, "train_batch", watched)
    few = small(index, "mini", f"max_steps={steps}")
    found = finished(few, "contrastive", MARGINS).in_force
    assert found is not None
    assert found["coverage"] == {
        **{"n_batches": steps, "n_images": len(seen), "of_images": 132},
        **{"n_classes": len(set(index.targets[list(seen)].tolist())), "of_classes": 66},
    }


# --- it is read from what works, not from the protocol


def test_another_optimiser_than_the_protocols_is_told_as_it_is(
    index: ImageIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    def other(spec: object, model: Any, *rest: object) -> torch.optim.Optimizer:
        return torch.optim.SGD(model.trainable_parameters(), lr=0.5)

    monkeypatch.setattr("benchmark.training.learner.build_optimiser", other)
    record = finished(small(index, "mini"), "contrastive", MARGINS)
    assert record.in_force is not None
    assert record.in_force["optimiser"]["class"] == "SGD"
    assert record.in_force["optimiser"]["groups"][0]["lr"] == 0.5
    assert record.identity.protocol["values"]["optimiser"]["lr"] == 3e-3


@pytest.mark.parametrize(
    ("freeze", "mode"),
    [(lambda module, mode: None, "training"), (lambda module, mode: freeze_batchnorm(module, "eval"), "eval")],
)
def test_batch_norm_is_told_as_it_behaves_and_the_audit_says_the_same(
    index: ImageIndex, monkeypatch: pytest.MonkeyPatch, freeze: Callable[..., None], mode: str
) -> None:
    monkeypatch.setattr("protocols.trunks.freeze_batchnorm", freeze)
    few = small(index, "lite", "batch.size=8", "optimiser.lr=0.01")
    record = run_fold(few.job(method_entry("contrastive"), MARGINS, 0, 0), few)
    assert (record.outcome, record.reason) == ("failed", "audit")
    assert record.in_force is not None
    assert record.in_force["batchnorm"] == {"mode": mode, "n_layers": 49}


@pytest.mark.parametrize(
    ("broken", "area"),
    [
        (lambda height, width, *_: Box(0, 0, height, width), [1.0, 1.0]),
        (lambda height, width, *_: Box(0, 0, height, width // 2), [0.5, 0.5]),
    ],
)
def test_crops_that_ignore_the_protocol_are_told_as_they_are_and_do_not_follow_what_is_written(
    index: ImageIndex, monkeypatch: pytest.MonkeyPatch, broken: Callable[..., Box], area: list[float]
) -> None:
    monkeypatch.setattr(Audit, "random_crops", lambda self, draw: None)  # it would end the job at its beginning
    monkeypatch.setattr("protocols.transforms.random_box", broken)
    found = finished(light(index, "mlrc", *FIFTY, *FEW_PIXELS), "contrastive", MARGINS).in_force
    assert found is not None
    assert found["drawn"]["area"] == area
    assert not follows(found["drawn"], CROPPED, n_images=50 * 8)


@pytest.mark.parametrize("probability", [0.0, 1.0])
def test_flips_that_ignore_the_protocol_are_told_as_they_are(
    index: ImageIndex, monkeypatch: pytest.MonkeyPatch, probability: float
) -> None:
    monkeypatch.setattr(Audit, "random_crops", lambda self, draw: None)
    found = finished(
        small(index, "mini", "train_crop=centre", f"flip_probability={probability}"), "contrastive", MARGINS
    )
    assert found.in_force is not None
    assert found.in_force["drawn"]["n_flipped"] == 32 * probability


def test_validations_at_other_steps_than_the_protocols_are_told_as_they_are(
    index: ImageIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = Learner.train
    monkeypatch.setattr(Learner, "train", lambda self, n_steps: honest(self, max(1, n_steps // 2)))
    asked = ("max_steps=8", "cadence.evaluate_every_steps=8")
    found = finished(small(index, "mini", *asked), "contrastive", MARGINS).in_force
    assert found is not None
    assert found["validations"]["steps_between"] == [1, 4]


def test_an_old_record_without_it_can_be_read(index: ImageIndex) -> None:
    record = finished(small(index, "mini"), "contrastive", MARGINS)
    old = to_json(replace(record, in_force=None)).replace('"in_force":null,', "")
    assert "in_force" not in old
    assert from_json(old) == replace(record, in_force=None)
