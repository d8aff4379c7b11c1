"""A PostgreSQL server of the tests' own: real, on this machine only, on a free port, with a password, gone at the end.

It runs from the system's package (Debian: `apt-get install postgresql`). PostgreSQL refuses to run as root, so root
starts it as the user that the package made. Tests that need it are skipped, with the reason, where it is missing.
"""

import atexit
import itertools
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest

USER, PASSWORD = "mlrc", "s3cret"
MAX_CONNECTIONS = 40
NO_SERVER = "no PostgreSQL server is installed (Debian: apt-get install postgresql)"


class PostgreSQL:
    """A running server; `url()` names a new, empty database of it.

    A test's data need not outlive a power cut, so it does without `fsync`, which makes starts and stops quick.
    """

    def __init__(self, programs: Path, fsync: str = "off") -> None:
        self._programs, self._fsync = programs, fsync
        self._folder = Path(tempfile.mkdtemp(prefix="mlrc-postgres-"))
        self._as: dict[str, str] = {}
        self._names = (f"store_{number}" for number in itertools.count())
        if os.geteuid() == 0:
            self._as = {"user": "postgres", "group": "postgres"}
            shutil.chown(self._folder, "postgres", "postgres")
        self.port = free_port()
        secret = self._folder / "password"
        secret.write_text(PASSWORD, encoding="utf-8")
        secret.chmod(0o644)  # the folder is private
        initdb = ["-D", "data", "-U", USER, f"--pwfile={secret}", "-A", "scram-sha-256", "-E", "UTF8", "--no-sync"]
        self._run("initdb", *initdb, "--locale=C")
        self.start()

    def start(self) -> None:
        """Start it, if it does not run, and wait until it answers."""
        if self._pid() is not None:
            return
        options = f"-p {self.port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync={self._fsync}"
        options += f" -c max_connections={MAX_CONNECTIONS}"
        self._run("pg_ctl", "start", "-w", "-D", "data", "-l", "log", "-o", options)

    def stop(self, mode: str = "fast") -> None:
        """Stop it and wait until it is gone: "fast" ends connections, "immediate" is a crash."""
        self._run("pg_ctl", "stop", "-w", "-D", "data", "-m", mode)

    def url(self, encoding: str = "UTF8") -> str:
        """The store URL of a database that nothing was written to yet."""
        name = next(self._names)
        server = ["-h", "127.0.0.1", "-p", str(self.port), "-U", USER]
        self._run("createdb", *server, "-T", "template0", "-E", encoding, name)
        return f"postgresql+psycopg://{USER}:{PASSWORD}@127.0.0.1:{self.port}/{name}"

    def remove(self) -> None:
        """Stop it, if it runs, and leave nothing behind."""
        if (pid := self._pid()) is not None:
            os.kill(pid, signal.SIGQUIT)
        shutil.rmtree(self._folder, ignore_errors=True)

    @contextmanager
    def away(self, for_s: float, mode: str = "fast") -> Iterator[None]:
        """Gone at once, back after so many seconds; at the end it runs again, whatever happened."""
        self.stop(mode)
        timer = threading.Timer(for_s, self.start)
        timer.start()
        try:
            yield
        finally:
            timer.join()

    def _pid(self) -> int | None:
        """Of the server, if it runs."""
        file = self._folder / "data" / "postmaster.pid"
        return int(file.read_text(encoding="utf-8").split()[0]) if file.exists() else None

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments]
        environment = {"PATH": os.defpath, "LC_ALL": "C", "PGPASSWORD": PASSWORD}
        # Output goes to a file: the server that pg_ctl leaves running would hold a pipe open.
        with tempfile.TemporaryFile() as said:
            done = subprocess.run(
                command, cwd=self._folder, env=environment, stdout=said, stderr=said, timeout=60, **self._as
            )
            said.seek(0)
            assert done.returncode == 0, f"{program}: {said.read().decode()}"


def free_port() -> int:
    """A port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def programs() -> Path | None:
    """The folder of the server's programs, of the newest version."""
    packaged = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    found = packaged[-1] if packaged else shutil.which("initdb")
    return Path(found).parent if found else None


@cache
def postgresql() -> PostgreSQL:
    """The one server of this process, started when a test first asks for it; without one, the test is skipped."""
    pytest.importorskip("psycopg", reason="the driver is missing: pip install 'mlrc-harness[postgres]'")
    folder = programs()
    if folder is None:
        pytest.skip(NO_SERVER)
    server = PostgreSQL(folder)
    atexit.register(server.remove)
    return server


DATABASES = ("sqlite", "postgresql")


def new_address(database: str, folder: Path) -> str:
    """The address of a store that is not there yet."""
    return postgresql().url() if database == "postgresql" else str(folder / "new folder, née" / "mlrc.db")
