"""A loss that takes its time and writes a line for each fold that it begins, and what a test sees of its command."""

import sqlite3
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

BODY = """search_space = {"x": FloatDistribution(0.0, 1.0)}

    def __init__(self, x):
        super().__init__()
        self.x = x

    def begin(self, context):
        with open("begun.txt", "a") as file:
            file.write("a fold\\n")"""


def slow_forward(seconds: float) -> str:
    """The lines of its forward; any loss with a gradient will do."""
    return f"time.sleep({seconds})\n        return self.x * embeddings[0] @ embeddings[1]"


def n_begun(folder: Path) -> int:
    """How many folds have begun in a folder."""
    begun = folder / "begun.txt"
    return len(begun.read_text().splitlines()) if begun.exists() else 0


def n_records(store: Path) -> int:
    """How many records a SQLite store has, which may not be there yet."""
    try:
        with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
            return int(connection.execute("SELECT count(*) FROM mlrc_records").fetchone()[0])
    except sqlite3.Error:
        return 0


def wait_until(happened: Callable[[], bool], process: "subprocess.Popen[str]", within_s: float = 240.0) -> None:
    """Wait while the command runs; the limit is for a loaded machine."""
    deadline = time.monotonic() + within_s
    while not happened():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline, "the command took too long"
        time.sleep(0.02)
