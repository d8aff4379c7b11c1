"""Unpacking: every kind of archive lands below the target, and a hostile or damaged one is refused by member."""

import gzip
import io
import os
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from served import Heard, packed
from standard_trees import HTML, cub_tree

from protocols.datasets import unpack as module
from protocols.datasets.unpack import unpack
from protocols.errors import DataError

Entry = tuple[str | tarfile.TarInfo, bytes]


def tree_of(root: Path) -> dict[str, bytes]:
    return {path.relative_to(root).as_posix(): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def tar_of(path: Path, *entries: Entry, mode: str = "w:gz") -> Path:
    with tarfile.open(path, mode) as file:
        for named, data in entries:
            info = tarfile.TarInfo(named) if isinstance(named, str) else named
            info.size = len(data)
            file.addfile(info, io.BytesIO(data))
    return path


def zip_of(path: Path, *entries: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for named, data in entries:
            file.writestr(named, data)
    return path


def special(name: str, kind: bytes, leads_to: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, leads_to
    return info


def linked_zip() -> zipfile.ZipInfo:
    info = zipfile.ZipInfo("a/link")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


def refused(archive: Path, tmp_path: Path) -> str:
    with pytest.raises(DataError) as caught:
        unpack(archive, tmp_path / "room" / "target", Heard())
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("name", ["CUB.tgz", "CUB.zip", "no ending at all"])
def test_a_data_set_comes_out_as_it_went_in_whatever_it_is_packed_with(tmp_path: Path, name: str) -> None:
    tree = cub_tree(tmp_path / "CUB_200_2011")
    archive = packed(tree, tmp_path / name)
    unpack(archive, tmp_path / "target", heard := Heard())
    assert tree_of(tmp_path / "target" / tree.name) == tree_of(tree)
    assert heard.tasks == [(f"unpacking {name}", archive.stat().st_size, 0)]
    assert 0 < heard.moved.total() <= archive.stat().st_size


@pytest.mark.parametrize("mode", ["w", "w:bz2", "w:xz"])
def test_tar_files_of_every_compression_are_known_by_their_content(tmp_path: Path, mode: str) -> None:
    unpack(tar_of(tmp_path / "download", ("./é/a.txt", b"1"), mode=mode), tmp_path / "target", Heard())
    assert tree_of(tmp_path / "target") == {"é/a.txt": b"1"}


def test_a_plain_file_is_copied_and_several_share_a_target(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("1 a", encoding="utf-8")
    for archive in (tmp_path / "list.txt", zip_of(tmp_path / "img.zip", ("img/a.jpg", b"x"))):
        unpack(archive, tmp_path / "target", Heard())
    assert tree_of(tmp_path / "target") == {"list.txt": b"1 a", "img/a.jpg": b"x"}


def test_names_in_a_zip_are_utf_8_whether_it_says_so_or_not(tmp_path: Path) -> None:
    archive = zip_of(tmp_path / "a.zip", ("ordner/bü.txt", b"1"))
    data = archive.read_bytes()
    assert data.count("ü".encode()) == 2
    flagless = bytearray(data)
    flagless[7] &= 0xF7  # bit 11 of the local header's flags
    flagless[data.index(b"PK\x01\x02") + 9] &= 0xF7
    archive.write_bytes(bytes(flagless))
    unpack(archive, tmp_path / "target", Heard())
    assert tree_of(tmp_path / "target") == {"ordner/bü.txt": b"1"}


@pytest.mark.parametrize(
    "name", ["../evil", "a/../../evil", "/evil", "C:/evil", "..\\evil", "\\\\host\\share\\evil", "a/e\nvil"]
)
@pytest.mark.parametrize("pack", [tar_of, zip_of])
def test_no_name_leads_out_of_the_target(tmp_path: Path, name: str, pack: Callable[..., Path]) -> None:
    archive = pack(tmp_path / ("a.tgz" if pack is tar_of else "a.zip"), ("good.txt", b"1"), (name, b"evil"))
    assert "which leads out of the folder. Nothing of it is used." in refused(archive, tmp_path)
    assert set(tree_of(tmp_path)) == {archive.name, "room/target/good.txt"}


@pytest.mark.parametrize(
    ("member", "said"),
    [
        (special("a/link", tarfile.SYMTYPE, "/etc/passwd"), "'a/link', a link"),
        (special("a/link", tarfile.SYMTYPE, "b"), "'a/link', a link"),
        (special("a/hard", tarfile.LNKTYPE, "../../../etc/passwd"), "'a/hard', a link"),
        (special("a/null", tarfile.CHRTYPE), "'a/null', no regular file"),
        (special("a/disk", tarfile.BLKTYPE), "'a/disk', no regular file"),
        (special("a/pipe", tarfile.FIFOTYPE), "'a/pipe', no regular file"),
    ],
    ids=lambda value: value.name + value.linkname.replace("/", "_") if isinstance(value, tarfile.TarInfo) else None,
)
def test_links_and_devices_are_refused(tmp_path: Path, member: tarfile.TarInfo, said: str) -> None:
    assert said in refused(tar_of(tmp_path / "a.tgz", (member, b"")), tmp_path)
    assert not any(path.is_symlink() or path.is_fifo() for path in tmp_path.rglob("*"))


def test_a_link_in_a_zip_is_refused(tmp_path: Path) -> None:
    assert "'a/link', a link" in refused(zip_of(tmp_path / "a.zip", (linked_zip(), b"/etc/passwd")), tmp_path)


@pytest.mark.parametrize("second", ["a/b.txt", "./a/b.txt", "a/b.txt/c"])
def test_a_file_that_is_there_twice_is_refused(tmp_path: Path, second: str) -> None:
    message = refused(tar_of(tmp_path / "a.tgz", ("a/b.txt", b"1"), (second, b"2")), tmp_path)
    assert message.endswith(
        f"holds {second.removeprefix('./') if 'c' in second else second} twice. Fetch it from elsewhere."
    )
    assert (tmp_path / "room/target/a/b.txt").read_bytes() == b"1"


def test_nothing_of_a_members_owner_or_mode_is_taken_over(tmp_path: Path) -> None:
    info = tarfile.TarInfo("a")
    info.mode, info.uid = 0o4777, 12345
    unpack(tar_of(tmp_path / "a.tgz", (info, b"1")), tmp_path / "target", Heard())
    found = (tmp_path / "target/a").stat()
    assert (found.st_mode & 0o7111, found.st_uid) == (0, os.getuid())


@pytest.mark.parametrize("pack", [tar_of, zip_of])
def test_a_bomb_is_refused_before_it_fills_the_disk(
    tmp_path: Path, pack: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_BYTES", 10_000)
    entries = [(f"{number}", bytes(400_000)) for number in range(10)]
    archive = pack(tmp_path / ("a.tgz" if pack is tar_of else "a.zip"), *entries)
    assert "unpacks to more than" in refused(archive, tmp_path)
    assert sum(map(len, tree_of(tmp_path / "room").values())) <= 100 * archive.stat().st_size


def test_an_archive_larger_than_the_disk_is_refused_first(tmp_path: Path) -> None:
    archive = zip_of(tmp_path / "a.zip", ("a", b"1"))
    data = bytearray(archive.read_bytes())
    place = data.index(b"PK\x01\x02") + 24
    data[place : place + 4] = b"\xfe\xff\xff\xff"  # says 4 GB
    free = os.statvfs(tmp_path)
    archive.write_bytes(bytes(data))
    message = refused(archive, tmp_path)
    assert ("needs 4.29 GB" if free.f_bavail * free.f_frsize < 2**32 else "unpacks to more than") in message


@pytest.mark.parametrize("name", ["a.tgz", "a.tar.gz", "a.zip", "a"])
def test_a_web_page_in_place_of_an_archive_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(HTML, encoding="utf-8")
    assert refused(tmp_path / name, tmp_path).startswith(f"{tmp_path / name}: a web page, not an archive")


@pytest.mark.parametrize("name", ["CUB.tgz", "CUB.zip"])
def test_an_archive_cut_short_or_of_other_bytes_is_refused(tmp_path: Path, name: str) -> None:
    archive = packed(cub_tree(tmp_path / "CUB_200_2011"), tmp_path / name)
    whole = archive.read_bytes()
    for data in (whole[: len(whole) // 2], b"", b"hello"):
        archive.write_bytes(data)
        assert "damaged, or no archive that can be read (" in refused(archive, tmp_path)
    archive.write_bytes(whole[:5000] + bytes(500) + whole[5500:])
    assert refused(archive, tmp_path)


@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_a_tar_file_with_a_damaged_member_in_its_middle_does_not_end_there(tmp_path: Path, mode: str) -> None:
    plain = tar_of(tmp_path / "plain.tar", *((name, bytes([1]) * 600) for name in "abc"), mode="w")
    data = bytearray(plain.read_bytes())
    data[1536 + 148] ^= 1  # in the checksum of the second header
    archive = tmp_path / "a.tar"
    archive.write_bytes(gzip.compress(bytes(data)) if mode == "w:gz" else bytes(data))
    assert "more follows what should be its end" in refused(archive, tmp_path)


def test_a_locked_archive_is_answered_with_the_way_out(tmp_path: Path) -> None:
    archive = zip_of(tmp_path / "img.zip", ("img/a.jpg", b"1"))
    data = bytearray(archive.read_bytes())
    data[6] |= 1
    data[data.index(b"PK\x01\x02") + 8] |= 1
    archive.write_bytes(bytes(data))
    assert refused(archive, tmp_path).endswith("img/a.jpg asks for a password. Unpack it yourself with yours.")
