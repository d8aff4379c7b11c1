"""Batches of exactly C classes with a fixed number of images each; steps, not epochs, are the unit.

One rule deals out both classes and images: a shuffled deck is dealt from the top, and reshuffled when it is used up, so
everything is seen once before anything is seen twice. A hand that reaches over the end of a deck goes on with the new
one and takes from it what the hand holds least often, in the new deck's order; what it passes over stays there. So a
batch never holds a class twice, and holds an image twice only where the class has fewer images than the batch wants of
it: then each image comes equally often, up to one.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from protocols.errors import ProtocolError
from protocols.spec import Batch, Family

Indices = npt.NDArray[np.int64]


@dataclass(frozen=True)
class BatchPlan:
    """The shape of every batch: `counts[i]` images of its i-th class."""

    counts: tuple[int, ...]


@dataclass(frozen=True)
class Coverage:
    """What the batches so far have reached, and what there is."""

    n_batches: int
    n_images: int  # distinct
    of_images: int
    n_classes: int  # distinct
    of_classes: int


def batch_plan(batch: Batch, family: Family, n_classes: int) -> BatchPlan:
    """The protocol's batch for a fold of `n_classes` classes.

    With fewer classes than the protocol wants, all of them share the batch as evenly as possible, larger counts first.

    Raises:
        ProtocolError: if the size is no multiple of the samples per class, or fewer than two classes would meet.
    """
    samples = batch.pair_samples_per_class if family == "pair" else batch.class_samples_per_class
    wanted, left_over = divmod(batch.size, samples)
    if left_over:
        raise ProtocolError(
            f"batch: size {batch.size} is no multiple of {samples} samples per class ({family} family); "
            f"use a multiple, such as {samples * max(wanted, 2)}."
        )
    if wanted < 2 or n_classes < 2:
        raise ProtocolError(
            f"batch: {batch.size} images, {samples} of a class, from {n_classes} training classes make a batch of "
            f"{min(wanted, n_classes)} class; at least 2 must meet. Add classes or lower the samples per class."
        )
    used = min(wanted, n_classes)
    even, larger = divmod(batch.size, used)
    return BatchPlan((even + 1,) * larger + (even,) * (used - larger))


class BatchSampler:
    """An endless, seeded stream of batches; each has `counts[i]` images of its i-th class.

    Args:
        images_by_class: for each class the (n,) int64 indices of its images, n >= 1.
        plan: the shape of every batch.
        seed: the same seed gives the same batches.

    Raises:
        ProtocolError: if the plan has more classes than there are, or a class has no image.
    """

    def __init__(self, images_by_class: Sequence[Indices], plan: BatchPlan, seed: int) -> None:
        if len(plan.counts) > len(images_by_class):
            raise ProtocolError(
                f"sampler: a batch of {len(plan.counts)} classes from {len(images_by_class)}; "
                f"plan it for {len(images_by_class)} classes or add classes."
            )
        if empty := [number for number, images in enumerate(images_by_class) if len(images) == 0]:
            raise ProtocolError(f"sampler: {len(empty)} classes without images, first class {empty[0]}; drop them.")
        self._images_by_class = images_by_class
        self.counts = plan.counts
        self._random = np.random.Generator(np.random.PCG64(seed))
        self._classes = _Deck(len(images_by_class))
        self._decks = [_Deck(len(images)) for images in images_by_class]
        self._n_batches = 0
        self._seen_images = np.zeros(1 + max(int(images.max()) for images in images_by_class), dtype=bool)
        self._seen_classes = np.zeros(len(images_by_class), dtype=bool)

    def next(self) -> Indices:
        """The next batch: (size,) int64 image indices, class after class."""
        classes = self._classes.deal(len(self.counts), self._random)
        hands = [
            self._images_by_class[number][self._decks[number].deal(count, self._random)]
            for number, count in zip(classes.tolist(), self.counts, strict=True)
        ]
        batch = np.concatenate(hands)
        self._n_batches += 1
        self._seen_classes[classes] = True
        self._seen_images[batch] = True
        return batch

    def coverage(self) -> Coverage:
        """Batches dealt so far, and the distinct images and classes in them."""
        return Coverage(
            n_batches=self._n_batches,
            n_images=int(self._seen_images.sum()),
            of_images=sum(map(len, self._images_by_class)),
            n_classes=int(self._seen_classes.sum()),
            of_classes=len(self._images_by_class),
        )

    def state_dict(self) -> dict[str, Any]:
        """All that the next batch depends on, as plain values."""
        return {
            "random": self._random.bit_generator.state,
            "decks": [(deck.order.tolist(), deck.n_dealt) for deck in self._all_decks()],
            "n_batches": self._n_batches,
            "seen_images": np.flatnonzero(self._seen_images).tolist(),
            "seen_classes": np.flatnonzero(self._seen_classes).tolist(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where the sampler that gave `state` stood; both must have the same classes, images and plan."""
        self._random.bit_generator.state = state["random"]
        for deck, (order, n_dealt) in zip(self._all_decks(), state["decks"], strict=True):
            deck.order, deck.n_dealt = np.array(order, dtype=np.int64), n_dealt
        self._n_batches = state["n_batches"]
        for seen, found in ((self._seen_images, "seen_images"), (self._seen_classes, "seen_classes")):
            seen[:] = False
            seen[state[found]] = True

    def _all_decks(self) -> Iterable["_Deck"]:
        return [self._classes, *self._decks]


class _Deck:
    """The numbers 0..n-1 in shuffled order. It starts used up, so it is shuffled when it is first needed."""

    __slots__ = ("n_dealt", "order")

    def __init__(self, n_cards: int) -> None:
        self.order: Indices = np.arange(n_cards, dtype=np.int64)
        self.n_dealt = n_cards

    def deal(self, count: int, random: np.random.Generator) -> Indices:
        """The next `count` cards, as the module describes."""
        end = self.n_dealt + count
        if end <= len(self.order):
            hand = self.order[self.n_dealt : end]
            self.n_dealt = end
            return hand
        hand = self.order[self.n_dealt :]
        while len(hand) < count:
            fresh = random.permutation(len(self.order))
            times_held = np.bincount(hand, minlength=len(fresh))[fresh]
            taken = np.zeros(len(fresh), dtype=bool)
            taken[times_held.argsort(kind="stable")[: count - len(hand)]] = True
            self.order = np.concatenate([fresh[taken], fresh[~taken]])
            self.n_dealt = int(taken.sum())
            hand = np.concatenate([hand, fresh[taken]])
        return hand
