"""A text written to a file whole or not at all."""

import os
from pathlib import Path

from results.errors import ResultsError


def write_whole(path: Path, text: str) -> None:
    """Write UTF-8 with Unix line ends, in place of what was there.

    Raises:
        ResultsError: if it cannot be written.
    """
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        partial.write_text(text, encoding="utf-8", newline="\n")
        partial.replace(path)
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise ResultsError(f"{path}: cannot be written ({getattr(error, 'strerror', None) or error}).") from None
    finally:
        partial.unlink(missing_ok=True)  # there only if something went wrong


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
