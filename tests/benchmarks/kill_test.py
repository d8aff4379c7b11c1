"""Jobs killed at random times, 50 times in all, and started again: the records are those of jobs that nobody killed.

Each job is a fold of `mini` with sixty steps and a validation after every second one, in a process that is forked, so
that its first step comes at once, and ended by SIGKILL. It writes a checkpoint after every validation. The time of each
kill is random; every second one waits from there until a file is being written, and `in_a_write` counts those that left
half of one. A job that is done before enough kills begins again from zero. Timings aside, records and test embeddings
must be equal to the last bit.

Run `python tests/benchmarks/kill_test.py [kills] [method...]` where processes can fork: one JSON line, exit code 1 if a
record differs. About three minutes.
"""

import json
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch

from benchmark.bench import Bench
from benchmark.executors.worker import hold
from benchmark.jobs import Job
from benchmark.methods import hpl, xbm
from benchmark.methods.entry import Value
from benchmark.methods.registry import method_entry
from benchmark.provenance import code_revision
from benchmark.training import checkpoint
from benchmark.training.checkpoint import remove_checkpoints
from benchmark.training.embeddings import load_embeddings
from benchmark.training.training import run_fold
from protocols.catalogue import protocol_named
from protocols.datasets import load_dataset
from protocols.derive import derive
from protocols.splits import make_split
from results.record import FoldRecord, from_json, to_json

KILLS, SEED, FOREVER_S = 50, 1, 3600.0
SETTINGS = ("max_steps=60", "cadence.evaluate_every_steps=2", "cadence.patience=60", "train_crop=random-resized")
MARGINS: dict[str, Value] = {"pos_margin": 0.2, "neg_margin": 0.6}
METHODS: dict[str, dict[str, Value]] = {
    "contrastive": MARGINS,
    "ccp-contrastive": {**MARGINS, "lambda": 1e-3, "n_proxies": 4, "pool_size": 4, "batch_weight": 0.1},
    "hpl-proxy-nca++": {"temperature": 0.1, "w_lr": 0.01, "n_coarse_1": 4, "omega_1": 0.5, "update_every": 7},
    "xbm-contrastive": {**MARGINS, "memory_batches": 5},
    "margin-dw": {"margin": 0.2, "init_beta": 1.2},
}


def mini_bench(folder: Path) -> Bench:
    """`mini` on the shifted shapes, with many validations, random crops and checkpoints."""
    protocol = derive(protocol_named("mini"), SETTINGS)
    index = load_dataset("shapes:shifted")
    split = make_split(index.classes, protocol.folds, index.test_classes)
    return Bench(
        protocol=protocol,
        index=index,
        split=split,
        artifacts=folder / "embeddings",
        threads=1,
        device="cpu",
        checkpoints=folder / "checkpoints",
    )


def begun(job: Job, bench: Bench) -> int:
    """Start the job in a process of its own; returns the process's id."""
    child = os.fork()
    if child:
        return child
    hold(bench)
    record = to_json(run_fold(job, bench))
    bench.artifacts.with_name("record.partial").write_text(record, encoding="utf-8")
    bench.artifacts.with_name("record.partial").replace(bench.artifacts.with_name("record.json"))
    os._exit(0)


def ended(child: int, within_s: float, then: Callable[[], bool]) -> bool:
    """Whether the process ends by itself in that time and as long as `then` does not hold; if not it is killed."""
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline or not then():
        if os.waitpid(child, os.WNOHANG)[0]:
            return True
        time.sleep(0.0002)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return False


def outcome(job: Job, bench: Bench) -> tuple[FoldRecord, bytes]:
    """The record that a process left, without its timings, and the bytes of its test embeddings."""
    path = bench.artifacts.with_name("record.json")
    record = from_json(path.read_text(encoding="utf-8"))
    path.unlink()
    assert isinstance(record, FoldRecord)
    assert record.outcome == "done", record.message
    provenance = replace(record.provenance, created_at="")
    plain = replace(record, seconds={}, peak_memory_bytes=0, provenance=provenance)
    return plain, load_embeddings(bench.artifacts, job.id).tobytes()


def kill_and_compare(method: str, kills: int, bench: Bench, moment: Callable[[], float]) -> dict[str, object]:
    """Kill a job that often, at `moment()` (0 to 1) of the time that half of it takes, and compare its records."""
    job = bench.job(method_entry(method), METHODS[method], run=1, fold=0)
    file, folder = bench.checkpoints / f"{job.id}.pt", bench.checkpoints

    def halves() -> int:
        return len(list(folder.glob("*.partial")))

    began = time.monotonic()
    assert ended(begun(job, replace(bench, checkpoints=None)), FOREVER_S, lambda: True)
    job_s, wanted = time.monotonic() - began, outcome(job, bench)
    killed = resumed = records = equal = in_a_write = 0
    while killed < kills or records == 0 or file.exists():
        resumed += file.exists()
        before, anywhere = halves(), killed % 2 == 0
        within_s = moment() * job_s / 2 if killed < kills else FOREVER_S
        if ended(begun(job, bench), within_s, lambda anywhere=anywhere, before=before: anywhere or halves() > before):
            records += 1
            equal += outcome(job, bench) == wanted
            remove_checkpoints(folder, [job.id])  # as a suite does when the record is in the store
        else:
            killed += 1
            in_a_write += halves() > before
    return {"kills": killed, "in_a_write": in_a_write, "resumed": resumed, "records": records, "equal": equal}


def main() -> int:
    """Kill, compare, print, and say whether all records were equal."""
    kills, methods = int(sys.argv[1]) if len(sys.argv) > 1 else KILLS, sys.argv[2:] or list(METHODS)
    checkpoint.SHARE = float("inf")  # after every validation, whatever it costs
    xbm.START_STEP, hpl.UPDATE_EVERY = 10, (7,)  # sixty steps are enough to see both at work
    torch.set_num_threads(1)  # a fork has no threads but the one that forks
    code_revision()  # all forks keep the answer: a commit between two of them is not what is tested
    moment, found = random.Random(SEED).random, {}
    for number, method in enumerate(methods):
        with tempfile.TemporaryDirectory() as folder:
            share = kills // len(methods) + (number < kills % len(methods))
            found[method] = kill_and_compare(method, share, mini_bench(Path(folder)), moment)
    differ = [method for method, counts in found.items() if counts["equal"] != counts["records"]]
    print(json.dumps({"benchmark": "kill_test", "seed": SEED, "differ": differ, "methods": found}))
    return int(bool(differ))


if __name__ == "__main__":
    sys.exit(main())
