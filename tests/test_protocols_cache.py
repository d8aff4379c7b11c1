"""The cache of decoded images: exact, whole or not at all, whatever kills, shares, damages or fills it."""

import errno
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from filelock import FileLock
from PIL import Image

import protocols.datasets.cache as cache_module
import protocols.datasets.prepare as prepare_module
from protocols.datasets import load_dataset
from protocols.datasets.cache import PixelCache, cache_folder, cache_path, known_to_decode, remember_decoding
from protocols.datasets.files import size_text
from protocols.datasets.index import ImageIndex
from protocols.datasets.prepare import Watcher, prepare
from protocols.errors import DataError
from protocols.transforms import resize

PX = 24
SIZES = [(30, 40), (24, 24), (61, 24), (5, 9), (24, 80), (90, 31)]  # height, width
posix = pytest.mark.skipif(sys.platform == "win32", reason="fork and signals")


def draw(root: Path, n_classes: int = 4) -> ImageIndex:
    generator = np.random.default_rng(0)
    for label in range(n_classes):
        (root / f"class {label}").mkdir(parents=True)
        for number, (height, width) in enumerate(SIZES):
            pixels = generator.integers(0, 256, (height, width, 3), dtype=np.uint8)
            Image.fromarray(pixels).save(root / f"class {label}" / f"{number}.jpg", quality=95)
    return load_dataset(str(root))


@pytest.fixture
def index(tmp_path: Path) -> ImageIndex:
    return draw(tmp_path / "images")


@pytest.fixture
def path(tmp_path: Path, index: ImageIndex) -> Path:
    return cache_path(tmp_path / "cache", index, PX)


@pytest.fixture
def whole(tmp_path: Path, index: ImageIndex) -> bytes:
    """The bytes of a cache that was made in one go."""
    path = tmp_path / "one go" / "x.pixels"
    prepare(index, PX, path)
    return path.read_bytes()


class Notes(Watcher):
    """What a preparation told."""

    def __init__(self) -> None:
        self.begun: list[tuple[int, int, int]] = []
        self.steps: list[int] = []
        self.waited = threading.Event()

    def waits(self) -> None:
        self.waited.set()

    def begins(self, n_images: int, n_ready: int, n_bytes: int) -> None:
        self.begun.append((n_images, n_ready, n_bytes))

    def advances(self, n_ready: int) -> None:
        self.steps.append(n_ready)


def in_child(work: Callable[[], object]) -> int:
    """Do it in a process of its own; how that ended: 0, 1 after an exception, or minus the signal."""
    child = os.fork()
    if child == 0:
        try:
            work()
            os._exit(0)
        except BaseException:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killing(monkeypatch: pytest.MonkeyPatch, name: str, call: int) -> None:
    """Kill this process at the n-th call of a function in the module that makes the cache."""
    real, calls = getattr(prepare_module, name), []

    def killer(*arguments: object) -> object:
        calls.append(name)
        if len(calls) == call:
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments)

    monkeypatch.setattr(prepare_module, name, killer)


# What is in it


def test_an_image_of_the_cache_is_bit_for_bit_what_resize_gives(index: ImageIndex, path: Path) -> None:
    assert prepare(index, PX, path)
    cache = PixelCache(path, index, PX)
    cache.check()
    for image in range(index.n_images):
        np.testing.assert_array_equal(cache.image(image), resize(index.read(image), PX))
    assert not cache.image(0).flags.writeable
    assert sorted(entry.suffix for entry in path.parent.iterdir()) in ([".lock", ".pixels"], [".pixels"])


def test_the_file_is_the_same_in_chunks_of_any_size(index: ImageIndex, path: Path, whole: bytes, monkeypatch) -> None:
    for chunk in (1, 7):
        monkeypatch.setattr(prepare_module, "_CHUNK", chunk)
        prepare(index, PX, path)
        assert path.read_bytes() == whole
        path.unlink()


def test_a_second_preparation_does_nothing(index: ImageIndex, path: Path) -> None:
    prepare(index, PX, path)
    before, notes = path.stat().st_mtime_ns, Notes()
    assert not prepare(index, PX, path, notes)
    assert (path.stat().st_mtime_ns, notes.begun) == (before, [])


def test_the_size_is_told_first_and_exactly_where_there_are_few_images(index: ImageIndex, path: Path) -> None:
    notes = Notes()
    prepare(index, PX, path, notes)
    assert notes.begun == [(24, 0, path.stat().st_size)]
    assert notes.steps[-1] == 24


# Kills


