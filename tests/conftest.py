"""For the tests of the command line: commands run in this process or as processes, on images and budgets of seconds."""

import importlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from PIL import Image

from benchmark.cli import main
from results.record import FoldRecord
from results.store import Store

settings.register_profile("suite", deadline=None)  # how long an example takes says something of the machine alone
settings.load_profile("suite")

# `mini` cut down: the whole search and final run of a method is four trained folds of two steps and two more.
SETTINGS = ("max_steps=2", "evaluate_every_steps=1", "n_trials=2", "n_startup_trials=1", "n_runs=1", "n_folds=2")


@dataclass(frozen=True)
class Outcome:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def refusal(self, code: int = 2) -> str:
        """The one line of a command that was refused."""
        assert self.code == code, self.err
        assert self.out == ""
        (line,) = self.err.splitlines()
        assert line.startswith("error: ")
        return line.removeprefix("error: ")


Command = Callable[..., Outcome]
Launch = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture(scope="session", autouse=True)
def cache_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A cache of this session's own: no test reads or writes the user's."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLRC_CACHE", str(folder))
        yield folder


@pytest.fixture(scope="session")
def three_executors() -> ModuleType:
    """The comparison that `tests/benchmarks/three_executors.py` makes at length."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(Path(__file__).parent / "benchmarks"))
        return importlib.import_module("three_executors")


def command_read_by(capture: pytest.CaptureFixture[str]) -> Command:
    """Run a command in this process; what it prints is what `capture` sees."""

    def run(*arguments: object) -> Outcome:
        capture.readouterr()
        with pytest.raises(SystemExit) as left:
            main([str(argument) for argument in arguments])
        printed = capture.readouterr()
        assert isinstance(left.value.code, int)
        return Outcome(left.value.code, printed.out, printed.err)

    return run


@pytest.fixture
def mlrc(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """Run a command in this process, in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    return command_read_by(capsys)


@pytest.fixture
def mlrc_and_workers(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """The same; what its worker processes print is read too."""
    monkeypatch.chdir(tmp_path)
    return command_read_by(capfd)


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launch]:
    """Start a command as the leader of a process group, as a shell does; what is left of it at the end is killed."""
    started: list[subprocess.Popen[str]] = []
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # tests that a shell runs in its background; it is inherited
        signal.signal(signal.SIGINT, signal.default_int_handler)

    def start(*arguments: object, **variables: str) -> "subprocess.Popen[str]":
        command = [sys.executable, "-m", "benchmark", *map(str, arguments)]
        process = subprocess.Popen(
            command,
            cwd=tmp_path,
            env={**os.environ, **variables},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def ended(process: "subprocess.Popen[str]") -> Outcome:
    """What a started command left behind, once it has ended."""
    out, err = process.communicate(timeout=400)
    return Outcome(process.returncode, out, err)


def options(images: object, store: object, *settings: str) -> list[str]:
    """The options of a suite of seconds, run in one process."""
    pairs = [part for setting in (*SETTINGS, *settings) for part in ("--set", setting)]
    return ["--data", str(images), "--store", str(store), "--executor", "inline", *pairs]


def lines_of(outcome: Outcome) -> list[str]:
    """The lines on standard error of a command that ended as it should."""
    assert "Traceback" not in outcome.err
    return outcome.err.splitlines()


def folds_in(store: Path) -> list[FoldRecord]:
    """All fold records of a store."""
    with Store.open(str(store)) as opened:
        return [record for record in opened.records(kind="fold") if isinstance(record, FoldRecord)]


def draw_images(folder: Path, n_classes: int, n_images: int) -> Path:
    """Random images in class folders."""
    random = np.random.default_rng(n_classes)
    for label in range(n_classes):
        (folder / f"class {label}").mkdir(parents=True)
        for number in range(n_images):
            pixels = random.integers(0, 256, (12, 10, 3), np.uint8)
            Image.fromarray(pixels).save(folder / f"class {label}" / f"{number}.png")
    return folder


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A good data set: eight classes of four images."""
    return draw_images(tmp_path_factory.mktemp("data") / "images", n_classes=8, n_images=4)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """Where the store of a suite will be."""
    return tmp_path / "store.db"


@pytest.fixture
def suite(images: Path, store: Path) -> list[str]:
    """The options of a suite on the good data set."""
    return options(images, store)


def write_loss(path: Path, forward: str, body: str = "pass") -> str:
    """A file with one method, by its class body and the statements of its forward(); returns its name for `mlrc`."""
    path.write_text(
        "import time\n\nimport torch\nfrom optuna.distributions import FloatDistribution, IntDistribution\n\n\n"
        f"class Loss(torch.nn.Module):\n    {body}\n\n"
        f"    def forward(self, embeddings, labels):\n        {forward}\n",
        encoding="utf-8",
    )
    return f"{path}:Loss"


# The class body of a method with one hyper-parameter to search.
SEARCHED = """search_space = {"x": FloatDistribution(0.0, 1.0)}

    def __init__(self, x):
        super().__init__()
        self.x = x"""
