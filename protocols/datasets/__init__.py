"""Data sets: `load_dataset` reads one into an `ImageIndex`, `scan` looks for damaged and doubled images in it.

One text names a data set: `shapes:centred` or `shapes:shifted`, with options as in
`shapes:shifted?train=60&test=30&seed=0` (images of each training and each test class); a data set of the papers with
the folder that it lies in, as in `cub200:PATH`; or the path of a folder of images, also written `folder:PATH`.
"""

import os
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

from protocols.datasets.cars196 import cars196_index
from protocols.datasets.cub200 import cub200_index
from protocols.datasets.files import readable, refuse_unless_folder
from protocols.datasets.folder import LAYOUTS, folder_index
from protocols.datasets.inaturalist import inaturalist_index
from protocols.datasets.index import ImageIndex
from protocols.datasets.inshop import inshop_index
from protocols.datasets.shapes import DIFFICULTIES, shapes_index
from protocols.datasets.sop import sop_index
from protocols.datasets.standard import STANDARD
from protocols.errors import DataError, did_you_mean

__all__ = ["ImageIndex", "Problem", "check_decodes", "load_dataset", "scan"]

_GENERATED = tuple(f"shapes:{difficulty}" for difficulty in DIFFICULTIES)
_READERS: dict[str, Callable[[Path], ImageIndex]] = {  # by the keys of STANDARD
    "cub200": cub200_index,
    "cars196": cars196_index,
    "sop": sop_index,
    "inshop": inshop_index,
    "inaturalist2019": inaturalist_index,
}


def load_dataset(text: str) -> ImageIndex:
    """The data set that a text names; see the module's first lines for the forms.

    Raises:
        DataError: for an unknown name or option, a folder that is not there, or one that cannot be a data set.
    """
    scheme, _, rest = text.partition(":")
    if scheme == "shapes":
        return _shapes(text)
    path = Path(rest if scheme in ("folder", *_READERS) else text).expanduser()
    path = path.absolute() if path.name not in ("", "..") else path.resolve()
    if scheme in _READERS:
        return _standard(scheme, path)
    with readable(path):
        exists = path.exists()
    if scheme != "folder" and not exists:
        placed = {name: f"{name}:PATH" for name in _READERS}
        near = get_close_matches(text, _GENERATED, n=1) or [placed[name] for name in get_close_matches(scheme, placed)]
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise DataError(
            f"{text}: no such folder.{hint} Known: {', '.join(_GENERATED)}, or a folder of {LAYOUTS}; data sets of the "
            f"papers: {', '.join(placed.values())}."
        )
    return folder_index(path)


def _standard(name: str, root: Path) -> ImageIndex:
    with readable(root):
        refuse_unless_folder(root, f"{STANDARD[name].title} is read from {STANDARD[name].layouts}.")
        return _READERS[name](root)


def _shapes(text: str) -> ImageIndex:
    name, _, query = text.partition("?")
    if name not in _GENERATED:
        near = get_close_matches(name, _GENERATED, n=1)
        raise DataError(f"no data set named {name!r}. Did you mean {(near or _GENERATED)[0]!r}?")
    difficulty: Literal["centred", "shifted"] = "centred" if name == "shapes:centred" else "shifted"
    options = {"train": DIFFICULTIES[difficulty].train, "test": DIFFICULTIES[difficulty].test, "seed": 0}
    smallest = {"train": 2, "test": 2, "seed": 0}
    for option in query.split("&") if query else ():
        key, _, value = option.partition("=")
        if key not in options:
            raise DataError(f"{text}: no option {key!r}.{did_you_mean(key, options)} Known: {', '.join(options)}.")
        if not (value.isascii() and value.isdecimal() and int(value) >= smallest[key]):
            raise DataError(f"{text}: {key} is {value!r}; wanted a whole number from {smallest[key]}.")
        options[key] = int(value)
    return shapes_index(difficulty, location=text, **options)


@dataclass(frozen=True)
class Problem:
    """Something in a data set that its user should know before training."""

    kind: Literal["unreadable", "duplicate", "duplicate-across-sides"]
    files: tuple[str, ...]
    reason: str


def scan(index: ImageIndex) -> list[Problem]:
    """Decode every image and compare all hashes.

    Returns:
        Images that do not decode first, then groups of files with the same bytes, in canonical order. A group with
        files in official train and test classes is of the kind "duplicate-across-sides".
    """
    return _unreadable(index) + _duplicates(index)


def check_decodes(index: ImageIndex) -> None:
    """Decode every image.

    Raises:
        DataError: if any fails; it counts them and names the first few.
    """
    if problems := _unreadable(index):
        names = ", ".join(problem.files[0] for problem in problems[:3])
        more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
        raise DataError(
            f"{index.location}: {len(problems)} of {index.n_images} images do not decode: {names}{more}. "
            f"The first: {problems[0].reason}"
        )


def _unreadable(index: ImageIndex) -> list[Problem]:
    def reason(image: int) -> str | None:
        try:
            index.read(image)
        except DataError as error:
            return str(error)
        return None

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        reasons = pool.map(reason, range(index.n_images))
        return [Problem("unreadable", (index.files[image],), why) for image, why in enumerate(reasons) if why]


def _duplicates(index: ImageIndex) -> list[Problem]:
    images_by_hash: dict[str, list[int]] = defaultdict(list)
    for image, image_hash in enumerate(index.image_hashes):
        images_by_hash[image_hash].append(image)
    return [_duplicate(index, images) for images in images_by_hash.values() if len(images) > 1]


def _duplicate(index: ImageIndex, images: list[int]) -> Problem:
    labels = sorted({index.classes[index.targets[image]] for image in images})
    where = f"in class {labels[0]}" if len(labels) == 1 else f"in classes {', '.join(labels)}"
    on_test = {label in (index.test_classes or ()) for label in labels}
    files = tuple(index.files[image] for image in images)
    if len(on_test) > 1:
        return Problem("duplicate-across-sides", files, f"same bytes on the train and the test side, {where}")
    return Problem("duplicate", files, f"same bytes, {where}")
