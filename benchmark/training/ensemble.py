"""The concatenated embedding: the fold models' test vectors side by side, each of unit length, normalised again.

A fold whose test embeddings are gone is trained again, which gives the same bits on the same kind of machine: hours,
but not a run without an end. Where they are out of reach for now, as in a bucket behind a network, nothing is trained.
"""

import time
from collections.abc import Sequence
from dataclasses import asdict

import torch
from torch import Tensor
from torch.nn.functional import normalize

from benchmark.bench import Bench
from benchmark.console import say_error
from benchmark.errors import BenchmarkError
from benchmark.jobs import EnsembleJob, Job
from benchmark.provenance import provenance
from benchmark.training.embeddings import EmbeddingsUnavailable, Matrix, load_embeddings
from benchmark.training.training import run_fold
from results.record import RunRecord


def concatenate(job: EnsembleJob, bench: Bench) -> RunRecord:
    """Evaluate one final run's fold models as a single (N, n_folds x D) embedding of the test images.

    Raises:
        BenchmarkError: if the embeddings of a fold can neither be read nor be made again.
    """
    began = time.perf_counter()
    parts = [torch.from_numpy(_embeddings_of(member, bench)) for member in job.members]
    embeddings = side_by_side(parts)
    found = bench.evaluate(embeddings, bench.index.indices_of(bench.split.test))
    return RunRecord(
        id=job.id,
        identity=bench.identity(job.members[0]),
        members=tuple(member.id for member in job.members),
        test=found.metrics,
        embedding_dim=embeddings.shape[1],
        evaluation_audit=asdict(found.audit),
        seconds={"evaluation": time.perf_counter() - began},
        provenance=provenance(bench, trunk_weights=""),
    )


def side_by_side(parts: Sequence[Tensor]) -> Tensor:
    """(N, n_folds x D) rows of unit length out of the (N, D) embeddings of each fold model."""
    return normalize(torch.cat([normalize(part, dim=1) for part in parts], dim=1), dim=1)


def _embeddings_of(member: Job, bench: Bench) -> Matrix:
    try:
        return load_embeddings(bench.place, member.id)
    except EmbeddingsUnavailable as error:
        say_error(
            f"{member.method}, run {member.run} fold {member.fold}: {error} Until then, the fold is trained again."
        )
    made = run_fold(member, bench)
    if made.outcome != "done":
        raise BenchmarkError(
            f"{member.method}: run {member.run} fold {member.fold} had to be trained again for its test embeddings and "
            f"failed ({made.reason}): {made.message}"
        )
    return load_embeddings(bench.place, member.id)
