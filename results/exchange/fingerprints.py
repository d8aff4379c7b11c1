"""Ids and digests worked out again from what they name, so that a record of a stranger can be held to its own words.

The rules are those by which protocols, jobs and seeds name themselves when they run; said again here, because results
are read where the code that ran is not. A test holds the two together.
"""

import json
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any

from results.record import FoldRecord

BASE_SEED = 2020
PROSE = ("purpose", "source")  # of a protocol: no part of its fingerprint


def protocol_digest(values: Mapping[str, Any]) -> str:
    """The fingerprint of a protocol's plain values; prose is left out."""
    return _hashed({key: value for key, value in values.items() if key not in PROSE}, n_digits=12)


def job_id(record: FoldRecord) -> str:
    """The id of the job that a fold record is the outcome of."""
    identity = record.identity
    comparison = identity.comparison
    job = {
        "protocol": comparison.protocol_digest,
        "dataset": comparison.dataset_hash,
        "split": comparison.split_digest,
        "method": identity.method,
        "method_code": identity.method_code,
        "hyperparameters": sorted(identity.hyperparameters.items()),
        "purpose": identity.purpose,
        "run": identity.run,
        "fold": record.fold,
        "seed": record.seed,
    }
    return _hashed(job, n_digits=16)


def ensemble_id(members: Sequence[str]) -> str:
    """The id of the concatenation of fold models, by their ids in fold order."""
    return _hashed({"concatenated": list(members)}, n_digits=16)


def fold_seed(run: int, fold: int) -> int:
    """The seed that every method has in a run and fold, 0 being the run of the searches."""
    return int.from_bytes(sha256(f"{BASE_SEED}/run {run} fold {fold}".encode()).digest()[:4], "big")


def space_hash(space: str) -> str:
    """The fingerprint of a search space, given as its canonical JSON."""
    return sha256(space.encode()).hexdigest()[:12]


def _hashed(value: object, n_digits: int) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return sha256(text.encode()).hexdigest()[:n_digits]
