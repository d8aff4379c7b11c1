"""Downloads from servers good and bad: what goes on, is tried again, begins again, is refused, and is left behind."""

import json
import resource
import socket
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from served import Heard, Served, Server, serving
from standard_trees import HTML

from protocols.datasets import download as module
from protocols.datasets.download import download
from protocols.errors import DataError

DATA = np.random.default_rng(0).bytes(3_000_000)


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "BACKOFF_S", 0.001)


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as started:
        yield started


def refused(url: str, path: Path) -> str:
    with pytest.raises(DataError) as caught:
        download(url, path, Heard())
    assert "\n" not in str(caught.value)
    assert not path.exists()
    return str(caught.value)


def test_a_file_arrives_whole_and_nothing_is_asked_a_second_time(server: Server, tmp_path: Path) -> None:
    server.files["a.tgz"] = Served(DATA)
    heard = Heard()
    for _ in range(2):
        download(server.url("a.tgz"), tmp_path / "a.tgz", heard)
    assert (tmp_path / "a.tgz").read_bytes() == DATA
    assert server.asked["a.tgz"] == [""]
    assert heard.tasks == [("fetching a.tgz", len(DATA), 0)]
    assert heard.moved.total() == len(DATA)
    assert not list(tmp_path.glob("*.partial"))


def test_a_cut_transfer_goes_on_where_it_ended(server: Server, tmp_path: Path) -> None:
    server.files["a.tgz"] = Served(DATA, cut_at=[1_000_000, 500_000])
    heard = Heard()
    download(server.url("a.tgz"), tmp_path / "a.tgz", heard)
    assert (tmp_path / "a.tgz").read_bytes() == DATA
    assert server.asked["a.tgz"] == ["", "bytes=1000000-", "bytes=1500000-"]
    assert heard.moved.total() == len(DATA)  # no byte twice
    assert [done for _, _, done in heard.tasks] == [0, 1_000_000, 1_500_000]
    assert "the transfer ended after 1 MB of 3 MB; trying again" in heard.said[0]


@pytest.mark.parametrize(
    ("how", "asked"),
    [
        ({"ranges": False}, ["", "bytes=1000000-"]),
        ({"tag": None}, ["", ""]),
        ({"tag": 'W/"weak"'}, ["", ""]),
    ],
)
def test_a_server_that_cannot_go_on_gives_the_whole_again(server: Server, tmp_path: Path, how, asked) -> None:
    server.files["a.tgz"] = Served(DATA, cut_at=[1_000_000], **how)
    download(server.url("a.tgz"), tmp_path / "a.tgz", Heard())
    assert (tmp_path / "a.tgz").read_bytes() == DATA
    assert server.asked["a.tgz"] == asked


def test_a_file_that_was_exchanged_meanwhile_is_fetched_anew(server: Server, tmp_path: Path) -> None:
    server.files["a.tgz"] = Served(b"old" * 900_000, cut_at=[1_000_000] * 9, statuses=[])
    with pytest.raises(KeyboardInterrupt):
        download(server.url("a.tgz"), tmp_path / "a.tgz", Heard(on_advance=stop_after(500_000)))
    server.files["a.tgz"] = Served(DATA, tag='"v2"')
    download(server.url("a.tgz"), tmp_path / "a.tgz", Heard())
    assert (tmp_path / "a.tgz").read_bytes() == DATA
    assert server.asked["a.tgz"][-1].startswith("bytes=")


def stop_after(n_bytes: int):
    left = [n_bytes]

    def stop(moved: int) -> None:
        left[0] -= moved
        if left[0] < 0:
            raise KeyboardInterrupt

    return stop


def test_an_interrupted_download_goes_on_in_the_next_call_and_another_address_begins_anew(
    server: Server, tmp_path: Path
) -> None:
    server.files |= {"a.tgz": Served(DATA), "b.tgz": Served(DATA[::-1])}
    with pytest.raises(KeyboardInterrupt):
        download(server.url("a.tgz"), tmp_path / "a.tgz", Heard(on_advance=stop_after(1_000_000)))
    assert not (tmp_path / "a.tgz").exists()
    download(server.url("a.tgz"), tmp_path / "a.tgz", heard := Heard())
    assert 0 < heard.moved.total() < 2_000_000
    assert (tmp_path / "a.tgz").read_bytes() == DATA
    download(server.url("b.tgz"), tmp_path / "a.tgz", Heard())
    assert (tmp_path / "a.tgz").read_bytes() == DATA[::-1]


def test_a_whole_partial_file_needs_only_its_name(server: Server, tmp_path: Path) -> None:
    server.files["a.tgz"] = Served(DATA)
    note = {"url": server.url("a.tgz"), "validator": '"v1"', "total": len(DATA)}
    (tmp_path / "a.tgz.source.json").write_text(json.dumps(note), encoding="utf-8")
    (tmp_path / "a.tgz.partial").write_bytes(DATA)
    download(server.url("a.tgz"), tmp_path / "a.tgz", Heard())
    assert (tmp_path / "a.tgz").read_bytes() == DATA
    assert server.asked == {}


