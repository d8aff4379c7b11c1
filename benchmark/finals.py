"""The final runs of one method: n runs x n folds with the winning hyper-parameters, then each run's ensemble.

The runs differ by seed only and are the only jobs that open the test classes. Run i has the same seeds for every
method, so runs pair across methods.
"""

from benchmark.bench import Bench
from benchmark.jobs import EnsembleJob, Job
from benchmark.methods.entry import MethodEntry, Value
from benchmark.search.search import WorkSteps
from results.record import FoldRecord
from results.repeats import is_concatenated, n_final_folds, n_final_runs


def finals(entry: MethodEntry, bench: Bench, hyperparameters: dict[str, Value]) -> WorkSteps:
    """Yield all fold jobs, then the concatenation of each run whose folds are all done."""
    runs = final_jobs(entry, bench, hyperparameters)
    records = yield [job for jobs in runs for job in jobs]
    done = {record.id for record in records if isinstance(record, FoldRecord) and record.outcome == "done"}
    whole = [jobs for jobs in runs if all(job.id in done for job in jobs)]
    if whole and is_concatenated(entry.name, bench.protocol.values()):
        yield [EnsembleJob(members=tuple(jobs)) for jobs in whole]


def final_jobs(entry: MethodEntry, bench: Bench, hyperparameters: dict[str, Value]) -> list[list[Job]]:
    """The fold jobs of each final run; fewer where nothing is random, or no fold matters (`results.repeats`)."""
    protocol = bench.protocol.values()
    n_runs = n_final_runs(entry.name, protocol)
    return [
        [bench.job(entry, hyperparameters, run=run, fold=fold) for fold in range(n_final_folds(entry.name, protocol))]
        for run in range(1, min(n_runs, bench.first_runs or n_runs) + 1)
    ]
