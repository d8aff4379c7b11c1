"""What the test embeddings of a method's first whole run show: scores of classes, and queries with what is nearest."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from reports.finals import Finals
from reports.site.boards import Board
from reports.site.material import Material, TestImages
from reports.site.neighbours import Found, look_up, side_by_side
from results.comparison import Comparison
from results.record import FoldRecord

THUMBNAIL_PX = 72
LONGEST_LABEL = 24  # characters below an image


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A test image in a gallery."""

    file: str
    label: str
    width: int
    height: int
    is_right: bool = True


@dataclass(frozen=True, kw_only=True)
class Retrieved:
    """A query and what is nearest to it."""

    query: Picture
    neighbours: tuple[Picture, ...]


@dataclass(frozen=True, kw_only=True)
class Looked:
    """What the test embeddings of one run show."""

    run: int
    what: str
    found: Found
    lines: tuple[Retrieved, ...]


class Thumbnails:
    """Small JPEG files, named by their content: an image that several methods find is there once."""

    def __init__(self) -> None:
        self.files: dict[str, bytes] = {}
        self._known: dict[tuple[Comparison, int], tuple[str, int, int]] = {}

    def of(self, comparison: Comparison, images: TestImages, row: int, is_right: bool = True) -> Picture:
        """The picture of one test image."""
        if (comparison, row) not in self._known:
            self._known[comparison, row] = self._keep(images.read(row))
        file, width, height = self._known[comparison, row]
        name = images.classes[row]
        label = name if len(name) <= LONGEST_LABEL else f"...{name[3 - LONGEST_LABEL :]}"
        return Picture(file=file, label=label, width=width, height=height, is_right=is_right)

    def _keep(self, pixels: NDArray[np.uint8]) -> tuple[str, int, int]:
        image = Image.fromarray(pixels).convert("RGB")
        image.thumbnail((THUMBNAIL_PX, THUMBNAIL_PX))
        out = io.BytesIO()
        image.save(out, format="JPEG", quality=82)
        file = f"{sha256(out.getvalue()).hexdigest()[:12]}.jpg"
        self.files[file] = out.getvalue()
        return file, *image.size


def looked(board: Board, finals: Finals, material: Material, thumbnails: Thumbnails) -> Looked | None:
    """What the first run shows of which all fold models have their embeddings."""
    at_hand = {record.id for record in material.embeddings.records} if material.embeddings else set()
    by_run: dict[int, list[FoldRecord]] = {}
    for (run, _), fold in finals.folds.items():
        if fold.id in at_hand:
            by_run.setdefault(run, []).append(fold)
    whole = [run for run, folds in by_run.items() if len(folds) == board.table.n_folds]
    if not whole or material.embeddings is None:
        return None
    pairs = [material.embeddings.of(fold) for fold in by_run[whole[0]]]
    images: TestImages = pairs[0][1]
    found = look_up(side_by_side([embeddings for embeddings, _ in pairs]), images.classes, images.gallery)
    return Looked(
        run=whole[0],
        what=f"its {len(pairs)} fold models concatenated" if len(pairs) > 1 else "its one model",
        found=found,
        lines=tuple(
            _retrieved(query.row, query.neighbours, board.comparison, images, thumbnails) for query in found.queries
        ),
    )


def _retrieved(
    query: int, neighbours: Sequence[int], comparison: Comparison, images: TestImages, thumbnails: Thumbnails
) -> Retrieved:
    picture = partial(thumbnails.of, comparison, images)
    is_right = [images.classes[row] == images.classes[query] for row in neighbours]
    return Retrieved(query=picture(query), neighbours=tuple(map(picture, neighbours, is_right)))
