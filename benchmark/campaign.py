"""A campaign: all that one method does in a suite, as a generator of batches of work; and how much it is."""

from collections.abc import Sequence

import optuna

from benchmark.bench import Bench
from benchmark.finals import final_jobs, finals
from benchmark.methods.entry import MethodEntry, Value
from benchmark.search.course import n_trials_of
from benchmark.search.search import WorkSteps, search, winner
from benchmark.search.studies import study_to_go_on
from results.repeats import is_concatenated
from results.store import Store


def campaign(
    entry: MethodEntry,
    bench: Bench,
    store: Store,
    storage: optuna.storages.BaseStorage,
    phases: Sequence[str],
    given: dict[str, Value] | None = None,
) -> WorkSteps:
    """One method's work: its search, then its final runs. A method without a search space goes straight to these.

    `given` are the hyper-parameters of the final runs where these do not come from a search.
    """
    if "search" in phases and bench.space(entry):
        yield from search(entry, bench, store, storage)
    # A search that found no winner is a problem, whether final runs follow or not.
    best = winner(entry, bench, store) if given is None else given
    if "finals" in phases:
        yield from finals(entry, bench, best)


def expected_work(entry: MethodEntry, bench: Bench, phases: Sequence[str]) -> int:
    """Pieces of work of a campaign in which nothing fails."""
    searched = "search" in phases and bool(bench.space(entry))
    runs = final_jobs(entry, bench, {}) if "finals" in phases else []
    ensembles = len(runs) * is_concatenated(entry.name, bench.protocol.values())
    n_trials = n_trials_of(entry, bench) if searched else 0
    return n_trials * bench.n_folds + sum(map(len, runs)) + ensembles


def trials_told(entry: MethodEntry, bench: Bench, store: Store, phases: Sequence[str]) -> int:
    """Trials of a campaign's search that have their answer already; their folds are not asked for again."""
    study = study_to_go_on(entry, bench, store) if "search" in phases and bench.space(entry) else None
    return study.n_told if study else 0


def campaigns_at_once(workers: int, n_folds: int) -> int:
    """Campaigns that a driver works on: one runs its folds side by side and waits for the last, one more fills in."""
    return 1 + -(-workers // n_folds)
