"""Bayesian search of one method: Optuna proposes hyper-parameters, the folds' mean best validation MAP@R answers.

The budget is a total: finished and failed trials use it up, and a search with nothing left does nothing. One trial is
open at a time, so the order of proposals never depends on the number of workers. Each trial's sampler is seeded by
the trials before it, so a search that was killed proposes what it would have proposed: its open trial goes on with
its parameters, and its finished folds are found in the store. A trial that repeats an earlier one (integer spaces do)
counts as a trial and costs nothing. A failed fold fails its trial; it is never a value of 0, but the sampler is told
that it was bad, or it would propose the like again.
"""

from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from math import sqrt
from statistics import fmean, stdev

import optuna
import torch
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, GPSampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState

from benchmark.bench import Bench
from benchmark.errors import BenchmarkError
from benchmark.jobs import BASE_SEED, Work
from benchmark.methods.entry import MethodEntry, Space, Value
from benchmark.methods.registry import space_hash
from benchmark.seeding import derived_seed
from protocols.spec import SearchBudget
from results.comparison import Comparison
from results.record import FoldRecord, Record
from results.store import Store
from results.study import Study

WorkSteps = Generator[Sequence[Work], Sequence[Record], None]


def search(entry: MethodEntry, bench: Bench, store: Store, storage: optuna.storages.BaseStorage) -> WorkSteps:
    """Yield the fold jobs of one trial after another until the budget is used up; the store's study tells the winner.

    Raises:
        BenchmarkError: if the stored study was searched over another space.
    """
    space = bench.space(entry)
    state = _begin(entry, bench, store, space)
    study = optuna.create_study(
        storage=storage, study_name=state.optuna_name, direction="maximize", load_if_exists=True
    )
    store.put_study(_state(state, study, space, entry, bench, store))  # a kill may have come between trial and study
    while (proposal := _propose(study, space, bench.protocol.search, entry.name)) is not None:
        number, hyperparameters = proposal
        records = yield trial_jobs(bench, entry, hyperparameters)
        values = fold_values(records)
        if len(values) == bench.n_folds:
            study.tell(number, fmean(values), skip_if_finished=True)
        else:
            study.tell(number, state=TrialState.FAIL, skip_if_finished=True)
        store.put_study(_state(state, study, space, entry, bench, store))


def trial_jobs(bench: Bench, entry: MethodEntry, hyperparameters: dict[str, Value]) -> list[Work]:
    """The fold jobs of one trial."""
    return [bench.job(entry, hyperparameters, run=0, fold=fold) for fold in range(bench.n_folds)]


def fold_values(records: Sequence[Record]) -> list[float]:
    """Best validation MAP@R of the folds that are done."""
    folds = (record for record in records if isinstance(record, FoldRecord) and record.outcome == "done")
    return [record.validation["map_at_r"] for record in folds if record.validation is not None]


def winner(entry: MethodEntry, bench: Bench, store: Store) -> dict[str, Value]:
    """The hyper-parameters of the best finished trial; none for a method that has nothing to search.

    Raises:
        BenchmarkError: if the search is not finished, or no trial of it is.
    """
    if not bench.space(entry):
        return {}
    study, wanted = bench.study(entry, store), bench.protocol.search.n_trials
    found = study.n_finished + study.n_failed if study else 0
    others = [other for other in store.studies(**bench.comparison._asdict()) if other.method == entry.name]
    if study is None and others:
        raise BenchmarkError(f"{entry.name}: its code changed since it was searched; search it again (mlrc search).")
    if study is None or found < wanted:
        raise BenchmarkError(f"{entry.name}: {found} of {wanted} trials are done; search it first (mlrc search).")
    if study.best_hyperparameters is None:
        raise BenchmarkError(f"{entry.name}: {no_winner(study, store)}")
    return study.best_hyperparameters


def no_winner(study: Study, store: Store) -> str:
    """Why a search has no best trial: "0 of 10 trials finished: 28 folds collapsed, 12 folds non-finite; ..."."""
    failed = [
        record
        for record in store.records(kind="fold", **study.comparison._asdict(), method=study.method, purpose="search")
        if isinstance(record, FoldRecord)
        and record.outcome == "failed"
        and record.identity.method_code == study.method_code
    ]
    counts = Counter(record.reason for record in failed)
    reasons = ", ".join(f"{count} folds {reason}" for reason, count in counts.most_common())
    first = f"; the first: {failed[0].message}" if failed else ""
    return f"0 of {study.n_trials} trials finished: {reasons or 'none began'}{first}"


