"""The state of one search: one method on one data set and split under one protocol, and the best it found so far.

A search that is begun anew over another space or by other rules is a fork: a study of its own beside the one before,
which stays as it was. The newest is in force.
"""

import json
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

from results.comparison import Comparison
from results.errors import ResultsError
from results.record import Value
from results.strict import Fraction, UtcTime, plain, read


@dataclass(frozen=True, kw_only=True)
class Study:
    """What is known of a search. Its key: protocol, data set, split, method, the method's code, and its fork."""

    protocol_title: str
    protocol_digest: str
    dataset_name: str
    dataset_hash: str
    split_digest: str
    method: str
    method_code: str
    optuna_name: str  # the name under which Optuna keeps the trials, in the same database
    space: str  # canonical JSON of the search space
    space_hash: str
    n_trials: int  # the budget, a total
    n_finished: int
    n_failed: int
    best_trial: int | None
    best_hyperparameters: dict[str, Value] | None
    best_value: Fraction | None  # mean over folds of the best validation MAP@R
    best_standard_error: float | None  # over folds
    updated_at: UtcTime
    n_pruned: int = 0  # given up before all of their folds had run
    rules: str = "{}"  # canonical JSON of what is not as the protocol alone would have it: sampler, pruning, ...
    fork: int = 0  # 0 for the first search of its key, then 1, 2, ...

    @property
    def n_told(self) -> int:
        """Trials that have their answer: finished, failed or pruned. They use up the budget."""
        return self.n_finished + self.n_failed + self.n_pruned

    @property
    def fingerprint(self) -> str:
        """12 hex digits of how the search is run: of its space alone where its rules are as usual."""
        if self.rules == "{}":
            return self.space_hash
        return sha256(f"{self.space_hash}/{self.rules}".encode()).hexdigest()[:12]

    @property
    def rules_in_words(self) -> str:
        """Its rules for people: "grid, 4 trials at once, pruning"; "" where all are as usual."""
        held = json.loads(self.rules)
        parts = [held["sampler"]] if "sampler" in held else []
        parts += [f"{held['parallel_trials']} trials at once"] if "parallel_trials" in held else []
        parts += [f"{len(held['enqueue'])} published first"] if "enqueue" in held else []
        return ", ".join([*parts, *(["pruning"] if "pruning" in held else [])])

    @property
    def readable_name(self) -> str:
        """Its Optuna name: "mini@1/cub200/ms/3f2a9c1b", with "/fork-1-77a01b2c" where it is a fork."""
        first = study_id(*self.comparison, self.method, self.method_code)[:8]
        name = "/".join((self.protocol_title, self.dataset_name, self.method, first))
        return f"{name}/fork-{self.fork}-{self.fingerprint[:8]}" if self.fork else name

    @property
    def comparison(self) -> Comparison:
        """The fingerprints under which the search runs."""
        return Comparison(self.protocol_digest, self.dataset_hash, self.split_digest)

    @property
    def id(self) -> str:
        """First 16 hex digits of the SHA-256 of the key as JSON."""
        return study_id(*self.comparison, self.method, self.method_code, self.fork)


def study_id(
    protocol_digest: str, dataset_hash: str, split_digest: str, method: str, method_code: str, fork: int = 0
) -> str:
    """The id of the one study that has this key."""
    key = [protocol_digest, dataset_hash, split_digest, method, method_code, *([fork] if fork else [])]
    return sha256(json.dumps(key).encode()).hexdigest()[:16]


def study_to_json(study: Study) -> str:
    """Strict JSON with sorted keys.

    Raises:
        ResultsError: if a field has another type than its hint or a number is not finite.
    """
    try:
        checked: Study = read(Study, plain(study))
    except ResultsError as error:
        raise ResultsError(f"study of {study.method} on {study.dataset_name}: {error}") from None
    return json.dumps(asdict(checked), sort_keys=True, allow_nan=False)


def study_from_json(text: str) -> Study:
    """The study of a text that `study_to_json` wrote.

    Raises:
        ResultsError: if a field is missing, unknown or of another type.
    """
    return study_from_values(json.loads(text))


def study_from_values(value: Any) -> Study:
    """The study of the JSON value that such a text holds; the errors are those of `study_from_json`."""
    study: Study = read(Study, value)
    return study
