"""Fetching a data set: download, checksum, unpacking, a look with its reader, and only then its final name.

Everything happens in a folder beside the target, named like it with `.partial`: what was downloaded stays there until
the end, so that the same command goes on after a kill. The target appears by one rename, with `fetched.json` in it,
which says what it was made of; a second run finds that and does nothing.
"""

import json
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import md5, sha256
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from filelock import FileLock, Timeout

from protocols.datasets import load_dataset
from protocols.datasets.download import CHUNK_BYTES, HEAD_BYTES, Watch, download
from protocols.datasets.files import readable
from protocols.datasets.images import is_web_page
from protocols.datasets.sources import SOURCES, manual, source_named
from protocols.datasets.standard import STANDARD, expected_counts
from protocols.datasets.unpack import unpack
from protocols.disk import refuse_unless_room, writable
from protocols.errors import DataError

SCHEMA = 1
RECEIPT = "fetched.json"
_NO_NAME = re.compile(r"[^\w.()+ -]")  # what a file's name cannot have on one system or another
_CHECKSUM = re.compile(r"[0-9a-f]{32}|[0-9a-f]{64}")


@dataclass(frozen=True)
class Fetched:
    """A data set in its place; `archives` tells of each file the address, the size and the SHA-256."""

    name: str
    folder: Path
    is_new: bool
    archives: tuple[dict[str, Any], ...]
    n_images: int
    n_classes: int
    differs_from_published: tuple[str, ...]


@dataclass(frozen=True)
class _Part:
    """A file that a data set is made of."""

    name: str
    address: str  # of a server, or a path
    md5: str

    @property
    def is_remote(self) -> bool:
        return "://" in self.address


def fetch(name: str, to: Path, given: Sequence[str], checksums: Sequence[str], watch: Watch) -> Fetched:
    """Bring a data set into a folder of its own.

    Args:
        name: a key of `SOURCES`.
        to: the folder, which is not there yet, is empty, or holds the data set from an earlier call.
        given: addresses or paths of the files to use; none for the published addresses.
        checksums: MD5 or SHA-256 in hexadecimal digits, one of which each file must have if any is given. The published
            ones count too, and are all that counts if none is given.
        watch: is told how it goes.

    Raises:
        DataError: in one line with the way out. Nothing is at `to` then, and what was downloaded is kept.
    """
    source, to = source_named(name), to.expanduser().absolute()
    accepted = _accepted(checksums)
    parts = _parts(name, to, given)
    with readable(to):
        if (receipt := _receipt(name, to)) is not None:
            return receipt
    if not given and not source.is_open:
        raise DataError(f"{STANDARD[name].title} cannot be fetched: {source.by_hand}. {manual(name, str(to))}")
    work = to.with_name(f"{to.name}.partial")
    with _alone(work):
        downloads, content = work / "downloads", work / "content"
        with writable(downloads):
            downloads.mkdir(exist_ok=True)
        if not given:
            needed = 2 * source.size - _size_of(downloads)
            refuse_unless_room(work, needed, f"{STANDARD[name].title}, packed and unpacked,")
        files = [_checked(part, _local(part, name, to, downloads, watch), accepted, watch) for part in parts]
        if content.exists():
            shutil.rmtree(content)
        for path, _ in files:
            unpack(path, content, watch)
        done = _looked_at(name, to, content, [line for _, line in files], watch)
        with writable(to):
            _write_receipt(content / RECEIPT, done)
            if to.exists():
                to.rmdir()  # empty, as `_receipt` has seen; a rename onto it is refused on Windows
            content.replace(to)
    shutil.rmtree(work, ignore_errors=True)
    return done


@contextmanager
def _alone(work: Path) -> Iterator[None]:
    """Nobody else fetches there meanwhile. The system holds the lock, so it ends with its process."""
    with writable(work):
        work.mkdir(parents=True, exist_ok=True)
        lock = FileLock(work / "lock")
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise DataError(f"{work}: another process fetches into it. Wait for its end, or stop it.") from None
    try:
        yield
    finally:
        lock.release()


def _accepted(checksums: Sequence[str]) -> frozenset[str]:
    for checksum in checksums:
        if not _CHECKSUM.fullmatch(checksum.lower()):
            raise DataError(f"--checksum {checksum}: wanted an MD5 (32 hexadecimal digits) or a SHA-256 (64).")
    return frozenset(checksum.lower() for checksum in checksums)


def _parts(name: str, to: Path, given: Sequence[str]) -> list[_Part]:
    published = {archive.name: archive for archive in SOURCES[name].archives}
    if not given:
        return [_Part(archive.name, archive.url, archive.md5) for archive in published.values()]
    parts = []
    for address in given:
        if "://" in address:
            _refuse_unless_web(address)
            file = _NO_NAME.sub("_", PurePosixPath(unquote(urlsplit(address).path)).name).strip(".") or "download"
        else:
            with readable(Path(address).expanduser()):
                file = _refuse_unless_file(address, name, to).name
        parts.append(_Part(file, address, published[file].md5 if file in published else ""))
    if len({part.name for part in parts}) < len(parts):
        raise DataError(f"--from: two files are named {parts[0].name}. Give each of them once, under its own name.")
    return parts


