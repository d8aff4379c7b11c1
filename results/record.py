"""Records, schema 1: what one fold model found, and what the fold models of one final run found together.

A record is plain data and names its protocol, data set and split in full, so it stays readable when code changes.
Metrics are fractions in [0, 1]; a metric that does not exist is absent, never NaN. `to_json` checks all that
`from_json` checks, so a record with a hole is refused when it is written, not when a table is made of it.
"""

import json
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

from results.comparison import Comparison
from results.errors import ResultsError
from results.strict import Fraction, UtcTime, check_schema, has, plain, read

SCHEMA = 1

Value = float | int | str | bool
Metrics = dict[str, Fraction]  # precision_at_1, r_precision, map_at_r and, where the protocol asks, recall_at_<K>
COUNTS = ("queries", "left_out", "smallest_r", "largest_r")  # in an evaluation's audit: what depends on no machine
Reason = Literal["non-finite", "collapsed", "out-of-memory", "data-error", "method-error", "audit", "worker-died"]


@dataclass(frozen=True, kw_only=True)
class Identity:
    """What both kinds of record share: under which fingerprints, by which method, in which run."""

    protocol: Annotated[dict[str, Any], has(title=str, digest=str, values=dict)]
    dataset: Annotated[dict[str, Any], has(name=str, content_hash=str, n_classes=int, n_images=int)]
    split: Annotated[dict[str, Any], has(kind=str, digest=str)]
    method: str
    method_code: str
    hyperparameters: dict[str, Value]
    purpose: Literal["search", "final"]
    run: int

    @property
    def comparison(self) -> Comparison:
        """The fingerprints under which the record was made."""
        return Comparison(self.protocol["digest"], self.dataset["content_hash"], self.split["digest"])

    @property
    def hyperparameters_text(self) -> str:
        """Its hyper-parameters as JSON with sorted keys: equal values give equal text."""
        return json.dumps(self.hyperparameters, sort_keys=True, allow_nan=False)

    @property
    def metrics(self) -> tuple[str, ...]:
        """The test metrics that the protocol asks for on this data set.

        Raises:
            ResultsError: if its values are not those of a protocol.
        """
        evaluation = self.protocol["values"].get("evaluation", {})
        with suppress(AttributeError, TypeError, ValueError):
            by_dataset = dict(evaluation.get("recall_at_by_dataset", ()))
            recall_at = by_dataset.get(self.dataset.get("standard_name"), evaluation.get("recall_at", ()))
            names = (*evaluation.get("metrics", ("map_at_r",)), *(f"recall_at_{k}" for k in recall_at))
            if all(isinstance(name, str) for name in names):
                return names
        raise ResultsError(
            f"identity.protocol: found evaluation {evaluation!r:.60}, wanted an object that lists metrics."
        )


@dataclass(frozen=True, kw_only=True)
class Validation:
    """One point of the training curve; loss is the mean over the steps since the point before."""

    step: int
    map_at_r: Fraction
    loss: float | None


@dataclass(frozen=True, kw_only=True)
class Check:
    """One audit check as it was executed."""

    name: str
    passed: bool
    detail: str


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """Where a record comes from."""

    created_at: UtcTime
    versions: dict[str, str]  # python, torch, torchvision, pytorch-metric-learning, optuna, faiss where present, ...
    device: str
    threads: int
    code_revision: str  # git revision, with "+dirty" where files differ; the package version elsewhere
    trunk_weights: str  # SHA-256 of the weight file, or "random"


@dataclass(frozen=True, kw_only=True)
class FoldRecord:
    """The outcome of one job."""

    schema: int = SCHEMA
    id: str  # the job's id
    identity: Identity
    fold: int
    seed: int
    outcome: Literal["done", "failed"]
    reason: Reason | None = None
    message: str | None = None
    curve: tuple[Validation, ...] = ()
    best_step: int | None = None
    n_steps: int = 0
    n_images_seen: int = 0
    validation: Metrics | None = None  # at the best step
    test: Metrics | None = None  # final runs only
    evaluation_audit: dict[str, Any] | None = None  # queries, left out, smallest and largest R, tied queries (test)
    audit: tuple[Check, ...] = ()
    seconds: dict[str, float]  # by phase
    peak_memory_bytes: int
    provenance: Provenance
    method_state: dict[str, Any] | None = None  # what a method says of itself at the end (its `summary()`)
    in_force: dict[str, Any] | None = None  # what ran, read from the job's objects: optimiser, transforms, network, ...


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """The concatenated evaluation of one final run: its fold models' test embeddings side by side."""

    schema: int = SCHEMA
    id: str
    identity: Identity
    members: tuple[str, ...]  # ids of the fold records, in fold order
    test: Metrics
    embedding_dim: int
    evaluation_audit: dict[str, Any]
    seconds: dict[str, float]
    provenance: Provenance


Record = FoldRecord | RunRecord
KINDS: dict[str, type[FoldRecord] | type[RunRecord]] = {"fold": FoldRecord, "run": RunRecord}


def has_failed(record: Record) -> bool:
    """Whether it is of a fold model that did not come to its end."""
    return isinstance(record, FoldRecord) and record.outcome == "failed"


def to_json(record: Record) -> str:
    """One line of strict JSON with sorted keys; equal records give equal text.

    Raises:
        ResultsError: if a field has another type than its hint, a number is not finite, a metric lies outside
            [0, 1], or the outcome lacks what it must have.
    """
    kind = "fold" if isinstance(record, FoldRecord) else "run"
    try:
        checked = _checked(KINDS[kind], plain(record))
    except ResultsError as error:
        raise ResultsError(f"{kind} record {record.id}: {error}") from None
    return json.dumps({"kind": kind, **asdict(checked)}, sort_keys=True, allow_nan=False, separators=(",", ":"))


def from_json(text: str) -> Record:
    """The record of a text that `to_json` wrote.

    Raises:
        ResultsError: if the text is no JSON, its schema is newer than this code, or it fails a check of `to_json`.
    """
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ResultsError(f"not a record: the text is no JSON ({error}).") from None
    return from_values(value)


def from_values(value: Any) -> Record:
    """The record of the JSON value that such a text holds; the errors are those of `from_json`."""
    if not isinstance(value, dict) or value.get("kind") not in ("fold", "run"):
        raise ResultsError('not a record: wanted a JSON object whose "kind" is "fold" or "run".')
    kind = value["kind"]
    try:
        check_schema(value.get("schema"), SCHEMA, "record")
        return _checked(KINDS[kind], {name: item for name, item in value.items() if name != "kind"})
    except (ResultsError, RecursionError, OverflowError) as error:
        raise ResultsError(f"{kind} record {value.get('id')}: {error}") from None


def _checked(cls: type[FoldRecord] | type[RunRecord], value: dict[str, Any]) -> Record:
    record: Record = read(cls, value)
    if isinstance(record, RunRecord):
        _require_metrics("test", record.test, record.identity.metrics)
    elif record.outcome == "failed":
        if record.reason is None:
            raise ResultsError("reason: missing; a failed record must say why.")
    elif record.reason is not None:
        raise ResultsError(f"reason: found {record.reason!r}, wanted none: the outcome is done.")
    elif record.identity.purpose == "final":
        _require_metrics("test", record.test, record.identity.metrics)
    else:
        _require_metrics("validation", record.validation, ("map_at_r",))
    return record


def _require_metrics(name: str, found: Metrics | None, wanted: tuple[str, ...]) -> None:
    lacking = [metric for metric in wanted if metric not in (found or {})]
    if lacking:
        raise ResultsError(f"{name}: {', '.join(lacking)} missing; a record that is done must have its metrics.")
