"""Seconds of the parts of a job on this machine, from a few steps and one validation of each method.

They are measured where jobs run: in worker processes, as many side by side as the suite would have on this machine, so
that what they take from each other is in the figures. Each method runs three short jobs, the first of which warms the
process up. Nothing is kept, no test image is opened, and of the validation images only some: an evaluation is put
together from the seconds of an image and those of the metrics over random embeddings.

Not in it: what a method does less often than at each step (a memory that fills, proxies that are drawn anew).
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

import optuna
import torch
from optuna.samplers import RandomSampler
from torch.nn.functional import normalize

from benchmark.bench import Bench
from benchmark.errors import BenchmarkError
from benchmark.executors.processes import WorkerPool
from benchmark.executors.worker import held
from benchmark.jobs import Job
from benchmark.methods.classes import middle
from benchmark.methods.entry import MethodEntry
from benchmark.methods.registry import method_entry
from benchmark.oversight.costs import Costs, JobCost, Side, images_of_side
from benchmark.search.course import Course, course_of
from benchmark.search.samplers import make_sampler
from benchmark.training.failure import FoldFailure
from benchmark.training.training import FoldTraining, run_fold
from protocols.datasets.index import ImageIndex
from protocols.datasets.tensors import fits_memory
from protocols.spec import Protocol
from protocols.splits import Split

FIRST_STEPS = 2  # of the first two jobs
MEASURED_S, MOST_STEPS = 4.0, 100  # of the third
ENOUGH_IMAGES = 128  # of the validation side, whole classes and two of them at least
MOST_ROWS = 8192  # of the measured metrics; more are reckoned by the square


def measured_costs(entries: Sequence[MethodEntry], bench: Bench, workers: int) -> Costs:
    """Costs from real jobs in `workers` processes side by side.

    Raises:
        BenchmarkError: if a job fails.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    with TemporaryDirectory() as folder:
        bench = replace(bench, artifacts=Path(folder) / "embeddings")
        pool = WorkerPool(bench, workers)
        try:
            began = time.perf_counter()
            pool.submit(_ready).result()
            start_s = time.perf_counter() - began
            narrow = bench.protocol.embedding.dim
            wide = narrow * bench.n_folds
            measured: tuple[tuple[Side, int], ...] = (("validation", narrow), ("test", narrow), ("test", wide))
            metrics_s = {(side, dim): pool.submit(_metrics_s, side, dim).result() for side, dim in measured}
            jobs = {entry.name: _job_cost(entry, bench, pool, metrics_s) for entry in entries}
        finally:
            pool.stop()
    courses = [course_of(entry, bench) for entry in entries if bench.space(entry)]
    proposal_s = median(map(_proposal_s, courses)) if courses else 0.0
    source = f"measured on this machine, {workers} worker{'s' if workers > 1 else ''} side by side"
    return Costs(jobs, metrics_s["test", wide], proposal_s, start_s, source)


def _job_cost(entry: MethodEntry, bench: Bench, pool: WorkerPool, metrics_s: dict[tuple[Side, int], float]) -> JobCost:
    short = replace(bench, split=_shortened(bench.split, bench.index))
    _run(entry, short, pool, FIRST_STEPS, rounds=2)  # so many that each worker gets one
    seconds, n_steps = _run(entry, short, pool, FIRST_STEPS), FIRST_STEPS
    if entry.is_trained:
        n_steps = min(max(FIRST_STEPS, int(MEASURED_S * FIRST_STEPS / seconds["train"])), MOST_STEPS)
        seconds = _run(entry, short, pool, n_steps)
    image_s = seconds["validate"] / len(images_of_side(short, "validation"))
    dim = bench.protocol.embedding.dim
    return JobCost(
        fixed_s=seconds["setup"] if entry.is_trained else sum(seconds.values()) - seconds["validate"],
        step_s=seconds["train"] / n_steps if entry.is_trained else 0.0,
        validation_s=metrics_s["validation", dim] + image_s * len(images_of_side(bench, "validation")),
        test_s=metrics_s["test", dim] + image_s * len(images_of_side(bench, "test")),
    )


