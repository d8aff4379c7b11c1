"""The record of a fold whose workers died: it says so, and counts as the machine's doing, not the method's."""

from benchmark.bench import Bench
from benchmark.errors import BenchmarkError
from benchmark.executors.contract import WorkerDied
from benchmark.jobs import Job, Work
from benchmark.provenance import provenance
from results.record import FoldRecord, Record


def died_record(work: Work, bench: Bench, death: WorkerDied) -> FoldRecord:
    """A failed record in the words of the death.

    Raises:
        BenchmarkError: if the work is no fold's: only folds have failed records.
    """
    if not isinstance(work, Job):
        first = work.members[0]
        raise BenchmarkError(
            f"the concatenation of run {first.run} has no result: {death}. The same command tries again."
        )
    return FoldRecord(
        id=work.id,
        identity=bench.identity(work),
        fold=work.fold,
        seed=work.seed,
        outcome="failed",
        reason="worker-died",
        message=str(death),
        seconds={},
        peak_memory_bytes=death.peak_memory_bytes,
        provenance=provenance(bench, trunk_weights=""),
    )


def has_died(record: Record) -> bool:
    """Whether it is such a record."""
    return isinstance(record, FoldRecord) and record.reason == "worker-died"
