"""Validation MAP@R over two hyper-parameters of chance constraints (CCP), from the trials of the search.

Between the trials the colour is linear on the triangles that Delaunay makes of them, both axes running from 0 to 1 over
the trials' values; outside these triangles there is none. Trials at one place count there with their mean.
Source: the figures of Gurbuz et al., WACV 2024, over lambda, the number of proxies and the pool size.
"""

from collections.abc import Iterable
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from matplotlib.tri import Triangulation
from numpy.typing import NDArray

from reports.analyses.drawing import Drawing, Gallery, Subject, gallery, log_scale, open_axes
from reports.analyses.trials import finished, others_moved, too_few, trial_frames, with_parameters
from reports.style import COLOURS
from results.record import Record

N_LEVELS = 8
NOTES = (
    "Points: the trials; the star is the best; crosses failed. Colour between them: linear on the Delaunay triangles "
    "of the trials, a guide for the eye; none outside of them.",
)
POOL_NOTE = "A pool_size below n_proxies is raised to n_proxies times itself in training."


def lambda_by_proxies(records: Iterable[Record]) -> Gallery:
    """One surface for each search over lambda and the number of proxies."""
    return _surfaces(records, "lambda", "n_proxies")


def pool_by_proxies(records: Iterable[Record]) -> Gallery:
    """One surface for each search over the pool size and the number of proxies."""
    return _surfaces(records, "pool_size", "n_proxies")


def surface(subject: Subject, trials: pd.DataFrame, x: str, y: str) -> Drawing:
    """One picture of trials with the columns `x`, `y` and those of `trials.COLUMNS`; x = "lambda" is drawn as log."""
    return Drawing(
        subject=subject,
        data=trials,
        paint=partial(_paint, trials=trials, x=x, y=y),
        notes=(*NOTES, *([POOL_NOTE] if x == "pool_size" else []), others_moved(trials, (x, y))),
    )


def _surfaces(records: Iterable[Record], x: str, y: str) -> Gallery:
    searches = with_parameters(trial_frames(records), (x, y))
    return gallery(
        (too_few(subject, trials) or surface(subject, trials, x, y) for subject, trials in searches.items()),
        f"no search over {x} and {y} is recorded there; mlrc search ccp-contrastive makes one.",
    )


def _paint(figure: Figure, trials: pd.DataFrame, x: str, y: str) -> None:
    axes = figure.add_subplot()
    open_axes(axes, x, y)
    axes.use_sticky_edges = False  # of the contours: points on the edge are shown whole
    if x == "lambda":
        log_scale(axes, trials[x])
    done, failed = finished(trials).sort_values("map_at_r"), trials[trials["missing"] != ""]
    values = 100 * done["map_at_r"].to_numpy(dtype=float)
    look = {"cmap": "viridis", "vmin": values.min(), "vmax": values.max() or 1.0}
    _paint_between(axes, done.groupby([x, y])["map_at_r"].mean().reset_index(), x, y, look)
    points = axes.scatter(done[x], done[y], c=values, s=40, edgecolors="black", linewidths=0.8, zorder=3, **look)
    axes.scatter(
        done[x].iloc[-1:], done[y].iloc[-1:], c=values[-1:], s=220, marker="*", edgecolors="black", zorder=4, **look
    )
    axes.annotate(
        f"{values[-1]:.2f}", (done[x].iloc[-1], done[y].iloc[-1]), xytext=(9, 7), textcoords="offset points", zorder=5
    )
    axes.scatter(failed[x], failed[y], marker="x", s=45, color=COLOURS[3], zorder=3)
    axes.yaxis.set_major_locator(MaxNLocator(integer=True))
    axes.margins(0.06)
    bar = figure.colorbar(points, ax=axes, label="validation MAP@R (percent), mean over folds")
    bar.outline.set_visible(False)


def _paint_between(axes: Axes, places: pd.DataFrame, x: str, y: str, look: dict[str, object]) -> None:
    xs, ys = places[x].to_numpy(dtype=float), places[y].to_numpy(dtype=float)
    triangles = delaunay(xs, ys, log=x == "lambda")
    values = 100 * places["map_at_r"].to_numpy(dtype=float)
    if triangles is not None and np.ptp(values) > 0:
        axes.tricontourf(triangles, values, levels=N_LEVELS, alpha=0.75, **look)


def delaunay(xs: NDArray[np.float64], ys: NDArray[np.float64], *, log: bool) -> Triangulation | None:
    """Triangles between distinct points as they lie in the picture, `xs` maybe on a log axis; None on a line."""
    points = np.stack([np.log(xs) if log else xs, ys])
    points = points - points.min(axis=1, keepdims=True)
    points /= np.maximum(points.max(axis=1, keepdims=True), np.finfo(float).tiny)
    if np.linalg.matrix_rank(points - points.mean(axis=1, keepdims=True), tol=1e-6) < 2:
        return None
    return Triangulation(xs, ys, Triangulation(*points).triangles)
