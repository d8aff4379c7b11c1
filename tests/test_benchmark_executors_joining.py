"""What a worker of a cluster checks before it joins a suite, in a process that can be made to see other things."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from conftest import draw_images
from tiny import MARGINS, tiny_bench, tiny_protocol, without_timings

from benchmark.bench import Bench
from benchmark.errors import BenchmarkError
from benchmark.executors.joining import NotJoined, Offer, join, leave, perform_here, told
from benchmark.executors.offering import unlike
from benchmark.executors.worker import perform
from benchmark.methods.registry import method_entry
from benchmark.provenance import device_name, package
from protocols.datasets import load_dataset
from protocols.splits import make_split
from results.claims import new_owner
from results.record import FoldRecord
from results.store import Store

SECRET = "s3cret"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(str(tmp_path / "mlrc.db")) as opened:
        opened.claim("dask/one", new_owner())
        yield opened


@pytest.fixture
def offer(tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch) -> Iterator[Offer]:
    """What the command of a tiny suite offers; this process leaves the suite and its folder at the end."""
    monkeypatch.chdir(tmp_path)
    bench = tiny_bench(tmp_path)
    bench.artifacts.mkdir()
    (bench.artifacts / "one.marker").touch()
    yield Offer(
        token="one",
        bench=bench,
        store=store.url,
        claim="dask/one",
        folder=tmp_path,
        marker=bench.artifacts / "one.marker",
        variables={"MLRC_CACHE": os.environ["MLRC_CACHE"]},
    )
    leave("one")
    leave("two")


def on_images(bench: Bench, folder: Path) -> Bench:
    index = load_dataset(str(folder))
    protocol = tiny_protocol()
    return replace(bench, index=index, split=make_split(index.classes, protocol.folds, index.test_classes))


def test_a_worker_that_sees_all_joins_and_puts_a_record_into_the_store_once(offer: Offer, store: Store) -> None:
    assert join(offer) == device_name("cpu")
    job = offer.bench.job(method_entry("contrastive"), MARGINS, run=0, fold=1)
    perform_here("one", perform, job)
    record = store.get(job.id)
    assert isinstance(record, FoldRecord)
    assert without_timings(record) == without_timings(perform(job))

    def never(_: object) -> FoldRecord:
        raise AssertionError("its record is there")

    perform_here("one", never, job)
    assert store.records() == [record]


def test_a_worker_holds_two_suites_and_says_of_a_third_that_it_holds_it_no_more(offer: Offer) -> None:
    for token in ("one", "two", "three"):
        join(replace(offer, token=token))
    job = offer.bench.job(method_entry("contrastive"), MARGINS, run=0, fold=1)
    with pytest.raises(NotJoined):
        perform_here("one", perform, job)
    perform_here("two", perform, job)
    leave("three")
    with pytest.raises(NotJoined):
        perform_here("three", perform, job)


def test_a_worker_tells_its_version_and_host() -> None:
    said = told()
    assert said["package"] == package()
    assert said["host"]
    assert "torch" in said["versions"]


def test_images_that_are_missing_or_others_are_refused_with_both_hashes(offer: Offer, tmp_path: Path) -> None:
    images = draw_images(tmp_path / "images", n_classes=8, n_images=2)
    offer = replace(offer, bench=on_images(offer.bench, images))
    join(offer)
    (images / "class 3" / "0.png").write_bytes((images / "class 3" / "1.png").read_bytes())
    with pytest.raises(BenchmarkError, match="give --data a path under which every worker sees the same") as refused:
        join(offer)
    assert offer.bench.index.content_hash in str(refused.value)
    assert load_dataset(str(images)).content_hash in str(refused.value)
    shutil.rmtree(images)
    with pytest.raises(BenchmarkError, match="images: no such folder"):
        join(offer)


def test_a_cache_that_is_not_there_is_refused(offer: Offer, tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match=r"nowhere\.pixels"):
        join(replace(offer, bench=replace(offer.bench, cache=tmp_path / "nowhere.pixels")))


def test_another_store_of_the_same_name_is_refused(offer: Offer) -> None:
    with pytest.raises(BenchmarkError, match="is another one here than the command's"):
        join(replace(offer, claim="dask/other"))


def test_a_folder_of_test_embeddings_that_is_not_shared_is_refused(offer: Offer) -> None:
    assert offer.marker is not None
    offer.marker.unlink()
    with pytest.raises(BenchmarkError, match="give --artifacts a place that every host sees"):
        join(offer)


def test_a_command_whose_folder_is_not_there_is_refused(offer: Offer, tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError, match="start it in a folder that every worker sees"):
        join(replace(offer, folder=tmp_path / "nowhere"))


@pytest.mark.skipif(torch.cuda.is_available(), reason="it is refused where there is no CUDA device")
def test_a_worker_without_a_cuda_device_takes_no_part_in_a_suite_with_cuda_graphs(offer: Offer) -> None:
    with pytest.raises(BenchmarkError, match="--cuda-graphs: jobs would run on the cpu here"):
        join(replace(offer, bench=replace(offer.bench, cuda_graphs=True)))


def test_an_offer_shows_no_password(offer: Offer) -> None:
    assert SECRET not in repr(replace(offer, store=f"postgresql+psycopg://me:{SECRET}@host/db"))


def test_another_version_is_refused_with_both_and_a_file_as_store_on_another_host(store: Store) -> None:
    assert unlike(told(), store) is None
    said = unlike({**told(), "package": "0.1.0 (code 0123456789ab)"}, store)
    assert said is not None
    assert "0.1.0 (code 0123456789ab)" in said
    assert package() in said
    assert "a SQLite file, which is safe on one host only" in (unlike({**told(), "host": "elsewhere"}, store) or "")
