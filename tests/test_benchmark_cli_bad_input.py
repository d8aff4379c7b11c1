"""Bad input on the command line: one line that says what was found and the way out, the right exit code, nothing lost.

A refusal is exit 2 before any job. What a method does wrong is exit 4: its folds are kept as failed, with the reason,
and every other method of the suite still gets its numbers.
"""

import os
import resource
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import SEARCHED, Command, Launch, Outcome, draw_images, ended, options, write_loss

import reports.rehearsal
from results.record import FoldRecord
from results.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def suite(images: Path, store: Path) -> list[str]:
    return options(images, store)


def folds_in(store: Path) -> list[FoldRecord]:
    with Store.open(str(store)) as opened:
        return [record for record in opened.records(kind="fold") if isinstance(record, FoldRecord)]


def lines_of(outcome: Outcome) -> list[str]:
    assert "Traceback" not in outcome.err
    return outcome.err.splitlines()


# --- what was typed


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "contrastve"], ["no method named 'contrastve'. Did you mean 'contrastive'?", "Known: arcface"]),
        (["run", "pml:ContrastivLoss"], ["no class 'ContrastivLoss'. Did you mean 'pml:ContrastiveLoss'?"]),
        (["run", "nowhere.py:Loss"], ["nowhere.py: cannot be read", "path/to/file.py:ClassName"]),
        (["run", "contrastive", "-p", "mni"], ["no protocol named 'mni'. Did you mean 'mini'?"]),
        (["run", "contrastive", "-p", "mini@9"], ["no protocol named 'mini@9'. Did you mean 'mini@1'?"]),
        (["run", "contrastive", "--set", "max_step=3"], ["no such field. Did you mean 'schedule.max_steps'?"]),
        (["run", "contrastive", "--set", "max_steps"], ["expected field=value"]),
        (["run", "contrastive", "--set", "max_steps=soon"], ["schedule.max_steps=soon: expected int"]),
        (["run", "contrastive", "--set", "name=x"], ["several fields end so: trunk.name, optimiser.name"]),
        (["run", "contrastive", "--set", "max_steps=0"], ["schedule.max_steps is 0; it must be at least 1"]),
        (["run", "contrastive", "--set", "n_trials=-1"], ["search.n_trials is -1; it must be at least 1"]),
        (["run", "contrastive", "--set", "n_runs=0"], ["finals.n_runs is 0; it must be at least 1"]),
        (["run", "contrastive", "--set", "patience=0"], ["schedule.cadence.patience is 0; it must be at least 1"]),
        (["run", "contrastive", "--set", "lr=NaN"], ["optimiser.lr is nan; it must be positive"]),
        (["run", "contrastive", "--set", "trunk.name=conv4"], ["no trunk named 'conv4' here. Did you mean 'conv3'?"]),
        (
            ["run", "contrastive", "--set", "crop_px=2", "--set", "resize_px=2"],
            ["conv3 cannot take an image of 2 px", "raise transforms.crop_px"],
        ),
        (["run", "contrastive", "--set", "n_folds=99"], ["99 folds need at least", "lower folds.n_folds"]),
        (["run", "contrastive", "--workers", "0"], ["--workers is 0; it must be at least 1"]),
        (["run", "contrastive", "--threads", "-2"], ["--threads is -2; it must be at least 1"]),
        (["run", "contrastive", "--workers", "two"], ["'--workers'", "integer", "See mlrc run --help."]),
        (["run", "contrastive", "--executor", "proceses"], ["no executor named 'proceses'. Did you mean 'processes'?"]),
        (["run"], ["METHOD", "See mlrc run --help."]),
        (["finals", "--set", "n_runs=1"], ["METHOD", "See mlrc finals --help."]),
        (["run", "contrastive", "--protcol", "mini"], ["--protcol", "--protocol", "See mlrc run --help."]),
        (["serch", "contrastive"], ["serch", "Did you mean 'search'?", "See mlrc --help."]),
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


# --- the store and --out


