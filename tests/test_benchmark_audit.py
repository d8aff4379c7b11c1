"""A part that is broken on purpose makes a real job fail: outcome failed, reason audit, the check by its name."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from audited import assert_audit_failed, run
from tiny import DATA, MARGINS, tiny_bench
from torch import Tensor

import protocols.transforms
from benchmark.bench import Bench
from benchmark.jobs import EnsembleJob
from benchmark.methods.registry import method_entry
from benchmark.training.ensemble import concatenate
from benchmark.training.training import FoldTraining, run_fold
from protocols.audit import Audit
from protocols.catalogue import MLRC_V1
from protocols.datasets import load_dataset
from protocols.derive import derive
from protocols.fold import FoldImages
from protocols.model import EmbeddingModel, build_model
from protocols.sampler import BatchPlan, BatchSampler, batch_plan
from protocols.spec import Input, Protocol
from protocols.splits import make_split
from protocols.transforms import ImageTransforms, to_input
from protocols.trunks.batchnorm import batchnorm_layers, freeze_batchnorm

PatchFixture = pytest.MonkeyPatch
# BN-Inception on images of its smallest size; the rate is high, so that what can learn moves its bits in one step.
SMALL_BN_INCEPTION = (
    *("trunk.weights=random", "resize_px=36", "crop_px=31", "batch.size=8", "optimiser.lr=0.001"),
    *("max_steps=2", "cadence.evaluate_every_steps=2", "n_runs=1"),
)


def bn_inception_bench(folder: Path) -> Bench:
    protocol, index = derive(MLRC_V1, SMALL_BN_INCEPTION), load_dataset(DATA)
    split = make_split(index.classes, protocol.folds, index.test_classes)
    return Bench(protocol=protocol, index=index, split=split, artifacts=folder, threads=1, device="cpu")


def test_the_honest_parts_pass_on_a_trunk_with_batch_norm(tmp_path: Path) -> None:
    record = run(bn_inception_bench(tmp_path), run=1)
    assert record.outcome == "done"
    details = {check.name: check.detail for check in record.audit}
    assert "69 layers, frozen" in details["batch norm"]
    assert "red arrives as (-104, -117, 127) in BGR" in details["trunk input"]


# --- batch norm


def thawed(model: torch.nn.Module, mode: str) -> None:
    """Weight and bias fixed; the layers left to train, so that every batch moves their statistics."""
    for layer in batchnorm_layers(model):
        layer.requires_grad_(False)


def learning(model: torch.nn.Module, mode: str) -> None:
    """Statistics fixed; weight and bias left to the optimiser."""
    freeze_batchnorm(model, "eval")


def test_affine_weights_of_batch_norm_that_learn_where_they_are_frozen_fail_the_job(
    tmp_path: Path, monkeypatch: PatchFixture
) -> None:
    monkeypatch.setattr("protocols.trunks.freeze_batchnorm", learning)
    assert_audit_failed(run(bn_inception_bench(tmp_path)), "batch norm", "69 layers, frozen: digest")


def test_statistics_of_batch_norm_that_thaw_fail_the_job(tmp_path: Path, monkeypatch: PatchFixture) -> None:
    # EfficientNet, because BN-Inception folds its batch norm away and will not even compute with a layer that trains.
    settings = ("trunk.name=efficientnet-lite0", "trunk.batchnorm=frozen", "trunk.input.channels=RGB")
    inputs = ("input.mean=[127, 127, 127]", "input.std=[128, 128, 128]")
    bench = bn_inception_bench(tmp_path)
    bench = replace(bench, protocol=derive(bench.protocol, [*settings, *inputs]))
    monkeypatch.setattr("protocols.trunks.freeze_batchnorm", thawed)
    assert_audit_failed(run(bench), "batch norm", "49 layers, frozen: digest")


# --- input


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"channels": "RGB"}, "red arrives as (151, -117, -128), not (-104, -117, 127)"),
        ({"scale": 1.0}, "red arrives as (-104, -117, -127), not (-104, -117, 127)"),
        ({"mean": (128.0, 117.0, 104.0)}, "red arrives as (-128, -117, 151), not (-104, -117, 127)"),
        ({"std": (58.0, 57.0, 57.0)}, "red arrives as"),
    ],
)
def test_another_channel_order_range_or_mean_fails_the_job(
    tmp_path: Path, monkeypatch: PatchFixture, wrong: dict[str, object], words: str
) -> None:
    def broken(crop: Tensor, wanted: Input) -> Tensor:
        return to_input(crop, replace(wanted, **wrong))

    monkeypatch.setattr(protocols.transforms, "to_input", broken)
    assert_audit_failed(run(bn_inception_bench(tmp_path)), "trunk input", words)


def test_an_input_that_is_wrong_in_training_alone_fails_the_job(tmp_path: Path, monkeypatch: PatchFixture) -> None:
    honest = ImageTransforms.train_from_resized

    def swapped(self: ImageTransforms, resized: np.ndarray, seed: int) -> Tensor:
        return honest(self, resized, seed).flip(0)

    monkeypatch.setattr(ImageTransforms, "train_from_resized", swapped)
    words = "in training, red arrives as (127, -117, -104), not (-104, -117, 127)"
    assert_audit_failed(run(bn_inception_bench(tmp_path)), "trunk input", words)


def test_an_image_that_is_not_standardised_fails_the_job(tmp_path: Path, monkeypatch: PatchFixture) -> None:
    monkeypatch.setattr(protocols.transforms, "_standardised", lambda planes: planes.float() / 255)
    assert_audit_failed(run(tiny_bench(tmp_path)), "trunk input", "mean 0.5")


# --- classes


@pytest.mark.parametrize("sides", [("train", "validation"), ("train", "test"), ("validation", "test")])
def test_one_image_of_a_class_on_another_side_fails_the_job(
    tmp_path: Path, monkeypatch: PatchFixture, sides: tuple[str, str]
) -> None:
    honest = FoldImages.__init__

    def leaking(self: FoldImages, *arguments: object) -> None:
        honest(self, *arguments)  # type: ignore[arg-type]
        source, other = (getattr(self, side) for side in sides)
        setattr(self, sides[1], np.append(other, source[0]))

    monkeypatch.setattr(FoldImages, "__init__", leaking)
    assert_audit_failed(run(tiny_bench(tmp_path)), "classes disjoint", "on more than one side")


# --- embeddings


def test_embeddings_of_127_numbers_fail_the_job(tmp_path: Path, monkeypatch: PatchFixture) -> None:
    def narrower(protocol: Protocol, generator: torch.Generator) -> EmbeddingModel:
        return build_model(derive(protocol, ["embedding.dim=127"]), generator)

    monkeypatch.setattr("benchmark.training.training.build_model", narrower)
    assert_audit_failed(run(tiny_bench(tmp_path)), "embedding width", "(32, 127) float32 where (batch, 128)")


def test_embeddings_that_are_not_normalised_fail_the_job(tmp_path: Path, monkeypatch: PatchFixture) -> None:
    monkeypatch.setattr("protocols.model.normalised", lambda vectors, rule: 2 * vectors)
    assert_audit_failed(run(tiny_bench(tmp_path)), "embedding width", "128-D, l2: lengths from")


# --- batches


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (lambda batch: batch[:-1], "7 classes x 4 + 1 classes x 3 where 8 classes x 4 was planned"),
        (lambda batch: np.append(batch, batch[-1]), "1 classes x 5 + 7 classes x 4"),
        (lambda batch: np.append(batch[1:], batch[-1]), "1 classes x 5 + 6 classes x 4 + 1 classes x 3"),
    ],
)
def test_a_sampler_off_by_one_fails_the_job_at_its_step(
    tmp_path: Path, monkeypatch: PatchFixture, broken: Callable[[np.ndarray], np.ndarray], words: str
) -> None:
    honest, dealt = BatchSampler.next, []

    def off_by_one(self: BatchSampler) -> np.ndarray:
        dealt.append(honest(self))
        return broken(dealt[-1]) if len(dealt) == 2 else dealt[-1]

    monkeypatch.setattr(BatchSampler, "next", off_by_one)
    assert_audit_failed(run(tiny_bench(tmp_path)), "batch shape", f"step 2 has {words}")


def test_a_step_that_the_audit_was_not_shown_fails_the_job(tmp_path: Path, monkeypatch: PatchFixture) -> None:
    honest, shown = Audit.optimiser_stepped, []

    def forgetful(self: Audit) -> None:
        shown.append(1)
        if len(shown) != 4:
            honest(self)

    monkeypatch.setattr(Audit, "optimiser_stepped", forgetful)
    words = "4 batches of 8 classes x 4 checked in 4 steps; 4 dealt, 3 steps of the optimiser"
    assert_audit_failed(run(tiny_bench(tmp_path)), "batch shape", words)


def test_fewer_images_than_the_protocol_gives_every_method_fail_the_job(
    tmp_path: Path, monkeypatch: PatchFixture
) -> None:
    def smaller(*arguments: object) -> BatchPlan:
        return BatchPlan(batch_plan(*arguments).counts[:-1])  # type: ignore[arg-type]

    monkeypatch.setattr("benchmark.training.learner.batch_plan", smaller)
    assert_audit_failed(run(tiny_bench(tmp_path)), "images seen", "112 seen; 4 steps x 32 = 128")


# --- test images


@pytest.mark.parametrize(
    ("run_number", "words"),
    [
        (0, "1 before the final evaluation, 0 in it; expected 0 and 0"),
        (1, "1 before the final evaluation, 108 in it; expected 0 and 108, each once"),
    ],
)
def test_a_test_image_that_is_opened_early_fails_the_job_in_a_search_and_in_a_final_run(
    tmp_path: Path, monkeypatch: PatchFixture, run_number: int, words: str
) -> None:
    honest = FoldTraining._train

    def peeking(self: FoldTraining) -> None:
        honest(self)
        self.images.open_test()
        self.images.eval_batch(self.images.test[:1])

    monkeypatch.setattr(FoldTraining, "_train", peeking)
    assert_audit_failed(run(tiny_bench(tmp_path), run_number), "test images opened", words)


def test_a_final_evaluation_that_passes_over_a_test_image_fails_the_job(
    tmp_path: Path, monkeypatch: PatchFixture
) -> None:
    honest = FoldTraining._evaluate

    def shorter(self: FoldTraining, indices: np.ndarray, save: bool = False) -> object:
        return honest(self, indices[:-1] if save else indices, save)

    monkeypatch.setattr(FoldTraining, "_evaluate", shorter)
    words = "0 before the final evaluation, 107 in it; expected 0 and 108, each once: 0 more often, 1 never"
    assert_audit_failed(run(tiny_bench(tmp_path), 1), "test images opened", words)


def test_a_test_side_that_is_evaluated_twice_fails_the_job(tmp_path: Path, monkeypatch: PatchFixture) -> None:
    honest = FoldTraining._evaluate

    def twice(self: FoldTraining, indices: np.ndarray, save: bool = False) -> object:
        if save:
            honest(self, indices)
        return honest(self, indices, save)

    monkeypatch.setattr(FoldTraining, "_evaluate", twice)
    words = "0 before the final evaluation, 216 in it; expected 0 and 108, each once: 108 more often, 0 never"
    assert_audit_failed(run(tiny_bench(tmp_path), 1), "test images opened", words)


def test_one_test_image_in_the_place_of_another_fails_the_job(tmp_path: Path, monkeypatch: PatchFixture) -> None:
    honest = FoldTraining._embed

    def doubled(self: FoldTraining, indices: np.ndarray) -> Tensor:
        return honest(self, np.append(indices[1:], indices[1]))

    monkeypatch.setattr(FoldTraining, "_embed", doubled)
    words = "0 before the final evaluation, 108 in it; expected 0 and 108, each once: 1 more often, 1 never"
    assert_audit_failed(run(tiny_bench(tmp_path), 1), "test images opened", words)


@pytest.mark.parametrize("method", ["pixels", "untrained", "pretrained", "euclidean"])
def test_rows_that_are_not_trained_open_each_test_image_once_whoever_computed_its_features(
    tmp_path: Path, method: str
) -> None:
    bench, entry = tiny_bench(tmp_path), method_entry(method)
    for number in (1, 2):  # the second finds the features of the first
        record = run_fold(bench.job(entry, {}, number, 0), bench)
        assert record.outcome == "done", record.message
        details = {check.name: check.detail for check in record.audit}
        assert details["test images opened"].endswith("108 in it; expected 0 and 108, each once")


def test_a_fold_that_is_made_again_for_its_ensemble_opens_each_test_image_once(tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path)
    members = tuple(bench.job(method_entry("contrastive"), MARGINS, 1, fold) for fold in range(bench.n_folds))
    for member in members[:-1]:
        run_fold(member, bench)
    assert concatenate(EnsembleJob(members=members), bench).test.keys() >= {"map_at_r"}
