"""`mlrc data prepare` and runs out of its cache: the same results, decoded once."""

import pickle
from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Command, draw_images, folds_in, options
from tiny import tiny_bench, without_timings

import benchmark.prepared as prepared
from benchmark.options import NoCache
from protocols.catalogue import LITE_V1
from protocols.datasets import load_dataset, tensors
from protocols.datasets.cache import PixelCache, cache_path
from protocols.datasets.prepare import prepare
from protocols.errors import DataError

RANDOM_CROPS = ("transforms.train_crop=random-resized", "transforms.crop_px=24")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("MLRC_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def caches(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.pixels"))


def test_prepare_decodes_once_at_the_size_of_the_protocol(mlrc: Command, images: Path, folder: Path) -> None:
    done = mlrc("data", "prepare", images)
    path = cache_path(folder, load_dataset(str(images)), 256)
    assert (done.code, done.out) == (0, f"Prepared: {path}\n")
    assert done.err.splitlines()[0].startswith(f"Decoding 32 images once into {path}, about ")
    PixelCache(path, load_dataset(str(images)), 256).check()
    again = mlrc("data", "prepare", images)
    assert (again.code, again.out, again.err) == (0, f"Already prepared: {path}\n", "")
    small = mlrc("data", "prepare", images, "--protocol", "mini")
    assert small.out == f"Prepared: {cache_path(folder, load_dataset(str(images)), 32)}\n"


def test_prepare_in_another_folder_says_how_runs_find_it(mlrc: Command, images: Path, folder: Path) -> None:
    elsewhere = folder.parent / "elsewhere"
    done = mlrc("data", "prepare", images, "--protocol", "mini", "--to", elsewhere)
    assert len(caches(elsewhere)) == 1
    assert done.err.splitlines()[-1] == f"Runs look for it where MLRC_CACHE says: set it to {elsewhere}"
    assert not folder.exists()


def test_prepare_refuses_in_one_line(mlrc: Command, images: Path, folder: Path) -> None:
    (folder.parent / "file").write_text("x")
    assert "cannot be written" in mlrc("data", "prepare", images, "--to", folder.parent / "file").refusal()
    assert "no such folder" in mlrc("data", "prepare", "nowhere").refusal()
    assert "Did you mean 'mini'?" in mlrc("data", "prepare", images, "--protocol", "mimi").refusal()


def test_an_interrupted_preparation_goes_on(mlrc: Command, images: Path, folder: Path, monkeypatch) -> None:
    monkeypatch.setattr("protocols.datasets.prepare._CHUNK", 10)

    def interrupt(self: object, n_ready: int) -> None:
        if n_ready == 20:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(prepared._Shown, "advances", interrupt)
        assert mlrc("data", "prepare", images, "--protocol", "mini").code == 3
    assert not caches(folder)
    done = mlrc("data", "prepare", images, "--protocol", "mini")
    assert "(20 are there from before)" in done.err
    assert len(caches(folder)) == 1


