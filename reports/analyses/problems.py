"""The chain of proxy problems (CCP) of final fold models: how many steps each problem of the chain took.

The last problem of a chain ends because training does, so its length is a lower bound of what it would have taken; the
picture marks it. A mean over runs counts a run only where all of its fold models came to that problem.
Source: Gurbuz et al., WACV 2024, who show the steps that each problem takes.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from reports.analyses.drawing import Drawing, Gallery, Subject, by_subject, gallery, open_axes
from reports.statistics.intervals import mean_interval
from reports.style import COLOURS
from results.record import FoldRecord, Record

NOTES = (
    "Circles: fold models, in their runs' order from left to right; hollow: training ended before the problem did. "
    "Line: mean over the runs whose fold models all came to the problem, with its 95 % interval over runs.",
)


def steps_per_problem(records: Iterable[Record]) -> Gallery:
    """One picture for each method with problems and each set of its hyper-parameters, from its final runs."""
    chains = [
        record
        for record in records
        if isinstance(record, FoldRecord) and record.identity.purpose == "final" and record.outcome == "done"
        if "problems" in (record.method_state or {})
    ]
    return gallery(
        (problems(*found) for found in _frames(chains)),
        "no final run with a chain of problems is recorded there; mlrc run ccp-contrastive makes some.",
    )


def problems(subject: Subject, lengths: pd.DataFrame, n_folds: int) -> Drawing:
    """One picture of `lengths`: columns run, fold, problem (from 1), n_steps, best_step, best_map_at_r, is_last."""
    means = pd.DataFrame(_means(lengths, n_folds))
    data = lengths.merge(means, how="left", on="problem") if len(means) else lengths
    return Drawing(subject=subject, data=data, paint=partial(_paint, lengths=lengths, means=means), notes=NOTES)


def _frames(chains: Sequence[Record]) -> Iterator[tuple[Subject, pd.DataFrame, int]]:
    for subject, records in by_subject(chains, with_method=True, with_values=True).items():
        folds = [record for record in records if isinstance(record, FoldRecord)]
        n_folds = folds[0].identity.protocol["values"]["folds"]["n_folds"]
        yield subject, pd.DataFrame([row for fold in folds for row in _rows(fold)]), n_folds


def _rows(fold: FoldRecord) -> Iterator[dict[str, Any]]:
    chain = (fold.method_state or {})["problems"]
    for number, problem in enumerate(chain, start=1):
        yield {
            "run": fold.identity.run,
            "fold": fold.fold,
            "problem": number,
            **{name: problem[name] for name in ("n_steps", "best_step", "best_map_at_r")},
            "is_last": number == len(chain),
        }


def _means(lengths: pd.DataFrame, n_folds: int) -> Iterator[dict[str, Any]]:
    for problem, part in lengths.groupby("problem"):
        runs = [run["n_steps"].mean() for _, run in part.groupby("run") if len(run) == n_folds]
        if runs:
            found = mean_interval(runs)
            yield {"problem": problem, "mean": found.mean, "ci95_half_width": found.half_width, "n_runs": found.n}


def _paint(figure: Figure, lengths: pd.DataFrame, means: pd.DataFrame) -> None:
    axes = figure.add_subplot()
    open_axes(axes, "problem of the chain", "training steps")
    places = lengths.groupby("problem").cumcount()
    width = places.max() + 1
    xs = lengths["problem"] + 0.6 * ((places + 0.5) / width - 0.5)
    for is_last, face in ((False, COLOURS[5]), (True, "none")):
        chosen = lengths["is_last"] == is_last
        axes.scatter(
            xs[chosen], lengths["n_steps"][chosen], s=22, facecolors=face, edgecolors=COLOURS[0], linewidths=0.9
        )
    if len(means):
        half_width = means["ci95_half_width"].astype(float).fillna(0.0)
        axes.errorbar(
            means["problem"], means["mean"], yerr=half_width, color="black", linewidth=1.2, capsize=3, zorder=3
        )
    axes.set_xticks(sorted(lengths["problem"].unique()))
    axes.set_ylim(bottom=0)
