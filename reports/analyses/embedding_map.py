"""The test embeddings of one fold model on a plane, with some of the images themselves.

Two principal components, or t-SNE with a fixed seed; of t-SNE only who is whose neighbour means something. Up to
`MOST_POINTS` images, drawn with a fixed seed where there are more. Eight classes, evenly spaced in the order of all,
have a colour; the others are gray. Thumbnails stand on their image's point, in a random order with a fixed seed, each
where it covers none before it.
Source: the pictures of Yang et al., WACV 2022, and of Gurbuz et al., WACV 2024
"""

from functools import partial

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from numpy.typing import NDArray
from PIL import Image

from reports.analyses.drawing import Drawing, Gallery, gallery, subject_of
from reports.analyses.embedded import Embedded, Floats, Images
from reports.errors import ReportError
from reports.style import COLOURS
from results.record import FoldRecord

MOST_POINTS = 5000
MOST_THUMBNAILS = 150
THUMBNAIL = 0.045  # longer side, as a share of the picture's larger side
THUMBNAIL_PX = 48
OTHERS = "#9A9A9A"
Thumbnails = dict[int, NDArray[np.uint8]]  # by row of the plane


def embedding_map(embedded: Embedded, tsne: bool = False) -> Gallery:
    """One picture for each method with its hyper-parameters, protocol, data set and split: of its first fold model."""
    first: dict[tuple[str, ...], FoldRecord] = {}
    for record in embedded.records:
        identity = record.identity
        variant = (*identity.comparison, identity.method, identity.method_code, identity.hyperparameters_text)
        first.setdefault(variant, record)
    return gallery(
        (plane(record, *embedded.of(record), tsne=tsne) for record in first.values()),
        "no final fold model is recorded there; mlrc run makes some.",
    )


def plane(record: FoldRecord, embeddings: Floats, images: Images, *, tsne: bool = False) -> Drawing:
    """One picture of (N, D) embeddings of these N images.

    Raises:
        ReportError: if there are fewer than three images, or the embeddings have one dimension.
    """
    if min(len(embeddings) - 1, embeddings.shape[1]) < 2:
        raise ReportError(
            f"{record.identity.method}: {embeddings.shape[0]} test images in {embeddings.shape[1]} dimensions; a plane "
            "needs at least 3 in 2. Take a larger data set or embedding."
        )
    random = np.random.default_rng(0)
    rows = np.sort(random.permutation(len(embeddings))[:MOST_POINTS])
    points, labels = (_tsne if tsne else _principal_components)(embeddings[rows].astype(np.float64))
    scaled = (points - points.min(axis=0)) / np.ptp(points, axis=0).max()
    shown = _apart(scaled, random.permutation(len(rows)))
    thumbnails = {place: _thumbnail(images.read(int(rows[place]))) for place in shown}
    data = pd.DataFrame(
        {
            "file": [images.files[row] for row in rows],
            "class": [images.classes[row] for row in rows],
            "x": points[:, 0],
            "y": points[:, 1],
            "thumbnail": [place in thumbnails for place in range(len(rows))],
        }
    )
    what = "t-SNE with a fixed seed, in which distances between far points mean nothing" if tsne else "PCA"
    note = f"Test embeddings of run {record.identity.run}, fold model {record.fold}; {what}. Gray: all other classes."
    sampled = f" {len(rows)} of {len(embeddings)} images, drawn at random." if len(rows) < len(embeddings) else ""
    return Drawing(
        subject=subject_of(record.identity, with_method=True, with_values=True),
        data=data,
        paint=partial(_paint, scaled=scaled, classes=list(data["class"]), thumbnails=thumbnails, labels=labels),
        notes=(note + sampled,),
        size_in=(9.0, 8.0),
    )


def _principal_components(embeddings: Floats) -> tuple[Floats, tuple[str, str]]:
    from sklearn.decomposition import PCA  # here: it takes a second to import

    found = PCA(n_components=2, svd_solver="full")
    points = found.fit_transform(embeddings)
    first, second = (f"{100 * share:.1f} % of the variance" for share in found.explained_variance_ratio_)
    return points, (f"component 1, {first}", f"component 2, {second}")


def _tsne(embeddings: Floats) -> tuple[Floats, tuple[str, str]]:
    from sklearn.manifold import TSNE

    perplexity = min(30.0, (len(embeddings) - 1) / 3)
    found: Floats = TSNE(perplexity=perplexity, init="pca", random_state=0).fit_transform(embeddings)
    return found.astype(np.float64), ("", "")


def _apart(scaled: Floats, order: NDArray[np.int64]) -> list[int]:
    """Points of which squares of the side `THUMBNAIL` do not overlap, taken as they come."""
    chosen: list[int] = []
    for place in order.tolist():
        if len(chosen) == MOST_THUMBNAILS:
            break
        if not chosen or np.abs(scaled[chosen] - scaled[place]).max(axis=1).min() >= THUMBNAIL:
            chosen.append(place)
    return chosen


def _thumbnail(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    image = Image.fromarray(pixels)
    image.thumbnail((THUMBNAIL_PX, THUMBNAIL_PX))
    return np.asarray(image)


def _paint(figure: Figure, scaled: Floats, classes: list[str], thumbnails: Thumbnails, labels: tuple[str, str]) -> None:
    axes = figure.add_subplot()
    colour_of = _colours(classes)
    colours = [colour_of.get(name, OTHERS) for name in classes]
    sizes = [14 if name in colour_of else 4 for name in classes]
    axes.scatter(scaled[:, 0], scaled[:, 1], s=sizes, c=colours, linewidths=0)
    for place, pixels in thumbnails.items():
        _paint_thumbnail(axes, scaled[place], pixels, colours[place])
    for name, colour in colour_of.items():
        axes.scatter([], [], s=25, color=colour, label=_short(name))
    figure.legend(loc="outside right upper", frameon=False, fontsize=7)
    axes.set(xlabel=labels[0], ylabel=labels[1], xticks=[], yticks=[], aspect="equal")
    axes.set_adjustable("datalim")  # a box that shrinks to its aspect after the layout would push its label out
    width, height = np.ptp(scaled, axis=0)
    axes.set_xlim(-THUMBNAIL, width + THUMBNAIL, auto=True)
    axes.set_ylim(-THUMBNAIL, height + THUMBNAIL, auto=True)  # auto: the aspect may widen them
    axes.spines["bottom"].set_visible(False)


def _colours(classes: list[str]) -> dict[str, str]:
    distinct = list(dict.fromkeys(classes))
    n = min(len(COLOURS), len(distinct))
    return {distinct[len(distinct) * place // n]: COLOURS[place] for place in range(n)}


def _short(name: str) -> str:
    return name if len(name) <= 28 else f"... {name[-24:]}"


def _paint_thumbnail(axes: Axes, centre: Floats, pixels: NDArray[np.uint8], colour: str) -> None:
    height, width = THUMBNAIL * np.array(pixels.shape[:2]) / max(pixels.shape[:2])
    left, low = centre - np.array([width, height]) / 2
    axes.imshow(pixels, extent=(left, left + width, low, low + height), interpolation="none", zorder=3)
    axes.add_patch(Rectangle((left, low), width, height, fill=False, edgecolor=colour, linewidth=1, zorder=4))
