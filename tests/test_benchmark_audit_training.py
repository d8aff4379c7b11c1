"""What the optimiser saw and what was drawn: a part of the training that is broken on purpose makes a real job fail."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from audited import assert_audit_failed, run
from tiny import MARGINS, tiny_bench
from torch import Tensor

import protocols.transforms
from benchmark.methods import hpl, registry, xbm
from benchmark.methods.entry import MethodEntry, Value
from benchmark.methods.registry import method_entry
from benchmark.training.context import Context
from benchmark.training.learner import Learner
from benchmark.training.training import run_fold
from protocols.audit import Audit
from protocols.model import EmbeddingModel
from protocols.transforms import Box, ImageTransforms, random_box

PatchFixture = pytest.MonkeyPatch
CROPS = ("train_crop=random-resized", "crop_area=[0.16, 1.0]", "crop_aspect=[0.75, 1.3333]", "flip_probability=0.5")
# Methods that take passes of their own, keep a memory, mine, or let the trunk rest at first.
HUNGRY: dict[str, dict[str, Value]] = {
    "ccp-contrastive": {**MARGINS, "lambda": 0.01, "n_proxies": 2, "pool_size": 3, "batch_weight": 0.1},
    "hpl-proxy-nca++": {"temperature": 0.1, "w_lr": 0.1, "n_coarse_1": 3, "omega_1": 0.5, "update_every": 2},
    "xbm-contrastive": {**MARGINS, "memory_batches": 1},
    "margin-dw": {"margin": 0.2, "init_beta": 1.2},
    "ms-miner": {"alpha": 2.0, "beta": 50.0, "base": 0.5, "epsilon": 0.1},
    "norm-softmax": {"temperature": 0.1, "w_lr": 0.1},
}


def test_a_step_on_half_of_its_batch_fails_the_job(tmp_path: Path, monkeypatch: PatchFixture) -> None:
    honest = Learner._step

    def half(self: Learner, chosen: np.ndarray, labels: np.ndarray, seeds: list[int]) -> None:
        honest(self, chosen[:16], labels[:16], seeds[:16])

    monkeypatch.setattr(Learner, "_step", half)
    words = "step 1 has 4 classes x 4 where 8 classes x 4 was planned"
    assert_audit_failed(run(tiny_bench(tmp_path)), "batch shape", words)


def test_a_loss_that_is_given_half_of_the_embeddings_fails_the_job(tmp_path: Path, monkeypatch: PatchFixture) -> None:
    honest = EmbeddingModel.forward

    def half(self: EmbeddingModel, images: Tensor) -> Tensor:
        return honest(self, images[:16] if self.training else images)

    monkeypatch.setattr(EmbeddingModel, "forward", half)
    assert_audit_failed(run(tiny_bench(tmp_path)), "images seen", "step 1 has 16 embeddings of 32 images")


def test_a_loss_that_is_given_other_labels_fails_the_job(tmp_path: Path, monkeypatch: PatchFixture) -> None:
    honest = torch.from_numpy

    def turned(array: np.ndarray) -> Tensor:
        given = honest(array)
        return given.roll(1) if array.dtype == np.int64 and len(array) == 32 else given

    monkeypatch.setattr("benchmark.training.learner.torch.from_numpy", turned)
    assert_audit_failed(run(tiny_bench(tmp_path)), "batch shape", "step 1 has another batch than was dealt for it")


def test_three_steps_of_the_optimiser_on_each_batch_fail_the_job(tmp_path: Path, monkeypatch: PatchFixture) -> None:
    honest = torch.optim.Adam.step

    def thrice(self: torch.optim.Adam, closure: None = None) -> object:
        return [honest(self, closure) for _ in range(3)][-1]

    monkeypatch.setattr(torch.optim.Adam, "step", thrice)
    words = "the optimiser took step 2 when the loss had been given 1 batches"
    assert_audit_failed(run(tiny_bench(tmp_path)), "images seen", words)


def test_a_batch_that_is_learnt_from_three_times_fails_the_job(tmp_path: Path, monkeypatch: PatchFixture) -> None:
    honest = Learner._step

    def thrice(self: Learner, *batch: Any) -> None:
        for _ in range(3):
            honest(self, *batch)

    monkeypatch.setattr(Learner, "_step", thrice)
    assert_audit_failed(run(tiny_bench(tmp_path)), "batch shape", "step 2 has another batch than was dealt for it")


def test_a_batch_that_is_passed_over_fails_the_job(tmp_path: Path, monkeypatch: PatchFixture) -> None:
    honest, drawn = Learner._draw, []

    def passing_over(self: Learner) -> Any:
        drawn.append(honest(self))
        return honest(self) if len(drawn) == 4 else drawn[-1]

    monkeypatch.setattr(Learner, "_draw", passing_over)
    assert_audit_failed(run(tiny_bench(tmp_path)), "batch shape", "step 4 has another batch than was dealt for it")


class Looking(torch.nn.Module):
    """A loss that looks at many more images than its batch's, and calls itself on them."""

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        if len(embeddings) > 5:
            self(embeddings[:5], labels[:5])
        return embeddings.square().mean()

    def begin(self, context: Context) -> None:
        self.look(context)

    def after_step(self, step: int, context: Context) -> None:
        self.look(context)

    def penalty(self, context: Context) -> Tensor:
        return self.look(context)

    def after_validation(self, map_at_r: float, context: Context) -> None:
        self.look(context)

    def look(self, context: Context) -> Tensor:
        images = np.concatenate(context.images_by_class[:3])
        return self(context.embed(images), torch.zeros(len(images), dtype=torch.int64))