def test_results_do_not_depend_on_the_cache(
    mlrc: Command, images: Path, folder: Path, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(tensors, "LIMIT_BYTES", 0)
    found = {}
    for name, more in (("with", []), ("without", ["--no-cache"])):
        store = tmp_path / f"{name}.db"
        assert mlrc("run", "contrastive", *options(images, store, *RANDOM_CROPS), *more).code == 0
        assert len(caches(folder)) == 1
        found[name] = [without_timings(record) for record in folds_in(store)]
    assert len(found["with"]) == 6
    assert found["with"] == found["without"]


def test_what_the_help_says_of_memory_without_a_cache_is_what_is_kept(mlrc: Command) -> None:
    assert f"keeps {tensors.LIMIT_BYTES // 2**20} MiB of resized images" in NoCache.__metadata__[0].help
    index = load_dataset("shapes:centred?train=2&test=2")
    kept = tensors.ImageTensors(index, LITE_V1.transforms, LITE_V1.trunk.input)._resized
    assert kept.free_bytes == tensors.LIMIT_BYTES


def test_a_run_reads_the_cache_and_decodes_nothing(
    mlrc: Command, images: Path, suite: list[str], folder: Path, monkeypatch
) -> None:
    assert mlrc("data", "prepare", images, "--protocol", "mini").code == 0

    def no_decoding(source: object) -> None:
        raise DataError(f"{source}: decoded")

    monkeypatch.setattr("protocols.datasets.files.decode", no_decoding)
    done = mlrc("run", "contrastive", *suite)
    assert done.code == 0, done.err
    assert "Decoding" not in done.err
    assert "images do not decode" in mlrc("run", "contrastive", *suite, "--no-cache").refusal()


def test_a_damaged_cache_is_made_anew_by_a_run(mlrc: Command, images: Path, suite: list[str], folder: Path) -> None:
    assert mlrc("data", "prepare", images, "--protocol", "mini").code == 0
    (path,) = caches(folder)
    whole = path.read_bytes()
    path.write_bytes(whole[:-5])
    done = mlrc("run", "contrastive", *suite)
    assert done.code == 0
    assert "Decoding 32 images once" in done.err
    assert path.read_bytes() == whole


def test_pixels_that_changed_under_a_run_fail_its_jobs_and_name_the_file(
    mlrc: Command, images: Path, suite: list[str], folder: Path, store: Path
) -> None:
    assert mlrc("data", "prepare", images, "--protocol", "mini").code == 0
    (path,) = caches(folder)
    data = bytearray(path.read_bytes())
    for position in range(1000, len(data) - 40, 500):
        data[position] ^= 1
    path.write_bytes(data)
    done = mlrc("run", "contrastive", *suite)
    assert done.code == 4
    records = folds_in(store)
    assert records
    assert all(f"{path}: damaged at image" in record.message for record in records)


def test_images_that_fit_memory_are_checked_once_and_not_again(
    mlrc: Command, images: Path, suite: list[str], folder: Path, monkeypatch
) -> None:
    checked = []
    real = prepared.check_decodes
    monkeypatch.setattr(prepared, "check_decodes", lambda index: checked.append(index.name) or real(index))
    for _ in range(2):
        assert mlrc("run", "contrastive", *suite).code == 0
    assert checked == ["images"]
    assert [path.suffix for path in folder.iterdir()] == [".decodes"]


@pytest.mark.parametrize("limit_bytes", [0, 2**29], ids=["cached", "in memory"])
def test_an_image_that_does_not_decode_stops_a_run_before_its_first_job(
    mlrc: Command, folder: Path, tmp_path: Path, store: Path, monkeypatch, limit_bytes: int
) -> None:
    monkeypatch.setattr(tensors, "LIMIT_BYTES", limit_bytes)
    cut = draw_images(tmp_path / "cut", n_classes=8, n_images=3)
    file = cut / "class 3" / "1.png"
    file.write_bytes(file.read_bytes()[:-60])
    for _ in range(2):
        refused = mlrc("run", "contrastive", *options(cut, store))
        assert refused.code == 2
        assert "1 of 24 images do not decode: class 3/1.png. The first: " in refused.err.splitlines()[-1]
    assert not store.exists()
    assert not list(folder.glob("*.p*"))


def test_names_in_other_scripts_work(mlrc: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    images = draw_images(tmp_path / "données 距離", n_classes=2, n_images=2)
    folder = tmp_path / "größe"
    monkeypatch.setenv("MLRC_CACHE", str(folder))
    done = mlrc("data", "prepare", images, "--protocol", "mini")
    assert done.code == 0, done.err
    (path,) = caches(folder)
    assert done.out == f"Prepared: {path}\n"
    assert f"into {path}" in done.err


def test_a_worker_opens_the_cache_that_its_bench_names(tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path)
    path = cache_path(tmp_path, bench.index, 32)
    prepare(bench.index, 32, path)
    with_cache = replace(bench, cache=path)
    assert with_cache.images.eval([5]).equal(bench.images.eval([5]))
    other = pickle.loads(pickle.dumps(with_cache))
    assert other.cache == path
    assert other.images.eval([0, 7]).equal(bench.images.eval([0, 7]))
    path.unlink()
    with pytest.raises(DataError, match="cannot be read"):
        pickle.loads(pickle.dumps(with_cache)).images  # noqa: B018
