"""The README is true: its commands run as printed, its Python runs, and the files that it shows are there."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from benchmark.cli import main

README = Path(__file__).parents[1] / "README.md"
TEXT = README.read_text(encoding="utf-8")
# The same commands, with budgets that fit a test; what a reader types is left as it stands.
BUDGETS = ("max_steps=1", "batch.size=8", "n_folds=2", "n_trials=1", "n_startup_trials=1", "n_runs=1")
SMALL = [part for budget in BUDGETS for part in ("--set", budget)]
JUDGED = [*SMALL[:-1], "n_runs=3"]  # fewer runs have no verdict
RUNNING = ("run", "compare", "baseline", "plan")
# The imports of a worker are seconds, so only a plan has one, for its calibration; that workers do what this process
# does is tested in `test_benchmark_cli.py`, with a user's own file in `test_benchmark_cli_stopping.py`.
WHERE = {"plan": ("--workers", "1")}


def commands() -> list[str]:
    """Commands on a line of their own, then those in the text; a bare `mlrc run` there is a name, not a command."""
    named = [command for command in re.findall(r"`(mlrc [^`]+)`", TEXT) if command != "mlrc run"]
    return list(dict.fromkeys([*re.findall(r"^    (mlrc .*)$", TEXT, flags=re.MULTILINE), *named]))


def line_with(words: str) -> str:
    return next(line for line in commands() if words in line)


def python_blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", TEXT, flags=re.DOTALL)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the README's commands speak of: path/to/images and my_loss.py."""
    folder = tmp_path_factory.mktemp("reader")
    random = np.random.default_rng(0)
    for label in range(16):
        for number in range(2):
            path = folder / "path" / "to" / "images" / f"class {label:02}" / f"{number}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(random.integers(0, 255, (40, 48, 3), np.uint8)).save(path)
    (folder / "my_loss.py").write_text(python_blocks()[0], encoding="utf-8")
    for fold in range(4):  # of the 8 test classes
        np.save(folder / f"fold{fold}.npy", random.standard_normal((16, 16), np.float32))
    np.save(folder / "y.npy", np.repeat([f"class {label:02}" for label in range(8, 16)], 2))
    return folder


def run(command: str, place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> str:
    monkeypatch.chdir(place)
    arguments = shlex.split(command.partition(" > ")[0])[1:]
    if "--hierarchy" in arguments:
        run("mlrc run 'hpl(proxy-anchor)' --data path/to/images", place, monkeypatch, capsys)
    elif arguments[:2] == ["baseline", "check"] and not (place / "baseline.json").exists():
        run(line_with("baseline save"), place, monkeypatch, capsys)
    elif "--from" in arguments and not (place / "exports").exists():
        run(line_with("mlrc export"), place, monkeypatch, capsys)
    elif "--split" in arguments:
        split = run(line_with("data split"), place, monkeypatch, capsys)
        (place / "split.json").write_text(split, encoding="utf-8")
    elif arguments[0] in ("report", "status", "record", "export") and not (place / "runs" / "mlrc.db").exists():
        run("mlrc run pixels --data path/to/images", place, monkeypatch, capsys)  # what they speak of
    small = {"run": SMALL, "compare": JUDGED}.get(arguments[0], JUDGED if arguments[:2] == ["baseline", "save"] else [])
    if arguments[0] in RUNNING:
        small = [*small, *WHERE.get(arguments[0], ("--executor", "inline"))]
    with pytest.raises(SystemExit) as left:
        main([*arguments, *small])
    printed = capsys.readouterr()
    assert left.value.code == 0, printed.err
    return printed.out


def test_there_are_commands_to_test() -> None:
    assert len(commands()) >= 6
    assert len(python_blocks()) == 2


@pytest.mark.parametrize("command", commands())
def test_a_command_of_the_readme_runs_as_printed(command: str, place: Path, monkeypatch, capsys) -> None:
    assert run(command, place, monkeypatch, capsys).strip()


def test_the_reader_of_a_split_is_plain_python(place: Path, monkeypatch, capsys) -> None:
    command = line_with("data split")
    file = command.partition(" > ")[2]
    (place / file).write_text(run(command, place, monkeypatch, capsys), encoding="utf-8")
    code = python_blocks()[1]
    assert len(code.splitlines()) <= 10
    done = subprocess.run([sys.executable, "-I", "-c", code], cwd=place, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["6 train, 2 validation, 8 test classes"] * 4


def test_files_that_the_readme_shows_are_there() -> None:
    for target in re.findall(r"!\[[^]]*\]\(([^)]+)\)", TEXT):
        assert (README.parent / target).is_file(), target