def test_a_store_that_is_a_folder_is_refused(mlrc: Command, images: Path, tmp_path: Path) -> None:
    for command in (["run", "untrained", *options(images, tmp_path)], ["report", "--store", tmp_path]):
        assert "is a folder; the store wants a file" in mlrc(*command).refusal()


def test_a_store_that_is_another_kind_of_file_is_left_as_it_is(mlrc: Command, images: Path, tmp_path: Path) -> None:
    other = tmp_path / "thesis.txt"
    other.write_text("Not a database. " * 100)
    for command in (["run", "untrained", *options(images, other)], ["status", "--store", other]):
        assert "another kind of file; choose another path" in mlrc(*command).refusal()
    assert other.read_text() == "Not a database. " * 100


def test_a_store_of_a_newer_schema_is_refused_by_every_command(mlrc: Command, suite: list[str], store: Path) -> None:
    mlrc("run", "untrained", *suite)
    with sqlite3.connect(store) as connection:
        connection.execute("UPDATE mlrc_meta SET value = '2' WHERE key = 'schema'")
    for command in (["run", "untrained", *suite], ["report", "--store", store], ["status", "--store", store]):
        assert "store schema 2; this code reads up to 1. Update the package." in mlrc(*command).refusal()


def test_trials_of_another_version_of_optuna_are_refused(mlrc: Command, suite: list[str], store: Path) -> None:
    mlrc("run", "contrastive", *suite)
    with sqlite3.connect(store) as connection:
        connection.execute("UPDATE alembic_version SET version_num = 'v99'")
    assert "optuna" in mlrc("run", "contrastive", *suite).refusal()


def test_a_store_that_is_not_there_is_not_made_by_a_question(mlrc: Command, store: Path) -> None:
    for address in (store, f"sqlite:///{store}"):
        for command in ("report", "status"):
            assert "no store there yet; mlrc run makes one" in mlrc(command, "--store", address).refusal()
    assert not store.exists()


def test_a_report_of_an_empty_store_says_so(mlrc: Command, store: Path) -> None:
    Store.open(str(store)).close()
    assert "nothing is recorded there yet" in mlrc("report", "--store", store).refusal()


def test_a_password_is_never_printed(mlrc: Command, images: Path) -> None:
    for address in ("postgresql+psycopg://me:secret@localhost:1/x", "nosuch://me:secret@localhost/x"):
        assert "secret" not in mlrc("run", "untrained", *options(images, address)).refusal()


@pytest.mark.parametrize("out", ["a file", "/proc/nowhere/x"])
def test_an_out_that_cannot_be_written_costs_no_run(mlrc: Command, suite: list[str], tmp_path: Path, out: str) -> None:
    (tmp_path / "a file").write_text("x")
    assert "cannot be written" in mlrc("run", "untrained", *suite, "--out", out).refusal()
    assert not (tmp_path / "store.db").exists() or folds_in(tmp_path / "store.db") == []


# --- a full disk, as a limit on the size of a file


@contextmanager
def largest_file(n_bytes: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_under_out_leaves_no_half_file_and_the_report_can_be_made_again(
    mlrc: Command, suite: list[str], store: Path, tmp_path: Path
) -> None:
    whole = mlrc("run", "untrained", *suite, "--out", tmp_path / "whole")
    for n_bytes in (0, 500, 3000, 20_000):
        with largest_file(n_bytes):
            full = mlrc("report", "--store", store, "--out", tmp_path / "full")
        assert full.code == 2
        assert "cannot be written" in lines_of(full)[-1]
        for path in (tmp_path / "full").iterdir():
            assert path.read_bytes() == (tmp_path / "whole" / path.name).read_bytes()
    again = mlrc("report", "--store", store, "--out", tmp_path / "full")
    assert again.code == 0
    assert again.out == whole.out
    assert len(list((tmp_path / "full").iterdir())) == 4


LIMITED = """
import resource, sys
import benchmark.workshop, reports.rehearsal  # torch wants a temporary file while it is imported
from benchmark.cli import main

resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[1]), resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
main(sys.argv[2:])
"""


@pytest.mark.parametrize("kilobytes", [8, 150, 420], ids=["tables", "optuna's tables", "trials"])
def test_a_full_disk_under_the_store_loses_nothing(
    mlrc: Command, images: Path, store: Path, tmp_path: Path, kilobytes: int
) -> None:
    arguments = ["run", "untrained", "contrastive", *options(images, store), "--json"]
    command = [sys.executable, "-c", LIMITED, str(1024 * kilobytes), *arguments]
    full = subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="utf-8", timeout=120)
    assert full.returncode == 2, full.stderr
    assert full.stdout == ""
    said = full.stderr.splitlines()[-1]
    assert "Traceback" not in full.stderr
    assert said.startswith(f"error: {store}: ")
    assert "run the same command again" in said
    kept = {record.id for record in folds_in(store)}
    resumed = mlrc(*arguments)
    assert resumed.code == 0, resumed.err
    assert kept <= {record.id for record in folds_in(store)}
    whole = mlrc("run", "untrained", "contrastive", *options(images, tmp_path / "whole.db"), "--json")
    assert resumed.json == whole.json


