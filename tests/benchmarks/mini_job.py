"""How long a whole job of `mini` takes, against a bare PyTorch loop over the same steps: at most 1.15 times.

The bare loop has the job's network, loss, optimiser and batches, the batches as tensors made beforehand. It has no
sampler, audit, validation, method hooks or deterministic kernels. Both sides must have the same losses to the last
bit, or they were not the same steps. So that a busy machine disturbs both sides alike, the bare loop takes its turn
after every validation of the job; CPU seconds of one thread count, which on a quiet machine are those of the clock.

Run `python tests/benchmarks/mini_job.py`: one JSON line, exit code 1 if the bound is missed. About a minute.
"""

import json
import sys
import tempfile
from itertools import islice
from pathlib import Path
from statistics import median
from time import process_time

import torch

from benchmark.bench import Bench
from benchmark.executors.worker import hold
from benchmark.jobs import Job
from benchmark.methods.entry import Value
from benchmark.methods.registry import build_method, method_entry
from benchmark.seeding import derived_seed, stream
from benchmark.training.learner import Learner
from benchmark.training.optimisers import build_optimiser
from benchmark.training.training import FoldTraining
from protocols.catalogue import protocol_named
from protocols.datasets import load_dataset
from protocols.derive import derive
from protocols.fold import FoldImages
from protocols.model import build_model
from protocols.sampler import BatchSampler, batch_plan
from protocols.spec import Family
from protocols.splits import make_split

BOUND = 1.15  # CPU seconds of the job / those of the bare loop
ROUNDS = 3
STEPS = 1000  # of a job of `mini` that does not stop early
METHODS: dict[str, dict[str, Value]] = {
    "contrastive": {"pos_margin": 0.2, "neg_margin": 0.6},
    "norm-softmax": {"temperature": 0.1, "w_lr": 0.003},
}

Batches = list[tuple[torch.Tensor, torch.Tensor]]


def mini_bench(artifacts: Path) -> Bench:
    """`mini` on the shifted shapes without early stopping, so that every job has all its steps."""
    protocol = derive(protocol_named("mini"), [f"cadence.patience={STEPS}"])
    index = load_dataset("shapes:shifted")
    split = make_split(index.classes, protocol.folds, index.test_classes)
    return Bench(protocol=protocol, index=index, split=split, artifacts=artifacts, threads=1, device="cpu")


def job_batches(job: Job, bench: Bench) -> Batches:
    """The images and labels of every step of the job."""
    images = FoldImages(bench.index, bench.images, bench.split, job.fold)
    family: Family = "class" if method_entry(job.method).family == "class" else "pair"
    plan = batch_plan(bench.protocol.batch, family, len(images.images_by_class))
    sampler = BatchSampler(images.images_by_class, plan, derived_seed(job.seed, "batches"))
    chosen = [sampler.next() for _ in range(STEPS)]
    no_seeds = [0] * bench.protocol.batch.size  # mini's training images are not random
    return [(images.train_batch(some, no_seeds), torch.from_numpy(images.labels[some])) for some in chosen]


class BareLoop:
    """The steps of a job in plain PyTorch."""

    def __init__(self, job: Job, bench: Bench) -> None:
        entry, hyperparameters = method_entry(job.method), dict(job.hyperparameters)
        self.batches = iter(job_batches(job, bench))
        self.model = build_model(bench.protocol, stream(job.seed, "network"))
        torch.manual_seed(derived_seed(job.seed, "method"))
        n_classes, dim = bench.n_classes(job.fold), bench.protocol.embedding.dim
        self.loss_function = build_method(entry, n_classes, dim, hyperparameters)
        self.optimiser = build_optimiser(
            bench.protocol.optimiser, self.model, self.loss_function, entry, hyperparameters
        )

    def run(self, n_steps: int) -> float:
        """The mean loss over the next steps."""
        losses = []
        for images, labels in islice(self.batches, n_steps):
            loss = self.loss_function(self.model(images), labels)
            self.optimiser.zero_grad()
            loss.backward()
            self.optimiser.step()
            losses.append(loss.detach())
        return float(torch.stack(losses).mean())


class AlternatingJob(FoldTraining):
    """A job that stops its clock after every validation and lets the bare loop catch up."""

    def __init__(self, job: Job, bench: Bench) -> None:
        super().__init__(job, bench)
        self.bare_loop, self.bare_losses, self.bare_s = BareLoop(job, bench), list[float](), 0.0

    def _validate(self, learner: Learner) -> None:
        super()._validate(learner)
        torch.use_deterministic_algorithms(False)
        began = process_time()
        self.bare_losses.append(self.bare_loop.run(self.protocol.schedule.cadence.evaluate_every_steps))
        self.bare_s += process_time() - began
        torch.use_deterministic_algorithms(True, warn_only=True)

    def ratio(self) -> float:
        """CPU seconds of the whole job / those of the bare loop."""
        began = process_time()
        self.run()
        record = self.record(failure=None)
        job_s = process_time() - began - self.bare_s
        assert record.n_steps == STEPS
        assert [point.loss for point in record.curve] == self.bare_losses, "job and bare loop took different steps"
        return job_s / self.bare_s


def main() -> int:
    """Measure, print, and say whether the bound holds."""
    with tempfile.TemporaryDirectory() as folder:
        bench = mini_bench(Path(folder))
        hold(bench)  # one thread and the same heap on both sides
        jobs = {method: bench.job(method_entry(method), METHODS[method], run=0, fold=0) for method in METHODS}
        found = {method: [AlternatingJob(job, bench).ratio() for _ in range(ROUNDS)] for method, job in jobs.items()}
    ratio = max(median(values) for values in found.values())
    rounds = {method: [round(value, 3) for value in values] for method, values in found.items()}
    print(json.dumps({"benchmark": "mini_job", "ratio": round(ratio, 3), "at_most": BOUND, "rounds": rounds}))
    return int(ratio > BOUND)


if __name__ == "__main__":
    sys.exit(main())
