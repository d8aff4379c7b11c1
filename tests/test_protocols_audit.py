"""The audit passes on honest parts and stops, by name, at every part that is broken on purpose."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from protocols.audit import Audit, AuditFailure
from protocols.catalogue import CCP_V1, LITE_V1, MINI_V1, MLRC_V1, PUBLISHED
from protocols.model import build_model
from protocols.spec import Protocol
from protocols.transforms import ImageTransforms
from protocols.trunks.batchnorm import freeze_batchnorm

GRAY = replace(MINI_V1, trunk=replace(MINI_V1.trunk, input=replace(MINI_V1.trunk.input, per_image=False, std=(0.5,))))


def honest_transform(protocol: Protocol):
    """An evaluation transform written from the `Input`, for images that are already of the resized size."""
    wanted, margin = protocol.trunk.input, protocol.transforms.resize_px - protocol.transforms.crop_px

    def transform(image: np.ndarray) -> torch.Tensor:
        crop = image[margin // 2 :, margin // 2 :][: protocol.transforms.crop_px, : protocol.transforms.crop_px]
        levels = crop.astype(np.float64)
        if wanted.channels == "gray":
            levels = np.rint(levels @ [0.299, 0.587, 0.114])[..., None]
        elif wanted.channels == "BGR":
            levels = levels[..., ::-1]
        values = levels * wanted.scale / 255
        values = (values - values.mean()) / values.std() if wanted.per_image else (values - wanted.mean) / wanted.std
        return torch.from_numpy(np.ascontiguousarray(values.transpose(2, 0, 1), dtype=np.float32))

    return transform


def failure(check, *arguments, **named) -> str:
    with pytest.raises(AuditFailure) as caught:
        check(*arguments, **named)
    assert not caught.value.check.passed
    assert caught.value.check.name in str(caught.value)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("protocol", [MLRC_V1, CCP_V1, LITE_V1, MINI_V1, GRAY])
def test_an_input_that_follows_the_protocol_passes(protocol: Protocol) -> None:
    audit = Audit(protocol)
    audit.trunk_input(honest_transform(protocol))
    assert [(check.name, check.passed) for check in audit.checks] == [("trunk input", True)]


@pytest.mark.parametrize("protocol", PUBLISHED, ids=lambda protocol: protocol.title)
def test_the_harness_own_transforms_pass_under_every_published_protocol(protocol: Protocol) -> None:
    audit, transforms = Audit(protocol), ImageTransforms(protocol.transforms, protocol.trunk.input)
    for seed in range(5):
        audit.trunk_input(transforms.eval_tensor, partial(transforms.train_tensor, seed=seed))
    assert [check.name for check in audit.checks] == ["trunk input"] * 5


def test_red_reaches_bn_inception_as_the_published_triple() -> None:
    audit = Audit(MLRC_V1)
    audit.trunk_input(honest_transform(MLRC_V1))
    assert "red arrives as (-104, -117, 127) in BGR" in audit.checks[0].detail


@pytest.mark.parametrize(
    "breaking",
    [
        lambda found: found.flip(0),  # RGB where BGR was wanted
        lambda found: found / 255,  # range 0-1
        lambda found: found + 1,  # another mean
        lambda found: found[[0, 2, 1]],  # two channels swapped that a red image alone might not tell apart
        lambda found: found[:, 1:],  # another crop
        lambda found: found.double(),
        lambda found: found[:1],
    ],
)
@pytest.mark.parametrize("protocol", [MLRC_V1, LITE_V1])
def test_a_broken_colour_input_fails(protocol: Protocol, breaking) -> None:
    honest = honest_transform(protocol)
    message = failure(Audit(protocol).trunk_input, lambda image: breaking(honest(image)))
    assert message.startswith("audit failed, trunk input: ")
    in_training = failure(Audit(protocol).trunk_input, honest, lambda image: breaking(honest(image)))
    assert in_training == message.replace("trunk input: ", "trunk input: in training, ")


@pytest.mark.parametrize(
    "breaking",
    [
        lambda found: found + 0.01,
        lambda found: found * 1.02,
        lambda found: -found,
        lambda found: found.expand(3, -1, -1),
        lambda found: found[:, :-1],
        lambda found: found * torch.nan,
    ],
)
def test_a_broken_standardised_input_fails(breaking) -> None:
    honest = honest_transform(MINI_V1)
    assert "trunk input" in failure(Audit(MINI_V1).trunk_input, lambda image: breaking(honest(image)))


TARGETS = np.array([0, 0, 1, 1, 2, 2, 3, 3])


def sides(**changed: list[int]) -> dict[str, np.ndarray]:
    held = {"train": [0, 1, 2, 3], "validation": [4, 5], "test": [6, 7]} | changed
    return {side: np.array(indices, dtype=np.int64) for side, indices in held.items()}


def test_disjoint_classes_pass_and_are_counted() -> None:
    audit = Audit(MINI_V1)
    audit.classes_disjoint(TARGETS, **sides())
    assert audit.checks[0].detail == "classes: 2 train, 1 validation, 1 test"


@pytest.mark.parametrize(
    "changed", [{"train": [0, 1, 2, 4]}, {"validation": [4, 6]}, {"test": [6, 7, 0]}, {"test": [3, 5]}]
)
def test_one_image_of_a_class_on_another_side_fails(changed: dict[str, list[int]]) -> None:
    assert "more than one side" in failure(Audit(MINI_V1).classes_disjoint, TARGETS, **sides(**changed))


def test_a_side_without_images_fails() -> None:
    assert "0 validation" in failure(Audit(MINI_V1).classes_disjoint, TARGETS, **sides(validation=[]))


def network() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4))


def one_step(model: nn.Module) -> None:
    model.train()
    optimiser = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.1)
    model(torch.randn(4, 3, 5, 5) + 2).square().mean().backward()
    optimiser.step()


def test_frozen_batchnorm_passes_after_a_step() -> None:
    model = network()
    freeze_batchnorm(model, "frozen")
    audit = Audit(LITE_V1)
    audit.watch_batchnorm(model)
    one_step(model)
    audit.batchnorm_unchanged(model)
    assert audit.checks[0].name == "batch norm"
    assert "1 layers, frozen" in audit.checks[0].detail


def test_thawed_statistics_and_learning_affine_weights_fail() -> None:
    thawed, learning = network().eval(), network()
    freeze_batchnorm(learning, "eval")
    for model in (thawed, learning):
        audit = Audit(LITE_V1)
        audit.watch_batchnorm(model)
        one_step(model)
        assert "before" in failure(audit.batchnorm_unchanged, model)
        assert audit.checks == []


def test_in_mode_eval_the_affine_weights_may_learn() -> None:
    model = network()
    freeze_batchnorm(model, "eval")
    audit = Audit(replace(LITE_V1, trunk=replace(LITE_V1.trunk, batchnorm="eval")))
    audit.watch_batchnorm(model)
    one_step(model)
    audit.batchnorm_unchanged(model)
    assert "eval" in audit.checks[0].detail


def test_no_batchnorm_is_said_only_where_there_is_none() -> None:
    audit = Audit(MINI_V1)
    model = build_model(MINI_V1, torch.Generator().manual_seed(0))
    audit.watch_batchnorm(model)
    audit.batchnorm_unchanged(model)
    assert audit.checks[0].detail == "no batch norm in this trunk"
    for protocol, wrong in ((MINI_V1, network()), (LITE_V1, model)):
        audit = Audit(protocol)
        audit.watch_batchnorm(wrong)
        assert "where the protocol says" in failure(audit.batchnorm_unchanged, wrong)


def test_batchnorm_that_nobody_watched_fails() -> None:
    assert "None before" in failure(Audit(LITE_V1).batchnorm_unchanged, network())


def unit(width: int, scale: float = 1.0) -> torch.Tensor:
    return torch.nn.functional.normalize(torch.randn(8, width), dim=1) * scale


def test_embeddings_of_the_models_own_pass() -> None:
    audit = Audit(MINI_V1)
    audit.embeddings(build_model(MINI_V1, torch.Generator().manual_seed(0))(torch.randn(32, 1, 32, 32)))
    assert audit.checks[0].detail.startswith("128-D, l2")


@pytest.mark.parametrize(
    "broken",
    [unit(127), unit(128, 1.01), unit(128, 0.5), unit(128) * torch.nan, unit(128).double(), unit(128)[0]],
)
def test_a_wrong_width_or_length_fails(broken: torch.Tensor) -> None:
    assert "embedding width" in failure(Audit(MINI_V1).embeddings, broken)


def test_lipschitz_embeddings_may_be_short_but_not_long() -> None:
    audit = Audit(CCP_V1)
    audit.embeddings(unit(128, 0.5))
    audit.embeddings(unit(128))
    assert "lipschitz" in failure(audit.embeddings, unit(128, 1.01))
    assert "lipschitz" in failure(audit.embeddings, unit(128) * torch.nan)


EIGHT_BY_FOUR = np.repeat(np.arange(8) * 3, 4)


def audit_of_batches(*batches: np.ndarray, counts: tuple[int, ...] = (4,) * 8, protocol: Protocol = MINI_V1) -> Audit:
    audit = Audit(protocol)
    audit.expect_batches(counts)
    for labels in batches:
        audit.batch_dealt(labels)
    for labels in batches:
        audit.batch_given(labels, len(labels))
        audit.optimiser_stepped()
    return audit


def test_batches_of_the_plan_pass_whatever_their_order() -> None:
    audit = audit_of_batches(EIGHT_BY_FOUR, EIGHT_BY_FOUR[::-1])
    audit.training_finished(2, n_drawn=0)
    assert [check.name for check in audit.checks] == ["batch shape", "images seen"]
    assert audit.checks[0].detail == "2 batches of 8 classes x 4 checked in 2 steps"
    assert audit.checks[1].detail == "64 seen; 2 steps x 32 = 64"
    assert audit.n_images_seen == 64


def test_an_uneven_plan_is_held_to_its_counts() -> None:
    labels = np.repeat([0, 1, 2], [10, 11, 11])
    audit = audit_of_batches(labels, counts=(11, 11, 10))
    assert "2 classes x 11 + 1 classes x 10" in failure(audit.batch_dealt, np.repeat([0, 1, 2], [9, 12, 11]))


@pytest.mark.parametrize(
    "labels",
    [
        EIGHT_BY_FOUR[:-1],
        EIGHT_BY_FOUR[:0],
        np.append(EIGHT_BY_FOUR, 0),
        np.append(EIGHT_BY_FOUR[:-1], 0),
        np.where(EIGHT_BY_FOUR == 0, -1, EIGHT_BY_FOUR),  # of no training class
        np.repeat(np.arange(4), 8),
        np.repeat(np.arange(32), 1),
    ],
)
def test_a_batch_off_by_one_image_or_of_another_shape_fails_with_its_step(labels: np.ndarray) -> None:
    audit = audit_of_batches(EIGHT_BY_FOUR)
    assert "step 2 has" in failure(audit.batch_dealt, labels)
    audit = audit_of_batches(EIGHT_BY_FOUR)
    audit.batch_dealt(EIGHT_BY_FOUR)
    assert "step 2 has" in failure(audit.batch_given, labels, len(labels))


def test_a_batch_that_is_not_the_one_dealt_fails_and_a_copy_of_it_passes() -> None:
    audit = audit_of_batches()
    for labels in (EIGHT_BY_FOUR, EIGHT_BY_FOUR + 1):
        audit.batch_dealt(labels)
    audit.batch_given(EIGHT_BY_FOUR.copy(), 32)
    audit.optimiser_stepped()
    assert "step 2 has another batch than was dealt" in failure(audit.batch_given, EIGHT_BY_FOUR, 32)


def test_fewer_embeddings_than_labels_fail() -> None:
    audit = audit_of_batches()
    audit.batch_dealt(EIGHT_BY_FOUR)
    assert "images seen: step 1 has 16 embeddings of 32 images" in failure(audit.batch_given, EIGHT_BY_FOUR, 16)


def test_a_step_without_a_batch_of_its_own_and_one_with_two_fail() -> None:
    audit = audit_of_batches(EIGHT_BY_FOUR)
    assert "took step 2 when the loss had been given 1 batches" in failure(audit.optimiser_stepped)
    audit = audit_of_batches()
    for _ in range(2):
        audit.batch_dealt(EIGHT_BY_FOUR)
        audit.batch_given(EIGHT_BY_FOUR, 32)
    assert "took step 1 when the loss had been given 2 batches" in failure(audit.optimiser_stepped)


def test_steps_that_the_optimiser_was_not_seen_to_take_and_batches_that_nobody_used_fail() -> None:
    finished = audit_of_batches(EIGHT_BY_FOUR).training_finished
    assert "1 batches of 8 classes x 4 checked in 2 steps" in failure(finished, 2, n_drawn=0)
    audit = audit_of_batches(EIGHT_BY_FOUR)
    audit.batch_dealt(EIGHT_BY_FOUR)
    assert "in 1 steps; 2 dealt, 1 steps of the optimiser" in failure(audit.training_finished, 1, n_drawn=0)


def test_a_plan_of_another_batch_size_fails_when_the_images_are_counted() -> None:
    audit = audit_of_batches(EIGHT_BY_FOUR[:28], counts=(4,) * 7)
    assert "28 seen; 1 steps x 32 = 32" in failure(audit.training_finished, 1, n_drawn=0)


def test_an_image_seen_without_a_crop_of_its_own_fails_where_crops_are_drawn() -> None:
    audit = audit_of_batches(EIGHT_BY_FOUR, protocol=MLRC_V1)
    assert "32 seen; 1 steps x 32 = 32; 31 crops drawn" in failure(audit.training_finished, 1, n_drawn=31)
    audit_of_batches(EIGHT_BY_FOUR, protocol=MLRC_V1).training_finished(1, n_drawn=32)


def test_an_audit_that_goes_on_counts_on() -> None:
    before, audit = audit_of_batches(EIGHT_BY_FOUR), audit_of_batches()
    audit.resume(before.steps_checked())
    audit.batch_dealt(EIGHT_BY_FOUR)
    audit.batch_given(EIGHT_BY_FOUR, 32)
    audit.optimiser_stepped()
    audit.training_finished(2, n_drawn=0)
    assert audit.checks[1].detail == "64 seen; 2 steps x 32 = 64"


@pytest.mark.parametrize("protocol", PUBLISHED, ids=lambda protocol: protocol.title)
def test_the_harness_own_crops_pass_under_every_published_protocol(protocol: Protocol) -> None:
    audit = Audit(protocol)
    audit.random_crops(ImageTransforms(protocol.transforms, protocol.trunk.input).draw)
    assert audit.checks[0].name == "random crops"


def test_each_test_image_is_opened_once_in_the_final_evaluation_and_none_before_or_elsewhere() -> None:
    audit, once = Audit(MINI_V1), np.ones(540, dtype=np.int64)
    audit.test_images_opened(before=0, within=0 * once, final=False)
    audit.test_images_opened(before=0, within=once, final=True)
    details = [check.detail for check in audit.checks]
    assert details[0] == "0 before the final evaluation, 0 in it; expected 0 and 0"
    assert details[1] == "0 before the final evaluation, 540 in it; expected 0 and 540, each once"
    one = np.arange(540) == 7
    assert "1 before" in failure(audit.test_images_opened, before=1, within=once, final=True)
    assert "1 before" in failure(audit.test_images_opened, before=1, within=0 * once, final=False)
    assert "1 in it; expected 0 and 0" in failure(audit.test_images_opened, before=0, within=1 * one, final=False)
    assert "0 more often, 1 never" in failure(audit.test_images_opened, before=0, within=once - one, final=True)
    assert "540 more often, 0 never" in failure(audit.test_images_opened, before=0, within=2 * once, final=True)
    moved = once + one - (np.arange(540) == 8)
    words = "540 in it; expected 0 and 540, each once: 1 more often, 1 never"
    assert words in failure(audit.test_images_opened, before=0, within=moved, final=True)
