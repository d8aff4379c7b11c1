"""One side of a comparison: the final runs of one method with one set of hyper-parameters, and what made them.

It comes out of records, of a store or an export, or out of a stored baseline; who compares need not know which.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from reports.errors import ReportError
from reports.frame import SETTINGS, Column, Setting, runs_frame, settings_of
from reports.origins import origins_of
from results.baseline import Baseline, BaselineMethod, BaselineRun
from results.record import FoldRecord, Identity, Record
from results.repeats import ONE_RUN, n_final_runs

OWN_DOING = ("non-finite", "collapsed", "method-error")  # reasons for which a method, and no machine, has failed

Runs = dict[int, float]  # a fraction by run number


@dataclass(frozen=True, kw_only=True)
class Side:
    """A method's final runs. What is missing is in neither `values` nor `failed`."""

    label: str  # as it was asked for
    identity: Identity  # of any of its records; its run says nothing
    values: Mapping[Column, Runs]  # by setting and metric
    failed: Mapping[int, str] = field(default_factory=dict)  # runs that the method's own doing ended, with the reason
    origins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # versions, device, ... of its records
    notes: tuple[str, ...] = ()  # what a reader should know of it

    @property
    def n_folds(self) -> int:
        """Fold models of a run."""
        return _n_folds(self.identity)

    def first(self, n_runs: int) -> "Side":
        """The side without its runs after the first `n_runs`."""
        return replace(
            self,
            values={key: {run: runs[run] for run in runs if run <= n_runs} for key, runs in self.values.items()},
            failed={run: reason for run, reason in self.failed.items() if run <= n_runs},
        )


def side_of_records(label: str, records: Sequence[Record], identity: Identity | None = None) -> Side:
    """The side that the final records of one method make; records of its search are passed over.

    Args:
        label: what it is called.
        records: of one method with one set of hyper-parameters, in any order.
        identity: which method it is; needed where there may be no record.

    Raises:
        ReportError: if there is no final run, or there are several variants of the method, or as `runs_frame`.
    """
    finals = [record for record in records if record.identity.purpose == "final"]
    if not finals and identity is None:
        raise ReportError(f"{label}: no final run is in it; a comparison needs some.")
    first = identity or finals[0].identity
    _require_one_variant(label, [record.identity for record in finals])
    frame = runs_frame(finals)
    present = frame[frame["value"].notna()]
    values: dict[Column, Runs] = {
        (setting, metric): {} for setting in settings_of(_n_folds(first)) for metric in first.metrics
    }
    for run, setting, metric, value in present[["run", "setting", "metric", "value"]].itertuples(index=False):
        values[setting, metric][int(run)] = float(value)
    folds = [record for record in finals if isinstance(record, FoldRecord)]
    return Side(label=label, identity=first, values=values, failed=_failed(folds), origins=_origins(folds))


def paired_values(new: Side, old: Side, setting: Setting, metric: str) -> tuple[Runs, Runs]:
    """The runs of both. Where nothing is random in one of them, its one value stands for every run of the other."""
    found, against = new.values.get((setting, metric), {}), old.values.get((setting, metric), {})
    if new.identity.method in ONE_RUN and old.identity.method not in ONE_RUN and found:
        return dict.fromkeys(against, fmean(found.values())), dict(against)
    if old.identity.method in ONE_RUN and new.identity.method not in ONE_RUN and against:
        return dict(found), dict.fromkeys((*found, *new.failed), fmean(against.values()))
    return dict(found), dict(against)


# --- baselines


def baseline_method(side: Side) -> BaselineMethod:
    """What a baseline file keeps of a side.

    Raises:
        ReportError: if a run of it is missing or failed: a baseline with a hole would be a moving target.
    """
    numbers = range(1, n_final_runs(side.identity.method, side.identity.protocol["values"]) + 1)
    for key, runs in side.values.items():
        if lacking := [run for run in numbers if run not in runs]:
            reason = next((side.failed[run] for run in lacking if run in side.failed), "not run")
            raise ReportError(
                f"{side.label}: {' '.join(key)} of run {lacking[0]} is missing ({reason}); a baseline is whole."
            )
    return BaselineMethod(
        method=side.identity.method,
        method_code=side.identity.method_code,
        hyperparameters=side.identity.hyperparameters,
        origins=dict(side.origins),
        runs=tuple(
            BaselineRun(
                run=run,
                test={
                    setting: {metric: runs[run] for (of, metric), runs in side.values.items() if of == setting}
                    for setting in settings_of(side.n_folds)
                },
            )
            for run in numbers
        ),
    )


def side_of_baseline(baseline: Baseline, method: BaselineMethod, label: str) -> Side:
    """The side that a stored baseline holds of one of its methods."""
    identity = Identity(
        protocol=baseline.protocol,
        dataset=baseline.dataset,
        split=baseline.split,
        method=method.method,
        method_code=method.method_code,
        hyperparameters=method.hyperparameters,
        purpose="final",
        run=1,
    )
    values: dict[Column, Runs] = {}
    for run in method.runs:
        for setting in SETTINGS:
            for metric, value in run.test.get(setting, {}).items():
                values.setdefault((setting, metric), {})[run.run] = value
    return Side(label=label, identity=identity, values=values, origins=method.origins)


def _require_one_variant(label: str, identities: Iterable[Identity]) -> None:
    variants = {(*of.comparison, of.method, of.method_code, of.hyperparameters_text) for of in identities}
    if len(variants) > 1:
        told = "; ".join(sorted(" ".join(part for part in variant[3:] if part) for variant in variants))
        raise ReportError(
            f"{label}: final runs of {len(variants)} variants are in it, and a comparison needs one: {told}"
        )


def _n_folds(identity: Identity) -> int:
    return int(identity.protocol["values"]["folds"]["n_folds"])


def _failed(folds: Iterable[FoldRecord]) -> dict[int, str]:
    """By run, how its first failed fold ended."""
    found: dict[int, str] = {}
    for record in sorted(folds, key=lambda record: (record.identity.run, record.fold)):
        if record.outcome == "failed" and record.reason in OWN_DOING:
            message = (record.message or "").rstrip(".")
            found.setdefault(record.identity.run, f"{record.reason} ({message})" if message else record.reason)
    return found


def _origins(folds: Iterable[FoldRecord]) -> dict[str, tuple[str, ...]]:
    """The values of each thing beside the method that may move a number."""
    found: dict[str, set[str]] = {}
    for record in folds:
        for thing, value in (origins_of(record) | {"code revision": record.provenance.code_revision}).items():
            if value:
                found.setdefault(thing, set()).add(value)
    return {thing: tuple(sorted(values)) for thing, values in sorted(found.items())}
