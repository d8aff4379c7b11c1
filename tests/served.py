"""A server on this machine that hands out files as the servers of data sets do, well or badly."""

import hashlib
import tarfile
import threading
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


@dataclass
class Served:
    """What one address answers; `cut_at` lists after how many bytes each of the first answers ends."""

    data: bytes
    tag: str | None = '"v1"'
    ranges: bool = True
    cut_at: list[int] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)  # of the first answers, in place of the file
    moved_to: str = ""
    length: int | None = None  # announced, if it is not the true one
    stalls_at: int = 0  # the first answer stops there and says no more


@dataclass
class Server:
    """Its address, what it serves by path, and what it was asked: the Range header, or "" for a whole file."""

    address: str
    files: dict[str, Served] = field(default_factory=dict)
    any_path: Served | None = None  # in place of every file that is not there
    asked: dict[str, list[str]] = field(default_factory=dict)
    stalled: threading.Event = field(default_factory=threading.Event)

    def url(self, name: str) -> str:
        return f"{self.address}/{name}"

    def put(self, path: Path, **how) -> str:
        self.files[path.name] = Served(path.read_bytes(), **how)
        return self.url(path.name)


@contextmanager
def serving() -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            name = self.path.lstrip("/").partition("?")[0]
            wanted = self.headers.get("Range", "")
            server.asked.setdefault(name, []).append(wanted)
            self.close_connection = True
            served = server.files.get(name, server.any_path)
            if served is None:
                return self.send_error(404)
            if served.moved_to:
                self.send_response(302)
                self.send_header("Location", served.moved_to)
                self.send_header("Content-Length", "0")
                return self.end_headers()
            if served.statuses:
                return self.send_error(served.statuses.pop(0))
            start, size = 0, served.length or len(served.data)
            if wanted and served.ranges and self.headers.get("If-Range") == served.tag:
                start = int(wanted.removeprefix("bytes=").rstrip("-"))
                if start >= size:
                    return self.send_error(416)
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{size - 1}/{size}")
            else:
                self.send_response(200)
            if served.tag:
                self.send_header("ETag", served.tag)
            self.send_header("Content-Length", str(size - start))
            self.end_headers()
            end = start + served.cut_at.pop(0) if served.cut_at else len(served.data)
            if served.stalls_at:
                end, served.stalls_at = served.stalls_at, 0
                self.wfile.write(served.data[start:end])
                server.stalled.set()
                self.rfile.read(1)  # returns when the other side is gone
                return None
            self.wfile.write(served.data[start:end])
            return None

        def log_message(self, *_: object) -> None:
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server = Server(f"http://127.0.0.1:{http.server_port}")
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


def packed(folder: Path, archive: Path, around: bool = True) -> Path:
    """A zip or gzipped tar file of a folder, with its name around it as most data sets come."""
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as file:
            for path in sorted(folder.rglob("*")):
                file.write(path, path.relative_to(folder.parent if around else folder))
    else:
        with tarfile.open(archive, "w:gz") as file:
            file.add(folder, folder.name)
    return archive


def sha256_of(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Heard:
    """A `Watch` that remembers."""

    def __init__(self, on_advance: Callable[[int], None] = lambda n: None) -> None:
        self.tasks: list[tuple[str, int | None, int]] = []
        self.said: list[str] = []
        self.moved: Counter[str] = Counter()
        self.on_advance = on_advance

    def begin(self, task: str, total: int | None, done: int = 0) -> None:
        self.tasks.append((task, total, done))

    def advance(self, n_bytes: int) -> None:
        self.moved[self.tasks[-1][0]] += n_bytes
        self.on_advance(n_bytes)

    def say(self, text: str) -> None:
        self.said.append(text)