@posix
@pytest.mark.parametrize(
    ("function", "call"), [("crc32", 1), ("crc32", 8), ("crc32", 24), ("seal", 1), ("_append", 3), ("_is_sound", 1)]
)
def test_a_killed_preparation_goes_on_and_ends_in_the_same_bytes(
    index: ImageIndex, path: Path, whole: bytes, monkeypatch, function: str, call: int
) -> None:
    monkeypatch.setattr(prepare_module, "_CHUNK", 5)
    with monkeypatch.context() as patch:
        killing(patch, function, call)
        assert in_child(lambda: prepare(index, PX, path)) == -signal.SIGKILL
    assert not path.exists()
    notes = Notes()
    assert prepare(index, PX, path, notes)
    written = {("crc32", 8): 5, ("crc32", 24): 20, ("seal", 1): 24, ("_append", 3): 10}
    assert notes.begun[0][:2] == (24, written.get((function, call), 0))
    assert path.read_bytes() == whole


def test_an_unfinished_file_cut_or_damaged_anywhere_is_mended(index: ImageIndex, path: Path, whole: bytes) -> None:
    generator = np.random.default_rng(0)
    unfinished = path.with_suffix(".partial")
    path.parent.mkdir()
    longer = whole + b"what an earlier try left beyond the last row"
    for length in [0, 1, 511, 512, 700, 800, *generator.integers(800, len(whole), 12).tolist(), len(longer)]:
        found = bytearray(longer[:length])
        if 0 < length < len(whole) and length % 2:
            found[int(generator.integers(length))] ^= 0xFF
        unfinished.write_bytes(found)
        prepare(index, PX, path)
        assert path.read_bytes() == whole
        assert not unfinished.exists()
        path.unlink()


def test_what_is_left_of_another_data_set_is_not_gone_on_with(tmp_path: Path, index: ImageIndex, path: Path) -> None:
    other = draw(tmp_path / "others", n_classes=3)
    path.parent.mkdir()
    prepare(other, PX, path)
    path.rename(path.with_suffix(".partial"))
    notes = Notes()
    prepare(index, PX, path, notes)
    assert notes.begun[0][1] == 0
    PixelCache(path, index, PX).check()


# Two at once


def test_a_second_process_waits_and_then_uses_what_the_first_has_made(index: ImageIndex, path: Path) -> None:
    path.parent.mkdir()
    notes, made = Notes(), []
    with FileLock(path.with_suffix(".lock")):
        second = threading.Thread(target=lambda: made.append(prepare(index, PX, path, notes)))
        second.start()
        assert notes.waited.wait(10)
        assert not list(path.parent.glob("*.p*"))
    second.join(10)
    assert made == [True]
    with FileLock(path.with_suffix(".lock")):
        third = threading.Thread(target=lambda: made.append(prepare(index, PX, path)))
        third.start()
    third.join(10)
    assert made == [True, False]


@posix
def test_four_processes_at_once_make_one_whole_file(index: ImageIndex, path: Path, whole: bytes) -> None:
    children = []
    for _ in range(4):
        child = os.fork()
        if child == 0:
            try:
                os._exit(10 + prepare(index, PX, path))
            finally:
                os._exit(1)
        children.append(child)
    codes = sorted(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children)
    assert codes == [10, 10, 10, 11]
    assert path.read_bytes() == whole


@posix
def test_a_lock_ends_with_its_process_and_needs_no_symbolic_link(index: ImageIndex, path: Path, monkeypatch) -> None:
    def no_links(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "a required privilege is not held by the client")

    def hold_and_die() -> None:
        lock = FileLock(path.with_suffix(".lock"))
        lock.acquire()
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(os, "symlink", no_links)
    path.parent.mkdir()
    assert in_child(hold_and_die) == -signal.SIGKILL
    notes = Notes()
    assert prepare(index, PX, path, notes)
    assert not notes.waited.is_set()


# Damage


def flipped(data: bytes, position: int) -> bytes:
    changed = bytearray(data)
    changed[position] ^= 1
    return bytes(changed)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda data: data[:-1], "cut or damaged"),
        (lambda data: data[:600], "cut"),
        (lambda data: data[:100], "made of other images"),
        (lambda data: b"", "cannot be read"),
        (lambda data: data[:-32] + b"\0" + data[-32:], "cut or lengthened"),
        (lambda data: flipped(data, 20), "made of other images or by another Pillow"),
        (lambda data: flipped(data, 520), "cut or damaged"),
        (lambda data: flipped(data, len(data) - 1), "cut or damaged"),
    ],
)
def test_a_damaged_cache_is_refused_in_one_line_and_made_anew(
    index: ImageIndex, path: Path, whole: bytes, damage: Callable[[bytes], bytes], reason: str
) -> None:
    path.parent.mkdir()
    path.write_bytes(damage(whole))
    with pytest.raises(DataError, match=reason) as refusal:
        PixelCache(path, index, PX)
    assert str(refusal.value).startswith(f"{path}: ")
    assert "Remove the file; it is made anew." in str(refusal.value)
    assert prepare(index, PX, path)
    assert path.read_bytes() == whole


