"""From test embeddings: the score of each class, and for a few queries the images that are nearest to them.

By the definitions of the metrics: Euclidean distance, the query itself left out, ties by reference index ascending, R =
other references of the query's class. Queries beyond `MOST_QUERIES` are drawn at random, which the page says. The
embedding is that of the first whole run: its fold models side by side, each of unit length, normalised again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from reports.analyses.embedded import Floats
from reports.errors import ReportError

MOST_QUERIES = 6000
SHOWN_QUERIES = 8
SHOWN_NEIGHBOURS = 8
CHUNK_BYTES = 64 * 2**20  # of the distances that are held at once

Rows = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Query:
    """One query by its row, and the rows of its nearest images."""

    row: int
    neighbours: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Found:
    """MAP@R by class, in fractions, over how many queries, and the queries that a gallery shows."""

    map_at_r: float
    by_class: dict[str, float]  # from the lowest to the highest
    n_queries: int
    n_all: int  # queries that there are
    queries: tuple[Query, ...]


def side_by_side(parts: Sequence[Floats]) -> Floats:
    """(N, D) embeddings of fold models as one; that of one model is taken as it is."""
    if len(parts) == 1:
        return parts[0]
    return _unit(np.concatenate([_unit(part) for part in parts], axis=1))


def look_up(embeddings: Floats, classes: Sequence[str], gallery: NDArray[np.bool_] | None = None) -> Found:
    """The scores and some queries of (N, D) embeddings of images of these N classes.

    Args:
        gallery: (N,) true for an image that is only found; None: all search all others.

    Raises:
        ReportError: if no query has a reference of its class.
    """
    labels = np.unique(np.asarray(classes), return_inverse=True)[1].astype(np.int64)
    everything = np.arange(len(labels))
    references = everything if gallery is None or not gallery.any() else everything[gallery]
    asking = everything if references is everything else everything[~np.asarray(gallery)]
    sizes = np.bincount(labels[references], minlength=labels.max() + 1)
    relevant = sizes[labels[asking]] - (references is everything)
    queries, relevant = asking[relevant > 0], relevant[relevant > 0]
    if not len(queries):
        raise ReportError("no test image has another of its class to be found; there is nothing to show.")
    order = np.random.default_rng(0).permutation(len(queries))
    chosen = np.sort(order[:MOST_QUERIES])
    shown = {int(queries[place]) for place in _spread(order, labels[queries], SHOWN_QUERIES)}
    scores: dict[str, list[float]] = {}
    pictured: list[Query] = []
    deepest = max(int(relevant.max()), SHOWN_NEIGHBOURS)
    wanted = np.unique(np.concatenate([chosen, np.flatnonzero(np.isin(queries, list(shown)))]))
    is_scored = np.isin(wanted, chosen)
    for place, ranking, scored in zip(
        wanted, _rankings(embeddings, queries[wanted], references, deepest), is_scored, strict=True
    ):
        query, r = int(queries[place]), int(relevant[place])
        if scored:
            scores.setdefault(classes[query], []).append(_average_precision(labels[ranking[:r]] == labels[query]))
        if query in shown:
            pictured.append(Query(row=query, neighbours=tuple(ranking[:SHOWN_NEIGHBOURS].tolist())))
    by_class = {name: float(np.mean(values)) for name, values in scores.items()}
    return Found(
        map_at_r=float(np.mean([value for values in scores.values() for value in values])),
        by_class=dict(sorted(by_class.items(), key=lambda item: (item[1], item[0]))),
        n_queries=len(chosen),
        n_all=len(queries),
        queries=tuple(pictured),
    )


def _unit(vectors: Floats) -> Floats:
    """Rows of length 1; a row of zeros stays."""
    found: Floats = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return found


def _spread(order: Rows, labels: Rows, most: int) -> list[int]:
    """The first of an order that are of different classes; of the same ones once the classes run out."""
    is_first = np.zeros(len(order), bool)
    is_first[np.unique(labels[order], return_index=True)[1]] = True
    return [int(place) for place in np.concatenate([order[is_first], order[~is_first]])[:most]]


def _rankings(embeddings: Floats, queries: Rows, references: Rows, deepest: int) -> Iterator[Rows]:
    """For each query its nearest references, as rows of the embeddings; the query itself is none of them."""
    vectors = embeddings.astype(np.float64)
    there = vectors[references]
    lengths = (there**2).sum(axis=1)
    column_of = np.full(len(vectors), -1)
    column_of[references] = np.arange(len(references))
    for part in np.array_split(queries, max(1, len(queries) * len(references) * 8 // CHUNK_BYTES)):
        # Without the query's own length, which moves no rank.
        distances = lengths - 2 * (vectors[part] @ there.T)
        own = column_of[part]
        distances[np.flatnonzero(own >= 0), own[own >= 0]] = np.inf
        for row in distances:
            yield references[_nearest(row, min(deepest, int(np.isfinite(row).sum())))]


def _nearest(distances: Floats, n: int) -> Rows:
    """The places of the n smallest, of equal ones the first."""
    limit = np.partition(distances, n - 1)[n - 1]
    candidates = np.flatnonzero(distances <= limit)
    nearest: Rows = candidates[np.argsort(distances[candidates], kind="stable")][:n]
    return nearest


def _average_precision(hits: NDArray[np.bool_]) -> float:
    """Sum of the precisions at the hits / R, of the first R neighbours."""
    return float((hits * hits.cumsum() / np.arange(1, len(hits) + 1)).sum() / len(hits))
