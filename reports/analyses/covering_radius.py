"""How well k of a class's own embeddings cover it: covering radius of k greedily chosen centres, mean over classes.

The radius of k centres is the largest distance of an image of the class to the nearest of them. The first centre is the
best single one, so that nothing is random; each next one is the image farthest from all before. A class with at most k
images has radius 0. Test embeddings of final fold models, Euclidean distances, as the metrics see them.
Source: Gurbuz et al., WACV 2024; the greedy choice: Gonzalez, Theoretical Computer Science 1985
"""

import statistics
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from scipy.spatial.distance import cdist

from reports.analyses.drawing import Drawing, Gallery, Subject, by_subject, gallery, line_look, open_axes
from reports.analyses.embedded import Embedded, Floats, Images
from reports.statistics.intervals import mean_interval
from reports.tabulation import variant_labels
from results.record import FoldRecord, Record

MOST_CENTRES = 16  # as many as a search may ask proxies a class
NOTES = (
    "Mean over test classes and fold models of the largest Euclidean distance of a test image to the nearest of k "
    "centres of its class, chosen greedily; band: 95 % interval over runs. Only runs with all fold models count.",
)


def covering_radius(embedded: Embedded) -> Gallery:
    """One picture for each protocol, data set and split, with a line for each method.

    Raises:
        ReportError: if no method has a run with all its fold models.
    """
    parts = (
        _drawing(subject, radii)
        for subject, records in by_subject(embedded.records, with_method=False).items()
        for radii in [pd.DataFrame(_lines(records, embedded))]
    )
    return gallery(parts, "no final fold model is recorded there; mlrc run makes some.")


def _drawing(subject: Subject, radii: pd.DataFrame) -> Drawing | str:
    if not len(radii):
        return f"{'; '.join(subject.title())}: no run has all its fold models; mlrc run goes on."
    notes = (*NOTES, _runs(radii))
    return Drawing(subject=subject, data=radii, paint=partial(_paint, radii=radii), notes=notes)


def _runs(radii: pd.DataFrame) -> str:
    by_method = {str(method): int(part["n_runs"].iloc[0]) for method, part in radii.groupby("method", sort=False)}
    if len(set(by_method.values())) == 1:
        return f"Runs of each method: {radii['n_runs'].iloc[0]}."
    return f"Runs: {', '.join(f'{method} {n_runs}' for method, n_runs in by_method.items())}."


def _lines(records: Sequence[Record], embedded: Embedded) -> Iterator[dict[str, Any]]:
    runs: dict[tuple[str, ...], dict[int, list[FoldRecord]]] = {}
    for record in records:
        assert isinstance(record, FoldRecord)
        identity = record.identity
        variant: tuple[str, ...] = (identity.method, identity.method_code, identity.hyperparameters_text)
        runs.setdefault(variant, {}).setdefault(identity.run, []).append(record)
    labels = variant_labels(list(runs))
    for variant, folds_by_run in runs.items():
        whole = [folds for folds in folds_by_run.values() if len(folds) == _n_folds(folds[0])]
        if whole:
            over_folds = [np.mean([_mean_radii(*embedded.of(fold)) for fold in folds], axis=0) for folds in whole]
            for k, values in enumerate(np.stack(over_folds, axis=1).tolist(), start=1):
                found = mean_interval(values)
                yield {
                    "method": labels[variant],
                    "k": k,
                    "mean": found.mean,
                    "ci95_half_width": found.half_width,
                    "n_runs": found.n,
                }


def _n_folds(record: FoldRecord) -> int:
    return int(record.identity.protocol["values"]["folds"]["n_folds"])


def _mean_radii(embeddings: Floats, images: Images) -> list[float]:
    members: dict[str, list[int]] = {}
    for row, name in enumerate(images.classes):
        members.setdefault(name, []).append(row)
    most = min(MOST_CENTRES, max(map(len, members.values())))
    radii = [greedy_radii(embeddings[rows], most) for rows in members.values()]
    return [statistics.fmean(column) for column in zip(*radii, strict=True)]


def greedy_radii(points: Floats, k: int) -> list[float]:
    """The covering radius of the first 1, 2, .. k centres of (N, D) points, by the greedy choice."""
    distances = cdist(points.astype(np.float64), points.astype(np.float64))
    uncovered = distances[distances.max(axis=1).argmin()]
    radii = [float(uncovered.max())]
    while len(radii) < k:
        uncovered = np.minimum(uncovered, distances[uncovered.argmax()])
        radii.append(float(uncovered.max()))
    return radii


def _paint(figure: Figure, radii: pd.DataFrame) -> None:
    axes = figure.add_subplot()
    open_axes(axes, "centres of a class, k", "covering radius (Euclidean distance)")
    for place, (method, part) in enumerate(radii.groupby("method", sort=False)):
        look = line_look(place)
        axes.plot(part["k"], part["mean"], label=str(method), markersize=4, **look)
        reach = part["ci95_half_width"].astype(float).fillna(0.0)
        axes.fill_between(
            part["k"], part["mean"] - reach, part["mean"] + reach, color=look["color"], alpha=0.15, linewidth=0
        )
    axes.set_ylim(bottom=0)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    figure.legend(loc="outside right upper", frameon=False)
