"""How much faster training images come out of the cache than out of files: at least 5 times; under a tenth of a step.

Both sides do what `mlrc` asks for: shorter side 256, random resized crop to 227, flip, the trunk's range, batches of
32, from the same JPEG files of 500 x 375 made on the spot (soft shapes, the grain of a sensor, quality 90). The usual
side is a DataLoader without workers over Pillow and torchvision's transforms; ours is `ImageTensors` out of the cache
that `mlrc data prepare` makes. One thread each; they take turns, and the ratio is the median over the rounds. The step
is BN-Inception's in training, batch 32, with as many threads as torch finds cores, so that the share is no flattery.

Run `python tests/benchmarks/input.py` on an idle machine: one JSON line, exit code 1 if a bound is missed. About a
minute.
"""

import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import perf_counter

import numpy as np
import torch
from PIL import Image
from pytorch_metric_learning.losses import ContrastiveLoss
from torch.utils.data import DataLoader
from torchvision import transforms
from torchvision.datasets import ImageFolder

from benchmark.memory import retain_heap
from protocols.catalogue import MLRC_V1
from protocols.datasets import load_dataset
from protocols.datasets.cache import PixelCache
from protocols.datasets.prepare import prepare
from protocols.datasets.tensors import ImageTensors
from protocols.model import build_model

RATIO = 5.0  # images a second of ours / of the usual way
SHARE = 0.1  # of a training step, for the images of its batch
ROUNDS = 5
N_IMAGES = 192
SIZE = (500, 375)


def draw(folder: Path) -> None:
    """JPEG files in two classes."""
    generator = np.random.default_rng(0)
    for number in range(N_IMAGES):
        total = np.zeros((SIZE[1], SIZE[0], 3))
        for side, share in ((3, 0.6), (12, 0.3), (48, 0.1)):
            coarse = Image.fromarray(generator.integers(0, 256, (side, side, 3), dtype=np.uint8))
            total += share * np.asarray(coarse.resize(SIZE, Image.Resampling.BICUBIC), float)
        noisy = (total + generator.normal(0, 2, total.shape)).clip(0, 255).astype(np.uint8)
        path = folder / f"class {number % 2}" / f"{number:03d}.jpg"
        path.parent.mkdir(exist_ok=True)
        Image.fromarray(noisy).save(path, quality=90)


def usual_loader(folder: Path) -> DataLoader:
    """The loader that most code has."""
    wanted, spec = MLRC_V1.transforms, MLRC_V1.trunk.input
    steps = [
        transforms.Resize(wanted.resize_px),
        transforms.RandomResizedCrop(wanted.crop_px, scale=wanted.crop_area, ratio=wanted.crop_aspect),
        transforms.RandomHorizontalFlip(wanted.flip_probability),
        transforms.ToTensor(),
        transforms.Lambda(lambda image: image.flip(0) * spec.scale),
        transforms.Normalize(spec.mean, spec.std),
    ]
    return DataLoader(ImageFolder(str(folder), transforms.Compose(steps)), batch_size=MLRC_V1.batch.size, shuffle=True)


def seconds_of_ours(images: ImageTensors, epoch: int) -> float:
    """Seconds of one epoch out of the cache."""
    order, size = np.random.default_rng(epoch).permutation(N_IMAGES), MLRC_V1.batch.size
    began = perf_counter()
    for start in range(0, N_IMAGES, size):
        batch = order[start : start + size]
        images.train(batch, [epoch * N_IMAGES + int(image) for image in batch])
    return perf_counter() - began


def seconds_of_usual(loader: DataLoader) -> float:
    """Seconds of one epoch out of the files."""
    began = perf_counter()
    for _ in loader:
        pass
    return perf_counter() - began


def seconds_of_a_step() -> float:
    """Seconds of one training step of the trunk, the faster of two after one that warms up."""
    generator = torch.Generator().manual_seed(0)
    model = build_model(replace(MLRC_V1, trunk=replace(MLRC_V1.trunk, weights="random")), generator)
    side_px, size = MLRC_V1.transforms.crop_px, MLRC_V1.batch.size
    images = torch.rand(size, 3, side_px, side_px, generator=generator) * 255 - 117
    labels = torch.arange(size) // MLRC_V1.batch.pair_samples_per_class
    loss, optimiser = ContrastiveLoss(), torch.optim.RMSprop(model.trainable_parameters(), lr=1e-6)
    found = []
    for _ in range(3):
        began = perf_counter()
        optimiser.zero_grad()
        loss(model(images), labels).backward()
        optimiser.step()
        found.append(perf_counter() - began)
    return min(found[1:])


def main() -> int:
    """Measure, print, and say whether the bounds hold."""
    threads = torch.get_num_threads()
    retain_heap()  # as a worker does
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        root, path = Path(folder) / "images", Path(folder) / "x.pixels"
        root.mkdir()
        draw(root)
        index = load_dataset(str(root))
        began = perf_counter()
        prepare(index, MLRC_V1.transforms.resize_px, path)
        prepared_s = perf_counter() - began
        cache = PixelCache(path, index, MLRC_V1.transforms.resize_px)
        images = ImageTensors(index, MLRC_V1.transforms, MLRC_V1.trunk.input, cache)
        loader = usual_loader(root)
        seconds_of_ours(images, 0)  # warm up: pages are read and checksums compared once
        rounds = [(seconds_of_usual(loader), seconds_of_ours(images, epoch)) for epoch in range(1, ROUNDS + 1)]
        del images, cache  # Windows removes no file that is mapped
    torch.set_num_threads(threads)
    step_s = seconds_of_a_step()
    ratio = median(usual / ours for usual, ours in rounds)
    ours_s = median(ours for _, ours in rounds) / N_IMAGES
    share = MLRC_V1.batch.size * ours_s / step_s
    report = {
        "benchmark": "input",
        "ratio": round(ratio, 2),
        "at_least": RATIO,
        "share_of_step": round(share, 4),
        "at_most": SHARE,
        "images_per_s": {"usual": round(N_IMAGES / median(usual for usual, _ in rounds)), "ours": round(1 / ours_s)},
        "step_s": round(step_s, 2),
        "prepared_per_s": round(N_IMAGES / prepared_s),
    }
    print(json.dumps(report))
    return int(ratio < RATIO or share > SHARE)


if __name__ == "__main__":
    sys.exit(main())
