"""What a comparison runs and takes from the store: the final runs of two methods under one budget, no job twice.

Which records belong to a method follows from its jobs, so an older version of a file, or other hyper-parameters, under
the same name in the same store are never taken for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmark.bench import Bench
from benchmark.finals import final_jobs
from benchmark.jobs import EnsembleJob
from benchmark.methods.entry import MethodEntry, Value
from benchmark.provenance import code_revision
from benchmark.search.search import no_winner, winner
from benchmark.training.failure import is_result
from benchmark.workshop import Suite
from results.exchange.export import read_export
from results.record import Identity, Record
from results.repeats import is_concatenated
from results.store import Store

EXPORT = ".json"


@dataclass(frozen=True, kw_only=True)
class Finals:
    """The final runs of one method as the store has them."""

    identity: Identity
    records: list[Record]
    no_winner: str | None = None  # why its finished search has no best trial: every one failed
    n_lacking: int = 0  # jobs without a result

    def notes(self, store: str) -> tuple[str, ...]:
        """What a reader should know of records that were in the store already."""
        made = {record.provenance.code_revision for record in self.records} - {code_revision()}
        if self.identity.method_code or not made:  # the code of a method of one's own is part of its jobs
            return ()
        return (
            f"{self.identity.method} was made by code revision {', '.join(sorted(made))} and taken from {store}; "
            f"here is {code_revision()}: another --store runs it again",
        )


def is_export(name: str) -> bool:
    """Whether a name stands for an exported file and not for a method."""
    return name.endswith(EXPORT)


def exported(name: str) -> list[Record]:
    """The records of an exported file.

    Raises:
        ResultsError: if it is none, or is damaged.
    """
    return list(read_export(Path(name)).records)


def with_first_runs(suite: Suite, n_runs: int) -> Suite:
    """The suite with only so many of its final runs."""
    return replace(suite, bench=replace(suite.bench, first_runs=n_runs))


def identity_of(entry: MethodEntry, bench: Bench, hyperparameters: dict[str, Value]) -> Identity:
    """The identity of a method's final runs."""
    return bench.identity(bench.job(entry, hyperparameters, run=1, fold=0))


def finals_of(entry: MethodEntry, bench: Bench, store: Store, given: dict[str, Value] | None) -> Finals:
    """The final runs of a method with the hyper-parameters given, or those that its search chose.

    Raises:
        BenchmarkError: if its search is not finished.
    """
    if given is None and (reason := _without_winner(entry, bench, store)) is not None:
        return Finals(identity=identity_of(entry, bench, {}), records=[], no_winner=reason)
    chosen = winner(entry, bench, store) if given is None else given
    runs = final_jobs(entry, bench, chosen)
    works = [job for jobs in runs for job in jobs]
    stored = store.get_many([job.id for job in works])
    results = [record for record in stored.values() if is_result(record)]
    together: Sequence[Record] = ()
    if is_concatenated(entry.name, bench.protocol.values()):
        together = list(store.get_many([EnsembleJob(members=tuple(jobs)).id for jobs in runs]).values())
    return Finals(
        identity=identity_of(entry, bench, chosen),
        records=[*results, *together],
        n_lacking=len(works) - len(results),
    )


def _without_winner(entry: MethodEntry, bench: Bench, store: Store) -> str | None:
    """Why a search that has used its budget up has no winner; None where it has one, or is not finished."""
    study = bench.study(entry, store) if bench.space(entry) else None
    if study is None or study.n_told < study.n_trials or study.best_hyperparameters is not None:
        return None
    return no_winner(study, store)
