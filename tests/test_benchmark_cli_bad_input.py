"""Bad words and bad images on the command line: one line that says what was found and the way out, before any job."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import Command, draw_images, folds_in, options

# --- what was typed


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ["run", "contrastve"],
            ["no method named 'contrastve'. Did you mean 'contrastive'?", "mlrc methods lists them"],
        ),
        (["run", "pml:ContrastivLoss"], ["no class 'ContrastivLoss'. Did you mean 'pml:ContrastiveLoss'?"]),
        (["run", "pml:"], ["has no class ''. pml:ContrastiveLoss is one; mlrc methods"]),
        (["run", ""], ["is empty, perhaps of an unset variable"]),
        (["run", "contrastive", "--weights", ""], ["--weights is empty"]),
        (["run", "contrastive", "--artifacts="], ["--artifacts is empty"]),
        (["run", "contrastive", "-d", "cub200:"], ["'cub200:' names no folder; wanted cub200:PATH."]),
        (["export", ""], ["what follows 'export' is empty", "give it a value, or leave it out"]),
        (["report", "--site", " "], ["--site is empty"]),
        (["run", "nowhere.py:Loss"], ["nowhere.py: cannot be read", "path/to/file.py:ClassName"]),
        (["run", "contrastive", "-p", "mni"], ["no protocol named 'mni'. Did you mean 'mini'?"]),
        (["run", "contrastive", "-p", "mini@9"], ["no protocol named 'mini@9'. Did you mean 'mini@1'?"]),
        (["run", "contrastive", "--set", "max_step=3"], ["no such field. Did you mean 'schedule.max_steps'?"]),
        (["run", "contrastive", "--set", "max_steps"], ["expected field=value"]),
        (["run", "contrastive", "--set", "max_steps=soon"], ["schedule.max_steps=soon: expected int"]),
        (["run", "contrastive", "--set", "name=x"], ["several fields end so: trunk.name, optimiser.name"]),
        (
            ["run", "contrastive", "--set", "max_steps=0"],
            ["schedule.max_steps is 0; it must be from 1 to 1,000,000,000"],
        ),
        (["run", "contrastive", "--set", "n_trials=-1"], ["search.n_trials is -1; it must be from 1 to 100,000"]),
        (["run", "contrastive", "--set", "n_runs=0"], ["finals.n_runs is 0; it must be from 1 to 1,000"]),
        (["run", "contrastive", "--set", "patience=0"], ["schedule.cadence.patience is 0; it must be from 1 to"]),
        (["run", "contrastive", "--set", "n_runs=1000000000"], ["finals.n_runs is 1000000000; it must be from 1 to"]),
        (["run", "contrastive", "--set", "max_steps=1e400"], ["expected int, for example schedule.max_steps=1000"]),
        (["run", "contrastive", "--set", "=1"], ["expected field=value, for example schedule.max_steps=200"]),
        (["run", "contrastive", "--set", "lr=NaN"], ["optimiser.lr is nan; it must be positive"]),
        (["run", "contrastive", "--set", "trunk.name=conv4"], ["no trunk named 'conv4' here. Did you mean 'conv3'?"]),
        (
            ["run", "contrastive", "--set", "crop_px=2", "--set", "resize_px=2"],
            ["conv3 cannot take an image of 2 px", "raise transforms.crop_px"],
        ),
        (["run", "contrastive", "--set", "n_folds=99"], ["99 folds need at least", "lower folds.n_folds"]),
        (["run", "contrastive", "--workers", "0"], ["--workers is 0; it must be at least 1"]),
        (["run", "contrastive", "--workers", "5000"], ["--workers is 5000; it must be at least 1, and at most 4,096"]),
        (["run", "contrastive", "--threads", "-2"], ["--threads is -2; it must be at least 1"]),
        (["run", "contrastive", "--workers", "two"], ["'--workers'", "integer", "See mlrc run --help."]),
        (["run", "ccp(xbm(contrastive))"], ["ccp(...) is made of one plain method; 'xbm(contrastive)' is made of"]),
        (["run", "contrastive", "--weights", "w.pth"], ["trunk conv3 with weights 'random' reads no file", "leave"]),
        (["run", "contrastive", "--executor", "proceses"], ["no executor named 'proceses'. Did you mean 'processes'?"]),
        (["run"], ["METHOD", "See mlrc run --help."]),
        (["finals", "--set", "n_runs=1"], ["METHOD", "See mlrc finals --help."]),
        (["run", "contrastive", "--protcol", "mini"], ["--protcol", "--protocol", "See mlrc run --help."]),
        (["serch", "contrastive"], ["serch", "Did you mean 'search'?", "See mlrc --help."]),
        (
            ["data", "check", "shapes:shifted?train=1000000000000000"],
            ["memory ran out (Unable to allocate", "lower what"],
        ),
        (["run", "contrastive", "-d", "shapes:shiftd"], ["no data set named 'shapes:shiftd'", "'shapes:shifted'"]),
        (["run", "contrastive", "-d", "nowhere"], ["nowhere: no such folder", "class/image"]),
        (["methods", "tripet"], ["no method named 'tripet'. Did you mean 'triplet'?"]),
        (["protocols", "lit"], ["no protocol named 'lit'. Did you mean 'lite'?"]),
        (["data", "check", "nowhere"], ["nowhere: no such folder"]),
        (["data", "split", "shapes:shifted", "-p", "min"], ["no protocol named 'min'. Did you mean 'mini'?"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) and value[0] in ("run", "finals") else None,
)
def test_what_cannot_be_is_refused_with_the_way_out(
    mlrc: Command, suite: list[str], store: Path, arguments: list[str], said: list[str]
) -> None:
    command, *rest = arguments
    given = [*(suite if command in ("run", "finals") else []), *rest]
    line = mlrc(command, *given).refusal()
    for part in said:
        assert part in line
    assert not store.exists() or folds_in(store) == []


# --- images


def a_text_file_named_jpg(folder: Path) -> None:
    (folder / "class 0" / "notes.jpg").write_text("not an image")


def a_picture_cut_short(folder: Path) -> None:
    path = folder / "class 1" / "0.png"
    path.write_bytes(path.read_bytes()[:60])


def a_broken_link(folder: Path) -> None:
    (folder / "class 2" / "gone.png").symlink_to("nowhere.png")


def a_class_on_two_sides(folder: Path) -> None:
    for label in range(8):
        side = folder / ("train" if label < 4 else "test")
        side.mkdir(exist_ok=True)
        (folder / f"class {label}").rename(side / f"class {label}")
    draw_images(folder / "test" / "x", 1, 2).joinpath("class 0").rename(folder / "test" / "class 0")
    (folder / "test" / "x").rmdir()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (a_text_file_named_jpg, "1 of 33 images do not decode: class 0/notes.jpg"),
        (a_picture_cut_short, "1 of 32 images do not decode: class 1/0.png"),
        (a_broken_link, "class 2/gone.png: a broken link"),
        (a_class_on_two_sides, "in train/ and in test/: class 0"),
    ],
)
def test_a_spoilt_folder_is_refused_before_any_job(
    mlrc: Command, tmp_path: Path, store: Path, spoil: Callable[[Path], None], said: str
) -> None:
    folder = draw_images(tmp_path / "images", n_classes=8, n_images=4)
    spoil(folder)
    assert said in mlrc("run", "contrastive", *options(folder, store)).refusal()
    assert folds_in(store) == []


@pytest.mark.parametrize(
    ("n_classes", "n_images", "said"),
    [
        (0, 0, "no image in this folder"),
        (1, 4, "1 class with 4 images; at least 2 classes are needed"),
        (6, 1, "each of the 6 classes has one image"),
        (3, 4, "Add classes"),
    ],
)
def test_a_folder_too_poor_is_refused(
    mlrc: Command, tmp_path: Path, store: Path, n_classes: int, n_images: int, said: str
) -> None:
    (tmp_path / "images").mkdir()
    draw_images(tmp_path / "images", n_classes, n_images)
    assert said in mlrc("run", "contrastive", *options(tmp_path / "images", store)).refusal()


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads everything")
def test_an_image_that_may_not_be_read_is_named(mlrc: Command, tmp_path: Path, store: Path) -> None:
    folder = draw_images(tmp_path / "images", n_classes=8, n_images=4)
    (folder / "class 3" / "2.png").chmod(0)
    assert "class 3/2.png: cannot be read" in mlrc("run", "contrastive", *options(folder, store)).refusal()


def test_what_a_class_is_called_gives_a_terminal_no_orders(mlrc: Command, tmp_path: Path) -> None:
    folder = draw_images(tmp_path / "images", n_classes=4, n_images=2)
    (folder / "class 0").rename(folder / "\x1b[31mred")
    (folder / "\x1b[31mred" / "twin.png").write_bytes((folder / "class 1" / "0.png").read_bytes())
    (folder / "class 2" / "bad\x9b.png").write_text("no image")
    found = mlrc("data", "check", folder)
    assert found.code == 2
    assert "\N{REPLACEMENT CHARACTER}[31mred" in found.out
    assert not set(found.out + found.err) & {"\x1b", "\x9b"}
    assert not set(mlrc("run", "contrastive", *options(folder, tmp_path / "store.db")).err) & {"\x1b", "\x9b"}
