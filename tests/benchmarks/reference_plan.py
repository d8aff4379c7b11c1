"""The plan of the whole reality check with CCP and HPL beside it, with no data set at hand: the table of docs/plan.md.

Three data sets of the published counts, fourteen losses, one CCP and one HPL method, 50 trials and 10 runs of 4 folds
under `mlrc@1`. What is assumed stands in `STEP_S` and in `benchmark.oversight.plan.job_steps`; nothing is measured.

Run `python tests/benchmarks/reference_plan.py`: the table; `--docs` writes it into docs/plan.md.
"""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmark.bench import Bench
from benchmark.methods.registry import method_entry
from benchmark.oversight.costs import given_costs
from benchmark.oversight.plan import job_steps, plan
from benchmark.oversight.workload import left_of
from protocols.catalogue import MLRC_V1
from protocols.datasets.index import ImageIndex
from protocols.datasets.standard import STANDARD
from protocols.splits import make_split

PAGE = Path(__file__).parents[2] / "docs" / "plan.md"
DATASETS = ("cub200", "cars196", "sop")
METHODS = (
    *("contrastive", "triplet", "ntxent", "proxy-nca", "margin", "margin-class", "norm-softmax", "cosface", "arcface"),
    *("fastap", "snr", "ms", "ms-miner", "soft-triple", "ccp-contrastive", "hpl-proxy-anchor"),
)
STEP_S = 0.05  # 386 GFLOP of BN-Inception on 32 images at 8 TFLOP/s, float32
WORKERS = (1, 4, 16, 64)


def published_index(name: str) -> ImageIndex:
    """A data set of the published counts without its images."""
    counts = STANDARD[name].counts
    sizes = [size for side in ("train", "test") for size in _sizes(counts[f"{side}_images"], counts[f"{side}_classes"])]
    classes = tuple(map(str, range(len(sizes))))
    images = tuple(map(str, range(sum(sizes))))
    return ImageIndex(
        name=name,
        location=name,
        classes=classes,
        targets=np.repeat(np.arange(len(sizes), dtype=np.int64), sizes),
        files=images,
        image_hashes=images,
        reader=_no_image,
        test_classes=frozenset(classes[counts["train_classes"] :]),
        standard_name=name,
    )


def _sizes(n_images: int, n_classes: int) -> list[int]:
    """As even as they can be."""
    return [n_images // n_classes + (number < n_images % n_classes) for number in range(n_classes)]


def _no_image(image: int) -> Any:
    raise NotImplementedError(f"image {image}: a plan reads none")


def plans() -> dict[str, dict[str, Any]]:
    """The plan of each data set."""
    entries = [method_entry(name) for name in METHODS]
    found = {}
    for name in DATASETS:
        index = published_index(name)
        bench = Bench(
            protocol=MLRC_V1,
            index=index,
            split=make_split(index.classes, MLRC_V1.folds, index.test_classes),
            artifacts=Path(),
            threads=1,
            device="cpu",
        )
        left = [left_of(entry, bench, None, None) for entry in entries]
        found[name] = plan(bench, left, given_costs(entries, bench, STEP_S), job_steps(bench, None, None), workers=1)
    return found


def table(found: dict[str, dict[str, Any]]) -> str:
    """As Markdown, with a line for all data sets one after the other."""
    return "\n".join(_lines(found)) + "\n"


def _lines(found: dict[str, dict[str, Any]]) -> Iterator[str]:
    heads = ("data set", "models", "steps of a job", "steps, millions", "images, millions", "GPU hours")
    yield f"| {' | '.join(heads)} | {' | '.join(f'days, {number} workers' for number in WORKERS)} |"
    yield f"|{' --- |' * (len(heads) + len(WORKERS))}"
    sums = np.zeros(4 + len(WORKERS))
    for name, one in found.items():
        total, steps = one["total"], one["steps_per_job"]
        days = [line["hours"] / 24 for line in one["by_workers"]]
        numbers = (total["models"], total["steps"] / 1e6, total["images"] / 1e6, total["job_hours"], *days)
        sums += np.array(numbers)
        yield _line(STANDARD[name].title, f"{steps['expected']:,}", *numbers)
    yield _line("all", "", *sums)


def _line(name: str, steps: str, models: float, n_steps: float, images: float, hours: float, *days: float) -> str:
    cells = (name, f"{models:,.0f}", steps, f"{n_steps:.1f}", f"{images:,.0f}", f"{hours:,.0f}")
    return f"| {' | '.join((*cells, *(f'{one:.1f}' for one in days)))} |"


def main() -> int:
    """Print the table, and write it where that is asked for."""
    found = table(plans())
    print(found, end="")
    if "--docs" in sys.argv[1:]:
        before, _, rest = PAGE.read_text(encoding="utf-8").partition("<!-- table -->\n")
        after = rest.partition("<!-- end of table -->\n")[2]
        PAGE.write_text(f"{before}<!-- table -->\n{found}<!-- end of table -->\n{after}", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
