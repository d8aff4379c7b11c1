"""A job is one trained fold model as pure data. Its id is the hash of it: the same job is never run twice."""

import json
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Literal

from benchmark.seeding import derived_seed

BASE_SEED = 2020  # the year of the reality check; one seed for everybody, so that runs pair across methods and groups


@dataclass(frozen=True, kw_only=True)
class Job:
    """One fold of one trial or of one final run.

    `protocol`, `dataset` and `split` are fingerprints. `hyperparameters` are (name, value) pairs sorted by name.
    `run` is 0 in a search, where every trial sees the same seeds, and 1..n_runs in the final runs.
    """

    protocol: str
    dataset: str
    split: str
    method: str
    method_code: str
    hyperparameters: tuple[tuple[str, float | int | str | bool], ...]
    purpose: Literal["search", "final"]
    run: int
    fold: int
    seed: int

    @property
    def id(self) -> str:
        """First 16 hex digits of the SHA-256 of the job as sorted JSON."""
        return _hash(asdict(self))


@dataclass(frozen=True, kw_only=True)
class EnsembleJob:
    """The concatenated evaluation of one final run, from its fold jobs in fold order."""

    members: tuple[Job, ...]

    @property
    def id(self) -> str:
        """First 16 hex digits of the SHA-256 of the members' ids."""
        return _hash({"concatenated": [job.id for job in self.members]})


Work = Job | EnsembleJob


def _hash(value: object) -> str:
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return sha256(text.encode()).hexdigest()[:16]


def fold_seed(run: int, fold: int) -> int:
    """The seed of one fold model: shared by all methods, different for each run and fold."""
    return derived_seed(BASE_SEED, f"run {run} fold {fold}")