def _refuse_unless_web(address: str) -> None:
    try:
        found = urlsplit(address)
        usable = found.scheme in ("http", "https") and found.hostname and (found.port or True)
        usable = usable and len(address.split()) == 1
    except ValueError:
        usable = False
    if not usable:
        raise DataError(f"--from {address}: wanted an address that begins with http:// or https://, or a file.")


def _refuse_unless_file(address: str, name: str, to: Path) -> Path:
    path = Path(address).expanduser()
    if path.is_dir():
        raise DataError(f"--from {address}: is a folder, so nothing is left to fetch: use {name}:{address}.")
    if not path.is_file():
        raise DataError(f"--from {address}: no such file. Give a file, or an address that begins with https://.")
    with path.open("rb") as file:
        if is_web_page(file.read(HEAD_BYTES)):  # before its checksum, which would only say that it is another file
            raise DataError(
                f"--from {address}: a web page, not the file that was wanted: what was saved is a login, a notice or "
                f"an error. {manual(name, str(to))}"
            )
    return path


def _receipt(name: str, to: Path) -> Fetched | None:
    """What an earlier call has left at `to`; None if there is nothing."""
    if to.exists() and not to.is_dir():
        raise DataError(f"{to}: is a file; wanted a folder that is not there yet.")
    if not to.is_dir() or not any(to.iterdir()):
        return None
    try:
        found = json.loads((to / RECEIPT).read_text(encoding="utf-8"))
        kept, archives = found["name"], tuple(found["archives"])
        done = Fetched(kept, to, False, archives, found["n_images"], found["n_classes"], tuple(found["differs"]))
    except (OSError, ValueError, KeyError, TypeError):
        raise DataError(
            f"{to}: is not empty, and mlrc data fetch has not filled it. Choose a new folder, or see whether the data "
            f"set is there already: mlrc data check {name}:{to}"
        ) from None
    if kept != name:
        raise DataError(f"{to}: holds {kept}. Choose a new folder for {name}.")
    shutil.rmtree(to.with_name(f"{to.name}.partial"), ignore_errors=True)  # left by a kill after the rename
    return done


def _size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def _local(part: _Part, name: str, to: Path, downloads: Path, watch: Watch) -> Path:
    if not part.is_remote:
        return Path(part.address).expanduser()
    try:
        download(part.address, downloads / part.name, watch)
    except DataError as error:
        raise DataError(f"{error} {manual(name, str(to))}") from None
    return downloads / part.name


def _checked(part: _Part, path: Path, accepted: frozenset[str], watch: Watch) -> tuple[Path, dict[str, Any]]:
    """The file, and a line for the receipt; a DataError if it is not the one that was wanted."""
    with readable(path):
        found = _hashes(path, part.name, watch)
        line = {"name": part.name, "address": part.address, "bytes": path.stat().st_size, "sha256": found["SHA-256"]}
        wanted = accepted | {part.md5} if part.md5 else accepted
        if not wanted:
            watch.say(f"{part.name}: no checksum is published; its SHA-256 is {found['SHA-256']}.")
        elif wanted.isdisjoint(found.values()):
            if part.is_remote:
                path.unlink()
            raise DataError(
                f"{part.name}: MD5 {found['MD5']}, wanted {' or '.join(sorted(wanted))}: a damaged or another file"
                f"{', which was removed' if part.is_remote else ''}. Fetch it again; if you trust it, add --checksum "
                f"{found['SHA-256']}"
            )
    return path, line


def _hashes(path: Path, name: str, watch: Watch) -> dict[str, str]:
    watch.begin(f"checking {name}", path.stat().st_size)
    hashes = {"MD5": md5(usedforsecurity=False), "SHA-256": sha256()}
    with path.open("rb") as file:
        while chunk := file.read(CHUNK_BYTES):
            for each in hashes.values():
                each.update(chunk)
            watch.advance(len(chunk))
    return {kind: each.hexdigest() for kind, each in hashes.items()}


def _looked_at(name: str, to: Path, content: Path, archives: Sequence[dict[str, Any]], watch: Watch) -> Fetched:
    """Read what was unpacked, so that no other thing gets the data set's name."""
    watch.begin(f"reading {STANDARD[name].title}", None)
    try:
        index = load_dataset(f"{name}:{content}")
    except DataError as error:
        raise DataError(f"what was unpacked is no {STANDARD[name].title}: {error}") from None
    differs = tuple(expected_counts(index))
    return Fetched(name, to, True, tuple(archives), index.n_images, index.n_classes, differs)


def _write_receipt(path: Path, done: Fetched) -> None:
    told = {
        "schema": SCHEMA,
        "name": done.name,
        "archives": done.archives,
        "n_images": done.n_images,
        "n_classes": done.n_classes,
        "differs": done.differs_from_published,
    }
    path.write_text(json.dumps(told, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
