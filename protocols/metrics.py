"""Retrieval metrics, exact: precision@1, R-precision, MAP@R and, on request, recall@K.

Each is a fraction in [0, 1], higher is better, the mean over queries. R is the number of other references of the
query's class. No k limits the search: the largest R decides. Embeddings are ranked as they come, by Euclidean distance
(for unit vectors the cosine ranking), as 2<q, r> - ||r||^2 in float32.

On one machine the numbers depend on nothing but the embeddings and their order. A matrix product may round differently
when its shape changes, so it is always made of the same blocks of PRODUCT_ROWS queries, the last one padded; the chunk
size only decides how many blocks are ranked together. Equal references get one value, copied, so that they tie on any
machine. Sums over ranks run from left to right, and the mean over queries is rounded once. faiss, where it is asked
for, only saves products: `protocols.candidates` says which queries it can answer, and torch ranks the others.

Source: Musgrave et al., "A Metric Learning Reality Check", ECCV 2020, https://arxiv.org/abs/2003.08505.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn.functional import pad

from protocols.candidates import Candidates
from protocols.errors import ProtocolError

METRICS_VERSION = 1
DEFINITION = (
    "Metrics version 1: neighbours by Euclidean distance, the query itself left out by index, ties by reference index "
    "ascending; R = other references of the query's class, queries with R = 0 left out; R-precision = hits among the "
    "first R / R; MAP@R = sum of precision@j over hits j <= R, / R; R@K = a hit among the first K; mean over queries."
)

PRODUCT_ROWS = 128  # queries in one matrix product
TIED_ROWS = 32  # queries of which ties are settled together
# About what a chunk holds if the caller does not say how long it is; small enough to stay in cache.
CHUNK_BYTES = 16 * 2**20
LARGEST_SQUARED_NORM = 2.0**120  # beyond it, 2<q, r> - ||r||^2 may overflow float32

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
    chunk_rows: int  # queries ranked together
    buffer_bytes: int  # of the similarities of one chunk, the largest piece of memory beside the embeddings
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
    chunk_rows: int | None = None,
    search: Search = "torch",
) -> Evaluation:
    """Search every query among the references and average.

    Args:
        embeddings: (N, D) float32, the queries; without a gallery also the references, and then no query finds itself.
        labels: (N,) int64 class ids, in any order and not necessarily from 0; on any device.
        gallery: (M, D) float32 references on the same device.
        gallery_labels: (M,) int64, given exactly when `gallery` is.
        recall_at: the K of each recall@K to add.
        chunk_rows: queries ranked together, rounded up to whole products; it changes memory and time, never a number.
        search: what finds the neighbours; after faiss, torch decides where rounding could have changed a number.

    Raises:
        ValueError: if shapes, dtypes or counts do not fit together.
        ProtocolError: if an embedding is not finite or too large to square, no query has a reference of its class, or
            faiss is asked for and cannot be imported.
    """
    if (gallery is None) != (gallery_labels is None):
        raise ValueError("gallery and gallery_labels come together; one of them is missing.")
    if min(recall_at, default=1) < 1 or (chunk_rows is not None and chunk_rows < 1):
        raise ValueError(f"recall_at {list(recall_at)} and chunk_rows {chunk_rows} must be at least 1.")
    with torch.no_grad():
        sides = _Search(embeddings, labels, gallery, gallery_labels)
        candidates = Candidates(sides.references) if search == "faiss" else None
        return _averages(sides, candidates, tuple(recall_at), chunk_rows)


def _averages(
    search: "_Search", candidates: Candidates | None, recall_at: tuple[int, ...], chunk_rows: int | None
) -> Evaluation:
    # Ordered by R, neighbours in a chunk need about equally many ranks.
    order = search.relevant.argsort(stable=True)
    order = order[search.relevant[order] > 0]
    n_queries, left_out = len(order), len(search.relevant) - len(order)
    if n_queries == 0:
        raise ProtocolError(
            f"evaluation: none of the {left_out} queries has a reference of its class; give a class two images or more."
        )
    smallest_r, largest_r = int(search.relevant[order[0]]), int(search.relevant[order[-1]])
    if chunk_rows is None:
        chunk_rows = max(1, CHUNK_BYTES // (4 * len(search.references) + 48 * largest_r))
    chunk_rows = math.ceil(min(chunk_rows, n_queries) / PRODUCT_ROWS) * PRODUCT_ROWS
    buffer = torch.empty(chunk_rows, len(search.references), device=order.device)
    scores, n_tied, n_again, largest_k = [], 0, 0, max(recall_at, default=0)
    for queries in torch.split(order, chunk_rows):
        if candidates is None:
            ranks = _ranks(search, queries, largest_k, buffer)
        else:
            ranks, again = _ranks_by_candidates(search, candidates, queries, largest_k, buffer)
            n_again += again
        rows = _scores(ranks.hits.cpu().numpy(), search.relevant[queries].cpu().numpy())
        rows += [(ranks.first_hit <= k).double().cpu().numpy() for k in recall_at]
        scores.append(np.stack(rows))
        n_tied += int(ranks.tied.sum())
    names = ("precision_at_1", "r_precision", "map_at_r", *(f"recall_at_{k}" for k in recall_at))
    means = [math.fsum(row) / n_queries for row in np.concatenate(scores, axis=1).tolist()]
    audit = EvaluationAudit(
        version=METRICS_VERSION,
        queries=n_queries,
        left_out=left_out,
        smallest_r=smallest_r,
        largest_r=largest_r,
        tied_queries=n_tied,
        chunk_rows=chunk_rows,
        buffer_bytes=buffer.nbytes,
        search="torch" if candidates is None else "faiss",
        device=order.device.type,
        searched_again=n_again,
    )
    return Evaluation(dict(zip(names, means, strict=True)), audit)


class _Search:
    """Queries and references, checked, with everything about them that does not depend on the chunk."""

    def __init__(self, queries: Tensor, labels: Tensor, gallery: Tensor | None, gallery_labels: Tensor | None) -> None:
        self.within_itself = gallery is None or gallery_labels is None
        self.queries, self.labels = queries, labels.to(queries.device)
        self.references = queries if gallery is None else gallery
        self.reference_labels = self.labels if gallery_labels is None else gallery_labels.to(queries.device)
        _check("queries", queries, labels)
        _check("gallery", self.references, self.reference_labels)
        if queries.shape[1] != self.references.shape[1]:
            raise ValueError(f"queries of width {queries.shape[1]}, gallery of width {self.references.shape[1]}.")
        _squared_norms(queries)
        self.squared_norms = _squared_norms(self.references)
        self.copies, self.originals = _copies(self.references)
        _, classes = torch.unique(torch.cat([self.labels, self.reference_labels]), return_inverse=True)
        self.classes, reference_classes = classes[: len(labels)], classes[len(labels) :]
        self.class_sizes = reference_classes.bincount(minlength=len(classes))
        self.by_class = reference_classes.argsort(stable=True)
        self.relevant = self.class_sizes[self.classes] - int(self.within_itself)  # R of each query

    def similarity(self, queries: Tensor, buffer: Tensor) -> Tensor:
        """(B, M) float32 in `buffer`, larger is nearer, -inf for the query itself. `queries` are (B,) indices."""
        for start in range(0, len(queries), PRODUCT_ROWS):
            block = 2 * self.queries[queries[start : start + PRODUCT_ROWS]]
            block = pad(block, (0, 0, 0, PRODUCT_ROWS - len(block)))
            torch.mm(block, self.references.T, out=buffer[start : start + PRODUCT_ROWS])
        similarity = buffer[: len(queries)].sub_(self.squared_norms)
        if len(self.copies):
            similarity.index_copy_(1, self.copies, similarity.index_select(1, self.originals))
        if self.within_itself:
            similarity.scatter_(1, queries[:, None], -math.inf)
        return similarity

    def members(self, queries: Tensor) -> tuple[Tensor, Tensor]:
        """(B, K) int64, the references of each query's class, ascending; and (B, K) bool, False where it has fewer."""
        sizes = self.class_sizes[self.classes[queries]][:, None]
        starts = (self.class_sizes.cumsum(0) - self.class_sizes)[self.classes[queries]][:, None]
        place = torch.arange(int(sizes.max()), device=queries.device)
        return self.by_class[(starts + place).clamp(max=len(self.by_class) - 1)], place < sizes

    def is_hit(self, queries: Tensor) -> Tensor:
        """(B, M) bool: which references are of the query's class. The query itself is among them."""
        return self.labels[queries][:, None] == self.reference_labels


