"""A folder of images as a data set: class/image, super/class/image, or train/ and test/ that hold one of the two.

With train/ and test/ the test side is official and never cut again. A class below a super-class is named "super/class".
Names that begin with a dot, files without an image ending and folders without images are left out and listed. A file
with an image ending always counts, so a picture that does not decode is reported and never silently missing. Links are
followed, except back to a folder above them.
"""

from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

import numpy as np

from protocols.datasets.files import FileReader, few, file_hashes, readable, refuse_unless_folder
from protocols.datasets.images import ENDINGS
from protocols.datasets.index import ImageIndex, canonical_order
from protocols.errors import DataError

LAYOUTS = "class/image, super/class/image, or train/ and test/ that hold one of these"
_SIDES = ("train", "test")


def folder_index(root: Path) -> ImageIndex:
    """Index the images below an absolute folder; every file is read once, for its hash.

    Raises:
        DataError: for a layout that is none of the three, a class on both sides, a file or folder that cannot be read,
            fewer than two classes, or no class with two images.
    """
    with readable(root):
        refuse_unless_folder(root, f"Wanted: {LAYOUTS}.")
        images, skipped = _walk(root)
    if not images:
        raise DataError(
            f"{root}: no image in this folder ({len(skipped)} other entries). Wanted: {LAYOUTS}, with files ending in "
            f"{', '.join(sorted(ENDINGS))}."
        )
    sided = _has_sides(root, images)
    by_class: dict[str, list[str]] = defaultdict(list)
    sides: dict[str, set[str]] = defaultdict(set)
    for image in images:
        *folders, _ = image.parts
        side = folders.pop(0).casefold() if sided else ""
        label = "/".join(folders)
        by_class[label].append(str(image))
        sides[label].add(side)
    _refuse_unlike_depths(root, by_class)
    if both := canonical_order(label for label, found in sides.items() if len(found) > 1):
        raise DataError(f"{root}: in train/ and in test/: {few(both)}. The sides must share no class; keep it on one.")
    classes = canonical_order(by_class)
    files = tuple(file for label in classes for file in sorted(by_class[label]))
    return ImageIndex(
        name=root.name,
        location=str(root),
        classes=classes,
        targets=np.repeat(np.arange(len(classes), dtype=np.int64), [len(by_class[label]) for label in classes]),
        files=files,
        image_hashes=file_hashes(root, files),
        reader=FileReader(root, files),
        super_classes=tuple(label.partition("/")[0] for label in classes) if "/" in classes[0] else None,
        test_classes=frozenset(label for label in classes if sides[label] == {"test"}) if sided else None,
        skipped=tuple(skipped),
    )


def _walk(root: Path) -> tuple[list[PurePosixPath], list[str]]:
    """Relative paths of all files with an image ending, and what was left out."""
    images: list[PurePosixPath] = []
    skipped: list[str] = []
    folders: list[PurePosixPath] = []
    waiting = [(root, frozenset({_identity(root)}))]
    while waiting:
        folder, above = waiting.pop()
        for entry in folder.iterdir():
            relative = PurePosixPath(entry.relative_to(root).as_posix())
            if not _is_utf8(entry.name):
                raise DataError(
                    f"{str(entry)!a}: the name is not UTF-8. Rename it, or set PYTHONUTF8=1 if only the locale is not."
                )
            if entry.name.startswith("."):
                skipped.append(f"{relative}: hidden")
            elif entry.is_dir():
                identity = _identity(entry)
                if identity in above:
                    skipped.append(f"{relative}: link to a folder above it")
                else:
                    folders.append(relative)
                    waiting.append((entry, above | {identity}))
            elif entry.suffix.lower() not in ENDINGS:
                skipped.append(f"{relative}: not an image ending")
            elif entry.is_file():
                images.append(relative)
            else:
                raise DataError(f"{entry}: a broken link or no regular file. Restore the file or remove the entry.")
    skipped += [f"{folder}: folder without images" for folder in _barren(folders, images)]
    return images, sorted(skipped)


def _identity(folder: Path) -> tuple[int, int]:
    status = folder.stat()
    return status.st_dev, status.st_ino


def _is_utf8(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _barren(folders: list[PurePosixPath], images: list[PurePosixPath]) -> Iterator[PurePosixPath]:
    """Folders with no image at any depth, without those inside another such folder."""
    fertile = {parent for image in images for parent in image.parents}
    barren = {folder for folder in folders if folder not in fertile}
    return (folder for folder in barren if folder.parent not in barren)


def _has_sides(root: Path, images: list[PurePosixPath]) -> bool:
    """Whether the top level is train/ and test/. A class may be called "train": its images lie directly in it."""
    tops = {image.parts[0] for image in images}
    sides = {image.parts[0] for image in images if len(image.parts) > 2 and image.parts[0].casefold() in _SIDES}
    if not sides:
        return False
    if sorted(side.casefold() for side in sides) != sorted(_SIDES):
        raise DataError(
            f"{root}: has {few(sides)}/ but no class folders in the other side. Give {root / min(sides)} itself, or "
            "lay test classes beside it as test/."
        )
    if others := tops - sides:
        raise DataError(f"{root}: holds {few(others)} beside train/ and test/. Move it out or into one of the two.")
    return True


def _refuse_unlike_depths(root: Path, by_class: dict[str, list[str]]) -> None:
    examples = {len(label.split("/")) if label else 0: files[0] for label, files in by_class.items()}
    if 0 in examples:
        raise DataError(f"{root}: {examples[0]} lies in no class folder. Wanted: {LAYOUTS}.")
    if too_deep := [file for depth, file in examples.items() if depth > 2]:
        raise DataError(f"{root}: {too_deep[0]} lies too deep. Wanted: {LAYOUTS}.")
    if len(examples) > 1:
        raise DataError(
            f"{root}: mixes class/image ({examples[1]}) with super/class/image ({examples[2]}). Keep to one of the two."
        )
