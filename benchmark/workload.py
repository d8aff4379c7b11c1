"""What of a suite is left to do, by method: trials, final folds, concatenations. The store is read, nothing is run."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from benchmark.bench import Bench
from benchmark.finals import final_jobs
from benchmark.jobs import EnsembleJob, Job
from benchmark.methods.entry import MethodEntry, Value
from benchmark.suite import is_result, trials_told
from results.repeats import is_concatenated
from results.store import Store


@dataclass(frozen=True)
class Left:
    """The work of one method's campaign, done and wanted."""

    method: str
    is_trained: bool
    n_folds: int
    trials: tuple[int, int]  # done (failed ones too), wanted
    open_folds: int  # folds that the open trial has already
    final_folds: tuple[int, int]
    concatenations: tuple[int, int]

    @property
    def search_folds(self) -> tuple[int, ...]:
        """Fold jobs of each trial that is left."""
        done, wanted = self.trials
        folds = [self.n_folds] * (wanted - done)
        return (folds[0] - self.open_folds, *folds[1:]) if folds else ()

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
    n_trials = bench.protocol.search.n_trials if searched else 0
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
        open_folds=_open_folds(entry, bench, store) if store and told < n_trials else 0,
        final_folds=(_n_stored(store, jobs), len(jobs)),
        concatenations=(_n_stored(store, concatenated), len(concatenated)),
    )


def _open_folds(entry: MethodEntry, bench: Bench, store: Store) -> int:
    """Finished folds of the trial that was stopped: of the one set of hyper-parameters that lacks some."""
    records = store.records(kind="fold", **bench.comparison._asdict(), method=entry.name, purpose="search")
    mine = [record for record in records if record.identity.method_code == entry.code and is_result(record)]
    folds = Counter(tuple(sorted(record.identity.hyperparameters.items())) for record in mine)
    return max((count for count in folds.values() if count < bench.n_folds), default=0)


def _n_stored(store: Store | None, jobs: Sequence[Job | EnsembleJob]) -> int:
    found = store.get_many([job.id for job in jobs]).values() if store else ()
    return sum(map(is_result, found))
