"""Retrieval metrics, exact: precision@1, R-precision, MAP@R and, on request, recall@K.

Each is a fraction in [0, 1], higher is better, the mean over queries. R is the number of other references of the
query's class. No k limits the search: the largest R decides. Embeddings are ranked as they come, by Euclidean distance
(for unit vectors the cosine ranking).

On one machine the numbers depend on nothing but the embeddings and their order, as the ranks do (`protocols.ranking`):
sums over ranks run from left to right, and the mean over queries is rounded once. faiss, where it is asked for, only
saves products: `protocols.candidates` says which queries it can answer, and torch ranks the others.

Source: Musgrave et al., "A Metric Learning Reality Check", ECCV 2020, https://arxiv.org/abs/2003.08505.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from protocols.candidates import Candidates
from protocols.errors import ProtocolError
from protocols.ranking import PRODUCT_ROWS, Ranks, Sides, exact_ranks, ranks_by_candidates
from protocols.side_by_side import side_by_side

METRICS_VERSION = 1
DEFINITION = (
    "Metrics version 1: neighbours by Euclidean distance, the query itself left out by index, ties by reference index "
    "ascending; R = other references of the query's class, queries with R = 0 left out; R-precision = hits among the "
    "first R / R; MAP@R = sum of precision@j over hits j <= R, / R; R@K = a hit among the first K; mean over queries."
)

# About what all threads need together. Where one needs much, there are fewer, each with several threads of torch.
LARGEST_BYTES = 512 * 2**20

Scores = npt.NDArray[np.float64]
Search = Literal["torch", "faiss"]  # what finds the neighbours; both give the same numbers


@dataclass(frozen=True)
class EvaluationAudit:
    """What an evaluation went over.

    A tied query is one whose numbers the tie rule decided: a hit and a miss are equally far from it, within the first
    R ranks or across their end, or, where recall is asked for, at its first hit, within the largest K or across.
    """

    version: int  # METRICS_VERSION
    queries: int  # that the means are over
    left_out: int  # queries with R = 0
    smallest_r: int
    largest_r: int
    tied_queries: int
    buffer_bytes: int  # of the similarities that threads rank at once
    search: Search
    device: str  # its kind
    searched_again: int  # queries that faiss left to torch, as rounding may have changed their numbers


@dataclass(frozen=True)
class Evaluation:
    """Metrics by name (precision_at_1, r_precision, map_at_r, recall_at_<K>) as fractions, and their audit."""

    metrics: dict[str, float]
    audit: EvaluationAudit


def evaluate(
    embeddings: Tensor,
    labels: Tensor,
    *,
    gallery: Tensor | None = None,
    gallery_labels: Tensor | None = None,
    recall_at: Sequence[int] = (),
    search: Search = "torch",
) -> Evaluation:
    """Search every query among the references and average.

    Args:
        embeddings: (N, D) float32, the queries; without a gallery also the references, and then no query finds itself.
        labels: (N,) int64 class ids, in any order and not necessarily from 0; on any device.
        gallery: (M, D) float32 references on the same device.
        gallery_labels: (M,) int64, given exactly when `gallery` is.
        recall_at: the K of each recall@K to add.
        search: what finds the neighbours; after faiss, torch decides where rounding could have changed a number.

    Raises:
        ValueError: if shapes, dtypes or counts do not fit together.
        ProtocolError: if an embedding is not finite or too large to square, no query has a reference of its class, or
            faiss is asked for and cannot be imported.
    """
    if (gallery is None) != (gallery_labels is None):
        raise ValueError("gallery and gallery_labels come together; one of them is missing.")
    if min(recall_at, default=1) < 1:
        raise ValueError(f"recall_at {list(recall_at)}: each K must be at least 1.")
    with torch.no_grad():
        sides = Sides(embeddings, labels, gallery, gallery_labels)
        candidates = Candidates(sides.references) if search == "faiss" else None
        return _averages(sides, candidates, tuple(recall_at))


def _averages(sides: Sides, candidates: Candidates | None, recall_at: tuple[int, ...]) -> Evaluation:
    # Ordered by R, queries that are ranked together need about equally many ranks.
    order = sides.relevant.argsort(stable=True)
    order = order[sides.relevant[order] > 0]
    n_queries, left_out = len(order), len(sides.relevant) - len(order)
    if n_queries == 0:
        raise ProtocolError(
            f"evaluation: none of the {left_out} queries has a reference of its class; give a class two images or more."
        )
    smallest_r, largest_r = int(sides.relevant[order[0]]), int(sides.relevant[order[-1]])
    has_threads = candidates is not None or order.device.type != "cpu"  # as faiss and a GPU have
    n_threads = 1 if has_threads else _n_threads(n_queries, len(sides.references), sides.references.shape[1], largest_r)
    buffers = [torch.empty(PRODUCT_ROWS, len(sides.references), device=order.device) for _ in range(n_threads)]
    scoring = _Scoring(sides, candidates, recall_at, buffers)
    scores, tied, again = zip(*side_by_side(scoring, order.split(PRODUCT_ROWS), n_threads), strict=True)
    names = ("precision_at_1", "r_precision", "map_at_r", *(f"recall_at_{k}" for k in recall_at))
    means = [math.fsum(row) / n_queries for row in np.concatenate(scores, axis=1).tolist()]
    audit = EvaluationAudit(
        version=METRICS_VERSION,
        queries=n_queries,
        left_out=left_out,
        smallest_r=smallest_r,
        largest_r=largest_r,
        tied_queries=sum(tied),
        buffer_bytes=sum(buffer.nbytes for buffer in buffers),
        search="torch" if candidates is None else "faiss",
        device=order.device.type,
        searched_again=sum(again),
    )
    return Evaluation(dict(zip(names, means, strict=True)), audit)


def _n_threads(n_queries: int, n_references: int, width: int, largest_r: int) -> int:
    """How many threads of a CPU rank PRODUCT_ROWS queries each."""
    # Floats of a query: its similarities and which of them are largest, copies of itself, and keys of its neighbours.
    floats = 3 * n_references + 3 * width + 24 * largest_r
    most = LARGEST_BYTES // (4 * PRODUCT_ROWS * floats)
    return max(1, min(torch.get_num_threads(), math.ceil(n_queries / PRODUCT_ROWS), most))


class _Scoring:
    """What threads do side by side, each with a buffer while it does."""

    def __init__(
        self, sides: Sides, candidates: Candidates | None, recall_at: tuple[int, ...], buffers: Sequence[Tensor]
    ) -> None:
        self._sides, self._candidates, self._recall_at = sides, candidates, recall_at
        self._buffers: SimpleQueue[Tensor] = SimpleQueue()
        for buffer in buffers:
            self._buffers.put(buffer)

    @torch.no_grad()  # here, too: each thread has its own mode
    def __call__(self, queries: Tensor) -> tuple[Scores, int, int]:
        """(3 + recalls, B) of B queries; how many are tied; and how many faiss left to torch."""
        ranks, again = self._ranks(queries)
        rows = _scores(ranks.hits.cpu().numpy(), self._sides.relevant[queries].cpu().numpy())
        rows += [(ranks.first_hit <= k).double().cpu().numpy() for k in self._recall_at]
        return np.stack(rows), int(ranks.tied.sum()), again

    def _ranks(self, queries: Tensor) -> tuple[Ranks, int]:
        buffer, largest_k = self._buffers.get(), max(self._recall_at, default=0)
        try:
            if self._candidates is None:
                return exact_ranks(self._sides, queries, largest_k, buffer), 0
            return ranks_by_candidates(self._sides, self._candidates, queries, largest_k, buffer)
        finally:
            self._buffers.put(buffer)


def _scores(hits: npt.NDArray[np.bool_], relevant: npt.NDArray[np.int64]) -> list[Scores]:
    """Precision@1, R-precision and average precision at R of each query from its (B, K) hits, K >= R."""
    rank = np.arange(1, hits.shape[1] + 1)
    within = hits & (rank <= relevant[:, None])
    found = within.cumsum(axis=1)
    # cumsum adds from left to right: columns beyond R add zero and change no digit, however many there are.
    precisions = np.where(within, found / rank, 0.0).cumsum(axis=1)
    return [hits[:, 0].astype(np.float64), found[:, -1] / relevant, precisions[:, -1] / relevant]
