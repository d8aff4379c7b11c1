"""What of a suite is left to do, by method: trials, final folds, concatenations. The store is read, nothing is run."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from benchmark.bench import Bench
from benchmark.campaign import trials_told
from benchmark.finals import final_jobs
from benchmark.jobs import EnsembleJob, Job
from benchmark.methods.entry import MethodEntry, Value
from benchmark.search.course import n_trials_of
from benchmark.training.failure import is_result
from results.repeats import is_concatenated
from results.store import Store


@dataclass(frozen=True)
class Left:
    """The work of one method's campaign, done and wanted."""

    method: str
    is_trained: bool
    n_folds: int
    trials: tuple[int, int]  # done (failed ones too), wanted
    open_folds: tuple[int, ...]  # folds that each open trial has already
    final_folds: tuple[int, int]
    concatenations: tuple[int, int]
    parallel_trials: int = 1  # trials of a round

    @property
    def search_folds(self) -> tuple[int, ...]:
        """Fold jobs of each round of trials that is left."""
        done, wanted = self.trials
        folds = [self.n_folds - n_open for n_open in (*self.open_folds, *[0] * (wanted - done))][: wanted - done]
        rounds = range(0, len(folds), self.parallel_trials)
        return tuple(sum(folds[start : start + self.parallel_trials]) for start in rounds)

    @property
    def n_search(self) -> int:
        """Fold jobs of the search that are left."""
        return sum(self.search_folds)

    @property
    def n_final(self) -> int:
        """Fold jobs of the final runs that are left."""
        return self.final_folds[1] - self.final_folds[0]

    @property
    def n_concatenations(self) -> int:
        """Concatenated evaluations that are left."""
        return self.concatenations[1] - self.concatenations[0]

    @property
    def n_jobs(self) -> int:
        """All of them."""
        return self.n_search + self.n_final + self.n_concatenations

    @property
    def n_models(self) -> int:
        """Networks to train."""
        return self.is_trained * (self.n_search + self.n_final)


def left_of(entry: MethodEntry, bench: Bench, store: Store | None, given: dict[str, Value] | None) -> Left:
    """What a run of this method has still to do; `given` are its hyper-parameters where no search chooses them."""
    searched = given is None and bool(bench.space(entry))
    n_trials = n_trials_of(entry, bench) if searched else 0
    told = min(trials_told(entry, bench, store, ("search",)), n_trials) if store and searched else 0
    best = given if given is not None else {}
    if searched:
        study = bench.study(entry, store) if store else None
        best = (study.best_hyperparameters or {}) if study and told == n_trials else {}
    runs = final_jobs(entry, bench, best)
    concatenated = [EnsembleJob(members=tuple(jobs)) for jobs in runs]
    if not is_concatenated(entry.name, bench.protocol.values()):
        concatenated = []
    jobs = [job for jobs in runs for job in jobs]
    return Left(
        method=entry.name,
        is_trained=entry.is_trained,
        n_folds=bench.n_folds,
        trials=(told, n_trials),
        open_folds=_open_folds(entry, bench, store) if store and told < n_trials else (),
        final_folds=(_n_stored(store, jobs), len(jobs)),
        concatenations=(_n_stored(store, concatenated), len(concatenated)),
        parallel_trials=bench.rules.parallel_trials,
    )


def _open_folds(entry: MethodEntry, bench: Bench, store: Store) -> tuple[int, ...]:
    """Finished folds of the trials that were stopped: of the sets of hyper-parameters that lack some."""
    if bench.rules.pruning:
        return ()  # a pruned trial lacks some too
    records = store.records(kind="fold", **bench.comparison._asdict(), method=entry.name, purpose="search")
    mine = [record for record in records if record.identity.method_code == entry.code and is_result(record)]
    folds = Counter(tuple(sorted(record.identity.hyperparameters.items())) for record in mine)
    found = sorted((count for count in folds.values() if count < bench.n_folds), reverse=True)
    return tuple(found[: bench.rules.parallel_trials])


def _n_stored(store: Store | None, jobs: Sequence[Job | EnsembleJob]) -> int:
    found = store.get_many([job.id for job in jobs]).values() if store else ()
    return sum(map(is_result, found))
