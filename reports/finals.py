"""The final records of each variant of a method, by run and fold; of two records of one job, the one that counts."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, TypeVar

from reports.errors import ReportError
from results.comparison import Comparison
from results.record import FoldRecord, Identity, Record, RunRecord, has_failed


class Variant(NamedTuple):
    """A method with its code and one set of hyper-parameters, in one comparison."""

    comparison: Comparison
    method: str
    method_code: str
    hyperparameters: str  # sorted JSON; "" where a search had no winner


@dataclass(frozen=True)
class Finals:
    """The final records of one variant."""

    folds: dict[tuple[int, int], FoldRecord] = field(default_factory=dict)  # by (run, fold)
    runs: dict[int, RunRecord] = field(default_factory=dict)

    @property
    def identity(self) -> Identity:
        """That of any of them; its run says nothing."""
        records: list[Record] = [*self.folds.values(), *self.runs.values()]
        return records[0].identity


def variant_of(identity: Identity) -> Variant:
    """The variant of a record."""
    return Variant(identity.comparison, identity.method, identity.method_code, identity.hyperparameters_text)


def finals_of(records: Iterable[Record]) -> dict[Variant, Finals]:
    """The final records among some, by variant in the order of their first one; runs and folds ascend.

    Raises:
        ReportError: for records that contradict each other or their protocol.
    """
    found: dict[Variant, Finals] = {}
    for record in records:
        identity = record.identity
        if identity.purpose != "final":
            continue
        _check_place(record)
        of_variant = found.setdefault(variant_of(identity), Finals())
        if isinstance(record, FoldRecord):
            place = (identity.run, record.fold)
            of_variant.folds[place] = _agreed(of_variant.folds.get(place), record)
        else:
            of_variant.runs[identity.run] = _agreed(of_variant.runs.get(identity.run), record)
    return {variant: Finals(dict(sorted(one.folds.items())), one.runs) for variant, one in found.items()}


def _check_place(record: Record) -> None:
    identity, fold = record.identity, record.fold if isinstance(record, FoldRecord) else 0
    values = identity.protocol["values"]
    n_runs, n_folds = values["finals"]["n_runs"], values["folds"]["n_folds"]
    if not (1 <= identity.run <= n_runs and 0 <= fold < n_folds):
        raise ReportError(
            f"record {record.id} of {identity.method!r} is run {identity.run}, fold {fold}; "
            f"{identity.protocol['title']} has runs 1 to {n_runs} and folds 0 to {n_folds - 1}."
        )


_AnyRecord = TypeVar("_AnyRecord", FoldRecord, RunRecord)


def _agreed(known: _AnyRecord | None, new: _AnyRecord) -> _AnyRecord:
    """One of two records of the same job: a done one rather than a failed one; two done ones must agree."""
    if known is None or has_failed(known):
        return new
    if not has_failed(new) and new.test != known.test:
        raise ReportError(
            f"records {known.id} and {new.id} are of the same job ({new.identity.method!r}, run {new.identity.run}) "
            f"and differ: {known.test} and {new.test}. Keep one of them."
        )
    return known
