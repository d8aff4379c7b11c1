"""The concatenated embedding: the fold models' test vectors side by side, each of unit length, normalised again."""

import time
from dataclasses import asdict

import torch
from torch.nn.functional import normalize

from benchmark.bench import Bench
from benchmark.embeddings import load_embeddings
from benchmark.jobs import EnsembleJob
from benchmark.provenance import provenance
from results.record import RunRecord


def concatenate(job: EnsembleJob, bench: Bench) -> RunRecord:
    """Evaluate one final run's fold models as a single (N, n_folds x D) embedding of the test images."""
    began = time.perf_counter()
    parts = [torch.from_numpy(load_embeddings(bench.artifacts, member.id)) for member in job.members]
    embeddings = normalize(torch.cat([normalize(part, dim=1) for part in parts], dim=1), dim=1)
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