def _check(side: str, embeddings: Tensor, labels: Tensor) -> None:
    if embeddings.ndim != 2 or embeddings.dtype != torch.float32:
        raise ValueError(f"{side}: {embeddings.dtype} {tuple(embeddings.shape)}; (N, D) float32 is needed.")
    if labels.shape != embeddings.shape[:1] or labels.dtype != torch.int64:
        raise ValueError(
            f"{side}: labels {labels.dtype} {tuple(labels.shape)} for {len(embeddings)} embeddings; "
            f"({len(embeddings)},) int64 is needed."
        )


def _squared_norms(embeddings: Tensor) -> Tensor:
    squared: Tensor = torch.linalg.vector_norm(embeddings, dim=1, dtype=torch.float64).square()
    usable = squared <= LARGEST_SQUARED_NORM  # False for NaN, too
    if not usable.all():
        raise ProtocolError(
            f"evaluation: {int((~usable).sum())} of {len(embeddings)} embeddings are not finite or too large to square "
            f"(first: row {int((~usable).nonzero()[0])}); the model has diverged."
        )
    return squared.float()


def _copies(references: Tensor) -> tuple[Tensor, Tensor]:
    """Indices of references that equal an earlier one, and of the earliest one that each of them equals."""
    distinct, groups = torch.unique(references, dim=0, return_inverse=True)
    index = torch.arange(len(references), device=references.device)
    first = index.new_zeros(len(distinct)).scatter_reduce(0, groups, index, "amin", include_self=False)
    copies = (first[groups] != index).nonzero().squeeze(1)
    return copies, first[groups[copies]]


