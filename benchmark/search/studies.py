"""A search in the store: how it begins, when it may go on, what its row and Optuna's study say of it."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from math import sqrt
from statistics import stdev

import optuna
from optuna.trial import TrialState

from benchmark.bench import Bench
from benchmark.errors import BenchmarkError
from benchmark.methods.entry import MethodEntry
from benchmark.search.course import Course, course_of
from benchmark.search.trials import NOTE, best_trial, note
from results.record import FoldRecord, Record
from results.store import Store
from results.study import Study


def begin(entry: MethodEntry, bench: Bench, store: Store, course: Course) -> Study:
    """The study that goes on, or a new one: the first, or with `--fork` one beside a study that was run otherwise.

    Raises:
        BenchmarkError: if the study in force was searched over another space or by other rules, and no fork is wanted.
    """
    known, wanted = bench.study(entry, store), _wanted(entry, bench, course)
    if known is not None and known.fingerprint == wanted.fingerprint:
        return known
    if known is not None:
        if not bench.rules.fork:
            raise BenchmarkError(_refusal(known, wanted))
        wanted = replace(wanted, fork=known.fork + 1)
    wanted = replace(wanted, optuna_name=wanted.readable_name)
    store.put_study(wanted)
    return wanted


def study_to_go_on(entry: MethodEntry, bench: Bench, store: Store) -> Study | None:
    """The study in force, if it is the one that a search would go on with."""
    known = bench.study(entry, store)
    if known is None or known.fingerprint != _wanted(entry, bench, course_of(entry, bench)).fingerprint:
        return None
    return known


def open_study(row: Study, store: Store, storage: optuna.storages.BaseStorage) -> optuna.Study:
    """Optuna's study of a search, with what it is for whoever opens it in a viewer; an older fork is closed."""
    study = optuna.create_study(storage=storage, study_name=row.optuna_name, direction="maximize", load_if_exists=True)
    for name, value in _labels(row).items():
        if study.user_attrs.get(name) != value:
            study.set_user_attr(name, value)
    if row.fork:
        for older in store.studies(**row.comparison._asdict(), superseded=True):
            if (older.method, older.method_code) == (row.method, row.method_code) and older.fork < row.fork:
                _close(older, row, storage)
    return study


def with_trials(
    row: Study, study: optuna.Study, course: Course, entry: MethodEntry, bench: Bench, store: Store
) -> Study:
    """The study's row as Optuna's trials have it now."""
    trials = [trial for trial in study.get_trials(deepcopy=False) if trial.params.keys() == course.space.keys()]
    row = replace(
        row,
        n_finished=sum(trial.state == TrialState.COMPLETE for trial in trials),
        n_failed=sum(trial.state == TrialState.FAIL for trial in trials),
        n_pruned=sum(trial.state == TrialState.PRUNED for trial in trials),
        updated_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    best = best_trial(trials)
    if best is None:
        return row
    jobs = [bench.job(entry, best.params, run=0, fold=fold) for fold in range(bench.n_folds)]
    values = fold_values(store.get_many([job.id for job in jobs]).values())
    return replace(
        row,
        best_trial=best.number,
        best_hyperparameters=dict(best.params),
        best_value=best.value,
        best_standard_error=stdev(values) / sqrt(len(values)) if len(values) > 1 else None,
    )


def fold_values(records: Iterable[Record]) -> list[float]:
    """Best validation MAP@R of the folds that are done."""
    folds = (record for record in records if isinstance(record, FoldRecord) and record.outcome == "done")
    return [record.validation["map_at_r"] for record in folds if record.validation is not None]


def _wanted(entry: MethodEntry, bench: Bench, course: Course) -> Study:
    """A search of this course that has not begun."""
    return replace(bench.new_study(entry, course.space), rules=course.rules, n_trials=course.n_trials)


def _refusal(known: Study, wanted: Study) -> str:
    way_out = "begin a new study beside it with --fork"
    if known.space_hash != wanted.space_hash:
        return (
            f"{wanted.method}: its search space is not the one that this store's study {known.optuna_name!r} began "
            f"with ({known.space_hash} then, {wanted.space_hash} now). Give another --store for the new space, or "
            f"{way_out}."
        )
    return (
        f"{wanted.method}: this store's study {known.optuna_name!r} began with other rules "
        f"({_said(known)} then, {_said(wanted)} now). Give the same options, or {way_out}."
    )


def _said(study: Study) -> str:
    return study.rules_in_words or "none"


def _labels(row: Study) -> dict[str, object]:
    """What Optuna's study says of itself: plain JSON values."""
    return {
        "protocol": row.protocol_title,
        "protocol digest": row.protocol_digest,
        "data set": row.dataset_name,
        "data set hash": row.dataset_hash,
        "split": row.split_digest,
        "method": row.method,
        "budget": row.n_trials,
        "search space": row.space_hash,
        "rules": row.rules_in_words or "as the protocol has it",
        "value": "mean over folds of the best validation MAP@R; intermediate values are the folds",
    }


def _close(older: Study, row: Study, storage: optuna.storages.BaseStorage) -> None:
    """End what a superseded study left open: nobody will run it."""
    study = optuna.load_study(study_name=older.optuna_name, storage=storage)
    said = f"superseded by {row.optuna_name}"
    if study.user_attrs.get(NOTE) == said:
        return
    for trial in study.get_trials(deepcopy=False):
        if trial.state == TrialState.RUNNING:
            note(study, trial, NOTE, said)
            study.tell(trial.number, state=TrialState.FAIL)
    study.set_user_attr(NOTE, said)
