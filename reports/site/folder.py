"""A site's folder: the new one is written whole beside the old one, then takes its place; no page of the old one stays.

Only what a site is made of is ever replaced: a `.git` or a `CNAME` beside it stays. A folder that holds anything else
and is no site is not touched.
"""

import os
import shutil
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from reports.errors import ReportError

MARK, BEGINS = "site.css", b"/* A leaderboard of mlrc-harness"  # a folder with such a file is a site
PARTS = (
    *("index.html", "data.csv", "site.css", "site.js", "icon.svg"),
    *("boards", "methods", "records", "conditions", "images"),
)


def check_place(folder: Path) -> None:
    """Refuse a place that holds something else.

    Raises:
        ReportError: if it is a file, or a folder with files that are no site.
    """
    if not folder.exists():
        return
    if not folder.is_dir():
        raise ReportError(f"{folder}: is no folder; choose another --site.")
    mark = folder / MARK
    if mark.is_file() and mark.read_bytes().startswith(BEGINS):
        return
    if any(not item.name.startswith(".") for item in folder.iterdir()):
        raise ReportError(f"{folder}: holds files that are no site of ours; choose another --site.")


def write_site(files: Iterable[tuple[str, bytes]], folder: Path) -> int:
    """Write files, each with its path inside the folder, in place of the site that is there; returns how many bytes.

    Raises:
        ReportError: as `check_place`, or if it cannot be written.
    """
    made, old = (folder / f".{name}.{os.getpid()}" for name in ("partial", "old"))
    try:
        check_place(folder)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            n_bytes = sum(_write(made / name, content) for name, content in files)
            _replace(folder, made, old)
        finally:
            shutil.rmtree(made, ignore_errors=True)
            shutil.rmtree(old, ignore_errors=True)
            with suppress(OSError):
                folder.rmdir()  # one that stayed empty
    except OSError as error:
        raise ReportError(f"{folder}: cannot be written ({error.strerror or error}); choose another --site.") from None
    return n_bytes


def _replace(folder: Path, made: Path, old: Path) -> None:
    """Put the old parts aside and the new ones in their place; a step that fails puts the old ones back."""
    old.mkdir()
    try:
        for name in PARTS:
            if (folder / name).exists():
                (folder / name).rename(old / name)
        for item in made.iterdir():
            item.rename(folder / item.name)
    except OSError:
        for item in old.iterdir():
            with suppress(OSError):
                _remove(folder / item.name)
                item.rename(folder / item.name)
        raise


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _write(path: Path, content: bytes) -> int:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path.write_bytes(content)
