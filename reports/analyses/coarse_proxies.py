"""Validation MAP@R over the number of coarse proxies of a hierarchy (HPL), from the trials of the search.

Source: the ablation of Yang et al., WACV 2022, https://arxiv.org/abs/2103.13538
"""

from collections.abc import Iterable
from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from reports.analyses.drawing import Drawing, Gallery, Subject, gallery, log_scale, open_axes
from reports.analyses.trials import finished, others_moved, too_few, trial_frames, with_parameters
from reports.style import COLOURS
from results.record import Record

LEVELS = ("n_coarse_1", "n_coarse_2")
NOTES = ("Points: the trials, mean over folds; bars: from the lowest to the highest fold; the star is the best.",)


def coarse_proxies(records: Iterable[Record]) -> Gallery:
    """One picture for each search over numbers of coarse proxies, with a panel for each coarse level."""
    frames = trial_frames(records)
    searches = with_parameters(frames, LEVELS[:1]) | with_parameters(frames, LEVELS)
    return gallery(
        (too_few(subject, trials) or coarse(subject, trials) for subject, trials in searches.items()),
        "no search over n_coarse_1 is recorded there; mlrc search hpl-proxy-anchor makes one.",
    )


def coarse(subject: Subject, trials: pd.DataFrame) -> Drawing:
    """One picture of trials with the columns `n_coarse_1`, maybe `n_coarse_2`, and those of `trials.COLUMNS`."""
    levels = [name for name in LEVELS if name in trials]
    return Drawing(
        subject=subject,
        data=trials,
        paint=partial(_paint, trials=trials, levels=levels),
        notes=(*NOTES, "Crosses on the bottom line: trials that failed.", others_moved(trials, levels)),
    )


def _paint(figure: Figure, trials: pd.DataFrame, levels: list[str]) -> None:
    panels = figure.subplots(1, len(levels), squeeze=False, sharey=True)[0]
    for axes, level in zip(panels, levels, strict=True):
        open_axes(axes, level, "validation MAP@R (percent)" if axes is panels[0] else "")
        log_scale(axes, trials[level])
        _paint_level(axes, trials, level)


def _paint_level(axes: Axes, trials: pd.DataFrame, level: str) -> None:
    done, failed = finished(trials).sort_values("map_at_r"), trials[trials["missing"] != ""]
    mean = 100 * done["map_at_r"].to_numpy(dtype=float)
    reach = np.abs(100 * done[["lowest_fold", "highest_fold"]].to_numpy(dtype=float).T - mean)
    axes.errorbar(done[level], mean, yerr=reach, fmt="o", color=COLOURS[0], markersize=5, linewidth=1, capsize=2)
    axes.plot(done[level].iloc[-1:], mean[-1:], "*", color=COLOURS[1], markersize=14, markeredgecolor="black", zorder=3)
    if len(failed):
        bottom = axes.get_ylim()[0]
        axes.plot(failed[level], [bottom] * len(failed), "x", color=COLOURS[3], clip_on=False, markersize=6)
        axes.set_ylim(bottom=bottom)
