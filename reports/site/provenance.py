"""The pages of records: what each has of its own, and under which conditions it was made.

Most of a record's provenance is that of many others: versions, device, what was in force, checks with equal outcome. It
is written once, on a page of conditions that is named by its content, and every record links to its own. Together they
hold the whole.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from typing import Any

from reports.headings import metric_heading
from results.record import FoldRecord, Metrics, Record, RunRecord

Facts = dict[str, str]  # by name, for people
LONGEST = 400  # characters of one fact


@dataclass(frozen=True, kw_only=True)
class Conditions:
    """What several records have in common."""

    groups: Mapping[str, Facts]  # by what they are about

    @cached_property
    def stem(self) -> str:
        """Its name: a part of the hash of its content."""
        return sha256(json.dumps(self.groups, sort_keys=True).encode()).hexdigest()[:8]


@dataclass(frozen=True, kw_only=True)
class RecordFacts:
    """One record: its own facts, and the conditions that it shares."""

    record: Record
    conditions: Conditions
    own: tuple[tuple[str, str], ...]  # a hyper-parameter may be called as another fact is
    n_checks: int = 0
    failed_checks: tuple[str, ...] = ()


def record_facts(records: Iterable[Record]) -> Iterator[RecordFacts]:
    """The facts of all records, in their order. Conditions are what records of one search or one set of runs share."""
    groups: dict[tuple[object, ...], list[Record]] = {}
    ordered = list(records)
    for record in ordered:
        groups.setdefault(_group(record), []).append(record)
    shared = {key: _shared([_conditions(record) for record in found]) for key, found in groups.items()}
    made: dict[str, Conditions] = {}
    for record in ordered:
        common = shared[_group(record)]
        conditions = Conditions(groups=common)
        yield _facts(record, made.setdefault(conditions.stem, conditions))


def _group(record: Record) -> tuple[object, ...]:
    identity = record.identity
    what = "run" if isinstance(record, RunRecord) else record.outcome  # a failed job was stopped at any point
    return *identity.comparison, identity.method, identity.method_code, identity.purpose, what


def _facts(record: Record, conditions: Conditions) -> RecordFacts:
    own = [
        (name, value)
        for title, facts in _conditions(record).items()
        for name, value in facts.items()
        if conditions.groups.get(title, {}).get(name) != value
    ]
    audit = record.audit if isinstance(record, FoldRecord) else ()
    return RecordFacts(
        record=record,
        conditions=conditions,
        own=(*((name, value) for name, value in _result(record) if value), *own),
        n_checks=len(audit),
        failed_checks=tuple(check.name for check in audit if not check.passed),
    )


def _shared(all_groups: Sequence[Mapping[str, Facts]]) -> dict[str, Facts]:
    """The facts that are the same in all."""
    return {
        title: {
            name: value
            for name, value in facts.items()
            if all(other.get(title, {}).get(name) == value for other in all_groups[1:])
        }
        for title, facts in all_groups[0].items()
    }


def _conditions(record: Record) -> dict[str, Facts]:
    """What can be shared."""
    made = record.provenance
    found = {
        "Made by": {
            "device": made.device,
            "threads": str(made.threads),
            "code": made.code_revision,
            "trunk weights": made.trunk_weights,
            **made.versions,
        }
    }
    found["Evaluation"] = {name: _text(value) for name, value in (record.evaluation_audit or {}).items()}
    if isinstance(record, FoldRecord):
        found["Audit"] = {check.name: f"{'' if check.passed else 'FAILED: '}{check.detail}" for check in record.audit}
        found["In force"] = {path: _text(value) for path, value in flat(record.in_force or {})}
        if found["In force"].get("coverage.n_batches") == str(record.n_steps):
            del found["In force"]["coverage.n_batches"]  # a batch a step, which is said already
    return {title: {name: value for name, value in facts.items() if value} for title, facts in found.items()}


def _result(record: Record) -> Iterator[tuple[str, str]]:
    """The job and what it found, which are a record's own."""
    identity, fold = record.identity, record if isinstance(record, FoldRecord) else None
    yield ("run", str(identity.run)) if identity.purpose == "final" else ("purpose", identity.purpose)
    if fold:
        yield from (("fold", str(fold.fold)), ("seed", str(fold.seed)))
        yield "failed", ": ".join(filter(None, (fold.reason, fold.message)))
    yield from ((name, str(value)) for name, value in identity.hyperparameters.items())
    if fold:
        yield from (("steps", str(fold.n_steps)), ("best step", "" if fold.best_step is None else str(fold.best_step)))
    yield "made", record.provenance.created_at.replace("+00:00", "Z")
    yield "seconds", f"{sum(record.seconds.values()):.3g}"
    yield "test (%)", _metrics(record.test, identity.metrics)
    yield "validation (%)", _metrics(fold.validation, identity.metrics) if fold else ""


def _metrics(metrics: Metrics | None, order: Sequence[str]) -> str:
    """Those that the protocol asks for in its order, as in every table, and then any others."""
    found = metrics or {}
    names = [*(name for name in order if name in found), *(name for name in found if name not in order)]
    return ", ".join(f"{metric_heading(name)} {100 * found[name]:.2f}" for name in names)


def flat(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """The leaves of JSON values by their path; a list of plain values is a leaf."""
    if isinstance(value, dict):
        for name, item in value.items():
            yield from flat(item, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list | tuple) and any(isinstance(item, dict | list | tuple) for item in value):
        for place, item in enumerate(value):
            yield from flat(item, f"{path}[{place}]")
    else:
        yield path, value


def _text(value: Any) -> str:
    if isinstance(value, bool | None):
        return {True: "yes", False: "no", None: "none"}[value]
    text = ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} ..."
