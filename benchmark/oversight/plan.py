"""What a suite will take, before anything starts: jobs, models, steps, images, hours by number of workers, disk.

Hours are those of `benchmark.oversight.simulation` with the seconds of `benchmark.oversight.costs`. When a job stops is
not known before it has run; the plan reckons with one number of steps for all jobs and says where it comes from.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil
from statistics import fmean
from typing import Any

from benchmark.bench import Bench
from benchmark.oversight.costs import Costs, JobCost, images_of_side
from benchmark.oversight.simulation import Batch, play
from benchmark.oversight.workload import Left
from benchmark.provenance import device_name
from protocols.datasets.tensors import fits_memory
from protocols.disk import free_bytes
from results.record import FoldRecord
from results.store import Store

WORKERS = (1, 4, 16, 64)
RECORD_BYTES, CURVE_POINT_BYTES = 6_000, 75  # of a store: measured over 148 records of `demo` and 13 of `mini`

NOTHING = JobCost(fixed_s=0.0, step_s=0.0, validation_s=0.0, test_s=0.0)  # of a method that has nothing left

Line = dict[str, Any]


@dataclass(frozen=True)
class JobSteps:
    """Optimiser steps of one job."""

    expected: int
    shortest: int  # the first validation stays the best
    longest: int
    source: str


def job_steps(bench: Bench, store: Store | None, given: int | None) -> JobSteps:
    """Steps to reckon with: as given, or as recorded in this comparison, or an assumption."""
    schedule = bench.protocol.schedule
    cadence = schedule.cadence_for(bench.index.standard_name)
    every = cadence.evaluate_every_steps
    patience = cadence.patience if cadence.patience_unit == "steps" else cadence.patience * every
    # In steps, a job goes on while step - best step <= patience.
    shortest = every + (patience // every + 1) * every if cadence.patience_unit == "steps" else every + patience
    shortest, longest = min(shortest, schedule.max_steps), schedule.max_steps
    if given is not None:
        expected, source = min(given, longest), "as given"
    elif recorded := _recorded_steps(bench, store):
        expected, source = ceil(fmean(recorded)), f"mean of {len(recorded):,} recorded jobs"
    else:
        expected = min(2 * patience, longest)
        source = "assumed: the best validation comes after as many steps as the patience has"
    return JobSteps(max(expected, 1), shortest, longest, source)


def plan(bench: Bench, left: Sequence[Left], costs: Costs, steps: JobSteps, workers: int) -> Line:
    """All of it as plain values: `methods`, `total`, `by_workers`, `disk`, and what it rests on."""
    campaigns = [_campaign(one, bench, costs, steps) for one in left]
    methods = [_method_line(one, bench, costs, steps) for one in left]
    totals = ("jobs", "models", "steps", "images", "job_hours")
    return {
        "protocol": bench.protocol.title,
        "protocol_digest": bench.protocol.digest(),
        "dataset": bench.index.name,
        "dataset_hash": bench.index.content_hash,
        "device": device_name(bench.device),
        "costs": costs.source,
        "steps_per_job": vars(steps).copy(),
        "methods": methods,
        "total": {name: sum(line[name] for line in methods) for name in totals},
        "by_workers": by_workers(campaigns, bench.n_folds, costs.start_s, workers),
        "disk": _disk(left, bench, steps),
    }


def by_workers(campaigns: Sequence[Sequence[Batch]], n_folds: int, start_s: float, workers: int) -> list[Line]:
    """Hours with 1, 4, 16 and 64 workers and with as many as asked for, each on a core or an accelerator of its own."""
    alone = play(campaigns, 1, n_folds).seconds
    lines = []
    for number in sorted({*WORKERS, workers}):
        played = play(campaigns, number, n_folds)
        lines.append(
            {
                "workers": number,
                "hours": (start_s + played.seconds) / 3600 if alone else 0.0,
                "speed_up": alone / played.seconds if alone else 1.0,
                "busy": played.busy,
            }
        )
    return lines


def _campaign(left: Left, bench: Bench, costs: Costs, steps: JobSteps) -> list[Batch]:
    cost = costs.jobs.get(left.method, NOTHING)
    search_s = _job_s(left, bench, cost, steps)
    final_s = search_s + cost.test_s
    thought_s = costs.proposal_s * left.parallel_trials
    return [
        *(Batch((search_s,) * folds, thought_s=thought_s) for folds in left.search_folds),
        Batch((final_s,) * left.n_final),
        Batch((costs.concatenation_s,) * left.n_concatenations),
    ]


def _job_s(left: Left, bench: Bench, cost: JobCost, steps: JobSteps) -> float:
    """Seconds of a job of the search."""
    if not left.is_trained:
        return cost.fixed_s + cost.validation_s * (left.trials[1] > 0)
    return cost.fixed_s + steps.expected * cost.step_s + _n_validations(bench, steps) * cost.validation_s


def _n_validations(bench: Bench, steps: JobSteps) -> int:
    return ceil(steps.expected / bench.protocol.schedule.cadence_for(bench.index.standard_name).evaluate_every_steps)


def _method_line(left: Left, bench: Bench, costs: Costs, steps: JobSteps) -> Line:
    n_steps = left.n_models * steps.expected
    n_validation, n_test = (len(images_of_side(bench, side)) for side in ("validation", "test"))
    validations = left.n_models * _n_validations(bench, steps)
    job_s = sum(sum(batch.seconds) for batch in _campaign(left, bench, costs, steps))
    return {
        "method": left.method,
        "trials": {"done": left.trials[0], "failed": 0, "of": left.trials[1]} if left.trials[1] else None,
        "final_folds": {"done": left.final_folds[0], "failed": 0, "of": left.final_folds[1]},
        "jobs": left.n_jobs,
        "models": left.n_models,
        "steps": n_steps,
        "images": n_steps * bench.protocol.batch.size + validations * n_validation + left.n_final * n_test,
        "seconds_per_step": costs.jobs.get(left.method, NOTHING).step_s,
        "job_hours": job_s / 3600,
    }


def _disk(left: Sequence[Left], bench: Bench, steps: JobSteps) -> Line:
    """Bytes that the suite will write, and what is free where the store lies."""
    n_final = sum(one.n_final for one in left)
    resize_px, cache = bench.protocol.transforms.resize_px, bench.cache
    needs_cache = cache is None and not fits_memory(bench.index, resize_px)
    record_bytes = RECORD_BYTES + CURVE_POINT_BYTES * _n_validations(bench, steps)
    return {
        "records_bytes": sum(one.n_jobs for one in left) * record_bytes,
        "embeddings_bytes": n_final * len(images_of_side(bench, "test")) * bench.protocol.embedding.dim * 4,
        "cache_bytes": 3 * resize_px**2 * bench.index.n_images if needs_cache else 0,
        "free_bytes": free_bytes(bench.artifacts),
    }


def _recorded_steps(bench: Bench, store: Store | None) -> list[int]:
    records = store.records(kind="fold", **bench.comparison._asdict()) if store else []
    return [
        record.n_steps
        for record in records
        if isinstance(record, FoldRecord) and record.outcome == "done" and record.n_steps
    ]
