"""Losses with a planted fault held against the loss they came from by `mlrc compare`: a table, then one JSON line.

A contrastive loss and CosFace, each with a sign error in one term, a margin off by a factor of two and a normalisation
left out, and each written another way. `mini` with two folds, 200 steps and five runs; no value is searched. Exit
code 1 if a fault passes the gate, or a loss that was only rewritten does not.

    python tests/anchors/planted_faults.py path/to/omniglot [--store FILE]
"""

import json
import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path
from typing import Any

from suites import command, leave

from benchmark.console import INTERRUPTED
from benchmark.errors import BenchmarkError, Interrupted

FAULTS = ("SignError", "DoubledMargin", "NotNormalised")
REWRITTEN = "Refactored"
FAMILIES = {"planted_contrastive.py": "Contrastive", "planted_cosface.py": "CosFace"}
SETTINGS = (
    *("n_folds=2", "n_runs=5", "max_steps=200", "evaluate_every_steps=100"),
    "proxy_lr_factor=1",  # class weights learn at the network's rate, so that no learning rate is searched
)
GATE = ("--margin", "3")  # points; less does not matter
JUDGED = (0, 1)  # exit codes

Found = dict[str, Any]


def compared(file: str, new: str, old: str, asked: Namespace) -> Found:
    """What the gate says, as a user calls it: its JSON and its exit code.

    Raises:
        BenchmarkError: if nothing was judged.
    """
    path = Path(os.path.relpath(Path(__file__).with_name(file))).as_posix()
    settings = [part for setting in (*SETTINGS, *asked.settings) for part in ("--set", setting)]
    workers = [] if asked.workers is None else ["--workers", str(asked.workers)]
    given = ["--data", asked.data, "--store", asked.store, "--executor", asked.executor, *workers, *settings]
    words = [sys.executable, "-m", "benchmark", "compare", f"{path}:{new}", "--against", f"{path}:{old}", *GATE]
    done = subprocess.run([*words, *given, "--json"], stdout=subprocess.PIPE, encoding="utf-8", check=False)
    if done.returncode == INTERRUPTED:
        raise Interrupted
    try:
        gate = json.loads(done.stdout)
    except json.JSONDecodeError:
        gate = None
    if gate is None or done.returncode not in JUDGED:
        raise BenchmarkError(f"{path}:{new}: the gate judged nothing (exit code {done.returncode}).")
    return {"loss": old, "new": new, "exit_code": done.returncode, "gate": gate}


def as_wanted(one: Found) -> bool:
    """Whether a fault was caught, or a rewritten loss let through."""
    return bool(one["exit_code"] == int(one["new"] != REWRITTEN))


def table(found: list[Found]) -> str:
    """A line for each comparison: both means and their difference in points of MAP@R, and the verdict."""
    lines = [f"{'loss':13}{'new':15}{'old':>7}{'new':>7}{'difference':>16}{'p':>9}  verdict"]
    for one in found:
        gate = one["gate"]
        means = [_mean(gate[side]["runs"]) for side in ("old", "new")]
        difference = gate["difference"]
        told, p_value = "-", "-"
        if difference is not None:
            told = f"{100 * difference['mean']:+.2f} ± {100 * difference['half_width']:.2f}"
            p_value = f"{difference['p_value']:.2g}"
        verdict = gate["verdict"] if difference else f"{gate['verdict']}: {gate['reason']}"
        lines.append(f"{one['loss']:13}{one['new']:15}{means[0]:>7}{means[1]:>7}{told:>16}{p_value:>9}  {verdict}")
    return "\n".join(lines)


def _mean(runs: dict[str, float]) -> str:
    return f"{100 * sum(runs.values()) / len(runs):.2f}" if runs else "-"


def main() -> int:
    """Print what was found; 1 if a fault passes or a rewritten loss does not."""
    parser = command(__doc__)
    parser.add_argument("data", help="a folder of images, as Omniglot's characters")
    asked = parser.parse_args()
    found = [compared(file, new, old, asked) for file, old in FAMILIES.items() for new in (*FAULTS, REWRITTEN)]
    print(table(found))
    missed = [f"{one['loss']} {one['new']}" for one in found if not as_wanted(one)]
    print(json.dumps({"found": found, "not_as_wanted": missed}, allow_nan=False))
    return int(bool(missed))


if __name__ == "__main__":
    leave(main)
