"""How much faster the evaluation is than the AccuracyCalculator of PML over faiss-cpu, with equal values.

Embeddings are random unit vectors in clusters, so that there are hits and misses, with as many images and classes as
the test sides of CUB, In-shop and SOP, and classes of uneven size. Each side has a process of its own, ours with its
heap held as a worker holds it, and as many threads as torch finds cores; they take turns, and the ratio is the median
over the rounds. `of_product_rate` is the seconds of the bare matrix product of the same shape, in our blocks and with
nothing kept, over ours.

An exact evaluation cannot be faster than that product. `at_least` was set where the product is 7 to 10 times as fast as
PML. Where faiss itself runs near the product's rate, a ratio may be out of reach (`reachable`: PML over the product);
then the share of the product's rate decides.

Memory is the growth of the peak over the embeddings, in a fresh process. Time may grow with the square of the number of
images, memory in proportion to it.

Run `python tests/benchmarks/metrics.py [SIZE...]` on an idle machine: one JSON line, exit code 1 if a bound is missed.
About ten minutes, most of them PML's at the size of SOP.
"""

import json
import resource
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize

from benchmark.memory import retain_heap
from protocols.metrics import evaluate
from protocols.products import products
from protocols.ranking import PRODUCT_ROWS


@dataclass(frozen=True)
class Size:
    """As a data set's test side, and what is asked of it."""

    n_queries: int
    n_classes: int
    width: int
    n_gallery: int = 0  # 0: all search all
    rounds: int = 5
    ratio: float = 1.0  # PML / ours, at least
    share: float = 0.0  # product / ours, at least, where the ratio is out of reach


SIZES = {
    "cub_128": Size(5_924, 100, 128, ratio=1.7, share=0.3),
    "cub_512": Size(5_924, 100, 512, ratio=3.5, share=0.55),
    "inshop_128": Size(14_218, 3_985, 128, 12_612, rounds=3, ratio=5.0, share=0.45),
    "sop_128": Size(60_502, 11_316, 128, rounds=1, ratio=4.5, share=0.5),
}
HALVES = Size(15_000, 2_800, 128), Size(30_000, 5_600, 128)  # for the growth with the number of images
LARGEST_GROWTH = {"seconds": 4 * 1.25, "bytes": 2 * 1.25}  # from one to the other; a quarter for noise
LARGE = {width: Size(60_502, 11_316, width) for width in (128, 512)}
LARGEST_BYTES = 2**30
RECALL_AT = (1, 10, 100, 1000)
LARGEST_RECALL_COST = 1.6  # evaluation with recall@K / without
AGREEMENT = 1e-6
NAMES = {"precision_at_1": "precision_at_1", "r_precision": "r_precision", "map_at_r": "mean_average_precision_at_r"}


@cache
def data(size: Size) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor] | None]:
    """Queries and gallery: (N, D) float32 unit vectors with their (N,) int64 labels."""
    random = torch.Generator().manual_seed(0)
    centres = normalize(torch.randn(size.n_classes, size.width, generator=random))
    weights = 0.5 + torch.rand(size.n_classes, generator=random)  # the largest class is about three times the smallest

    def side(n: int) -> tuple[Tensor, Tensor]:
        every = torch.arange(size.n_classes).repeat(2)  # no query is without a reference
        more = torch.multinomial(weights, n - len(every), replacement=True, generator=random)
        labels = torch.cat([every, more])[torch.randperm(n, generator=random)]
        noise = torch.randn(n, size.width, generator=random) * (2 / size.width**0.5)
        return normalize(centres[labels] + noise), labels

    return side(size.n_queries), side(size.n_gallery) if size.n_gallery else None


def ours(size: Size, recall_at: tuple[int, ...] = ()) -> dict[str, float]:
    """The metrics by this package."""
    queries, gallery = data(size)
    given = {} if gallery is None else {"gallery": gallery[0], "gallery_labels": gallery[1]}
    return evaluate(*queries, **given, recall_at=recall_at).metrics


def pml(size: Size) -> dict[str, float]:
    """The metrics by PML, under our names."""
    from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator

    calculator = AccuracyCalculator(include=tuple(NAMES.values()), k="max_bin_count", device=torch.device("cpu"))
    queries, gallery = data(size)
    found = calculator.get_accuracy(*queries, *(gallery or ()))
    return {name: found[theirs] for name, theirs in NAMES.items()}


def product(size: Size) -> None:
    """The bare matrix product, block after block into the same memory."""
    (queries, _), gallery = data(size)
    references = queries if gallery is None else gallery[0]
    block, offsets = torch.empty(PRODUCT_ROWS, len(references)), torch.zeros(len(references))
    for start in range(0, len(queries) - PRODUCT_ROWS + 1, PRODUCT_ROWS):
        products(queries[start : start + PRODUCT_ROWS], references, offsets, block)


