"""What the folds of a trial say, and how Optuna is told: every trial carries its folds, and why it failed, for viewers.

A trial is finished with the mean of all its folds. It failed if one of them did, or if the machine stopped it too
often. It is pruned if it was given up before all had run. Only finished trials can win.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from statistics import fmean

import optuna
from optuna.trial import FrozenTrial, TrialState

from benchmark.bench import Bench
from benchmark.jobs import Job
from benchmark.methods.entry import MethodEntry, Value
from benchmark.search.pruning import FoldValues, is_pruned, predicted
from benchmark.search.trials import NOTE, PREDICTED, REASON, RESUMED, STOPS, note, report
from benchmark.training.failure import is_result
from results.record import FoldRecord, Record
from results.store import Store

MOST_STOPS = 3  # of one trial by the machine (memory, a dead worker): then it has failed and the search goes on


@dataclass(eq=False)
class Answer:
    """One open trial and what is known of its folds."""

    trial: FrozenTrial
    method: MethodEntry
    n_folds: int
    folds: dict[int, float] = field(default_factory=dict)  # best validation MAP@R
    failure: str = ""
    pruned_at: float | None = None  # the value that it is predicted to have

    @property
    def hyperparameters(self) -> dict[str, Value]:
        """What was proposed."""
        return dict(self.trial.params)

    @property
    def goes_on(self) -> bool:
        """Whether its other folds are wanted."""
        return not self.failure and self.pruned_at is None

    def jobs(self, bench: Bench, folds: Iterable[int]) -> list[Job]:
        """The jobs of some of its folds."""
        return [bench.job(self.method, self.hyperparameters, run=0, fold=fold) for fold in folds]

    def hear(self, jobs: Iterable[Job], records: Mapping[str, Record]) -> None:
        """Take what has been found for its jobs."""
        for job in jobs:
            record = records.get(job.id)
            if isinstance(record, FoldRecord) and record.outcome == "done" and record.validation is not None:
                self.folds[job.fold] = record.validation["map_at_r"]
            elif not self.failure:
                self.failure = f"fold {job.fold}: {_why(record)}"

    def look(self, best: FoldValues) -> None:
        """Give it up where its folds are worse than those of the best trial."""
        if self.goes_on and self.folds.keys() <= best.keys() and is_pruned(self.folds, best):
            self.pruned_at = predicted(self.folds, best)

    def tell(self, study: optuna.Study) -> None:
        """Tell Optuna, unless it has been told: a kill may come at any instant, and then all of it is told again."""
        found = study.get_trials(deepcopy=False)[self.trial.number]
        if found.state != TrialState.RUNNING:
            return
        for fold, value in self.folds.items():
            report(study, found, fold, value)
        if self.failure:
            note(study, found, REASON, self.failure)
            study.tell(found.number, state=TrialState.FAIL)
        elif self.pruned_at is not None:
            note(study, found, PREDICTED, self.pruned_at)
            note(study, found, NOTE, f"pruned after {len(self.folds)} of {self.n_folds} folds")
            study.tell(found.number, state=TrialState.PRUNED)
        else:
            study.tell(found.number, fmean(self.folds[fold] for fold in range(self.n_folds)))


def reopen(answer: Answer, study: optuna.Study, bench: Bench, store: Store, was_open: bool) -> None:
    """Note that a trial goes on, and count how often the machine stopped it; after the last time it has failed."""
    attributes = answer.trial.user_attrs
    if was_open:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        note(study, answer.trial, RESUMED, [*attributes.get(RESUMED, []), now])
    stored = store.get_many([job.id for job in answer.jobs(bench, range(bench.n_folds))]).values()
    stopped = [record for record in stored if isinstance(record, FoldRecord) and not is_result(record)]
    known = attributes.get(STOPS, [])
    new = [stop for stop in map(_stop, stopped) if not any(stop in attempt for attempt in known)]
    stops = [*known, "; ".join(new)] if new else known  # folds that one attempt stopped side by side are one
    if new:
        note(study, answer.trial, STOPS, stops)
    if len(stops) >= MOST_STOPS and stopped:
        answer.failure = f"fold {stopped[0].fold}: {_why(stopped[0])}; the {len(stops)} attempts ended so"


def _stop(record: FoldRecord) -> str:
    return f"fold {record.fold} {record.reason} {record.provenance.created_at}"


def _why(record: Record | None) -> str:
    if not isinstance(record, FoldRecord):
        return "no record"
    return f"{record.reason}: {record.message}" if record.outcome == "failed" else "no validation"
