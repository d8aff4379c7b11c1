"""Sides to compare, out of records, for the tests of the regression gate."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from figure_records import PROVENANCE, VALUES, identity
from figure_records import fold as fold_record

from reports.gate.sides import Side, side_of_records
from results.exchange.fingerprints import protocol_digest
from results.record import FoldRecord, Identity, Record, RunRecord

N_RUNS = 5
PROTOCOL = {**VALUES, "finals": {"n_runs": N_RUNS}}
OLD = (0.50, 0.52, 0.51, 0.49, 0.53)


def final(run: int, method: str = "old", protocol: Mapping[str, Any] = PROTOCOL, **hyperparameters: Any) -> Identity:
    """The identity of a final run, whose protocol digest follows from its values."""
    return identity("final", run, method, protocol_digest(protocol), values=dict(protocol), **hyperparameters)


def run_records(of: Identity, value: float | None, failed: str = "collapsed") -> list[Record]:
    """Two folds, a little below and above the value, and their concatenation at it; None: the second fold failed."""
    if value is None:
        return [fold_record(of, 0, 0.5), replace(fold_record(of, 1, None), reason=failed, message="all are the same")]
    folds = [fold_record(of, number, value + (number - 0.5) / 100) for number in (0, 1)]
    together = RunRecord(
        id=f"{of.protocol['digest']} {of.method} {of.run} together",
        identity=of,
        members=tuple(one.id for one in folds),
        test={"map_at_r": value},
        embedding_dim=6,
        evaluation_audit={},
        seconds={},
        provenance=PROVENANCE,
    )
    return [*folds, together]


def records(values: Sequence[float | None], method: str = "old", **given: Any) -> list[Record]:
    """All records of the final runs of a method, run 1 first."""
    return [record for run, value in enumerate(values, 1) for record in run_records(final(run, method, **given), value)]


def side(values: Sequence[float | None], method: str = "old", **given: Any) -> Side:
    """The side that they make."""
    return side_of_records(method, records(values, method, **given), final(1, method, **given))


def made_with(found: Sequence[Record], **provenance: Any) -> list[Record]:
    """The records as if they had been made elsewhere."""
    changed = replace(PROVENANCE, **provenance)
    return [replace(record, provenance=changed) if isinstance(record, FoldRecord) else record for record in found]
