"""Suites on a part of a data set: run, search, finals and plan say so first; other suites say nothing."""

import json
from pathlib import Path

import pytest
from conftest import Command, draw_images, options
from standard_trees import cub_tree

FOUND = "12 classes and 48 images; CUB-200-2011 has 200 classes and 11,788 images"


@pytest.fixture
def birds(tmp_path: Path) -> str:
    """A few classes of CUB-200-2011."""
    return f"cub200:{cub_tree(tmp_path / 'birds', n_classes=12, per_class=4)}"


@pytest.mark.parametrize("command", ["run", "finals", "search", "plan"])
def test_a_part_of_a_published_data_set_is_told_first(mlrc: Command, birds: str, store: Path, command: str) -> None:
    method = "pixels" if command != "search" else "contrastive"
    done = mlrc(command, method, *options(birds, store))
    assert done.code == 0, done.err
    lines = done.err.splitlines()
    assert lines[0] == f"cub200: {FOUND}. See mlrc data check {birds}"
    assert [line for line in lines if "CUB-200-2011 has" in line] == lines[:1]
    assert "CUB-200-2011 has" not in (done.out if command in ("search", "plan") else "")


def test_the_table_of_a_part_says_so_below_its_numbers(mlrc: Command, birds: str, store: Path) -> None:
    assert FOUND in " ".join(mlrc("run", "pixels", *options(birds, store)).out.split())


@pytest.mark.parametrize("command", ["run", "plan"])
def test_a_folder_of_which_half_is_left_out_is_told_and_json_stays_json(
    mlrc: Command, tmp_path: Path, store: Path, command: str
) -> None:
    root = draw_images(tmp_path / "mine", n_classes=8, n_images=4)
    for picture in [*root.glob("*/2.png"), *root.glob("*/3.png")]:
        picture.rename(picture.with_suffix(".avif"))
    done = mlrc(command, "pixels", *options(root, store), "--json")
    assert done.err.splitlines()[0] == (
        f"mine: 16 files or folders left out (not an image ending: 16). See mlrc data check {root}"
    )
    assert json.loads(done.out)


@pytest.mark.parametrize("command", ["run", "plan"])
def test_a_folder_of_which_all_is_used_is_no_matter(mlrc: Command, suite: list[str], command: str) -> None:
    done = mlrc(command, "pixels", *suite, "--seconds-per-step=1" if command == "plan" else "--no-cache")
    assert (done.code, "mlrc data check" in done.err) == (0, False)