# --- methods that go wrong

FAULTS = {
    "raises": ("raise ValueError('boom\\nand more')", "pass", "method-error", "ValueError: boom (loss.py, line 11)"),
    "exits": ("raise SystemExit(7)", "pass", "method-error", "SystemExit: 7 (loss.py, line 11)"),
    "nan": ("return embeddings.sum() * float('nan')", "pass", "non-finite", "the loss was nan at step 1."),
    "nan at step 2": (
        "self.n += 1\n        return embeddings[0, 0] * (float('nan') if self.n == 2 else 1)",
        "n = 0",
        "non-finite",
        "the loss was nan at step 2.",
    ),
    "constant": ("return torch.tensor(1.0)", "pass", "method-error", "the loss depends neither on the embeddings"),
    "one loss an image": ("return embeddings.sum(1)", "pass", "method-error", "a loss is a scalar tensor"),
    "collapse": (
        "return embeddings[0, 0]",
        "def after_step(self, step, context):\n"
        "        with torch.no_grad():\n"
        "            for parameter in context.trainable_parameters:\n"
        "                parameter.zero_()",
        "collapsed",
        "embeddings are the same",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_method_is_named_with_its_reason_and_costs_no_other(
    mlrc: Command, suite: list[str], store: Path, tmp_path: Path, fault: str
) -> None:
    forward, body, reason, message = FAULTS[fault]
    loss = write_loss(tmp_path / "loss.py", forward, body)
    ran = mlrc("run", loss, "untrained", *suite, "--json")
    assert ran.code == 4
    assert any(line.startswith(f"{loss}: final fold 0 failed, {reason}: ") for line in lines_of(ran))
    failed = [record for record in folds_in(store) if record.identity.method == loss]
    assert [record.reason for record in failed] == [reason, reason]
    assert all(message in (record.message or "") for record in failed)
    rows = {row["method"]: row["results"] for row in ran.json[0]["rows"]}
    assert all(cell["mean"] is None and cell["n_runs"] == 0 and cell["missing"] for cell in rows[loss])
    assert all(cell["n_runs"] == 1 for cell in rows["untrained"])
    again = mlrc("run", loss, "untrained", *suite, "--json")
    assert again.code == 4
    assert again.json == ran.json
    assert len(folds_in(store)) == 4


def test_a_loss_that_teaches_nothing_gives_the_untrained_numbers(
    mlrc: Command, suite: list[str], tmp_path: Path
) -> None:
    loss = write_loss(tmp_path / "loss.py", "return (embeddings * 0).sum()")
    (table,) = mlrc("run", loss, "untrained", *suite, "--set", "weight_decay=0", "--json").json
    flat, untrained = (row["results"] for row in sorted(table["rows"], key=lambda row: row["method"]))
    assert flat == untrained


def test_a_search_without_a_whole_trial_says_why_in_every_command(
    mlrc: Command, suite: list[str], store: Path, tmp_path: Path
) -> None:
    loss = write_loss(tmp_path / "loss.py", "return embeddings.sum() * float('nan')", SEARCHED)
    why = f"{loss}: 0 of 2 trials finished: 4 folds non-finite; the first: the loss was nan at step 1."
    for command in ("search", "finals", "run"):
        ended_with = mlrc(command, loss, *suite)
        assert ended_with.code == 4
        assert lines_of(ended_with)[-1] == why
    assert "4 folds non-finite" in mlrc("report", "--store", store).out
    assert mlrc("status", "--store", store, "--json").json[0]["trials"] == {"done": 0, "failed": 2, "of": 2}


def test_a_trial_that_fails_is_used_up_and_never_wins(mlrc: Command, images: Path, store: Path, tmp_path: Path) -> None:
    forward = "return embeddings[0, 0] * (float('nan') if self.x > 0.5 else 1.0)"
    loss = write_loss(tmp_path / "loss.py", forward, SEARCHED)
    suite = options(images, store, "n_trials=6", "n_startup_trials=6")
    (line,) = mlrc("search", loss, *suite, "--json").json
    assert line["trials"]["of"] == line["trials"]["done"] + line["trials"]["failed"] == 6
    assert 0 < line["trials"]["failed"] < 6
    assert line["best_hyperparameters"]["x"] <= 0.5
    assert mlrc("run", loss, *suite).code == 0


def test_finals_without_a_search_ask_for_it(mlrc: Command, suite: list[str], store: Path) -> None:
    early = mlrc("finals", "contrastive", "untrained", *suite)
    assert early.code == 4
    assert "contrastive: 0 of 2 trials are done; search it first (mlrc search)." in lines_of(early)
    assert {record.identity.method for record in folds_in(store)} == {"untrained"}


def test_a_file_that_changed_since_its_search_is_another_method(
    mlrc: Command, suite: list[str], tmp_path: Path
) -> None:
    loss = write_loss(tmp_path / "loss.py", "return self.x * embeddings[0, 0]", SEARCHED)
    assert mlrc("search", loss, *suite).code == 0
    write_loss(tmp_path / "loss.py", "return -self.x * embeddings[0, 0]", SEARCHED)
    changed = mlrc("finals", loss, *suite)
    assert changed.code == 4
    assert "0 of 2 trials are done; search it first" in lines_of(changed)[-1]
    write_loss(tmp_path / "loss.py", "return self.x * embeddings[0, 0]", SEARCHED)
    assert mlrc("finals", loss, *suite).code == 0


def test_a_search_space_that_changed_is_refused_and_the_old_trials_stay(
    launch: Launch, mlrc: Command, suite: list[str], store: Path, tmp_path: Path
) -> None:
    body = SEARCHED.replace("1.0", "float(open('bound.txt').read())")
    loss = write_loss(tmp_path / "loss.py", "return self.x * embeddings[0, 0]", body)
    (tmp_path / "bound.txt").write_text("1")
    assert ended(launch("search", loss, *suite)).code == 0
    (tmp_path / "bound.txt").write_text("2")
    widened = mlrc("search", loss, *suite)
    assert widened.code == 4
    assert "its search space is not the one" in lines_of(widened)[-1]
    assert "another --store" in lines_of(widened)[-1]
    assert len(folds_in(store)) == 4


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def broken(:\n", "line 1: SyntaxError"),
        ("import nosuchmodule\n", "line 1: ModuleNotFoundError"),
        ("raise SystemExit(1)\n", "line 1: SystemExit"),
        ("class Other:\n    pass\n", "no class named 'Loss'"),
        ("Loss = 3\n", "no subclass of torch.nn.Module"),
    ],
)
def test_a_file_without_a_usable_class_is_refused(
    mlrc: Command, suite: list[str], tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "loss.py").write_text(text)
    assert said in mlrc("run", "loss.py:Loss", *suite).refusal()


def test_a_report_that_cannot_be_made_is_found_before_the_first_trial(
    mlrc: Command, suite: list[str], store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.delattr(reports.rehearsal, "to_markdown")
        with pytest.raises(NameError):
            mlrc("run", "contrastive", *suite)
    assert folds_in(store) == []
    assert mlrc("run", "contrastive", *suite).code == 0
