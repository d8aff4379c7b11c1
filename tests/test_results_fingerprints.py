"""The rules of ids, digests and seeds, which results say again: they are those by which protocols and jobs go."""

from pathlib import Path

from genuine import fold
from tiny import MARGINS, tiny_bench

from benchmark.jobs import EnsembleJob
from benchmark.jobs import fold_seed as seed_of_job
from benchmark.methods.registry import METHODS, space_hash, space_json
from protocols.catalogue import PUBLISHED
from results.exchange.fingerprints import ensemble_id, fold_seed, job_id, protocol_digest
from results.exchange.fingerprints import space_hash as hash_of_space


def test_the_rules_said_again_are_those_of_protocols_jobs_and_seeds(tmp_path: Path) -> None:
    for protocol in PUBLISHED:
        assert protocol_digest(protocol.values()) == protocol.digest()
    bench = tiny_bench(tmp_path)
    entry = METHODS["contrastive"]
    jobs = [bench.job(entry, MARGINS, run, number) for run in (0, 1, 2) for number in range(4)]
    for job in jobs:
        record = fold(bench.identity(job), job.fold, 0.5)
        assert record.id == job_id(record) == job.id
        assert fold_seed(job.run, job.fold) == seed_of_job(job.run, job.fold) == job.seed
    assert ensemble_id([job.id for job in jobs[4:8]]) == EnsembleJob(members=tuple(jobs[4:8])).id
    space = bench.space(entry)
    assert hash_of_space(space_json(space)) == space_hash(space)
