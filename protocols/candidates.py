"""Nearest neighbours by faiss, with the ranks that float32 rounding cannot have changed told from those that it may.

faiss sums in another order than torch, so that two references nearly as far from a query may swap. No metric sees two
hits swap, nor two misses. A query is settled when, as far as its numbers reach, every hit is farther from every miss
than both roundings together; the others are for an exact search. Its bound is that of any order of summation:
|error of <q, r>| <= D u |q| |r|, u = 2^-24.

faiss is optional: Douze et al., "The Faiss library", 2024, https://arxiv.org/abs/2401.08281.
"""

import importlib
import math
from typing import Any

import torch
from torch import Tensor

from protocols.errors import ProtocolError

SPARE = 8  # neighbours beyond those asked for, so that the last of these is rarely as far as one not returned
GPU_LARGEST_K = 2048  # faiss refuses more on a GPU


def load_faiss() -> Any:
    """The module `faiss`.

    Raises:
        ProtocolError: if it cannot be imported.
    """
    try:
        return importlib.import_module("faiss")
    except ImportError as error:
        raise ProtocolError(
            f'--search faiss: faiss cannot be imported ({error}); pip install "mlrc-harness[cpu]" (or [gpu]), '
            "or leave --search at torch, which gives the same numbers."
        ) from None


class Candidates:
    """A flat faiss index of (M, D) float32 references; on all GPUs where the references are on one."""

    def __init__(self, references: Tensor) -> None:
        faiss = load_faiss()
        self.device, self.n_references = references.device, len(references)
        self.largest_k = self.n_references
        self.index = faiss.IndexFlatL2(references.shape[1])
        if references.is_cuda and faiss.get_num_gpus() > 0:
            self.index = faiss.index_cpu_to_all_gpus(self.index)
            self.largest_k = GPU_LARGEST_K
        faiss.omp_set_num_threads(torch.get_num_threads())
        self.index.add(references.contiguous().cpu().numpy())
        self.longest = _length(references).max()

    def nearest(self, queries: Tensor, itself: Tensor | None, n_needed: int) -> "Neighbours | None":
        """At least `n_needed` neighbours of (B, D) queries, or all; without reference `itself[i]` for query i, (B,).

        None where faiss cannot return as many.
        """
        k = min(n_needed + SPARE + 1, self.n_references)
        if k > self.largest_k:
            return None
        found = self.index.search(queries.contiguous().cpu().numpy(), k)
        distances, ids = (torch.from_numpy(array).to(self.device) for array in found)
        distances = distances.double().masked_fill(ids < 0, math.inf)  # -1: faiss found fewer; nothing is known there
        complete = k == self.n_references and not (ids < 0).any()
        unseen = distances.new_full((len(ids),), math.inf) if complete else distances.amax(dim=1)
        unseen[(ids < 0).any(dim=1)] = -math.inf
        if itself is not None:
            is_itself = ids == itself[:, None]
            # Where a query has so many copies that it is not among them itself, the last one goes: it was `unseen`.
            order = is_itself.byte().argsort(dim=1, stable=True)[:, :-1]
            distances, ids = distances.gather(1, order), ids.gather(1, order)
        terms = queries.shape[1] + 8  # of the sum; the norms, the subtractions and their roundings have a share
        rounding = terms * 2.0**-24 * (_length(queries) + self.longest).square()
        return Neighbours(distances, ids.clamp(min=0), unseen, 4 * rounding)


class Neighbours:
    """(B, K) distances, ascending, and ids; (B,) distance of the nearest one not among them; (B,) what may swap."""

    def __init__(self, distances: Tensor, ids: Tensor, unseen: Tensor, slack: Tensor) -> None:
        self.distances, self.ids, self.unseen, self.slack = distances, ids, unseen[:, None], slack[:, None]

    def settled(self, hits: Tensor, relevant: Tensor) -> Tensor:
        """(B,) bool: are the (B, K) hits certain as far as each query's R, (B,)."""
        rank = torch.arange(1, hits.shape[1], device=hits.device)
        last = self.distances.gather(1, relevant[:, None] - 1)
        near, far = self.distances[:, :-1], self.distances[:, 1:]
        may_swap = (hits[:, 1:] != hits[:, :-1]) & (far - near <= self.slack)
        within = (rank <= relevant[:, None]) | (far - last <= self.slack)
        return ~((may_swap & within).any(dim=1) | (self.unseen - last <= self.slack)[:, 0])

    def first_hit(self, hits: Tensor, largest_k: int) -> tuple[Tensor, Tensor]:
        """(B,) int32, the rank of the first hit, or one beyond K; and (B,) bool: is it certain up to K."""
        first = torch.where(hits.any(dim=1), hits.byte().argmax(dim=1), hits.shape[1])[:, None]
        # What decides: the first hit against all misses, or, where it comes later, the K-th miss against all hits.
        edge = self.distances.gather(1, first.clamp(max=min(largest_k, hits.shape[1]) - 1))
        decides = hits != (first < largest_k)
        near = decides & ((self.distances - edge).abs() <= self.slack)
        return (first[:, 0] + 1).int(), ~(near.any(dim=1) | (self.unseen - edge <= self.slack)[:, 0])


def _length(vectors: Tensor) -> Tensor:
    length: Tensor = torch.linalg.vector_norm(vectors, dim=1, dtype=torch.float64)
    return length
