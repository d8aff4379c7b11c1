"""Scores anybody's embeddings: each fold model's, and all of them side by side, as the final runs are scored.

What comes out is an external record: nothing is known of how the embeddings came about, so nothing about it was
audited. Its protocol is `external@1`, so that no table puts it beside results that were.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from benchmark.errors import BenchmarkError
from benchmark.exchange.arrays import read_embeddings, read_labels
from benchmark.training.embeddings import Matrix
from benchmark.training.ensemble import side_by_side
from protocols.metrics import Evaluation, Search, evaluate

SHORTEST, LONGEST = 1e-12, 1e18  # rows whose squares float32 holds, and which are not taken for zero
UNIT_WITHIN = 1e-5  # rows that are this near to unit length were normalised already, and stay as they are


@dataclass(frozen=True, kw_only=True)
class Side:
    """The images of a search's one side: their labels, and an embedding by each fold model."""

    folds: tuple[Matrix, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Given:
    """What is to be scored. Without a gallery every image is searched among the others."""

    queries: Side
    gallery: Side | None

    @property
    def labels(self) -> tuple[str, ...]:
        """All labels: the queries', then the gallery's."""
        return (*self.queries.labels, *(self.gallery.labels if self.gallery else ()))

    @property
    def width(self) -> int:
        """Of one fold model's embedding."""
        return int(self.queries.folds[0].shape[1])

    @property
    def content_hash(self) -> str:
        """SHA-256 of what all fold models made."""
        hashes = [self.fold_hash(fold) for fold in range(len(self.queries.folds))]
        return sha256("".join(hashes).encode()).hexdigest()

    def fold_hash(self, fold: int) -> str:
        """SHA-256 of what one fold model made: its embeddings of all images."""
        found = sha256()
        for side in sides(self):
            found.update(np.ascontiguousarray(side.folds[fold]).reshape(-1).view(np.uint8).data)
        return found.hexdigest()


@dataclass(frozen=True, kw_only=True)
class Scores:
    """What came out. `concatenated` is None where there is one fold model alone."""

    separated: tuple[Evaluation, ...]  # by fold model
    concatenated: Evaluation | None
    seconds: tuple[float, ...]  # for each, the concatenated one last

    @property
    def means(self) -> dict[str, float]:
        """The separated metrics: means over the fold models."""
        names = self.separated[0].metrics
        return {name: float(np.mean([one.metrics[name] for one in self.separated])) for name in names}


def read_given(embeddings: Sequence[Path], labels: Path, gallery: Sequence[Path], gallery_labels: Path | None) -> Given:
    """Read all files and see that they fit together.

    Raises:
        BenchmarkError: if one cannot be read, or two do not fit.
    """
    if bool(gallery) != (gallery_labels is not None):
        raise BenchmarkError("--gallery-embeddings and --gallery-labels come together; one of them is missing.")
    if gallery and len(gallery) != len(embeddings):
        raise BenchmarkError(
            f"{len(embeddings)} files of embeddings and {len(gallery)} of the gallery's; give one of each a fold model."
        )
    queries = _side(embeddings, labels)
    given = Given(queries=queries, gallery=_side(gallery, gallery_labels, queries) if gallery_labels else None)
    searched = given.gallery or given.queries
    if len(set(searched.labels)) == 1:
        raise BenchmarkError(
            f"{gallery_labels or labels}: all {len(searched.labels):,} labels are {searched.labels[0]!r:.60}, so every "
            "neighbour is a hit and MAP@R is always 1. Give the embeddings of two classes or more."
        )
    return given


def score(given: Given, recall_at: Sequence[int], search: Search, device: str) -> Scores:
    """Evaluate each fold model's embeddings, and their concatenation where there are several.

    Raises:
        ProtocolError: if no query has a reference of its class.
    """
    ids = {label: number for number, label in enumerate(dict.fromkeys(given.labels))}
    targets = [torch.tensor([ids[label] for label in side.labels]) for side in sides(given)]

    def found(embeddings: Sequence[Tensor]) -> Evaluation:
        queries, *gallery = (one.to(device) for one in embeddings)
        return evaluate(
            queries,
            targets[0],
            gallery=gallery[0] if gallery else None,
            gallery_labels=targets[1] if gallery else None,
            recall_at=recall_at,
            search=search,
        )

    separated, seconds = [], []
    parts: list[list[Tensor]] = [[torch.from_numpy(fold) for fold in side.folds] for side in sides(given)]
    for fold in range(len(given.queries.folds)):
        began = time.perf_counter()
        separated.append(found([_of_unit_length(side[fold]) for side in parts]))
        seconds.append(time.perf_counter() - began)
    if len(separated) == 1:
        return Scores(separated=tuple(separated), concatenated=None, seconds=tuple(seconds))
    began = time.perf_counter()
    concatenated = found([side_by_side(side) for side in parts])
    seconds.append(time.perf_counter() - began)
    return Scores(separated=tuple(separated), concatenated=concatenated, seconds=tuple(seconds))


def sides(given: Given) -> list[Side]:
    """The queries, and the gallery where there is one."""
    return [given.queries, *([given.gallery] if given.gallery else [])]


def _of_unit_length(embeddings: Tensor) -> Tensor:
    """The rows at unit length; as they are where they were, so that no bit of them changes."""
    lengths = torch.linalg.vector_norm(embeddings, dim=1)
    return embeddings if bool(((lengths - 1).abs() <= UNIT_WITHIN).all()) else normalize(embeddings, dim=1)


def _side(paths: Sequence[Path], labels_path: Path, like: Side | None = None) -> Side:
    labels = read_labels(labels_path)
    folds: list[Matrix] = []
    for path in paths:
        fold = read_embeddings(path)
        if len(fold) != len(labels):
            raise BenchmarkError(
                f"{path} has {len(fold):,} rows and {labels_path} {len(labels):,} labels; they must be of the same "
                "images in the same order."
            )
        _refuse_rows(fold, path)
        first = (like.folds if like else folds or [fold])[0]
        if fold.shape[1] != first.shape[1]:
            raise BenchmarkError(
                f"{path} has {fold.shape[1]} columns and the first file {first.shape[1]}; all models have one width."
            )
        folds.append(fold)
    return Side(folds=tuple(folds), labels=tuple(labels))


def _refuse_rows(fold: Matrix, path: Path) -> None:
    """Rows that have no direction, or none that can be computed."""
    lengths: NDArray[np.float64] = np.sqrt(np.einsum("ij,ij->i", fold, fold, dtype=np.float64))
    faults = (
        (~np.isfinite(lengths), "NaN or infinite", "see what the model made of these images"),
        (lengths == 0, "all zero, which has no direction", "see what the model made of these images"),
        (
            (lengths < SHORTEST) | (lengths > LONGEST),
            f"shorter than {SHORTEST:g} or longer than {LONGEST:g}, which float32 cannot compare",
            "scale them, such as to unit length",
        ),
    )
    for bad, what, mend in faults:
        if bad.any():
            raise BenchmarkError(
                f"{path}: {int(bad.sum()):,} of {len(fold):,} rows are {what} (first: row {int(bad.argmax())}, "
                f"counted from 0); {mend}."
            )