def unfinished(store: Store, comparison: Comparison) -> dict[str, str]:
    """The methods of a comparison whose search has no winner yet, each with the reason."""
    reasons = {}
    for study in store.studies(**comparison._asdict()):
        used = study.n_finished + study.n_failed
        if used < study.n_trials:
            reasons[study.method] = f"{used} of {study.n_trials} trials are done"
        elif study.best_hyperparameters is None:
            reasons[study.method] = no_winner(study, store)
    return reasons


def _begin(entry: MethodEntry, bench: Bench, store: Store, space: Space) -> Study:
    known = bench.study(entry, store)
    if known is None:
        known = bench.new_study(entry, space)
        store.put_study(known)
    if known.space_hash != space_hash(space):
        raise BenchmarkError(
            f"{entry.name}: its search space is not the one that this store's study {known.optuna_name!r} began with "
            f"({known.space_hash} then, {space_hash(space)} now). Give another --store for the new space."
        )
    return known


def _state(
    study_row: Study, study: optuna.Study, space: Space, entry: MethodEntry, bench: Bench, store: Store
) -> Study:
    """The study's row as Optuna's trials have it now; the earlier of two equal trials is the best."""
    trials = [trial for trial in study.get_trials(deepcopy=False) if trial.params.keys() == space.keys()]
    finished = [trial for trial in trials if trial.state == TrialState.COMPLETE]
    row = replace(
        study_row,
        n_finished=len(finished),
        n_failed=sum(trial.state == TrialState.FAIL for trial in trials),
        updated_at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    if not finished:
        return row
    best = max(finished, key=lambda trial: (trial.value, -trial.number))
    jobs = trial_jobs(bench, entry, best.params)
    values = fold_values(list(store.get_many([job.id for job in jobs]).values()))
    return replace(
        row,
        best_trial=best.number,
        best_hyperparameters=dict(best.params),
        best_value=best.value,
        best_standard_error=stdev(values) / sqrt(len(values)) if len(values) > 1 else None,
    )


def _propose(
    study: optuna.Study, space: Space, budget: SearchBudget, method: str
) -> tuple[int, dict[str, Value]] | None:
    """The open trial, or the next one, or None when the budget is used up."""
    trials = [_settled(study, trial, space) for trial in study.get_trials(deepcopy=False)]
    counted = [trial for trial in trials if trial is not None]
    for trial in counted:
        if trial.state == TrialState.RUNNING:
            return trial.number, dict(trial.params)
    if len(counted) >= budget.n_trials:
        return None
    sampler = _sampler(budget, derived_seed(BASE_SEED, f"{method} trial {len(counted)}"))
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the sampler computes in torch: a proposal must not depend on this machine's cores
    try:
        study.sampler = _failures_as_worst(sampler, counted, space)
        proposed = study.ask(fixed_distributions=space)
    finally:
        torch.set_num_threads(n_threads)
    return proposed.number, dict(proposed.params)


class _Given(BaseSampler):
    """Proposes the parameters that it was given."""

    def __init__(self, parameters: dict[str, Value]) -> None:
        self._parameters = parameters

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        return {}

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Value]:
        return {}

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Value:
        return self._parameters[param_name]


def _failures_as_worst(sampler: BaseSampler, trials: Sequence[FrozenTrial], space: Space) -> BaseSampler:
    """The sampler, or one fixed to what it proposes when each failed trial is shown with the worst value found so far.

    Optuna's samplers do not see failed trials and propose what has failed again. What is stored stays failed, without a
    value; where nothing has failed, or nothing has finished, the trials are seen as they are.
    """
    values = [trial.value for trial in trials if trial.state == TrialState.COMPLETE and trial.value is not None]
    if not values or all(trial.state != TrialState.FAIL for trial in trials):
        return sampler
    shown = optuna.create_study(direction="maximize", sampler=sampler)
    for trial in trials:
        value = min(values) if trial.state == TrialState.FAIL else trial.value
        shown.add_trial(optuna.create_trial(params=trial.params, distributions=trial.distributions, value=value))
    return _Given(shown.ask(fixed_distributions=space).params)


def _settled(study: optuna.Study, trial: FrozenTrial, space: Space) -> FrozenTrial | None:
    """The trial, or None where a kill came before all its parameters were stored: it is closed and not counted."""
    if trial.params.keys() == space.keys():
        return trial
    if trial.state == TrialState.RUNNING:
        study.tell(trial.number, state=TrialState.FAIL)
    return None


def _sampler(budget: SearchBudget, seed: int) -> BaseSampler:
    if budget.sampler == "gp":
        return GPSampler(seed=seed, n_startup_trials=budget.n_startup_trials)
    if budget.sampler == "tpe":
        # Both options are said outright because their defaults have changed between Optuna's releases.
        return TPESampler(seed=seed, n_startup_trials=budget.n_startup_trials, multivariate=True, constant_liar=False)
    return RandomSampler(seed=seed)
