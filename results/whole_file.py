"""What is written to a file is written whole or not at all."""

import os
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

from results.errors import ResultsError


def replace_whole(path: Path, content: bytes) -> None:
    """Put bytes in place of what was there; the errors are those of the system (`OSError`, `ValueError`)."""
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    except BaseException:
        with suppress(OSError, ValueError):  # it may be as impossible to remove as it was to write
            partial.unlink()
        raise


def write_whole(path: Path, text: str) -> None:
    """Write UTF-8 with Unix line ends, in place of what was there.

    Raises:
        ResultsError: if it cannot be written.
    """
    try:
        replace_whole(path, text.encode())
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise cannot_write(path, error) from None


def cannot_write(path: Path, error: OSError | ValueError) -> ResultsError:
    """What kept a file from being written, in one line."""
    reason = getattr(error, "strerror", None) or error
    return ResultsError(f"{path}: cannot be written ({reason}); choose another place.")


def check_writable(path: Path) -> None:
    """Refuse a place where no file can be written, before anything is run for it.

    Raises:
        ResultsError: if it is a folder, or its folder is not there or takes no file.
    """
    if path.is_dir():
        raise ResultsError(f"{path}: is a folder; name a file in it.")
    if not path.parent.is_dir():
        raise ResultsError(f"{path}: there is no folder {path.parent}; make it first.")
    if not os.access(path.parent, os.W_OK):
        raise ResultsError(f"{path}: the folder {path.parent} takes no file; choose another.")


def check_folder(folder: Path) -> None:
    """Refuse a folder that cannot be made or takes no file, before anything is run or printed for it; nothing is made.

    Raises:
        ResultsError: if it is a file, or a nameless file cannot be written in it, or where it would be made.
    """
    try:
        there = next(place for place in (folder.absolute(), *folder.absolute().parents) if place.exists())
        is_file = not there.is_dir()
        if not is_file:
            with TemporaryFile(dir=there):
                pass
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        reason = getattr(error, "strerror", None) or error
        raise ResultsError(f"{folder}: cannot be written ({reason}); choose another folder.") from None
    if is_file:
        raise ResultsError(f"{folder}: cannot be written, as {there} is a file; name a folder.")
