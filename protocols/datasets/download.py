"""One file over HTTP: goes on where it was cut, tries again with longer and longer pauses, never ends up half.

What has arrived lies under the name with `.partial` until it is whole. It is continued only if the server still vouches
for the same file (its ETag or date, sent as If-Range); elsewhere the transfer begins again.
"""

import json
import re
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from typing import Any, Protocol
from urllib.error import HTTPError, URLError
from urllib.parse import quote
from urllib.request import Request, urlopen

from protocols.datasets.files import size_text
from protocols.datasets.images import is_web_page
from protocols.disk import refuse_unless_room, writable
from protocols.errors import DataError

ATTEMPTS = 5  # without a byte of progress between them
BACKOFF_S = 1.0  # before the second attempt; doubled before each further one
TIMEOUT_S = 60.0
CHUNK_BYTES = 2**18
HEAD_BYTES = 4096  # enough to know a web page
_BUSY = frozenset((408, 425, 429, 500, 502, 503, 504))


class Watch(Protocol):
    """Who is told how a long task gets on; all numbers are bytes."""

    def begin(self, task: str, total: int | None, done: int = 0) -> None:
        """A task begins, of which some may be done already; the one before it has ended."""

    def advance(self, n_bytes: int) -> None:
        """So much more of the task is done."""

    def say(self, text: str) -> None:
        """Something that a user should read, in one line."""


class _Transient(Exception):
    """What may be gone at the next attempt."""


def download(url: str, path: Path, watch: Watch) -> None:
    """Fetch a file; returns when the whole of it is at `path`, at once if it is already there.

    Raises:
        DataError: in one line, for an answer that will not change, a web page in place of a file, a server that cannot
            be reached or cuts every transfer, or a disk that cannot take it. What has arrived stays for the next call.
    """
    partial = path.with_name(f"{path.name}.partial")
    if path.exists() and _source(partial).get("url") == url:
        return
    failures = 0
    while True:
        before = _size(partial)
        try:
            _transfer(url, partial, path.name, watch)
            break
        except _Transient as error:
            failures = 1 if _size(partial) > before else failures + 1
            if failures >= ATTEMPTS:
                kept = f"; {size_text(_size(partial))} of it are kept" if _size(partial) else ""
                raise DataError(f"{url}: {error}, {failures} times in a row{kept}.") from None
            pause = BACKOFF_S * 2 ** (failures - 1)
            watch.say(f"{path.name}: {error}; trying again in {pause:g} s.")
            time.sleep(pause)
    partial.replace(path)


def _transfer(url: str, partial: Path, name: str, watch: Watch) -> None:
    """One attempt, from the start or from where the last one ended."""
    source = _source(partial)
    validator = source.get("validator") if source.get("url") == url else None
    have = _size(partial) if validator else 0
    if have and have == source.get("total"):
        return
    headers = {"User-Agent": "mlrc-harness", "Accept-Encoding": "identity"}
    if validator and have:
        headers |= {"Range": f"bytes={have}-", "If-Range": validator}
    request = Request(quote(url, safe="%/:=&?~#+!$,;'@()*[]"), headers=headers)
    with _answers(partial), urlopen(request, timeout=TIMEOUT_S) as answer:
        is_rest = answer.status == 206 and answer.headers.get("Content-Range", "").startswith(f"bytes {have}-")
        if answer.status == 206 and not is_rest:
            partial.unlink(missing_ok=True)
            raise _Transient("the server sent another part than the one asked for")
        done = have if is_rest else 0
        total = _total(answer, done)
        refuse_unless_room(partial, (total or 0) - done, name)
        watch.begin(f"fetching {name}", total, done)
        _receive(answer, partial, {"url": url, "total": total}, done, watch)
    if total is not None and _size(partial) != total:
        raise _Transient(f"the transfer ended after {size_text(_size(partial))} of {size_text(total)}")


def _receive(answer: HTTPResponse, partial: Path, source: dict[str, Any], done: int, watch: Watch) -> None:
    chunk = answer.read(HEAD_BYTES)
    if not done:
        if is_web_page(chunk):
            moved = f" after a redirect to {answer.url}" if answer.url != source["url"] else ""
            raise DataError(f"{source['url']}: answered with a web page{moved}: a login, a notice or a dead link.")
        if not chunk:
            raise _Transient("the answer was empty")
        tag = answer.headers.get("ETag", "")
        by_date = answer.headers.get("Last-Modified")
        source["validator"] = tag if tag.startswith('"') else by_date  # a weak tag vouches for no bytes
    with writable(partial), partial.open("ab" if done else "wb") as file:
        if not done:  # and the file is empty: the note never speaks of another one's bytes
            _source_path(partial).write_text(json.dumps(source), encoding="utf-8")
        while chunk:
            file.write(chunk)
            watch.advance(len(chunk))
            with _answers(partial):  # inside `writable`, which would take a broken connection for a full disk
                chunk = answer.read1(CHUNK_BYTES)  # what is there, so that a slow line loses nothing to a kill


@contextmanager
def _answers(partial: Path) -> Iterator[None]:
    """Tells what of the network's many errors may pass from what will not."""
    try:
        yield
    except HTTPError as error:
        with error:
            found = f"answered {error.code} ({error.reason})"
        if error.code == 416:  # what is here is no part of what is there
            partial.unlink(missing_ok=True)
        if error.code in (*_BUSY, 416):
            raise _Transient(found) from None
        login = ": a login is asked for" if error.code in (401, 403, 407) else ""
        raise DataError(f"{error.url}: {found}{login}.") from None
    except URLError as error:
        if isinstance(error.reason, ssl.SSLCertVerificationError):
            raise DataError(f"the server's certificate is not trusted ({error.reason.verify_message}).") from None
        reason = getattr(error.reason, "strerror", None) or str(error.reason)
        raise _Transient(f"no connection ({reason})") from None
    except (OSError, HTTPException) as error:
        raise _Transient(f"the connection broke ({' '.join(str(error).split()) or type(error).__name__})") from None


def _total(answer: HTTPResponse, done: int) -> int | None:
    if match := re.fullmatch(r"bytes \d+-\d+/(\d+)", answer.headers.get("Content-Range", "")):
        return int(match[1])
    length = answer.headers.get("Content-Length", "")
    return done + int(length) if length.isdecimal() else None


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _source(partial: Path) -> dict[str, Any]:
    """Address, size and mark of what is fetched; empty where nothing has arrived or the note of it is damaged."""
    try:
        found = json.loads(_source_path(partial).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _source_path(partial: Path) -> Path:
    return partial.with_suffix(".source.json")
