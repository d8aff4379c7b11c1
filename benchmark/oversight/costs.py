"""Seconds of the parts of a suite: measured on this machine (`calibration`), or from those of one step."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from benchmark.bench import Bench
from benchmark.methods.entry import MethodEntry

FORWARD_SHARE = 1 / 3  # of a training step: its backward pass costs two forward passes

Side = Literal["validation", "test"]


@dataclass(frozen=True)
class JobCost:
    """Seconds of one method's job."""

    fixed_s: float  # set-up, and the fit of a method without steps
    step_s: float
    validation_s: float
    test_s: float


@dataclass(frozen=True)
class Costs:
    """Seconds of everything that a suite does."""

    jobs: dict[str, JobCost]  # by method
    concatenation_s: float
    proposal_s: float  # of the sampler, half way through its budget
    start_s: float  # of a worker process
    source: str  # where they come from, for people


def given_costs(entries: Sequence[MethodEntry], bench: Bench, seconds_per_step: float) -> Costs:
    """Costs that follow from the seconds of a training step alone, for machines that are not there."""
    image_s = FORWARD_SHARE * seconds_per_step / bench.protocol.batch.size
    trained = JobCost(
        fixed_s=0.0,
        step_s=seconds_per_step,
        validation_s=image_s * len(images_of_side(bench, "validation")),
        test_s=image_s * len(images_of_side(bench, "test")),
    )
    fixed = replace(trained, step_s=0.0, validation_s=0.0)
    return Costs(
        jobs={entry.name: trained if entry.is_trained else fixed for entry in entries},
        concatenation_s=0.0,
        proposal_s=0.0,
        start_s=0.0,
        source=f"{seconds_per_step:g} s a step as given, and a third of an image's share of it to embed an image; "
        "metrics, fits, sampler and start left out",
    )


def images_of_side(bench: Bench, side: Side) -> NDArray[np.int64]:
    """The images of fold 0's validation classes, or of the test classes."""
    return bench.index.indices_of(bench.split.folds[0].validation if side == "validation" else bench.split.test)
