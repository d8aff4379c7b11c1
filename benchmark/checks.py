"""What can be known to be wrong before the first job: the network, the folds, the batches."""

import torch

from benchmark.bench import Bench
from benchmark.errors import BenchmarkError, words_of
from benchmark.jobs import BASE_SEED
from benchmark.methods.entry import MethodEntry
from benchmark.seeding import stream
from protocols.model import build_model
from protocols.sampler import batch_plan
from protocols.spec import Folds, Protocol
from protocols.transforms import ImageTransforms


def check_network(protocol: Protocol) -> None:
    """Build the network and show it one image: weights that are missing and a crop it cannot take are found now."""
    model = build_model(protocol, stream(BASE_SEED, "probe")).eval()
    side_px = protocol.transforms.crop_px
    n_channels = ImageTransforms(protocol.transforms, protocol.trunk.input).n_channels
    try:
        with torch.inference_mode():
            model(torch.zeros(1, n_channels, side_px, side_px))
    except RuntimeError as error:
        raise BenchmarkError(
            f"{protocol.title}: trunk {protocol.trunk.name} cannot take an image of {side_px} px "
            f"({words_of(error)}); raise transforms.crop_px."
        ) from error


def check_trunk(entry: MethodEntry, protocol: Protocol) -> None:
    """Refuse to call a trunk of random weights pretrained."""
    if entry.name == "pretrained" and protocol.trunk.weights == "random":
        raise BenchmarkError(
            f"{entry.name}: the trunk of {protocol.title} has random weights, nothing was pretrained. Leave the method "
            "out, or choose a protocol whose trunk.weights name a file (mlrc protocols)."
        )


def check_sides(bench: Bench) -> None:
    """Refuse folds whose evaluation could only give one number."""
    alone = set(bench.index.lone_classes)
    sides = [(f"fold {number}'s validation", cut.validation) for number, cut in enumerate(bench.split.folds)]
    for side, classes in [*sides, ("the test", bench.split.test)]:
        if len(classes) < 2:
            raise BenchmarkError(
                f"{bench.index.location}: {side} side is the single class {classes[0]!r}, so every neighbour is a hit "
                f"and MAP@R is always 1. Add classes: {_needed(bench.protocol.folds)} for training."
            )
        if alone.issuperset(classes):
            raise BenchmarkError(
                f"{bench.index.location}: each of the {len(classes)} classes of {side} side has a single image, "
                "so no query has a match. Add images to them."
            )


def _needed(folds: Folds) -> str:
    if folds.kind == "holdout":  # of one class more than there are parts, the last part has two
        return f"{folds.holdout_parts} parts need {folds.holdout_parts + 1}"
    return f"{folds.n_folds} folds need {2 * folds.n_folds}"


def check_batches(entry: MethodEntry, bench: Bench) -> None:
    """Refuse a fold with too few classes for a batch of this method's family."""
    if entry.is_trained:
        for fold in range(bench.n_folds):
            batch_plan(bench.protocol.batch, "class" if entry.family == "class" else "pair", bench.n_classes(fold))


def check_space(entry: MethodEntry, bench: Bench) -> None:
    """Refuse a method whose search space cannot hold over the classes of the smallest fold."""
    try:
        bench.space(entry)
    except BenchmarkError as error:
        raise BenchmarkError(f"{entry.name}: {str(error).removeprefix(f'{entry.name}: ')}") from None


def check_super_classes(entry: MethodEntry, bench: Bench) -> None:
    """Refuse a method that needs super-classes where a fold's training classes have none, one, or one each."""
    if not entry.needs_super_classes:
        return
    for fold in range(bench.n_folds):
        found, n_classes = len(set(bench.super_classes(fold) or ())), bench.n_classes(fold)
        if not 2 <= found < n_classes:
            raise BenchmarkError(
                f"{entry.name}: {bench.index.location} has {found} super-classes over the {n_classes} training classes "
                f"of fold {fold}; from 2 to {n_classes - 1} are needed. Sort the class folders into folders, one for "
                "each super-class."
            )
