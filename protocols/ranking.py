"""Ranks by Euclidean distance, exact: which of the nearest references are of the query's class, and where ties decide.

References are ranked by 2<q, r> - ||r||^2 in float32, equal ones by index, ascending.

On one machine the ranks depend on nothing but the embeddings and their order (and, where these are tens of thousands
wide, torch's threads). A matrix product may round differently when its shape changes, so it is always one of
PRODUCT_ROWS queries, the last ones padded. Equal references get one
value, copied, so that they tie on any machine.

What is sorted are integer keys of a value and its column, so that one sort gives the ranks, ties included.
"""

import math
import operator
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from protocols.candidates import Candidates
from protocols.errors import ProtocolError
from protocols.products import products

PRODUCT_ROWS = 256  # queries in one matrix product, and ranked together
TIED_ROWS = 32  # queries of which ties are settled together
LARGEST_SQUARED_NORM = 2.0**120  # beyond it, 2<q, r> - ||r||^2 may overflow float32
COLUMN_BITS = 2**32 - 1  # of a key; the bits above them hold the value


class Sides:
    """Queries and references, checked, with everything about them that does not depend on which queries are ranked."""

    def __init__(self, queries: Tensor, labels: Tensor, gallery: Tensor | None, gallery_labels: Tensor | None) -> None:
        self.within_itself = gallery is None or gallery_labels is None
        self.queries, self.labels = queries.contiguous(), labels.to(queries.device)
        self.references = self.queries if gallery is None else gallery.contiguous()
        self.reference_labels = self.labels if gallery_labels is None else gallery_labels.to(queries.device)
        _check("queries", queries, labels)
        _check("gallery", self.references, self.reference_labels)
        if queries.shape[1] != self.references.shape[1]:
            raise ValueError(f"queries of width {queries.shape[1]}, gallery of width {self.references.shape[1]}.")
        _squared_norms(queries)
        self.offsets = -_squared_norms(self.references)
        self.copies, self.originals = _copies(self.references)
        _, classes = torch.unique(torch.cat([self.labels, self.reference_labels]), return_inverse=True)
        self.classes, reference_classes = classes[: len(labels)], classes[len(labels) :]
        self.class_sizes = reference_classes.bincount(minlength=len(classes))
        self.by_class = reference_classes.argsort(stable=True)
        self.relevant = self.class_sizes[self.classes] - int(self.within_itself)  # R of each query

    def similarity(self, queries: Tensor, buffer: Tensor) -> Tensor:
        """(B, M) float32, larger is nearer, -inf for the query itself; of (B,) indices, B <= PRODUCT_ROWS.

        They may lie in `buffer`, (PRODUCT_ROWS, M).
        """
        block = pad(2 * self.queries.index_select(0, queries), (0, 0, 0, PRODUCT_ROWS - len(queries)))
        similarity = products(block, self.references, self.offsets, buffer)[: len(queries)]
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
    if embeddings.ndim != 2 or embeddings.dtype != torch.float32 or embeddings.shape[1] == 0:
        raise ValueError(f"{side}: {embeddings.dtype} {tuple(embeddings.shape)}; (N, D) float32 is needed, D > 0.")
    if labels.shape != embeddings.shape[:1] or labels.dtype != torch.int64:
        raise ValueError(
            f"{side}: labels {labels.dtype} {tuple(labels.shape)} for {len(embeddings)} embeddings; "
            f"({len(embeddings)},) int64 is needed."
        )


def _squared_norms(embeddings: Tensor) -> Tensor:
    parts = torch.split(embeddings, PRODUCT_ROWS)  # float64 of all of them would be twice what they take
    squared = torch.cat([torch.linalg.vector_norm(some, dim=1, dtype=torch.float64) for some in parts]).square()
    usable = squared <= LARGEST_SQUARED_NORM  # False for NaN, too
    if not usable.all():
        raise ProtocolError(
            f"evaluation: {int((~usable).sum())} of {len(embeddings)} embeddings are not finite or too large to square "
            f"(first: row {int((~usable).nonzero()[0])}); the model has diverged."
        )
    return squared.float()


