"""Finding and reading what an archive or a mirror of a paper's data set holds, however many folders are around it."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from protocols.datasets.files import few
from protocols.datasets.images import ENDINGS
from protocols.datasets.standard import STANDARD, Listed
from protocols.errors import DataError

DEPTH = 4  # folders that an archive or a mirror may have put around its content


def find(root: Path, name: str, is_wanted: Callable[[Path], bool] = Path.is_file) -> Path | None:
    """The file (or folder, with `Path.is_dir`) of that name nearest to the root; None if there is none."""
    return next((path for level in levels(root) for folder in level if is_wanted(path := folder / name)), None)


def needed(root: Path, name: str, dataset: str, is_wanted: Callable[[Path], bool] = Path.is_file) -> Path:
    """As `find`, but a DataError that names the layouts if there is none."""
    if (path := find(root, name, is_wanted)) is None:
        raise DataError(
            f"{root}: no {name} in it or up to {DEPTH} folders below. {STANDARD[dataset].title} is read from "
            f"{STANDARD[dataset].layouts}."
        )
    return path


def class_folders(root: Path, label_of: Callable[[str], str | None]) -> tuple[list[Listed], list[str]]:
    """The images of a mirror that has a folder for each class, at any one depth, and what was left out.

    Args:
        root: where to look.
        label_of: the class of a folder by its name; None for any other folder.

    Raises:
        DataError: if a folder beside class folders is none.
    """
    for level in levels(root):
        folders = [folder for folder in level if folder.parent.name != "segmentations"]  # CUB's masks
        labels = {folder: label for folder in folders if (label := label_of(folder.name)) is not None}
        parents = {folder.parent for folder in labels}
        if others := [folder for folder in folders if folder.parent in parents and folder not in labels]:
            names = few([folder.relative_to(root).as_posix() for folder in others])
            raise DataError(f"{root}: beside class folders, but none of the data set's classes: {names}. Move it out.")
        if labels:
            return _images_in(root, labels)
    return [], []


def _images_in(root: Path, labels: dict[Path, str]) -> tuple[list[Listed], list[str]]:
    listed, skipped = [], []
    for folder, label in labels.items():
        entries = sorted(folder.iterdir())
        if not any(entry.suffix.lower() in ENDINGS for entry in entries):
            skipped.append(f"{folder.relative_to(root).as_posix()}: folder without images")
        for entry in entries:
            file = entry.relative_to(root).as_posix()
            if entry.name.startswith(".") or entry.suffix.lower() not in ENDINGS:
                skipped.append(f"{file}: {'hidden' if entry.name.startswith('.') else 'not an image ending'}")
            else:
                listed.append(Listed(file, label))
    return listed, skipped


def levels(root: Path) -> Iterator[list[Path]]:
    """The root, the folders in it, those in these, down to `DEPTH`; hidden ones and an archiver's __MACOSX left out."""
    level = [root]
    for _ in range(DEPTH + 1):
        yield level
        entries = [entry for folder in level for entry in os.scandir(folder) if entry.is_dir()]
        level = sorted(Path(entry.path) for entry in entries if not entry.name.startswith((".", "__")))


def place(root: Path, bases: Sequence[Path], listed: Sequence[str]) -> list[str]:
    """The listed files relative to the root, below whichever base below the root has most of a sample of them."""
    inside = [base for base in bases if base.is_relative_to(root)]
    base = max(inside, key=lambda base: share_in(base, listed))
    prefix = PurePosixPath(base.relative_to(root).as_posix())
    return [str(prefix / file) for file in listed]


def share_in(base: Path, listed: Sequence[str]) -> float:
    """How many of a sample of the listed files are below a folder, in [0, 1]."""
    sample = listed[:: max(1, len(listed) // 100)]
    return sum((base / file).is_file() for file in sample) / max(len(sample), 1)


def records(path: Path, form: str, pattern: str, n_header: int = 0) -> list[tuple[str, ...]]:
    """The fields of each line after the header, as the groups of a regular expression that every line must match.

    Raises:
        DataError: for a line that does not, which is quoted beside the wanted form, or if there is no line at all.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError:
        raise DataError(f"{path}: not a text file in UTF-8. Fetch it again.") from None
    found = []
    for line in filter(None, map(str.strip, text.splitlines()[n_header:])):
        if (match := re.fullmatch(pattern, line)) is None:
            raise DataError(f"{path}: the line {line[:60]!r}; wanted {form}. Fetch the file again.")
        found.append(match.groups())
    if not found:
        raise DataError(f"{path}: lists nothing; wanted lines of {form}. Fetch the file again.")
    return found
