"""Score against search budget: the best validation MAP@R so far, over the trials of each method's search."""

from collections.abc import Iterable
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from reports.analyses.drawing import Drawing, Gallery, Subject, by_subject, gallery, line_look, open_axes
from reports.headings import printable
from reports.statistics.search_budget import best_so_far
from results.record import Record

NOTES = (
    "Lines: mean over folds of the best trial so far; a failed trial is budget too, one that repeats another is not. "
    "Markers: a better trial, and the last one.",
    "One search a method: what lies between two lines may be chance.",
)


def search_budget(records: Iterable[Record]) -> Gallery:
    """One picture for each protocol, data set and split, with a line for each searched method."""
    boards = {subject: best_so_far(found) for subject, found in by_subject(records, with_method=False).items()}
    return gallery(
        (budget(subject, trials) for subject, trials in boards.items() if trials["best_so_far"].notna().any()),
        "no search with a finished trial is recorded there; mlrc search makes one.",
    )


def budget(subject: Subject, trials: pd.DataFrame) -> Drawing:
    """One picture of what `best_so_far` returns for one board."""
    data = trials[["method", "method_code", "trial", "map_at_r", "best_so_far", "missing"]]
    return Drawing(subject=subject, data=data, paint=partial(_paint, trials=data), notes=NOTES)


def _paint(figure: Figure, trials: pd.DataFrame) -> None:
    axes = figure.subplots()
    open_axes(axes, "trial", "best validation MAP@R so far (percent)")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    methods = list(trials.groupby(["method", "method_code"], sort=False))
    for place, ((method, code), found) in enumerate(methods):
        label = printable(f"{method} ({code})" if code else str(method))
        better = found["best_so_far"].diff().fillna(1.0) > 0
        shown = np.flatnonzero(better | (found["trial"] == found["trial"].iloc[-1])).tolist()
        look = {**line_look(place), "markevery": shown, "markersize": 4, "label": label}
        axes.step(found["trial"], 100 * found["best_so_far"], where="post", **look)
    figure.legend(loc="outside right upper", frameon=False)
