"""Room on a disk, and what is said where there is too little of it or a file cannot be written."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from protocols.datasets.files import size_text
from protocols.errors import DataError


def free_bytes(path: Path) -> int:
    """What is free on the disk of a path, which need not be there yet."""
    absolute = path.absolute()
    return shutil.disk_usage(next(folder for folder in (absolute, *absolute.parents) if folder.is_dir())).free


def refuse_unless_room(
    path: Path, needed: int, what: str, way_out: str = "Make room or choose another folder."
) -> None:
    """A DataError if the disk that holds `path` has less room than is needed."""
    free = free_bytes(path)
    if needed > free:
        raise DataError(f"{path}: {what} needs {size_text(needed)}, {size_text(free)} are free there. {way_out}")


@contextmanager
def writable(path: Path, way_out: str = "Mend that and run the same command again.") -> Iterator[None]:
    """Turns the refusal of a disk to take a file into a DataError that tells the room left."""
    try:
        yield
    except OSError as error:
        reason, free = error.strerror or type(error).__name__, size_text(free_bytes(path))
        raise DataError(
            f"{error.filename or path}: cannot be written ({reason}; {free} are free there). {way_out}"
        ) from None