def _shortened(split: Split, index: ImageIndex) -> Split:
    """The split with a validation side of few images in its first fold."""
    first, *others = split.folds
    kept, n_images = 0, 0
    while kept < len(first.validation) and (kept < 2 or n_images < ENOUGH_IMAGES):
        n_images += len(index.images_of(first.validation[kept]))
        kept += 1
    return replace(split, folds=(replace(first, validation=first.validation[:kept]), *others))


def _run(entry: MethodEntry, short: Bench, pool: WorkerPool, n_steps: int, rounds: int = 1) -> dict[str, float]:
    """Median seconds by phase of a job of so many steps and one validation, one in each worker at the same time."""
    cadence = replace(short.protocol.schedule.cadence, evaluate_every_steps=n_steps)
    schedule = replace(short.protocol.schedule, max_steps=n_steps, cadence=cadence, by_dataset=())
    short = replace(short, protocol=replace(short.protocol, schedule=schedule))
    values = {name: middle(axis) for name, axis in short.space(entry).items()}  # they hardly change what a step takes
    job = short.job(entry, values, run=0, fold=0)
    if rounds == 1 and not fits_memory(short.index, short.protocol.transforms.resize_px):
        job = replace(job, seed=job.seed + n_steps)  # other images: some have to be decoded, as in a real job
    futures = [pool.submit(_timed, short.protocol, short.split, job) for _ in range(rounds * pool.workers)]
    found = [future.result() for future in futures][-pool.workers :]
    return {phase: median(seconds[phase] for seconds in found) for phase in found[0]}


def _timed(protocol: Protocol, split: Split, job: Job) -> dict[str, float]:
    """In a worker: the seconds by phase of a job under another protocol and split than the worker's own."""
    bench = replace(held(), protocol=protocol, split=split)
    bench.__dict__["images"] = held().images  # else each job would decode them anew
    if method_entry(job.method).family != "baseline":
        record = run_fold(job, bench)
        if record.outcome == "failed":
            raise BenchmarkError(f"{job.method}: its short job failed, {record.reason}: {record.message}")
        return record.seconds
    training = FoldTraining(job, bench)  # a baseline is validated by nobody; here it shows what an image costs
    try:
        training.run()
        began = time.perf_counter()
        training._evaluate(training.images.validation)
    except FoldFailure as failure:
        raise BenchmarkError(f"{job.method}: its short job failed, {failure.reason}: {failure}") from None
    return training.seconds | {"validate": time.perf_counter() - began}


def _metrics_s(side: Side, dim: int) -> float:
    """In a worker: seconds of the metrics over random embeddings of a side."""
    bench = held()
    indices = images_of_side(bench, side)
    measured = indices[:MOST_ROWS]
    random = torch.randn(len(measured), dim, generator=torch.Generator().manual_seed(0))
    embeddings = normalize(random, dim=1).to(bench.device)
    seconds = []
    for _ in range(2):  # the first one warms up
        began = time.perf_counter()
        bench.evaluate(embeddings, measured)
        seconds.append(time.perf_counter() - began)
    return seconds[-1] * (len(indices) / len(measured)) ** 2


def _ready() -> None:
    """In a worker: nothing; its answer says that the worker has started."""


def _proposal_s(course: Course) -> float:
    """Seconds of a proposal of a search's sampler half way through its budget, or when it first models anything."""
    study = optuna.create_study(sampler=RandomSampler(seed=0))
    for number in range(max(course.n_startup_trials, course.n_trials // 2)):
        study.tell(study.ask(fixed_distributions=course.space), number % 7 / 7)
    seconds = []
    for seed in range(2):  # the first one imports what the sampler needs
        study.sampler = make_sampler(course, seed)
        began = time.perf_counter()
        study.ask(fixed_distributions=course.space)
        seconds.append(time.perf_counter() - began)
    return seconds[-1]