def _copies(references: Tensor) -> tuple[Tensor, Tensor]:
    """Indices of references that equal an earlier one, and of the earliest one that each of them equals."""
    # Equal rows have equal sums of their bits, and few others have: only those are sorted, which takes copies of them.
    sums = torch.cat([(some + 0.0).view(torch.int32).sum(dim=1) for some in torch.split(references, PRODUCT_ROWS)])
    _, group, sizes = torch.unique(sums, return_inverse=True, return_counts=True)
    index = (sizes[group] > 1).nonzero().squeeze(1)
    distinct, groups = torch.unique(references[index], dim=0, return_inverse=True)
    first = index.new_zeros(len(distinct)).scatter_reduce(0, groups, index, "amin", include_self=False)
    is_copy = first[groups] != index
    return index[is_copy], first[groups[is_copy]]


class Ranks(NamedTuple):
    """What the scores of B queries are made of."""

    hits: Tensor  # (B, K) bool by rank, exact up to each query's R, K the largest of them
    tied: Tensor  # (B,) bool
    first_hit: Tensor  # (B,) int32, its rank, exact up to the largest K of recall@K; 0 where none is asked for


def exact_ranks(sides: Sides, queries: Tensor, largest_k: int, buffer: Tensor) -> Ranks:
    similarity = sides.similarity(queries, buffer)
    hits, tied = _hits_within_r(sides, queries, similarity)
    if largest_k == 0:
        return Ranks(hits, tied, torch.zeros_like(queries, dtype=torch.int32))
    rank, tied_at_first_hit = _first_hit(sides, queries, similarity, largest_k)
    return Ranks(hits, tied | tied_at_first_hit, rank)


def ranks_by_candidates(
    sides: Sides, candidates: Candidates, queries: Tensor, largest_k: int, buffer: Tensor
) -> tuple[Ranks, int]:
    """The same, by products only where rounding may have changed the candidates' ranks; and for how many queries."""
    relevant = sides.relevant[queries]
    depth = int(relevant.max())
    itself = queries if sides.within_itself else None
    found = candidates.nearest(sides.queries[queries], itself, max(depth, largest_k))
    if found is None:
        return exact_ranks(sides, queries, largest_k, buffer), len(queries)
    hits = sides.reference_labels[found.ids] == sides.labels[queries][:, None]
    settled, first_hit = found.settled(hits, relevant), torch.zeros_like(queries, dtype=torch.int32)
    if largest_k:
        first_hit, certain = found.first_hit(hits, largest_k)
        settled &= certain
    ranks = Ranks(hits[:, :depth], torch.zeros_like(settled), first_hit)
    again = (~settled).nonzero().squeeze(1)
    if len(again):
        exact = exact_ranks(sides, queries[again], largest_k, buffer)
        ranks.hits[again, : exact.hits.shape[1]] = exact.hits
        ranks.tied[again], ranks.first_hit[again] = exact.tied, exact.first_hit
    return ranks, len(again)


def _hits_within_r(sides: Sides, queries: Tensor, similarity: Tensor) -> tuple[Tensor, Tensor]:
    """Hits by rank, (B, K) bool, exact up to each query's R, K the largest; and tied queries, (B,) bool."""
    relevant = sides.relevant[queries][:, None]
    depth = int(relevant.max())
    keys = _first_keys(similarity, min(depth + 1, similarity.shape[1]))
    level, columns = keys >> 32, keys & COLUMN_BITS
    hits = sides.reference_labels.expand(len(keys), -1).gather(1, columns) == sides.labels[queries][:, None]
    rank = torch.arange(1, keys.shape[1], device=keys.device)
    tied = ((level[:, 1:] == level[:, :-1]) & (hits[:, 1:] != hits[:, :-1]) & (rank < relevant)).any(dim=1)
    # Only where ranks R and R + 1 are equal, others that are not among the keys may come before them.
    across = level.gather(1, relevant - 1) == level.gather(1, relevant.clamp(max=keys.shape[1] - 1))
    for rows in _few(across[:, 0]):
        is_hit, every = sides.is_hit(queries[rows]), _keys(similarity[rows])
        hits[rows] = is_hit.gather(1, _smallest(every, keys.shape[1]) & COLUMN_BITS)
        at_r = every >> 32 == level[rows].gather(1, relevant[rows] - 1)
        tied[rows] |= (at_r & is_hit).any(dim=1) & (at_r & ~is_hit).any(dim=1)
    return hits[:, :depth], tied


