"""What a command says of its records: that CCP drew with replacement, once, however many folds and methods did so."""

from pathlib import Path

import pytest
from conftest import Command, draw_images, folds_in, lines_of, options

PUBLISHED = ("--published", "ccp:cub200")  # a pool of 12 images of every class
REPLACED = "They are drawn with replacement."


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Eight classes: six of twelve images, and two of one, each of which one fold trains on."""
    folder = draw_images(tmp_path_factory.mktemp("few") / "images", n_classes=8, n_images=12)
    for label in (0, 2):
        for number in range(1, 12):
            (folder / f"class {label}" / f"{number}.png").unlink()
    return folder


def told(lines: list[str]) -> list[str]:
    return [line for line in lines if REPLACED in line]


def test_classes_with_fewer_images_than_the_pool_are_said_once_a_command(mlrc: Command, few: Path, store: Path) -> None:
    first = mlrc("run", "ccp-contrastive", "ccp-triplet", *PUBLISHED, *options(few, store))
    (line,) = told(lines_of(first))
    states = {(fold.identity.method, fold.fold): fold.method_state for fold in folds_in(store)}
    assert sum(state["short_classes"] > 0 for state in states.values()) > 1
    method, fold = next(key for key in states if line.startswith(f"{key[0]}: ") and f"fold {key[1]}." in line)
    n_short = states[method, fold]["short_classes"]
    assert n_short > 0
    assert f"training classes with fewer images than the pool of 12: {n_short} in fold {fold}. {REPLACED}" in line
    assert REPLACED not in first.out
    again = mlrc("run", "ccp-contrastive", "ccp-triplet", *PUBLISHED, *options(few, store))
    assert told(lines_of(again)) == []  # nothing ran


def test_classes_with_as_many_images_as_the_pool_and_methods_without_one_are_not_remarked_on(
    mlrc: Command, few: Path, store: Path, tmp_path: Path
) -> None:
    enough = draw_images(tmp_path / "enough", n_classes=8, n_images=12)
    assert told(lines_of(mlrc("run", "ccp-contrastive", *PUBLISHED, *options(enough, store)))) == []
    assert told(lines_of(mlrc("run", "contrastive", *PUBLISHED, *options(few, tmp_path / "few.db")))) == []


def test_a_comparison_that_goes_on_run_by_run_says_it_once(mlrc: Command, few: Path, store: Path) -> None:
    without_runs = options(few, store)
    at = without_runs.index("n_runs=1")
    del without_runs[at - 1 : at + 1]
    asked = ("ccp-contrastive", "--against", "ccp-triplet", *PUBLISHED, "--until-decided", "--max-runs", 5)
    found = mlrc("compare", *asked, *without_runs, "--json")
    assert len(found.json["looks"]) > 1, found.json
    assert len(told(lines_of(found))) == 1
