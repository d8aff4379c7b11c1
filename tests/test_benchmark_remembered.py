"""What a store remembers of its suites: a name, the images at a path and the place of embeddings stay what they are."""

import shutil
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Command, draw_images, folds_in, options
from tiny import SETTINGS, tiny_bench

from benchmark.bench import Bench
from benchmark.errors import BenchmarkError
from benchmark.methods.registry import method_entry
from benchmark.options import SuiteOptions
from benchmark.remembered import settle
from benchmark.training.embeddings import load_embeddings, stored_place
from benchmark.training.training import run_fold
from results.store import Store

BOTH = ("search", "finals")
WHAT = SuiteOptions(["contrastive", "ms"], "demo", settings=list(SETTINGS), name="first")


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return tiny_bench(tmp_path)


@pytest.fixture
def opened(tmp_path: Path) -> Store:
    return Store.open(str(tmp_path / "store.db"))


def moved(bench: Bench, location: str, **changes: Any) -> Bench:
    """The same images at another path, or others at the same."""
    index = replace(bench.index, location=location, **changes)
    return replace(bench, index=index)


def other_images(bench: Bench) -> Bench:
    return moved(bench, bench.index.location, image_hashes=("new", *bench.index.image_hashes[1:]))


def begun(bench: Bench, store: Store) -> None:
    """A search that began on the bench."""
    entry = method_entry("contrastive")
    store.put_study(bench.new_study(entry, bench.space(entry)))


# --- a name


def test_a_name_stands_for_one_suite(bench: Bench, opened: Store) -> None:
    settle(bench, opened, WHAT, None, BOTH)
    begun(bench, opened)
    settle(bench, opened, WHAT, None, BOTH)
    with pytest.raises(BenchmarkError) as caught:
        settle(bench, opened, replace(WHAT, methods=["contrastive", "triplet"], threads=2), "mlrc:cub200", BOTH)
    assert "suite 'first' is another one in" in str(caught.value)
    assert "methods was contrastive, ms and is contrastive, triplet;" in str(caught.value)
    assert "threads was not given and is 2; published was not given and is mlrc:cub200. Give" in str(caught.value)
    settle(bench, opened, replace(WHAT, methods=["triplet"], name="second"), None, BOTH)
    settle(bench, opened, replace(WHAT, methods=["triplet"], name=None), None, BOTH)


def test_another_protocol_and_other_images_are_another_suite(bench: Bench, opened: Store, tmp_path: Path) -> None:
    settle(bench, opened, WHAT, None, BOTH)
    begun(bench, opened)
    with pytest.raises(BenchmarkError, match=r"set was .*max_steps = 4.* and is .*max_steps = 5"):
        settle(tiny_bench(tmp_path, "max_steps=5"), opened, WHAT, None, BOTH)
    elsewhere = moved(bench, "elsewhere", image_hashes=("new", *bench.index.image_hashes[1:]))
    with pytest.raises(BenchmarkError, match=rf"data was shapes-shifted \({bench.index.content_hash}\) and is"):
        settle(elsewhere, opened, WHAT, None, BOTH)
    settle(moved(bench, "elsewhere"), opened, WHAT, None, BOTH)  # the same images


def test_how_a_suite_runs_is_no_part_of_it(bench: Bench, opened: Store, tmp_path: Path) -> None:
    settle(bench, opened, WHAT, None, BOTH)
    begun(bench, opened)
    other = replace(
        WHAT,
        methods=["ms", "contrastive", "ms"],
        settings=[*SETTINGS[1:], "schedule." + SETTINGS[0]],  # the same fields
        executor="inline",
        workers=3,
        weights=Path("w.pth"),
        search="faiss",
        no_cache=True,
        keep_checkpoints=True,
    )
    settle(bench, opened, other, None, ("finals",))


def test_a_plan_neither_names_a_suite_nor_passes_over_one(bench: Bench, opened: Store) -> None:
    settle(bench, opened, WHAT, None, BOTH, begin=False)
    settle(bench, opened, replace(WHAT, methods=["triplet"]), None, BOTH)
    settle(bench, opened, replace(WHAT, methods=["ms"]), None, BOTH)  # stopped before anything began: a name is free
    begun(bench, opened)
    with pytest.raises(BenchmarkError, match="suite 'first' is another one"):
        settle(bench, opened, WHAT, None, BOTH, begin=False)


# --- images


def test_images_that_changed_under_a_search_are_refused_with_both_hashes(bench: Bench, opened: Store) -> None:
    settle(bench, opened, WHAT, None, BOTH)
    begun(bench, opened)
    changed = other_images(bench)
    for phases in (BOTH, ("search",), ("finals",)):
        with pytest.raises(BenchmarkError) as caught:
            settle(changed, opened, replace(WHAT, name=None), None, phases)
        assert f"their content hash was {bench.index.content_hash} and is {changed.index.content_hash}." in str(
            caught.value
        )
    settle(bench, opened, WHAT, None, BOTH)  # restored
    settle(moved(changed, "elsewhere"), opened, replace(WHAT, name=None), None, BOTH)  # others, by another path


