"""The audit: checks that a job executes on its real parts, so that a record can prove what was held fixed.

A job makes one `Audit` and hands it each part at the moment it is used. Every check that passes is kept; the first that
fails raises `AuditFailure`, which fails the job. Nothing here trusts a plan where it can look at the fact: classes are
read from the targets of the images used, the width from real embeddings, the input from an image put through.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from protocols.errors import ProtocolError
from protocols.spec import Protocol
from protocols.trunks.batchnorm import batchnorm_digest, batchnorm_layers

UNIT_TOLERANCE = 1e-5  # float32 rounding of a vector's length
# What a pure red, green and blue image is in each channel order; gray is PIL's "L".
LEVELS_OF_PURE_COLOURS: dict[str, dict[str, tuple[int, ...]]] = {
    "RGB": {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255)},
    "BGR": {"red": (0, 0, 255), "green": (0, 255, 0), "blue": (255, 0, 0)},
    "gray": {"red": (76,), "green": (150,), "blue": (29,)},
}
PURE_COLOURS = LEVELS_OF_PURE_COLOURS["RGB"]

Transform = Callable[[NDArray[np.uint8]], Tensor]


@dataclass(frozen=True, kw_only=True)
class AuditCheck:
    """One check as it was executed."""

    name: str
    passed: bool
    detail: str


class AuditFailure(ProtocolError):
    """A check that did not hold; `check` is the check."""

    def __init__(self, check: AuditCheck) -> None:
        super().__init__(f"audit failed, {check.name}: {check.detail}.")
        self.check = check


class Audit:
    """The checks of one job.

    `checks` holds what has passed so far, in order. Every method raises `AuditFailure` when its check does not hold.
    """

    def __init__(self, protocol: Protocol) -> None:
        self.checks: list[AuditCheck] = []
        self._protocol = protocol
        self._batchnorm_before: str | None = None
        self._batch_counts: list[int] = []
        self._n_batches = 0
        self._n_images_seen = 0

    def trunk_input(self, eval_transform: Transform, train_transform: Transform | None = None) -> None:
        """Put probe images through the transforms: do they arrive in the trunk's declared order, range and shape?

        Args:
            eval_transform: (H, W, 3) uint8 RGB -> (C, crop, crop) float32, the one the evaluation uses.
            train_transform: the same with the training's random crop, of which an image of one colour shows nothing. An
                image that is standardised by itself would, so such an input is checked in the evaluation only.
        """
        if self._protocol.trunk.input.per_image:
            self._record("trunk input", *self._standardised_input(eval_transform))
            return
        passed, detail = self._coloured_input(eval_transform)
        if passed and train_transform is not None:
            passed, found = self._coloured_input(train_transform)
            detail = detail if passed else f"in training, {found}"
        self._record("trunk input", passed, detail)

    def classes_disjoint(
        self,
        targets: NDArray[np.int64],
        *,
        train: NDArray[np.int64],
        validation: NDArray[np.int64],
        test: NDArray[np.int64],
    ) -> None:
        """Do the images used on the three sides share no class, and has every side an image?

        Args:
            targets: (N,) class of every image of the data set.
            train, validation, test: indices into `targets` of the images used on each side.
        """
        sides = {"train": train, "validation": validation, "test": test}
        classes = {side: set(np.unique(targets[indices]).tolist()) for side, indices in sides.items()}
        sizes = ", ".join(f"{len(found)} {side}" for side, found in classes.items())
        times_held = Counter(target for found in classes.values() for target in found)
        shared = sorted(target for target, times in times_held.items() if times > 1)
        if shared:
            self._record("classes disjoint", False, f"classes (by number) on more than one side: {_first(shared)}")
        self._record("classes disjoint", all(classes.values()), f"classes: {sizes}")

    def watch_batchnorm(self, model: nn.Module) -> None:
        """Remember the batch norm of `model` before training; to be followed by `batchnorm_unchanged`."""
        self._batchnorm_before = self._batchnorm(model)

    def batchnorm_unchanged(self, model: nn.Module) -> None:
        """Is every bit of batch norm, weight and bias included where they are frozen, as `watch_batchnorm` saw it?"""
        mode, n_layers, after = self._protocol.trunk.batchnorm, len(batchnorm_layers(model)), self._batchnorm(model)
        if (mode == "none") != (n_layers == 0):
            self._record("batch norm", False, f"{n_layers} batch norm layers where the protocol says {mode!r}")
        elif mode == "none":
            self._record("batch norm", True, "no batch norm in this trunk")
        else:
            detail = f"{n_layers} layers, {mode}: digest {self._batchnorm_before} before, {after} after"
            self._record("batch norm", self._batchnorm_before == after, detail)

    def embeddings(self, embeddings: Tensor) -> None:
        """Have the model's (B, D) float32 embeddings of a real batch the protocol's width and length?"""
        wanted = self._protocol.embedding
        shape = tuple(embeddings.shape)
        if len(shape) != 2 or shape[1] != wanted.dim or embeddings.dtype != torch.float32:
            found = f"{shape} {str(embeddings.dtype).removeprefix('torch.')}"
            self._record("embedding width", False, f"{found} where (batch, {wanted.dim}) float32 was wanted")
        lengths = embeddings.detach().norm(dim=1)
        shortest, longest = lengths.min().item(), lengths.max().item()
        # Written so that NaN fails.
        passed = longest <= 1 + UNIT_TOLERANCE and (
            wanted.normalisation == "lipschitz" or shortest >= 1 - UNIT_TOLERANCE
        )
        detail = f"{wanted.dim}-D, {wanted.normalisation}: lengths from {shortest:.6g} to {longest:.6g}"
        self._record("embedding width", passed, detail)

    def expect_batches(self, counts: Sequence[int]) -> None:
        """Announce the batch plan: `counts` images of each of its classes, in any order."""
        self._batch_counts = sorted(counts)

    def batch(self, labels: NDArray[np.int64]) -> None:
        """Is this batch ((B,) labels from 0) exactly the plan's classes x images? To be called at every step."""
        if labels.min() < 0:
            self._record("batch shape", False, f"step {self._n_batches + 1} has an image of no training class")
        found = np.bincount(labels)
        counts = np.sort(found[found > 0]).tolist()
        if counts != self._batch_counts:
            detail = f"step {self._n_batches + 1} has {_shape(counts)} where {_shape(self._batch_counts)} was planned"
            self._record("batch shape", False, detail)
        self._n_batches += 1
        self._n_images_seen += len(labels)

    def training_finished(self, n_steps: int) -> None:
        """After `n_steps` optimiser steps: was every batch checked, and were steps x batch size images seen?"""
        detail = f"{self._n_batches} batches of {_shape(self._batch_counts)} checked in {n_steps} steps"
        self._record("batch shape", self._n_batches == n_steps, detail)
        wanted = n_steps * self._protocol.batch.size
        detail = f"{self._n_images_seen} seen; {n_steps} steps x {self._protocol.batch.size} = {wanted}"
        self._record("images seen", self._n_images_seen == wanted, detail)

    def batches_checked(self) -> tuple[int, int]:
        """How many batches `batch` has let pass, and how many images they had."""
        return self._n_batches, self._n_images_seen

    def resume(self, batches_checked: tuple[int, int]) -> None:
        """Go on counting where the audit of an interrupted job stood."""
        self._n_batches, self._n_images_seen = batches_checked

    def test_images_opened(self, *, before: int, within: int, expected: int) -> None:
        """Were no test images opened before the final evaluation, and in it exactly `expected` (0 in a search)?"""
        detail = f"{before} before the final evaluation, {within} in it; expected 0 and {expected}"
        self._record("test images opened", (before, within) == (0, expected), detail)

    def _record(self, name: str, passed: bool, detail: str) -> None:
        check = AuditCheck(name=name, passed=passed, detail=detail)
        if not passed:
            raise AuditFailure(check)
        self.checks.append(check)

    def _batchnorm(self, model: nn.Module) -> str:
        return batchnorm_digest(model, include_affine=self._protocol.trunk.batchnorm == "frozen")

    def _coloured_input(self, transform: Transform) -> tuple[bool, str]:
        """Pure red, green and blue images against their values computed from the trunk's `Input`."""
        wanted, transforms = self._protocol.trunk.input, self._protocol.transforms
        mean, std = np.array(wanted.mean), np.array(wanted.std)
        side = transforms.resize_px
        arrived = {}
        for colour, levels in LEVELS_OF_PURE_COLOURS[wanted.channels].items():
            probe = np.full((side, side, 3), PURE_COLOURS[colour], dtype=np.uint8)
            values = (np.array(levels) * wanted.scale / 255 - mean) / std
            found = transform(probe)
            shape = (len(levels), transforms.crop_px, transforms.crop_px)
            if found.dtype != torch.float32 or tuple(found.shape) != shape:
                return False, f"{tuple(found.shape)} {found.dtype} where {shape} torch.float32 was wanted"
            if not np.allclose(found.numpy(), values[:, None, None], rtol=1e-5, atol=1e-5):
                return False, f"{colour} arrives as {_numbers(found[:, 0, 0].numpy())}, not {_numbers(values)}"
            arrived[colour] = _numbers(values)
        return True, f"red arrives as {arrived['red']} in {wanted.channels}, green as {arrived['green']}"

    def _standardised_input(self, transform: Transform) -> tuple[bool, str]:
        """An image of a black left and a white right half: zero mean, unit variance, black below white."""
        transforms = self._protocol.transforms
        side = transforms.resize_px
        probe = np.zeros((side, side, 3), dtype=np.uint8)
        probe[:, side // 2 :] = 255
        found = transform(probe)
        shape = (len(self._protocol.trunk.input.mean), transforms.crop_px, transforms.crop_px)
        if found.dtype != torch.float32 or tuple(found.shape) != shape:
            return False, f"{tuple(found.shape)} {found.dtype} where {shape} torch.float32 was wanted"
        mean, variance = found.mean().item(), found.var(correction=0).item()
        black, white = found[..., 0].max().item(), found[..., -1].min().item()
        passed = abs(mean) < 1e-3 and abs(variance - 1) < 1e-2 and black < 0 < white
        detail = f"two-valued probe arrives as {black:.4g} and {white:.4g}, mean {mean:.2g}, variance {variance:.4g}"
        return passed, detail


def _shape(counts: Sequence[int]) -> str:
    """`8 classes x 4`, or `2 classes x 11 + 1 classes x 10` for an uneven batch."""
    times = Counter(counts)
    if len(times) == 1:
        return f"{len(counts)} classes x {counts[0]}"
    return " + ".join(f"{n_classes} classes x {images}" for images, n_classes in sorted(times.items(), reverse=True))


def _first(classes: Sequence[int]) -> str:
    more = f" and {len(classes) - 5} more" if len(classes) > 5 else ""
    return ", ".join(str(item) for item in classes[:5]) + more


def _numbers(values: NDArray[np.floating]) -> str:
    return "(" + ", ".join(f"{value:.4g}" for value in values) + ")"
