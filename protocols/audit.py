"""The audit: checks that a job executes on its real parts, so that a record can prove what was held fixed.

A job makes one `Audit` and hands it each part at the moment it is used. Every check that passes is kept; the first that
fails raises `AuditFailure`, which fails the job. Nothing here trusts a plan where it can look at the fact: classes are
read from the targets of the images used, the width from real embeddings, the input from an image put through.
"""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from protocols.errors import ProtocolError
from protocols.misdrawn import misdrawn
from protocols.spec import Protocol
from protocols.transforms import Box
from protocols.trunks.batchnorm import batchnorm_digest, batchnorm_layers

UNIT_TOLERANCE = 1e-5  # float32 rounding of a vector's length
# What a pure red, green and blue image is in each channel order; gray is PIL's "L".
LEVELS_OF_PURE_COLOURS: dict[str, dict[str, tuple[int, ...]]] = {
    "RGB": {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255)},
    "BGR": {"red": (0, 0, 255), "green": (0, 255, 0), "blue": (255, 0, 0)},
    "gray": {"red": (76,), "green": (150,), "blue": (29,)},
}
PURE_COLOURS = LEVELS_OF_PURE_COLOURS["RGB"]

PROBE_DRAWS = 200  # five milliseconds

Transform = Callable[[NDArray[np.uint8]], Tensor]
Draw = Callable[[int, int, int], tuple[Box, bool]]


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
        self._dealt = deque[NDArray[np.int64]]()  # labels of batches that wait for their step
        self._n_dealt, self._n_given, self._n_steps = 0, 0, 0
        self._n_images_given, self.n_images_seen = 0, 0

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

    def random_crops(self, draw: Draw) -> None:
        """Draw for `PROBE_DRAWS` square probe images: are crops and flips spread as the protocol says?

        Args:
            draw: height, width and seed of a resized image -> its crop and whether it is flipped, as training has them.
        """
        transforms = self._protocol.transforms
        side = transforms.resize_px
        found = misdrawn([draw(side, side, seed) for seed in range(PROBE_DRAWS)], side, transforms)
        detail = (
            f"{PROBE_DRAWS} probes: {transforms.train_crop}, flips with probability {transforms.flip_probability:g}"
        )
        self._record("random crops", found is None, found or detail)

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

    def batch_dealt(self, labels: NDArray[np.int64]) -> None:
        """Is a batch ((B,) labels from 0) exactly the plan's classes x images? To be called for every one drawn."""
        self._n_dealt += 1
        self._check_shape(self._n_dealt, labels)
        self._dealt.append(labels)

    def batch_given(self, labels: NDArray[np.int64], n_embeddings: int) -> None:
        """Is what the loss is given the next batch that was dealt, whole? To be called at every loss.

        Args:
            labels: (B,) those that it is given, on the host.
            n_embeddings: how many it is given.
        """
        self._n_given += 1
        dealt = self._dealt.popleft() if self._dealt else None
        if labels is not dealt and (dealt is None or not np.array_equal(labels, dealt)):
            self._check_shape(self._n_given, labels)
            self._record("batch shape", False, f"step {self._n_given} has another batch than was dealt for it")
        if n_embeddings != len(labels):
            detail = f"step {self._n_given} has {n_embeddings} embeddings of {len(labels)} images"
            self._record("images seen", False, detail)
        self._n_images_given += n_embeddings

    def optimiser_stepped(self) -> None:
        """Was the loss given one batch, no more and no less, since the step before? To be called by the optimiser."""
        self._n_steps += 1
        if self._n_given != self._n_steps:
            detail = f"the optimiser took step {self._n_steps} when the loss had been given {self._n_given} batches"
            self._record("images seen", False, detail)
        self.n_images_seen = self._n_images_given

    def training_finished(self, n_steps: int, n_drawn: int) -> None:
        """After `n_steps` steps: had each its own batch, and were steps x batch size images seen, with crops drawn?

        Args:
            n_steps: as the job counts them.
            n_drawn: training images for which a crop was drawn; a method may have looked at more than the batches.
        """
        detail = f"{self._n_given} batches of {_shape(self._batch_counts)} checked in {n_steps} steps"
        if not self._n_dealt == self._n_given == self._n_steps:
            detail += f"; {self._n_dealt} dealt, {self._n_steps} steps of the optimiser"
        self._record("batch shape", self._n_dealt == self._n_given == self._n_steps == n_steps, detail)
        seen, wanted = self.n_images_seen, n_steps * self._protocol.batch.size
        undrawn = seen - n_drawn if self._protocol.transforms.is_random else 0
        detail = f"{seen} seen; {n_steps} steps x {self._protocol.batch.size} = {wanted}"
        detail += f"; {n_drawn} crops drawn" if undrawn > 0 else ""
        self._record("images seen", seen == wanted and undrawn <= 0, detail)

    def steps_checked(self) -> tuple[int, ...]:
        """The counts of batches dealt and given, of steps, and of images given and seen: for `resume`."""
        return self._n_dealt, self._n_given, self._n_steps, self._n_images_given, self.n_images_seen

    def resume(self, steps_checked: tuple[int, ...]) -> None:
        """Go on counting where the audit of an interrupted job stood."""
        self._n_dealt, self._n_given, self._n_steps, self._n_images_given, self.n_images_seen = steps_checked

    def test_images_opened(self, *, before: int, within: NDArray[np.int64], final: bool) -> None:
        """Was no test image opened before the final evaluation, and each exactly once in it?

        Args:
            before: openings before it.
            within: (N,) openings in it of each test image.
            final: whether there is one; a search opens none.
        """
        expected = len(within) if final else 0
        detail = f"{before} before the final evaluation, {within.sum()} in it; expected 0 and {expected}"
        if final:
            again, never = np.count_nonzero(within > 1), np.count_nonzero(within == 0)
            detail += ", each once" + (f": {again} more often, {never} never" if again or never else "")
        self._record("test images opened", before == 0 and bool((within == int(final)).all()), detail)

    def _check_shape(self, step: int, labels: NDArray[np.int64]) -> None:
        if labels.size and labels.min() < 0:
            self._record("batch shape", False, f"step {step} has an image of no training class")
        found = np.bincount(labels)
        counts = np.sort(found[found > 0]).tolist()
        if counts != self._batch_counts:
            detail = f"step {step} has {_shape(counts)} where {_shape(self._batch_counts)} was planned"
            self._record("batch shape", False, detail)

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
