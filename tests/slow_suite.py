"""A loss that takes its time and writes a line for each fold that it begins, and what a test sees of its command."""

import os
import signal
import sqlite3
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
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


def living(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def workers_of(pid: int) -> list[int]:
    """The worker processes of a command; none where there is no /proc."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            is_worker = parent == pid and b"spawn_main" in (folder / "cmdline").read_bytes()
        except OSError:
            continue
        if is_worker:
            found.append(int(folder.name))
    return found


def assert_all_end(pids: list[int], within_s: float = 15.0) -> None:
    deadline = time.monotonic() + within_s
    while any(map(living, pids)):
        assert time.monotonic() < deadline, "a worker outlives its command"
        time.sleep(0.05)


@contextmanager
def signal_when(happened: Callable[[], bool], number: signal.Signals) -> Iterator[list[int]]:
    """Once, to the command that runs in this process, which is spared its start, its imports above all.

    The list is of the workers that it had then. Ctrl-C reaches them too, as a shell sends it to the group.
    """
    workers: list[int] = []
    is_over = threading.Event()

    def send() -> None:
        while not happened():
            if is_over.wait(0.02):
                return
        workers.extend(workers_of(os.getpid()))
        for pid in (*(workers if number == signal.SIGINT else ()), os.getpid()):
            os.kill(pid, number)

    before = signal.signal(number, lambda *_: None)  # one that comes too late ends no tests
    thread = threading.Thread(target=send, daemon=True)
    thread.start()
    try:
        yield workers
    finally:
        is_over.set()
        thread.join()
        signal.signal(number, before)