@pytest.mark.parametrize("damage", ["", "{", "[1]"])
def test_a_damaged_note_begins_anew(server: Server, tmp_path: Path, damage: str) -> None:
    server.files["a.tgz"] = Served(DATA)
    (tmp_path / "a.tgz.source.json").write_text(damage, encoding="utf-8")
    (tmp_path / "a.tgz.partial").write_bytes(b"something else")
    download(server.url("a.tgz"), tmp_path / "a.tgz", Heard())
    assert (tmp_path / "a.tgz").read_bytes() == DATA


def test_a_busy_server_is_asked_again_and_a_dead_one_is_given_up(server: Server, tmp_path: Path) -> None:
    server.files["a.tgz"] = Served(DATA, statuses=[503, 429])
    download(server.url("a.tgz"), tmp_path / "a.tgz", heard := Heard())
    assert (tmp_path / "a.tgz").read_bytes() == DATA
    assert heard.said == [
        "a.tgz: answered 503 (Service Unavailable); trying again in 0.001 s.",
        "a.tgz: answered 429 (Too Many Requests); trying again in 0.002 s.",
    ]
    server.files["b.tgz"] = Served(DATA, statuses=[500] * 99)
    assert refused(server.url("b.tgz"), tmp_path / "b.tgz").endswith(
        "answered 500 (Internal Server Error), 5 times in a row."
    )
    assert len(server.asked["b.tgz"]) == module.ATTEMPTS


def test_a_server_that_always_cuts_at_the_same_place_is_given_up(server: Server, tmp_path: Path) -> None:
    server.files["a.tgz"] = Served(DATA, ranges=False, cut_at=[1_000_000] * 99)
    assert "1 MB of 3 MB, 5 times in a row; 1 MB of it are kept" in refused(server.url("a.tgz"), tmp_path / "a.tgz")


@pytest.mark.parametrize(
    ("status", "said"), [(404, "answered 404 (Not Found)."), (403, "answered 403 (Forbidden): a login is asked for.")]
)
def test_an_answer_that_will_not_change_is_not_asked_for_twice(server: Server, tmp_path: Path, status, said) -> None:
    server.files["a.tgz"] = Served(DATA, statuses=[status])
    assert refused(server.url("a.tgz"), tmp_path / "a.tgz") == f"{server.url('a.tgz')}: {said}"
    assert len(server.asked["a.tgz"]) == 1


def test_a_web_page_is_never_saved_as_the_file(server: Server, tmp_path: Path) -> None:
    server.files |= {
        "CUB_200_2011.tgz": Served(HTML.encode()),
        "moved.tgz": Served(b"", moved_to="/login"),
        "login": Served(b"\xef\xbb\xbf\n<!-- x --><HTML lang='en'>"),
    }
    message = refused(server.url("CUB_200_2011.tgz"), tmp_path / "a.tgz")
    assert message.endswith("answered with a web page: a login, a notice or a dead link.")
    message = refused(server.url("moved.tgz"), tmp_path / "b.tgz")
    assert f"a web page after a redirect to {server.url('login')}" in message
    assert list(tmp_path.iterdir()) == []


def test_a_redirect_to_the_file_is_followed(server: Server, tmp_path: Path) -> None:
    server.files |= {"a.tgz": Served(b"", moved_to="/b.tgz"), "b.tgz": Served(DATA)}
    download(server.url("a.tgz"), tmp_path / "a.tgz", Heard())
    assert (tmp_path / "a.tgz").read_bytes() == DATA


def test_a_refused_connection_is_tried_again_and_told(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens there
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/a.tgz"
        assert refused(url, tmp_path / "a.tgz") == f"{url}: no connection (Connection refused), 5 times in a row."


def test_a_file_larger_than_the_disk_is_refused_before_a_byte_of_it_is_kept(server: Server, tmp_path: Path) -> None:
    server.files["a.tgz"] = Served(b"x", length=10**18)
    message = refused(server.url("a.tgz"), tmp_path / "a.tgz")
    assert "a.tgz needs 1000000000 GB, " in message
    assert "are free there. Make room or choose another folder." in message
    assert list(tmp_path.iterdir()) == []


def test_a_disk_that_takes_no_more_is_told_and_the_download_goes_on_later(server: Server, tmp_path: Path) -> None:
    server.files["a.tgz"] = Served(DATA)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1_000_000, limits[1]))
    try:
        message = refused(server.url("a.tgz"), tmp_path / "a.tgz")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert "a.tgz.partial: cannot be written (File too large; " in message
    assert message.endswith("are free there). Mend that and run the same command again.")
    download(server.url("a.tgz"), tmp_path / "a.tgz", heard := Heard())
    assert (tmp_path / "a.tgz").read_bytes() == DATA
    assert heard.moved.total() < len(DATA)