class _Ranks(NamedTuple):
    """What the scores of B queries are made of."""

    hits: Tensor  # (B, K) bool by rank, exact up to each query's R, K the largest of them
    tied: Tensor  # (B,) bool
    first_hit: Tensor  # (B,) int32, its rank, exact up to the largest K of recall@K; 0 where none is asked for


def _ranks(search: _Search, queries: Tensor, largest_k: int, buffer: Tensor) -> _Ranks:
    similarity = search.similarity(queries, buffer)
    hits, tied = _hits_within_r(search, queries, similarity)
    if largest_k == 0:
        return _Ranks(hits, tied, torch.zeros_like(queries, dtype=torch.int32))
    rank, tied_at_first_hit = _first_hit(search, queries, similarity, largest_k)
    return _Ranks(hits, tied | tied_at_first_hit, rank)


def _ranks_by_candidates(
    search: _Search, candidates: Candidates, queries: Tensor, largest_k: int, buffer: Tensor
) -> tuple[_Ranks, int]:
    """The same, by products only where rounding may have changed the candidates' ranks; and for how many queries."""
    relevant = search.relevant[queries]
    depth = int(relevant.max())
    itself = queries if search.within_itself else None
    found = candidates.nearest(search.queries[queries], itself, max(depth, largest_k))
    if found is None:
        return _ranks(search, queries, largest_k, buffer), len(queries)
    hits = search.reference_labels[found.ids] == search.labels[queries][:, None]
    settled, first_hit = found.settled(hits, relevant), torch.zeros_like(queries, dtype=torch.int32)
    if largest_k:
        first_hit, certain = found.first_hit(hits, largest_k)
        settled &= certain
    ranks = _Ranks(hits[:, :depth], torch.zeros_like(settled), first_hit)
    again = (~settled).nonzero().squeeze(1)
    if len(again):
        exact = _ranks(search, queries[again], largest_k, buffer)
        ranks.hits[again, : exact.hits.shape[1]] = exact.hits
        ranks.tied[again], ranks.first_hit[again] = exact.tied, exact.first_hit
    return ranks, len(again)


def _hits_within_r(search: _Search, queries: Tensor, similarity: Tensor) -> tuple[Tensor, Tensor]:
    """Hits by rank, (B, K) bool, exact up to each query's R, K the chunk's largest; and tied queries, (B,) bool."""
    relevant = search.relevant[queries][:, None]
    depth = int(relevant.max())
    values, found = _largest(similarity, min(depth + 1, similarity.shape[1]))
    rank = torch.arange(1, values.shape[1] + 1, device=values.device)
    unsettled = ((values[:, 1:] == values[:, :-1]) & (rank[:-1] <= relevant)).any(dim=1)
    tied = torch.zeros_like(unsettled)
    for rows in torch.split(unsettled.nonzero().squeeze(1), TIED_ROWS):
        _, found[rows] = _largest(_keys(similarity[rows]), values.shape[1])
        tied[rows] = _mixed_ties(similarity[rows], search.is_hit(queries[rows]), found[rows], relevant[rows])
    hits = search.reference_labels[found[:, :depth]] == search.labels[queries][:, None]
    return hits, tied