def timed(work: str, *arguments: Any) -> tuple[float, Any]:
    """Seconds that `work` takes, and what it returns."""
    data(arguments[0])
    began = perf_counter()
    found = globals()[work](*arguments)
    return perf_counter() - began, found


def peak_bytes() -> int:
    """Of this process. On Linux not by getrusage: there a new process starts with the peak of the one it came from."""
    if sys.platform == "darwin":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (line,) = [line for line in Path("/proc/self/status").read_text("ascii").splitlines() if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024


def grown(file: Path, recall_at: tuple[int, ...]) -> int:
    """Bytes by which the peak of this fresh process grows, with the embeddings of a file."""
    ours(Size(300, 9, 16), recall_at)  # loads what is loaded once
    embeddings, labels = torch.load(file)  # not made here: that would have a peak of its own
    before = peak_bytes()
    evaluate(embeddings, labels, recall_at=recall_at)
    return peak_bytes() - before


def process() -> ProcessPoolExecutor:
    """A fresh process."""
    return ProcessPoolExecutor(1, mp_context=get_context("spawn"))


def fresh_growth(size: Size, recall_at: tuple[int, ...] = ()) -> int:
    """`grown` in a process of its own."""
    with TemporaryDirectory() as folder, process() as pool:
        file = Path(folder) / "embeddings.pt"
        torch.save(data(size)[0], file)
        return pool.submit(grown, file, recall_at).result()


def compare(name: str, size: Size, pools: dict[str, ProcessPoolExecutor]) -> dict[str, Any]:
    """Both sides at one size, in turns; stops unless they agree."""
    small = Size(300, 9, size.width, 200 if size.n_gallery else 0)
    for work, pool in pools.items():  # warm, at a size that costs nothing
        pool.submit(timed, work, small).result()
    rounds: list[dict[str, float]] = []
    for _ in range(size.rounds):
        took = {work: pool.submit(timed, work, size).result() for work, pool in pools.items()}
        apart = max(abs(took["pml"][1][metric] - value) for metric, value in took["ours"][1].items())
        if not apart <= AGREEMENT:
            sys.exit(f"{name}: the two sides differ by {apart:.3g}: {took['pml'][1]}, {took['ours'][1]}.")
        bare, _ = pools["ours"].submit(timed, "product", size).result()
        rounds.append({work: seconds for work, (seconds, _) in took.items()} | {"product": bare})
    ratio = median(found["pml"] / found["ours"] for found in rounds)
    share = median(found["product"] / found["ours"] for found in rounds)
    reachable = median(found["pml"] / found["product"] for found in rounds)
    return {
        "ratio": round(ratio, 2),
        "at_least": size.ratio,
        "reachable": round(reachable, 2),
        "of_product_rate": round(share, 3),
        "apart": apart,
        "metrics": took["ours"][1],
        **{f"{work}_s": [round(found[work], 3) for found in rounds] for work in rounds[0]},
        "missed": share < size.share if reachable < size.ratio else ratio < size.ratio,
    }


def growth(pool: ProcessPoolExecutor) -> dict[str, Any]:
    """Time and memory from one number of images to twice as many, and at the size of SOP, with and without recall."""
    seconds = [median(pool.submit(timed, "ours", size).result()[0] for _ in range(3)) for size in HALVES]
    grown_bytes = [fresh_growth(size) for size in HALVES]
    large = {f"{width}": fresh_growth(size, RECALL_AT) for width, size in LARGE.items()}
    with_recall = median(pool.submit(timed, "ours", HALVES[1], RECALL_AT).result()[0] for _ in range(3))
    return {
        "seconds": [round(found, 3) for found in seconds],
        "bytes": grown_bytes,
        "sop_bytes": large,
        "at_most_bytes": LARGEST_BYTES,
        "recall_cost": round(with_recall / seconds[1], 2),
        "missed": seconds[1] > LARGEST_GROWTH["seconds"] * seconds[0]
        or grown_bytes[1] > LARGEST_GROWTH["bytes"] * max(grown_bytes[0], 2**25)  # of less, similarities are most
        or max(large.values()) > LARGEST_BYTES
        or with_recall > LARGEST_RECALL_COST * seconds[1],
    }


def main(names: list[str]) -> int:
    """Measure, print, and say whether the bounds hold."""
    pools = {work: process() for work in ("pml", "ours")}
    pools["ours"].submit(retain_heap).result()
    report: dict[str, Any] = {"benchmark": "metrics", "threads": torch.get_num_threads()}
    for name in names or [*SIZES, "growth"]:
        report[name] = growth(pools["ours"]) if name == "growth" else compare(name, SIZES[name], pools)
    print(json.dumps(report))
    return int(any(found["missed"] for found in report.values() if isinstance(found, dict)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
