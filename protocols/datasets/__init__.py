"""Data sets: `load_dataset` reads one into an `ImageIndex`, `scan` looks for damaged and doubled images in it.

One text names a data set: `shapes:centred` or `shapes:shifted`, with options as in
`shapes:shifted?train=60&test=30&seed=0` (images of each training and each test class); a data set of the papers with
the folder that it lies in, as in `cub200:PATH`; or the path of a folder of images, also written `folder:PATH`.
"""

import os
from collections import defaultdict
from collections.abc import Callable, Sequence, Set
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

from protocols.datasets.cars196 import cars196_index
from protocols.datasets.cub200 import cub200_index
from protocols.datasets.files import FileReader, readable, refuse_unless_folder
from protocols.datasets.folder import LAYOUTS, folder_index
from protocols.datasets.images import image_kind
from protocols.datasets.inaturalist import inaturalist_index
from protocols.datasets.index import ImageIndex
from protocols.datasets.inshop import inshop_index
from protocols.datasets.mnist import mnist_index
from protocols.datasets.shapes import DIFFICULTIES, shapes_index
from protocols.datasets.sop import sop_index
from protocols.datasets.standard import STANDARD
from protocols.errors import DataError, did_you_mean

__all__ = ["ImageIndex", "Problem", "check_decodes", "image_kinds", "load_dataset", "scan"]

_GENERATED = tuple(f"shapes:{difficulty}" for difficulty in DIFFICULTIES)
_READERS: dict[str, Callable[[Path], ImageIndex]] = {  # by the keys of STANDARD
    "cub200": cub200_index,
    "cars196": cars196_index,
    "sop": sop_index,
    "inshop": inshop_index,
    "inaturalist2019": inaturalist_index,
    "mnist": mnist_index,
}


def load_dataset(text: str) -> ImageIndex:
    """The data set that a text names; see the module's first lines for the forms.

    Raises:
        DataError: for an unknown name or option, a folder that is not there, or one that cannot be a data set.
    """
    scheme, _, rest = text.partition(":")
    if scheme == "shapes":
        return _shapes(text)
    place = rest if scheme in ("folder", *_READERS) else text
    if not place.strip():
        raise DataError(f"{text!r} names no folder; {f'wanted {scheme}:PATH' if text else 'wanted its path'}.")
    path = Path(place).expanduser()
    path = path.absolute() if path.name not in ("", "..") else path.resolve()
    if scheme in _READERS:
        return _standard(scheme, path)
    with readable(path):
        exists = path.exists()
    if scheme != "folder" and not exists:
        placed = {name: f"{name}:PATH" for name in _READERS}
        near = get_close_matches(text.casefold(), _GENERATED, n=1)
        near = near or [placed[name] for name in get_close_matches(scheme.casefold(), placed)]
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
        files in train and test classes is of the kind "duplicate-across-sides"; without an official test side the
        second half of the classes is it, as in the protocols.
    """
    return _unreadable(index) + _duplicates(index)


def image_kinds(index: ImageIndex) -> dict[str, list[str]] | None:
    """The files of each kind of image, named as by `images.image_kind`, commonest first; None if there are no files.

    Those that are no images are left out: `scan` has them.
    """
    reader = index.reader
    if not isinstance(reader, FileReader):
        return None

    def of(file: str) -> str | None:
        try:
            return image_kind(reader.root / file)
        except DataError:
            return None

    files_by_kind: dict[str, list[str]] = defaultdict(list)
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        for file, found in zip(reader.files, pool.map(of, reader.files), strict=True):
            if found is not None:
                files_by_kind[found].append(file)
    return dict(sorted(files_by_kind.items(), key=lambda item: -len(item[1])))


def check_decodes(index: ImageIndex) -> None:
    """Decode every image.

    Raises:
        DataError: if any fails; it counts them and names the first few.
    """
    refuse_undecodable(index, _unreadable(index))


def refuse_undecodable(index: ImageIndex, problems: Sequence[Problem]) -> None:
    """A DataError that counts the images that do not decode and names the first few, if there are any."""
    if problems:
        names = ", ".join(problem.files[0] for problem in problems[:3])
        more = f" and {len(problems) - 3} more" if len(problems) > 3 else ""
        raise DataError(
            f"{index.location}: {len(problems)} of {index.n_images} images do not decode: {names}{more}. "
            f"The first: {problems[0].reason}"
        )


def decoding_problem(index: ImageIndex, image: int, error: DataError) -> Problem:
    """What `read` refused."""
    return Problem("unreadable", (index.files[image],), str(error))


def _unreadable(index: ImageIndex) -> list[Problem]:
    def problem(image: int) -> Problem | None:
        try:
            index.read(image)
        except DataError as error:
            return decoding_problem(index, image, error)
        return None

    with ThreadPoolExecutor(max_workers=os.cpu_count()) as pool:
        return [found for found in pool.map(problem, range(index.n_images)) if found]


def _duplicates(index: ImageIndex) -> list[Problem]:
    images_by_hash: dict[str, list[int]] = defaultdict(list)
    for image, image_hash in enumerate(index.image_hashes):
        images_by_hash[image_hash].append(image)
    test_side = index.test_side
    return [_duplicate(index, images, test_side) for images in images_by_hash.values() if len(images) > 1]


def _duplicate(index: ImageIndex, images: list[int], test_side: Set[str]) -> Problem:
    labels = sorted({index.classes[index.targets[image]] for image in images})
    where = f"in class {labels[0]}" if len(labels) == 1 else f"in classes {', '.join(labels)}"
    files = tuple(index.files[image] for image in images)
    if len({label in test_side for label in labels}) > 1:
        sides = (
            "on the train and the test side" if index.test_classes else "in both halves of the classes, train and test"
        )
        return Problem("duplicate-across-sides", files, f"same bytes {sides}, {where}")
    return Problem("duplicate", files, f"same bytes, {where}")