def _first_keys(similarity: Tensor, k: int) -> Tensor:
    """(B, k) int64, the `_keys` of the k nearest, ascending; of those as near as the last, any may be among them.

    Long rows are cut into segments first: the k largest values are all in the k segments with the largest maxima.
    """
    width = similarity.shape[1]
    length = math.isqrt(width // (3 * k))  # measured: a column of a chosen segment costs about as much as 3 maxima
    if length < 2:
        columns = _largest(similarity, k)
    else:
        n_segments = width // length  # column c belongs to segment c % n_segments; a few last columns to none
        segmented = n_segments * length
        best = _largest(similarity[:, :segmented].view(-1, length, n_segments).amax(dim=1), k)
        offsets = torch.arange(0, segmented, n_segments, device=best.device)[:, None]
        rest = torch.arange(segmented, width, device=best.device).expand(len(best), -1)
        columns = torch.cat([(best[:, None] + offsets).flatten(1), rest], dim=1)
    return _smallest(_keys(similarity.gather(1, columns), columns), k)


def _keys(similarity: Tensor, columns: Tensor | None = None) -> Tensor:
    """int64 keys that ascend with the rank, no two equal in a row: by float32 value, descending, then by column."""
    if columns is None:
        columns = torch.arange(similarity.shape[1], device=similarity.device)
    bits = (similarity + 0.0).view(torch.int32)  # adding 0.0 makes -0.0 equal to 0.0 in its bits, too
    ascending = bits ^ ((bits >> 31) & 0x7FFFFFFF)  # the bits of a negative float grow with its size: turn them over
    return torch.sub(columns, ascending, alpha=2**32)


def _largest(values: Tensor, k: int) -> Tensor:
    """(B, k) int64, the columns of the k largest of each row, in no particular order."""
    if values.device.type != "cpu":
        return values.topk(k, sorted=False).indices
    # Measured: numpy selects with vector instructions, 2 to 6 times as fast as a thread of torch.
    return torch.from_numpy(np.argpartition(values.numpy(), -k)[:, -k:])


def _smallest(keys: Tensor, k: int) -> Tensor:
    """The k smallest of each row, ascending."""
    if keys.device.type != "cpu":
        return keys.topk(k, largest=False).values
    return torch.from_numpy(np.sort(np.partition(keys.numpy(), k - 1)[:, :k]))


def _how_many(compare: Callable[[Any, Any], Any], similarity: Tensor, bound: Tensor) -> Tensor:
    """(B,) int32, in how many columns each of (B, M) compares so with its bound, (B, 1)."""
    if similarity.device.type != "cpu":
        return cast(Tensor, compare(similarity, bound).sum(dim=1, dtype=torch.int32))
    # Measured: a quarter of torch's time.
    compares = compare(similarity.numpy(), bound.numpy())
    return torch.tensor([np.count_nonzero(row) for row in compares], dtype=torch.int32)


def _few(mask: Tensor) -> Iterator[Tensor]:
    """Indices of True in (B,) bool, TIED_ROWS at a time."""
    for rows in torch.split(mask.nonzero()[:, 0], TIED_ROWS):
        if len(rows):  # nothing is split into one empty piece
            yield rows


def _first_hit(sides: Sides, queries: Tensor, similarity: Tensor, largest_k: int) -> tuple[Tensor, Tensor]:
    """(B,) int32, the rank of the first hit, exact up to K; and (B,) bool, is a miss equal to it there or across."""
    columns, exists = sides.members(queries)
    own = similarity.gather(1, columns).masked_fill(~exists, -math.inf)
    best = own.amax(dim=1, keepdim=True)
    at_best = own == best
    rank = 1 + _how_many(operator.gt, similarity, best)
    level = 1 + _how_many(operator.ge, similarity, best) - rank
    tied = (level > at_best.sum(dim=1)) & (rank <= largest_k)
    for rows in _few(tied):
        first = columns[rows].gather(1, at_best[rows].byte().argmax(dim=1, keepdim=True))  # the first of equal maxima
        before = torch.arange(similarity.shape[1], device=similarity.device) < first
        rank[rows] += ((similarity[rows] == best[rows]) & before).sum(dim=1, dtype=torch.int32)
    return rank, tied