def test_a_changed_pixel_is_noticed_when_its_image_is_first_used(index: ImageIndex, path: Path, whole: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(flipped(whole, len(whole) - 33))
    cache = PixelCache(path, index, PX)
    cache.image(0)
    with pytest.raises(DataError, match="damaged at image 23"):
        cache.image(23)
    assert prepare(index, PX, path)
    assert path.read_bytes() == whole


def test_a_cache_is_of_one_size_one_pillow_and_the_bytes_of_its_images(
    tmp_path: Path, index: ImageIndex, path: Path, monkeypatch
) -> None:
    prepare(index, PX, path)
    with pytest.raises(DataError, match="made of other images"):
        PixelCache(path, index, PX + 1)
    with pytest.raises(DataError, match="made of other images"):
        PixelCache(path, draw(tmp_path / "others", n_classes=3), PX)
    monkeypatch.setattr(cache_module.PIL, "__version__", "9.0")
    with pytest.raises(DataError, match="by another Pillow"):
        PixelCache(path, index, PX)
    assert prepare(index, PX, path)
    PixelCache(path, index, PX)


def test_images_that_do_not_decode_are_all_named_and_nothing_is_left(tmp_path: Path, index: ImageIndex) -> None:
    for name in (index.files[3], index.files[17]):
        file = tmp_path / "images" / name
        file.write_bytes(file.read_bytes()[: file.stat().st_size * 6 // 10])  # past its header
    cut = load_dataset(str(tmp_path / "images"))
    path = cache_path(tmp_path / "cache", cut, PX)
    names = f"2 of 24 images do not decode: {index.files[3]}, {index.files[17]}. The first: "
    with pytest.raises(DataError, match=names):
        prepare(cut, PX, path)
    assert not list(path.parent.glob("*.p*"))


# Room


def test_a_disk_too_small_is_refused_with_the_numbers_before_anything_is_written(
    index: ImageIndex, path: Path, whole: bytes, monkeypatch
) -> None:
    usage = shutil.disk_usage("/")._replace(free=2_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage)
    needed = size_text(len(whole))
    with pytest.raises(DataError, match=f"24 images at 24 px needs {needed}, 2 kB are free there. .* MLRC_CACHE"):
        prepare(index, PX, path)
    assert not list(path.parent.glob("*.p*"))
    path.with_suffix(".partial").write_bytes(whole[:-1500])  # what is there already needs no room
    assert prepare(index, PX, path)


@posix
def test_a_disk_that_fills_up_is_one_line_and_the_work_so_far_is_kept(
    index: ImageIndex, path: Path, whole: bytes, monkeypatch
) -> None:
    import resource

    monkeypatch.setattr(prepare_module, "_CHUNK", 3)

    def confined() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) // 2, resource.RLIM_INFINITY))
        with pytest.raises(
            DataError, match=r"cannot be written \(File too large; .* are free there\)\. Mend that and give the same"
        ):
            prepare(index, PX, path)

    assert in_child(confined) == 0
    assert not path.exists()
    notes = Notes()
    assert prepare(index, PX, path, notes)
    assert notes.begun[0][1] > 3
    assert path.read_bytes() == whole


def test_a_folder_that_cannot_be_one_is_refused(tmp_path: Path, index: ImageIndex) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(DataError, match=r"file.*: cannot be written \((File exists|Not a directory);"):
        prepare(index, PX, cache_path(tmp_path / "file", index, PX))


# Where it lies, and what else is remembered there


def test_the_folder_is_the_variables_or_the_systems(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("MLRC_CACHE", str(tmp_path / "größe 距離"))
    assert cache_folder() == tmp_path / "größe 距離"
    monkeypatch.setenv("MLRC_CACHE", "")
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    system = {"linux": "xdg/mlrc", "darwin": "Library/Caches/mlrc", "win32": "local/mlrc/Cache"}
    for platform, wanted in system.items():
        monkeypatch.setattr(cache_module.sys, "platform", platform)
        assert cache_folder() == tmp_path / wanted
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setattr(cache_module.sys, "platform", "linux")
    assert cache_folder() == tmp_path / ".cache" / "mlrc"


def test_that_images_decode_is_remembered_for_their_bytes_and_this_pillow(tmp_path: Path, monkeypatch) -> None:
    index, folder = draw(tmp_path / "images"), tmp_path / "cache"
    assert not known_to_decode(folder, index)
    remember_decoding(folder, index)
    assert known_to_decode(folder, index)
    assert known_to_decode(folder, load_dataset(str(tmp_path / "images")))
    assert not known_to_decode(folder, draw(tmp_path / "others", n_classes=3))
    (note,) = folder.iterdir()
    with monkeypatch.context() as patch:
        patch.setattr(cache_module.PIL, "__version__", "9.0")
        assert not known_to_decode(folder, index)
    note.write_text(note.read_text(encoding="utf-8")[:20], encoding="utf-8")
    assert not known_to_decode(folder, index)
    remember_decoding(note, index)  # a folder that cannot be one: nothing is remembered
    assert not known_to_decode(note, index)
