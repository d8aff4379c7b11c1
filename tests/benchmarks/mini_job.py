"""How long a whole job of `mini` takes, against a bare PyTorch loop over the same steps: at most 1.15 times.

The bare loop has the job's network, loss, optimiser and batches, the batches as tensors made beforehand. It has no
sampler, audit, validation, method hooks or deterministic kernels. Both sides must end at the same loss to the last
bit, or they were not the same steps. One thread; job and loop alternate, and the median of their ratios counts.

Run `python tests/benchmarks/mini_job.py`: one JSON line, exit code 1 if the bound is missed. About a minute.
"""

import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import perf_counter

import torch

from benchmark.bench import Bench
from benchmark.executors.worker import hold
from benchmark.jobs import Job
from benchmark.methods.registry import build_method, method_entry
from benchmark.optimisers import build_optimiser
from benchmark.seeding import derived_seed, stream
from benchmark.training import run_fold
from protocols.catalogue import protocol_named
from protocols.datasets import load_dataset
from protocols.fold import FoldImages
from protocols.model import build_model
from protocols.sampler import BatchSampler, batch_plan
from protocols.splits import make_split

BOUND = 1.15  # seconds of the job / seconds of the bare loop
ROUNDS = 3
METHODS = {
    "contrastive": {"pos_margin": 0.2, "neg_margin": 0.6},
    "norm-softmax": {"temperature": 0.1, "w_lr": 0.003},
}

Batches = list[tuple[torch.Tensor, torch.Tensor]]


def mini_bench(artifacts: Path) -> Bench:
    """`mini` on the shifted shapes without early stopping, so that every job has all its steps."""
    protocol = protocol_named("mini")
    steps = protocol.schedule.max_steps
    cadence = replace(protocol.schedule.cadence, patience=steps)
    protocol = replace(protocol, derived=True, schedule=replace(protocol.schedule, cadence=cadence))
    index = load_dataset("shapes:shifted")
    split = make_split(index.classes, protocol.folds, index.test_classes)
    return Bench(protocol=protocol, index=index, split=split, artifacts=artifacts, threads=1, device="cpu")


def job_batches(job: Job, bench: Bench) -> Batches:
    """The images and labels of every step of the job."""
    images = FoldImages(bench.index, bench.images, bench.split, job.fold)
    family = "class" if method_entry(job.method).family == "class" else "pair"
    plan = batch_plan(bench.protocol.batch, family, len(images.images_by_class))
    sampler = BatchSampler(images.images_by_class, plan, derived_seed(job.seed, "batches"))
    chosen = [sampler.next() for _ in range(bench.protocol.schedule.max_steps)]
    no_seeds = [0] * bench.protocol.batch.size  # mini's training images are not random
    return [(images.train_batch(some, no_seeds), torch.from_numpy(images.labels[some])) for some in chosen]


def bare_loop(job: Job, bench: Bench, batches: Batches) -> tuple[float, float]:
    """Seconds of the job's steps in plain PyTorch, and the mean loss over the last validation's window."""
    torch.use_deterministic_algorithms(False)
    entry, hyperparameters = method_entry(job.method), dict(job.hyperparameters)
    model = build_model(bench.protocol, stream(job.seed, "network"))
    torch.manual_seed(derived_seed(job.seed, "method"))
    loss_function = build_method(entry, bench.n_classes(job.fold), bench.protocol.embedding.dim, hyperparameters)
    optimiser = build_optimiser(bench.protocol.optimiser, model, loss_function, entry, hyperparameters)
    losses = []
    began = perf_counter()
    for images, labels in batches:
        loss = loss_function(model(images), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
    seconds = perf_counter() - began
    window = bench.protocol.schedule.cadence.evaluate_every_steps
    return seconds, float(torch.stack(losses[-window:]).mean())


def whole_job(job: Job, bench: Bench) -> tuple[float, float]:
    """Seconds of the job, and the mean loss before its last validation."""
    hold(bench)
    began = perf_counter()
    record = run_fold(job, bench)
    seconds = perf_counter() - began
    assert record.outcome == "done" and record.n_steps == bench.protocol.schedule.max_steps
    assert record.curve[-1].loss is not None
    return seconds, record.curve[-1].loss


def ratios(method: str, bench: Bench) -> list[float]:
    """Seconds of the job / seconds of the bare loop, round after round."""
    job = bench.job(method_entry(method), METHODS[method], run=0, fold=0)
    batches = job_batches(job, bench)
    bare_loop(job, bench, batches[:100])  # warm-up
    found = []
    for _ in range(ROUNDS):
        bare_s, bare_loss = bare_loop(job, bench, batches)
        job_s, job_loss = whole_job(job, bench)
        if job_loss != bare_loss:
            sys.exit(f"{method}: the job ends at loss {job_loss!r}, the bare loop at {bare_loss!r}: not the same steps.")
        found.append(job_s / bare_s)
    return found


def main() -> int:
    """Measure, print, and say whether the bound holds."""
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        bench = mini_bench(Path(folder))
        found = {method: ratios(method, bench) for method in METHODS}
    ratio = max(median(values) for values in found.values())
    rounds = {method: [round(value, 3) for value in values] for method, values in found.items()}
    print(json.dumps({"benchmark": "mini_job", "ratio": round(ratio, 3), "at_most": BOUND, "rounds": rounds}))
    return int(ratio > BOUND)


if __name__ == "__main__":
    sys.exit(main())
