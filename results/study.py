"""The state of one search: one method on one data set and split under one protocol, and the best it found so far."""

import json
from dataclasses import asdict, dataclass
from hashlib import sha256

from results.comparison import Comparison
from results.errors import ResultsError
from results.record import Value
from results.strict import Fraction, UtcTime, plain, read


@dataclass(frozen=True, kw_only=True)
class Study:
    """What is known of a search. Its key: protocol, data set, split, method and the method's code."""

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

    @property
    def comparison(self) -> Comparison:
        """The fingerprints under which the search runs."""
        return Comparison(self.protocol_digest, self.dataset_hash, self.split_digest)

    @property
    def id(self) -> str:
        """First 16 hex digits of the SHA-256 of the key as JSON."""
        return study_id(*self.comparison, self.method, self.method_code)


def study_id(protocol_digest: str, dataset_hash: str, split_digest: str, method: str, method_code: str) -> str:
    """The id of the one study that has this key."""
    key = json.dumps([protocol_digest, dataset_hash, split_digest, method, method_code])
    return sha256(key.encode()).hexdigest()[:16]


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
    study: Study = read(Study, json.loads(text))
    return study