def _largest(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """The k largest of each row, descending, and their columns; equal values come in no particular order.

    Long rows are cut into segments first: the k largest values are all in the k segments with the largest maxima.
    """
    length = math.isqrt(values.shape[1] // k)
    if length < 4:  # measured: too little to gain
        return torch.topk(values, k)
    n_segments = values.shape[1] // length  # column c belongs to segment c % n_segments; a few last columns to none
    segmented = n_segments * length
    maxima = values[:, :segmented].view(-1, length, n_segments).amax(dim=1)
    best = maxima.topk(k, sorted=False).indices
    offsets = torch.arange(0, segmented, n_segments, device=values.device)
    rest = torch.arange(segmented, values.shape[1], device=values.device).expand(len(values), -1)
    columns = torch.cat([(best[:, :, None] + offsets).flatten(1), rest], dim=1)
    largest, place = values.gather(1, columns).topk(k)
    return largest, columns.gather(1, place)


def _keys(similarity: Tensor) -> Tensor:
    """int64 keys in the order of the ranking, no two equal in a row: by float32 value, then by column ascending."""
    bits = (similarity + 0.0).view(torch.int32)  # adding 0.0 makes -0.0 equal to 0.0 in its bits, too
    ascending = bits ^ ((bits >> 31) & 0x7FFFFFFF)  # the bits of a negative float grow with its size: turn them over
    columns = torch.arange(similarity.shape[1], device=similarity.device)
    return torch.add(-columns, ascending.long(), alpha=2**32)


def _mixed_ties(similarity: Tensor, is_hit: Tensor, found: Tensor, relevant: Tensor) -> Tensor:
    """(B,) bool: are a hit and a miss equal among the first R ranks, or at rank R and beyond."""
    values, hits = similarity.gather(1, found), is_hit.gather(1, found)
    rank = torch.arange(1, found.shape[1], device=found.device)
    inside = (values[:, 1:] == values[:, :-1]) & (hits[:, 1:] != hits[:, :-1]) & (rank < relevant)
    level = similarity == values.gather(1, relevant - 1)
    return inside.any(dim=1) | ((level & is_hit).any(dim=1) & (level & ~is_hit).any(dim=1))


def _first_hit(search: _Search, queries: Tensor, similarity: Tensor, largest_k: int) -> tuple[Tensor, Tensor]:
    """(B,) int32, the rank of the first hit, exact up to K; and (B,) bool, is a miss equal to it there or across."""
    columns, exists = search.members(queries)
    own = similarity.gather(1, columns).masked_fill(~exists, -math.inf)
    best = own.amax(dim=1, keepdim=True)
    at_best = own == best
    rank = 1 + (similarity > best).sum(dim=1, dtype=torch.int32)
    level = 1 + (similarity >= best).sum(dim=1, dtype=torch.int32) - rank
    tied = (level > at_best.sum(dim=1)) & (rank <= largest_k)
    for rows in torch.split(tied.nonzero().squeeze(1), TIED_ROWS):
        first = columns[rows].gather(1, at_best[rows].byte().argmax(dim=1, keepdim=True))  # the first of equal maxima
        before = torch.arange(similarity.shape[1], device=similarity.device) < first
        rank[rows] += ((similarity[rows] == best[rows]) & before).sum(dim=1, dtype=torch.int32)
    return rank, tied


def _scores(hits: npt.NDArray[np.bool_], relevant: npt.NDArray[np.int64]) -> list[Scores]:
    """Precision@1, R-precision and average precision at R of each query from its (B, K) hits, K >= R."""
    rank = np.arange(1, hits.shape[1] + 1)
    within = hits & (rank <= relevant[:, None])
    found = within.cumsum(axis=1)
    # cumsum adds from left to right: columns beyond R add zero and change no digit, however wide the chunk is.
    precisions = np.where(within, found / rank, 0.0).cumsum(axis=1)
    return [hits[:, 0].astype(np.float64), found[:, -1] / relevant, precisions[:, -1] / relevant]