@pytest.mark.parametrize("optimiser", ["adam", "rmsprop"])
@pytest.mark.parametrize("method", ["Looking", *HUNGRY])
def test_methods_that_look_at_more_than_their_batch_pass_with_the_batches_counted(
    tmp_path: Path, monkeypatch: PatchFixture, method: str, optimiser: str
) -> None:
    build = MethodEntry(
        name="Looking",
        family="pair",
        build=lambda *, n_classes, embedding_dim: Looking(),
        space=lambda n_classes: {},
        source="a test",
        formula="its code",
    )
    monkeypatch.setitem(registry.METHODS, "Looking", build)
    monkeypatch.setattr(xbm, "START_STEP", 1)
    monkeypatch.setattr(hpl, "UPDATE_EVERY", (2,))
    bench = tiny_bench(tmp_path, *CROPS, f"optimiser.name={optimiser}", "proxy_warmup_steps=2")
    record = run_fold(bench.job(method_entry(method), HUNGRY.get(method, {}), 0, 0), bench)
    assert record.outcome == "done", record.message
    details = {check.name: check.detail for check in record.audit}
    assert details["images seen"] == "128 seen; 4 steps x 32 = 128"
    assert details["batch shape"].endswith("checked in 4 steps")
    assert record.n_images_seen == 128


def test_a_job_that_fails_tells_the_images_that_its_optimiser_saw(tmp_path: Path, monkeypatch: PatchFixture) -> None:
    honest, shown = Audit.batch_given, []

    def stopping(self: Audit, labels: np.ndarray, n_embeddings: int) -> None:
        shown.append(1)
        honest(self, labels, n_embeddings if len(shown) < 3 else 31)

    monkeypatch.setattr(Audit, "batch_given", stopping)
    record = run(tiny_bench(tmp_path))
    assert_audit_failed(record, "images seen", "step 3 has 31 embeddings of 32 images")
    assert (record.n_steps, record.n_images_seen) == (2, 64)


# --- crops and flips


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (lambda height, width, *_: Box(0, 0, height, width), "crops have an area up to 0.75 where 140 are expected"),
        (lambda height, width, *_: Box(0, 0, height // 2, width // 2), "crops have areas from"),
        (
            lambda height, width, asked, generator: random_box(
                height, width, replace(asked, crop_aspect=(1.0, 1.0)), generator
            ),
            "crops have aspects from",
        ),
    ],
    ids=["the whole image", "a quarter of it", "squares"],
)
def test_crops_that_ignore_area_or_aspect_fail_the_job(
    tmp_path: Path, monkeypatch: PatchFixture, broken: Callable[..., Box], words: str
) -> None:
    monkeypatch.setattr(protocols.transforms, "random_box", broken)
    assert_audit_failed(run(tiny_bench(tmp_path, *CROPS)), "random crops", words)


def test_images_that_are_never_flipped_fail_the_job(tmp_path: Path, monkeypatch: PatchFixture) -> None:
    honest = ImageTransforms.draw
    monkeypatch.setattr(ImageTransforms, "draw", lambda self, *asked: (honest(self, *asked)[0], False))
    words = "0 of 200 flipped where the probability is 0.5"
    assert_audit_failed(run(tiny_bench(tmp_path, *CROPS)), "random crops", words)


def test_training_images_without_a_crop_of_their_own_fail_the_job(tmp_path: Path, monkeypatch: PatchFixture) -> None:
    monkeypatch.setattr(ImageTransforms, "train_from_resized", lambda self, image, seed: self.eval_from_resized(image))
    words = "128 seen; 4 steps x 32 = 128; 0 crops drawn"
    assert_audit_failed(run(tiny_bench(tmp_path, *CROPS)), "images seen", words)
