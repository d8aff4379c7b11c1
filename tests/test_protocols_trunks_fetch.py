"""A trunk's weight file is fetched to where runs look for it, and only the one that is wanted stays."""

from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
from conftest import Command
from served import Heard, Served, Server, serving

from protocols.catalogue import LITE_V1, MLRC_V1
from protocols.errors import DataError, ProtocolError
from protocols.spec import Trunk
from protocols.trunks import BNInception
from protocols.trunks.fetch import fetch_weights

FILE = "bn_inception-52deb4733.pth"
CONTENT = b"weights " * 10_000


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    """BN-Inception's address leads here, and PyTorch's hub has an empty cache."""
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "torch home"))
    with serving() as found:
        file = replace(BNInception.published_file, address=found.url(FILE))
        monkeypatch.setattr(BNInception, "published_file", file)
        yield found


def wanting(content: bytes) -> Trunk:
    return replace(MLRC_V1.trunk, weights=f"imagenet:{sha256(content).hexdigest()[:8]}")


def test_weights_are_fetched_once_to_where_runs_look_for_them(server: Server) -> None:
    server.files[FILE] = Served(CONTENT, cut_at=[30_000])
    path, is_new = fetch_weights(wanting(CONTENT), Heard())
    assert is_new
    assert path == BNInception.published_file.cached
    assert path.read_bytes() == CONTENT
    assert fetch_weights(wanting(CONTENT), Heard()) == (path, False)
    assert server.asked[FILE] == ["", "bytes=30000-"]
    assert [item.name for item in path.parent.iterdir()] == [FILE]


def test_another_file_than_the_protocols_is_refused_and_leaves_nothing(server: Server) -> None:
    server.files[FILE] = Served(b"other " * 1000)
    with pytest.raises(
        ProtocolError, match=r"gave a file with SHA-256 .*; the protocol wants .*give it with --weights"
    ):
        fetch_weights(wanting(CONTENT), Heard())
    assert not BNInception.published_file.cached.exists()
    assert not list(BNInception.published_file.cached.parent.iterdir())


def test_a_wrong_file_in_the_cache_is_replaced(server: Server) -> None:
    server.files[FILE] = Served(CONTENT)
    cached = BNInception.published_file.cached
    cached.parent.mkdir(parents=True)
    cached.write_bytes(b"wrong")
    assert fetch_weights(wanting(CONTENT), Heard()) == (cached, True)
    assert cached.read_bytes() == CONTENT


def test_a_web_page_is_no_weight_file(server: Server) -> None:
    server.files[FILE] = Served(b"<!DOCTYPE html><html><body>Sign in</body></html>")
    with pytest.raises(DataError, match="answered with a web page"):
        fetch_weights(wanting(CONTENT), Heard())


def test_a_trunk_without_a_file_has_nothing_to_fetch(mlrc: Command) -> None:
    with pytest.raises(ProtocolError, match=r"efficientnet-lite0 .* reads no file; nothing to fetch"):
        fetch_weights(LITE_V1.trunk, Heard())
    assert "conv3 with weights 'random' reads no file" in mlrc("weights", "mini").refusal()
    assert "Did you mean 'mlrc'?" in mlrc("weights", "mlr").refusal()
