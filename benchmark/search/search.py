"""The search of one method: Optuna proposes hyper-parameters, the folds' mean best validation MAP@R answers.

The budget is a total: every trial that has its answer uses it up, and a search with nothing left does nothing. Trials
come in rounds (`benchmark.search.proposals`), usually of one. A search that was killed goes on with its open trials,
with their parameters, and finds their finished folds in the store. A trial that repeats an earlier one (integer spaces
do) counts as a trial and costs nothing. A failed fold fails its trial; it is never a value of 0, nor a mean of fewer
folds.
"""

from collections.abc import Generator, Sequence

import optuna

from benchmark.bench import Bench
from benchmark.errors import BenchmarkError
from benchmark.jobs import Work
from benchmark.methods.entry import MethodEntry, Value
from benchmark.search.answers import Answer, reopen
from benchmark.search.course import Course, course_of, n_trials_of
from benchmark.search.proposals import open_round
from benchmark.search.pruning import FoldValues, fold_rounds
from benchmark.search.studies import begin, open_study, with_trials
from benchmark.search.trials import best_trial
from results import searches
from results.record import Record
from results.store import Store
from results.study import Study

WorkSteps = Generator[Sequence[Work], Sequence[Record], None]


def search(entry: MethodEntry, bench: Bench, store: Store, storage: optuna.storages.BaseStorage) -> WorkSteps:
    """Yield the fold jobs of one round after another until the budget is used up; the store's study tells the winner.

    Raises:
        BenchmarkError: if the study in force was searched over another space or by other rules, and no fork is wanted.
    """
    course = course_of(entry, bench)
    row = begin(entry, bench, store, course)
    study = open_study(row, store, storage)
    was_open = {trial.number for trial in study.get_trials(deepcopy=False)}
    store.put_study(with_trials(row, study, course, entry, bench, store))  # a kill may have come between the two
    while found := open_round(study, course):
        answers = [Answer(trial, entry, bench.n_folds) for trial in found.trials]
        for answer in answers:
            reopen(answer, study, bench, store, answer.trial.number in was_open)
        best = best_trial(found.earlier)
        yield from _round(answers, bench, course, best.intermediate_values if best else {})
        for answer in answers:
            answer.tell(study)
        store.put_study(with_trials(row, study, course, entry, bench, store))


def _round(answers: Sequence[Answer], bench: Bench, course: Course, best: FoldValues) -> WorkSteps:
    """The folds of trials that run at once; with pruning, some of them and then only those that are still wanted."""
    for folds in fold_rounds(bench.n_folds, course.pruning):
        jobs = {answer: answer.jobs(bench, folds) for answer in answers if answer.goes_on}
        work = {job.id: job for found in jobs.values() for job in found}  # two equal trials share their jobs
        if not work:
            return
        records = yield list(work.values())
        by_id = {record.id: record for record in records}
        for answer, found in jobs.items():
            answer.hear(found, by_id)
            if course.pruning and folds.stop < bench.n_folds:
                answer.look(best)


def winner(entry: MethodEntry, bench: Bench, store: Store) -> dict[str, Value]:
    """The hyper-parameters of the best finished trial; none for a method that has nothing to search.

    Raises:
        BenchmarkError: if the search is not finished, or no trial of it is.
    """
    if not bench.space(entry):
        return {}
    study = bench.study(entry, store)
    others = [other for other in store.studies(**bench.comparison._asdict()) if other.method == entry.name]
    if study is None and others:
        raise BenchmarkError(f"{entry.name}: its code changed since it was searched; search it again (mlrc search).")
    told, wanted = (study.n_told, study.n_trials) if study else (0, n_trials_of(entry, bench))
    if study is None or told < wanted:
        raise BenchmarkError(
            f"{entry.name}: {told} of {wanted} trials are done; search it first (mlrc search)."
            + _searched_elsewhere(entry, bench, store)
        )
    if study.best_hyperparameters is None:
        raise BenchmarkError(f"{entry.name}: {no_winner(study, store)}")
    return study.best_hyperparameters


def _searched_elsewhere(entry: MethodEntry, bench: Bench, store: Store) -> str:
    """Under which other protocols the store has a finished search of a method on the same data."""
    studies = (one for one in store.studies(dataset_hash=bench.comparison.dataset_hash) if one.method == entry.name)
    found = dict.fromkeys(
        f"{one.protocol_title} ({one.protocol_digest})"
        for one in studies
        if one.protocol_digest != bench.comparison.protocol_digest and one.best_hyperparameters is not None
    )
    return f" The store has it under {' and '.join(found)}: give the --protocol and --set of then." if found else ""


def no_winner(study: Study, store: Store) -> str:
    """Why a search has no best trial: "0 of 10 trials finished: 28 folds collapsed, 12 folds non-finite; ..."."""
    records = store.records(kind="fold", **study.comparison._asdict(), method=study.method, purpose="search")
    return searches.no_winner(study, records)