def test_final_runs_on_a_copy_that_lacks_images_are_refused_and_baselines_need_no_search(
    bench: Bench, opened: Store
) -> None:
    settle(bench, opened, WHAT, None, BOTH)
    begun(bench, opened)
    copy = moved(other_images(bench), "elsewhere")
    with pytest.raises(BenchmarkError, match=f"was {bench.index.content_hash} and is {copy.index.content_hash}"):
        settle(copy, opened, replace(WHAT, name=None), None, ("finals",))
    settle(copy, opened, replace(WHAT, name=None, methods=["untrained"]), None, ("finals",))


def test_images_of_which_nothing_is_recorded_may_change(bench: Bench, opened: Store) -> None:
    settle(bench, opened, WHAT, None, BOTH)  # and stopped before a search began
    settle(other_images(bench), opened, replace(WHAT, name=None), None, BOTH)


def test_a_command_says_that_its_images_changed_and_how_to_go_on(mlrc: Command, tmp_path: Path, store: Path) -> None:
    folder = draw_images(tmp_path / "images", n_classes=8, n_images=4)
    given = options(folder, store)
    assert mlrc("search", "contrastive", *given).code == 0
    n_folds = len(folds_in(store))
    shutil.move(folder / "class 0" / "0.png", tmp_path / "kept.png")
    for command in ("run", "plan"):
        said = mlrc(command, "contrastive", *given).refusal()
        assert said.startswith(f"{folder}: the images are not those that {store} has results of")
        assert said.endswith("Restore them (mlrc data check looks at them), or give another --store.")
    assert len(folds_in(store)) == n_folds
    shutil.move(tmp_path / "kept.png", folder / "class 0" / "0.png")
    assert mlrc("search", "contrastive", *given).code == 0


# --- the place of embeddings


def test_embeddings_go_to_the_place_that_was_named_and_the_store_remembers_it(
    mlrc: Command, images: Path, store: Path, tmp_path: Path
) -> None:
    shared = tmp_path / "shared by all"
    first = mlrc("run", "untrained", *options(images, store), "--artifacts", "shared by all", "--json")
    assert first.code == 0, first.err
    folds = {record.id for record in folds_in(store)}
    assert {path.stem for path in shared.glob("*.npy")} == folds
    assert not store.with_name("store.db.embeddings").exists()
    with Store.open(str(store)) as opened:
        assert stored_place(opened, str(store)) == shared
        run_id = opened.records(kind="run")[0].id
    assert mlrc("run", "untrained", "pixels", *options(images, store)).code == 0  # without the option
    assert len(list(shared.glob("*.npy"))) == len(folds_in(store)) > len(folds)
    verified = mlrc("verify", run_id, "--store", store, "--data", images, "--json")
    assert verified.json["identical"]


def test_another_place_is_refused_while_the_first_is_there(bench: Bench, opened: Store, tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    assert settle(bench, opened, replace(WHAT, artifacts=str(first)), None, BOTH).place == first
    assert list(first.iterdir()) == []  # the place was tried
    with pytest.raises(
        BenchmarkError, match=rf"--artifacts {second}: the test embeddings of .* lie in {first}\. Leave"
    ):
        settle(bench, opened, replace(WHAT, artifacts=str(second)), None, BOTH)
    first.rename(second)
    with pytest.raises(BenchmarkError, match=rf"{first}: the folder with the test embeddings of .* is not there"):
        settle(bench, opened, WHAT, None, BOTH)
    assert settle(bench, opened, replace(WHAT, artifacts=str(second)), None, BOTH).place == second
    assert settle(bench, opened, WHAT, None, BOTH).place == second


def test_embeddings_that_lie_beside_the_store_are_not_left_there(bench: Bench, opened: Store, tmp_path: Path) -> None:
    run_fold(bench.job(method_entry("untrained"), {}, 1, 0), bench)
    beside = settle(bench, opened, replace(WHAT, artifacts=str(bench.artifacts)), None, BOTH, begin=False)
    assert beside.place == bench.artifacts
    with pytest.raises(BenchmarkError, match="move them first"):
        settle(bench, opened, replace(WHAT, artifacts=str(tmp_path / "shared")), None, BOTH)


def test_lost_embeddings_of_a_fold_are_made_again_for_its_concatenation(
    mlrc: Command, images: Path, store: Path, tmp_path: Path
) -> None:
    whole = mlrc("run", "untrained", *options(images, tmp_path / "whole.db"), "--json").json
    assert mlrc("run", "untrained", *options(images, store)).code == 0
    with sqlite3.connect(store) as connection:
        connection.execute("DELETE FROM mlrc_records WHERE kind = 'run'")
    lost, damaged = sorted(store.with_name("store.db.embeddings").iterdir())
    before = [np.load(path) for path in (lost, damaged)]
    lost.unlink()
    damaged.write_bytes(b"\x93NUMPY")
    again = mlrc("run", "untrained", *options(images, store), "--json")
    assert again.json == whole
    assert "Until then, the fold is trained again." in again.err
    folder = store.with_name("store.db.embeddings")
    for path, matrix in zip((lost, damaged), before, strict=True):
        assert np.array_equal(load_embeddings(folder, path.stem), matrix)
