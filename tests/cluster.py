"""A real Dask cluster of one scheduler and some workers, each a process on loopback, for tests to break."""

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

# A worker that is silent for this long is taken for lost; the start of a worker's first job, its imports, is longer.
TTL = "15 s"


def free_port() -> int:
    """A port that nobody uses at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Cluster:
    """A context manager; what is left of the cluster at the end is killed."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.port = folder, free_port()
        self.address, self.file = f"tcp://127.0.0.1:{self.port}", folder / "scheduler.json"
        self.scheduler: subprocess.Popen[bytes] | None = None
        self.workers: list[subprocess.Popen[bytes]] = []
        self._log: IO[bytes] = (folder / "cluster.log").open("ab")

    def __enter__(self) -> "Cluster":
        self.start_scheduler()
        return self

    def __exit__(self, *_: object) -> None:
        for process in (*self.workers, *([self.scheduler] if self.scheduler else [])):
            process.send_signal(signal.SIGCONT)
            process.kill()
            process.wait()
        self._log.close()

    def start_scheduler(self) -> None:
        self.file.unlink(missing_ok=True)
        place = ["--host", "127.0.0.1", "--port", str(self.port), "--scheduler-file", str(self.file), "--no-dashboard"]
        self.scheduler = self._start("dask_scheduler", place, os.environ)
        deadline = time.monotonic() + 60
        while not self.file.exists():
            assert self.scheduler.poll() is None, self.said()
            assert time.monotonic() < deadline, self.said()
            time.sleep(0.05)

    def start_worker(self, **variables: str) -> "subprocess.Popen[bytes]":
        place = [self.address, "--no-nanny", "--nthreads", "1", "--memory-limit", "0", "--no-dashboard"]
        place += ["--local-directory", str(self.folder)]
        self.workers.append(self._start("dask_worker", place, {**os.environ, **variables}))
        return self.workers[-1]

    def said(self) -> str:
        return (self.folder / "cluster.log").read_text(encoding="utf-8", errors="replace")

    def _start(
        self, name: str, arguments: list[str], variables: "os._Environ[str] | dict[str, str]"
    ) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{name}", *arguments],
            cwd=self.folder,
            env={**variables, "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": TTL},
            stdout=self._log,
            stderr=subprocess.STDOUT,
        )
