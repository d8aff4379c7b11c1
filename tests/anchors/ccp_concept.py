"""The idea of CCP in the plane: a table, a picture in two parts, then one JSON line.

With one problem the proxies of a class come to lie in one point, though its images do not. CCP's chain begins again and
again from images that the last solution covers worst: problem by problem the proxies stay apart, the covering radius of
a solution falls and MAP@R rises. Exit code 1 if one of the three does not show in the mean over the runs.

A solution's radius is measured where its problem ends, three validations after the best: with the proxies of the best
one, but with images as the network embeds them by then.

As in the article's figure the embeddings have two dimensions; they are those of the shifted shapes, not of MNIST, and
the network is that of `mini`. As in protocol `ccp`: the Lipschitz rule for embeddings and a validation every 25 steps,
here 60 of them. As in `ccp-ablation`: one model, trained on two thirds of the train classes. The values are the
published ones for CUB: P 8, pool 12, lambda 2e-4, margins 0 and .3841.

A problem that the end of training cuts off has no solution, so of a chain the first and the last problem that ended by
themselves are compared. MAP@R is that of validation, by which the chain goes; the test's is in the JSON line.

    python tests/anchors/ccp_concept.py [--runs 3] [--out FOLDER] [--store FILE]
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import fmean
from typing import Any

import pandas as pd
from claims import ONE_PROBLEM
from matplotlib.figure import Figure
from suites import Methods, by_run, command, final_records, folds_of, leave

from benchmark.methods.entry import Value
from reports.analyses.drawing import Drawing, line_look, open_axes, subject_of
from reports.save import save_drawings
from results.record import FoldRecord, Record

LABELS = {ONE_PROBLEM: "one problem", "ccp-contrastive": "CCP"}
VALUES: dict[str, Value] = {"n_proxies": 8, "pool_size": 12, "pos_margin": 0.0, "neg_margin": 0.3841}
METHODS: Methods = {ONE_PROBLEM: VALUES, "ccp-contrastive": {**VALUES, "lambda": 2e-4, "batch_weight": 0.0}}
SETTINGS = (
    *("embedding.dim=2", "embedding.normalisation=lipschitz", "n_folds=1", "kind=holdout", "holdout_parts=3"),
    *("max_steps=1500", "cadence.evaluate_every_steps=25", "cadence.patience=60"),
)
N_RUNS = 3
ENDS = ("start", "end")
NOTES = (
    "Covering radius: largest distance of an image of the pool to the nearest proxy of its class, mean over classes; "
    "images by the network as it is where a problem begins or ends, at CCP's ends the proxies of the problem's best "
    "validation; the lines between the two are no measurements. First run.",
)

Chain = Sequence[Mapping[str, Any]]  # the problems of a fold model, as CCP's summary lists them


def chains(folds: Sequence[FoldRecord]) -> list[Chain]:
    """The problems of every fold model."""
    return [(fold.method_state or {})["problems"] for fold in folds]


def shown(single: Sequence[Chain], many: Sequence[Chain]) -> dict[str, dict[str, Any]]:
    """The three parts of the idea, each as two means over runs and whether they lie as it says.

    `coalesce`: spread over covering radius of the one problem, at its start and at its end; `covering_radius` and
    `map_at_r`: of the first and the last solution of a chain. Runs in which fewer than two problems ended count for
    none of these two; without any other, they do not hold.
    """
    ended = [chain[:-1] for chain in many if len(chain) > 2]
    coalesce = [fmean(chain[0][at]["spread"] / chain[0][at]["covering_radius"] for chain in single) for at in ENDS]
    radius = [fmean(chain[at]["end"]["covering_radius"] for chain in ended) if ended else None for at in (0, -1)]
    best = [fmean(chain[at]["best_map_at_r"] for chain in ended) if ended else None for at in (0, -1)]
    return {
        "coalesce": _step(coalesce, falls=True),
        "covering_radius": _step(radius, falls=True),
        "map_at_r": _step(best, falls=False),
    }


def _step(ends: Sequence[float | None], *, falls: bool) -> dict[str, Any]:
    first, last = ends
    holds = first is not None and last is not None and (last < first if falls else last > first)
    return {"from": first, "to": last, "holds": holds}


def table(single: Sequence[Chain], many: Sequence[Chain]) -> str:
    """Every solution of every run, the one problem first; then what is shown."""
    lines = [f"{'':13}{'run':>4}{'problem':>9}{'steps':>7}{'radius':>8}{'spread':>8}{'MAP@R':>8}"]
    for label, runs in (("one problem", single), ("CCP", many)):
        for run, chain in enumerate(runs, start=1):
            for number, problem in enumerate(chain, start=1):
                end = problem["end"]
                best = problem["best_map_at_r"]  # none for a problem that began at the last validation
                reached = "       -" if best is None else f"{best:8.4f}"
                cells = f"{end['covering_radius']:8.4f}{end['spread']:8.4f}{reached}"
                cut = " cut off" if number == len(chain) > 1 else ""
                lines.append(f"{label:13}{run:4}{number:9}{problem['n_steps']:7}{cells}{cut}")
    for name, step in shown(single, many).items():
        ends = " -> ".join("none" if step[at] is None else f"{step[at]:.4f}" for at in ("from", "to"))
        lines.append(f"{name:17}{ends:22}{'shows' if step['holds'] else 'does not show'}")
    return "\n".join(lines)


def picture(records: Sequence[Record]) -> Drawing:
    """Covering radius and validation MAP@R over the steps of the first run, one above the other."""
    firsts = {label: folds_of(records, name)[0] for name, label in LABELS.items()}
    data = pd.DataFrame([row for label, fold in firsts.items() for row in _rows(label, fold)])
    subject = subject_of(firsts["CCP"].identity, with_method=False)
    return Drawing(subject=subject, data=data, paint=partial(_paint, data=data), notes=NOTES, size_in=(8.0, 6.5))


def _rows(label: str, fold: FoldRecord) -> Iterator[dict[str, Any]]:
    for number, problem in enumerate((fold.method_state or {})["problems"], start=1):
        for at, step in zip(ENDS, (problem["after_step"], problem["after_step"] + problem["n_steps"]), strict=True):
            radius = problem[at]["covering_radius"]
            yield {"line": label, "quantity": "covering radius", "problem": number, "step": step, "value": radius}
    for point in fold.curve:
        yield {"line": label, "quantity": "MAP@R", "problem": None, "step": point.step, "value": point.map_at_r}


def _paint(figure: Figure, data: pd.DataFrame) -> None:
    radius_axes, map_axes = figure.subplots(2, 1, sharex=True)
    open_axes(radius_axes, "", "covering radius")
    open_axes(map_axes, "training step; dotted: CCP goes on to the next problem", "validation MAP@R (percent)")
    for place, label in enumerate(LABELS.values()):
        part, look = data[data["line"] == label], line_look(place)
        radii, curve = (part[part["quantity"] == quantity] for quantity in ("covering radius", "MAP@R"))
        for _, problem in radii.groupby("problem"):
            radius_axes.plot(problem["step"], problem["value"], markersize=5, **look)
        map_axes.plot(curve["step"], 100 * curve["value"], label=label, markersize=3, **look)
    switches = data[(data["line"] == "CCP") & (data["problem"] > 1)].groupby("problem")["step"].min()
    for axes in (radius_axes, map_axes):
        axes.set_ylim(bottom=0)
        for step in switches:
            axes.axvline(step, color="black", linestyle=":", linewidth=0.9)
    figure.legend(loc="outside right upper", frameon=False)


def main() -> int:
    """Print what was found; 1 if a part of the idea does not show."""
    parser = command(__doc__)
    parser.add_argument("--runs", type=int, default=N_RUNS, help="final runs of each method")
    parser.add_argument("--out", type=Path, default=Path("runs/anchors"), help="folder for the picture")
    asked = parser.parse_args()
    records = final_records(METHODS, "mini", "shapes:shifted", (*SETTINGS, f"n_runs={asked.runs}"), asked)
    single, many = (chains(folds_of(records, name)) for name in LABELS)
    print(table(single, many))
    found = shown(single, many)
    report = {
        "shown": found,
        "runs": asked.runs,
        "test_map_at_r": {LABELS[name]: values for name, values in by_run(records, "map_at_r", "separated").items()},
        "files": [path.as_posix() for path in save_drawings("ccp-concept", [picture(records)], asked.out)],
    }
    print(json.dumps(report))
    return int(not all(step["holds"] for step in found.values()))


if __name__ == "__main__":
    leave(main)
