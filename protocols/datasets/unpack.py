"""Unpacking an archive that a stranger made: every file lands below the target, or none of it is used.

Only files and folders are written. Whatever else an archive may hold (links, devices), a name that leads out of the
target, the same file twice, and more bytes than an archive of images can hold are refused with the member's name. The
target is a folder of its own, empty at the start, and the caller throws it away on an error.
"""

import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PureWindowsPath
from typing import IO, BinaryIO, NamedTuple

from protocols.datasets.download import CHUNK_BYTES, Watch
from protocols.datasets.files import size_text
from protocols.datasets.images import is_web_page
from protocols.disk import refuse_unless_room, writable
from protocols.errors import DataError

MOST_BYTES = 64 * 2**20  # unpacked, of any archive
MOST_TIMES = 100  # the archive's own size, of a large one; images hardly shrink, lists by 10 to 20
_TAR_ENDINGS = (".tar", ".tgz", ".tar.gz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz")
_DAMAGED = (tarfile.TarError, zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, UnicodeDecodeError)


class _Member(NamedTuple):
    name: str
    is_folder: bool
    size: int  # as the archive has it, which need not be true
    other: str  # what it is if neither a file nor a folder
    open: Callable[[], IO[bytes] | None]


def unpack(archive: Path, target: Path, watch: Watch) -> None:
    """Unpack a tar (of any compression) or zip file into a folder; any other file is copied there under its name.

    Raises:
        DataError: in one line, for a damaged, encrypted or hostile archive, a web page, or a disk that cannot take it.
    """
    with writable(target):
        target.mkdir(parents=True, exist_ok=True)
    with archive.open("rb") as raw:
        if is_web_page(raw.read(CHUNK_BYTES)):
            raise DataError(f"{archive}: a web page, not an archive: what was saved is a login, a notice or an error.")
        raw.seek(0)
        watch.begin(f"unpacking {archive.name}", archive.stat().st_size)
        with _sound(archive):
            if _is_zip(raw, archive):
                members = _zipped(raw, archive, target)
            elif _is_tar(raw, archive):
                members = _tarred(raw)
            else:
                members = iter([_Member(archive.name, False, 0, "", lambda: archive.open("rb"))])
            _write(members, archive, target, raw, watch)


def _is_zip(raw: BinaryIO, archive: Path) -> bool:
    """By its ending, else by its content, as below: a damaged archive must not pass for a plain file."""
    raw.seek(0)
    return archive.name.lower().endswith(".zip") or raw.read(4) in (b"PK\x03\x04", b"PK\x05\x06")


def _is_tar(raw: BinaryIO, archive: Path) -> bool:
    if archive.name.lower().endswith(_TAR_ENDINGS):
        return True
    raw.seek(0)
    try:
        with tarfile.open(fileobj=raw):
            return True
    except (*_DAMAGED, OSError):
        return False


@contextmanager
def _sound(archive: Path) -> Iterator[None]:
    """Turns what the readers of archives raise on a damaged one into a DataError."""
    try:
        yield
    except (*_DAMAGED, OSError, NotImplementedError, RuntimeError) as error:  # the last: a password is wanted
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{archive}: damaged, or no archive that can be read ({reason}); fetch it again.") from None


def _zipped(raw: BinaryIO, archive: Path, target: Path) -> Iterator[_Member]:
    with zipfile.ZipFile(raw, metadata_encoding="utf-8") as file:
        refuse_unless_room(target, sum(info.file_size for info in file.infolist()), f"unpacking {archive.name}")
        for info in file.infolist():
            if info.flag_bits & 1:
                raise DataError(f"{archive}: {info.filename} asks for a password. Unpack it yourself with yours.")
            kind = info.external_attr >> 28  # of a Unix file mode: 4 folder, 8 file, 10 link; 0 where none was kept
            other = "a link" if kind == 10 else "" if kind in (0, 4, 8) else "no regular file"
            yield _Member(info.filename, info.is_dir(), info.file_size, other, partial(file.open, info))


def _tarred(raw: BinaryIO) -> Iterator[_Member]:
    raw.seek(0)
    with tarfile.open(fileobj=raw, encoding="utf-8") as file:
        for info in file:
            is_link = info.issym() or info.islnk()
            other = "a link" if is_link else "" if info.isdir() or info.isreg() else "no regular file"
            yield _Member(info.name, info.isdir(), info.size, other, partial(file.extractfile, info))
        while file.fileobj is not None and (rest := file.fileobj.read(CHUNK_BYTES)):  # to the checksum at the end
            if rest.strip(b"\0"):  # tarfile takes a damaged header for the end
                raise tarfile.ReadError("more follows what should be its end")


def _write(members: Iterator[_Member], archive: Path, target: Path, raw: BinaryIO, watch: Watch) -> None:
    left = most = max(MOST_BYTES, MOST_TIMES * archive.stat().st_size)
    told = 0
    for member in members:
        path = target.joinpath(*_inside(member, archive))
        if member.is_folder:
            with _placed(member, archive, path):
                path.mkdir(parents=True, exist_ok=True)
        elif (content := member.open()) is not None:
            if member.size > left:
                raise _too_much(archive, most)
            refuse_unless_room(target, member.size, f"{member.name} in {archive.name}")
            left -= _copy(member, archive, content, path, left, most)
        watch.advance(max(0, raw.tell() - told))
        told = max(told, raw.tell())


def _copy(member: _Member, archive: Path, content: IO[bytes], path: Path, left: int, most: int) -> int:
    written = 0
    with _placed(member, archive, path):
        path.parent.mkdir(parents=True, exist_ok=True)
        file = path.open("xb")
    with file, content:
        while chunk := content.read(CHUNK_BYTES):
            written += len(chunk)
            if written > left:
                raise _too_much(archive, most)
            with writable(path):
                file.write(chunk)
    return written


def _too_much(archive: Path, most: int) -> DataError:
    return DataError(
        f"{archive}: unpacks to more than {size_text(most)}, {MOST_TIMES} times its size or more: no archive of images "
        "does. Fetch it from elsewhere."
    )


@contextmanager
def _placed(member: _Member, archive: Path, path: Path) -> Iterator[None]:
    """Making a file where there is none yet. Names that differ in case only are one file on some systems."""
    with writable(path):
        try:
            yield
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            raise DataError(f"{archive}: holds {member.name} twice. Fetch it from elsewhere.") from None


def _inside(member: _Member, archive: Path) -> tuple[str, ...]:
    """The folders and the name below the target, split as the most liberal system would split them."""
    path = PureWindowsPath(member.name)
    try:
        member.name.encode()
    except UnicodeEncodeError:
        raise DataError(f"{archive}: holds {member.name!a}, which is not UTF-8. Unpack it yourself.") from None
    if path.anchor or ".." in path.parts or any(ord(letter) < 32 for letter in member.name):
        raise DataError(f"{archive}: holds {member.name!a}, which leads out of the folder. Nothing of it is used.")
    if member.other:
        raise DataError(f"{archive}: holds {member.name!a}, {member.other}. Nothing of it is used.")
    return path.parts
