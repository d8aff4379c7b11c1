"""The same suite in one process, on worker processes and on a Dask cluster: the records are equal to the last bit.

The suite is real in all its parts: `mini` on the shifted shapes, a loss, a loss with a memory of its own and a
baseline, search and final runs, each under the real command `mlrc run`, with a store of its own. The cluster is a
scheduler and two workers on this machine. Compared are all records, timings and dates aside, all test embeddings byte
by byte, and the winner of each search.

Run `python tests/benchmarks/three_executors.py [executor...]`: one JSON line, exit code 1 if anything differs.
"""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from cluster import Cluster

from benchmark.training.embeddings import embeddings_folder
from results.store import Store

EXECUTORS = ("inline", "processes", "dask")
METHODS = ("contrastive", "xbm-contrastive", "pixels")
SETTINGS = (
    "max_steps=40",
    "cadence.evaluate_every_steps=20",
    "train_crop=random-resized",
    "flip_probability=0.5",
    "n_trials=2",
    "n_startup_trials=1",  # so that the last trial is the sampler's own proposal
    "n_runs=1",
)
WORKERS = 2
ASIDE = ("seconds", "peak_memory_bytes", "created_at", "code_revision", "updated_at")


def run(executor: str, store: Path, cluster: Cluster) -> float:
    """Run the suite; returns its seconds."""
    where = {
        "inline": [],
        "processes": ["--workers", str(WORKERS)],
        "dask": ["--scheduler", cluster.address],
    }[executor]
    settings = [part for setting in SETTINGS for part in ("--set", setting)]
    command = [sys.executable, "-m", "benchmark", "run", *METHODS, "--protocol", "mini", "--data", "shapes:shifted"]
    command += [*settings, "--store", str(store), "--executor", executor, *where, "--json"]
    began = time.perf_counter()
    done = subprocess.run(command, cwd=store.parent, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    return time.perf_counter() - began


def found_in(store: Path) -> dict[str, Any]:
    """All that a suite leaves, by the name of what it is: records, test embeddings, winners."""
    with Store.open(str(store)) as opened:
        records = {f"record {record.id}": without(asdict(record)) for record in opened.records()}
        searches = {f"search {study.method}": without(asdict(study)) for study in opened.studies()}
    embeddings = {f"embeddings {path.stem}": path.read_bytes() for path in embeddings_folder(str(store)).glob("*.npy")}
    return {**records, **searches, **embeddings}


def without(value: Any) -> Any:
    """The value without what two runs of one suite need not share, at any depth."""
    if isinstance(value, dict):
        return {name: without(item) for name, item in value.items() if name not in ASIDE}
    return [without(item) for item in value] if isinstance(value, list | tuple) else value


def counted(wanted: dict[str, Any], found: dict[str, Any]) -> dict[str, list[int]]:
    """By kind: how many are equal, of how many that either has."""
    counts: dict[str, list[int]] = {}
    for name in sorted(wanted.keys() | found.keys()):
        equal, of = counts.get(kind := name.partition(" ")[0], [0, 0])
        counts[kind] = [equal + (name in wanted and wanted.get(name) == found.get(name)), of + 1]
    return counts


def main(executors: Sequence[str]) -> int:
    """Run, compare, print, and say whether all are equal."""
    report: dict[str, Any] = {"benchmark": "three_executors", "workers": WORKERS}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "cluster").mkdir()
        with Cluster(folder / "cluster") as cluster:
            for _ in range(WORKERS if "dask" in executors else 0):
                cluster.start_worker()
            report["seconds"] = {one: round(run(one, folder / f"{one}.db", cluster), 1) for one in executors}
        first, *others = (found_in(folder / f"{one}.db") for one in executors)
    report["equal_to_" + executors[0]] = {
        one: counted(first, it) for one, it in zip(executors[1:], others, strict=True)
    }
    print(json.dumps(report))
    return int(
        any(equal != of for counts in report["equal_to_" + executors[0]].values() for equal, of in counts.values())
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:] or EXECUTORS))
