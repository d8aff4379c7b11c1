"""Test embeddings are whole or not there, wherever they lie; a place that cannot serve costs no run."""

from pathlib import Path

import numpy as np
import pytest
from conftest import Command, options

from benchmark.errors import BenchmarkError
from benchmark.training import embeddings
from benchmark.training.embeddings import (
    EmbeddingsUnavailable,
    artifacts_place,
    check_place,
    embeddings_folder,
    load_embeddings,
    save_embeddings,
)

MATRIX = np.arange(6, dtype=np.float32).reshape(3, 2)


def test_a_folder_holds_what_was_saved_to_the_last_bit(tmp_path: Path) -> None:
    save_embeddings(tmp_path / "new", "one", MATRIX)
    found = load_embeddings(tmp_path / "new", "one")
    assert found.dtype == np.float32
    assert np.array_equal(found, MATRIX)


def test_a_kill_between_two_writes_leaves_what_was_there_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_embeddings(tmp_path, "one", MATRIX)

    class Killed(BaseException):
        pass

    def half(file: object, matrix: object, allow_pickle: bool) -> None:
        file.write(b"\x93NUMPY half")  # type: ignore[attr-defined]
        raise Killed

    monkeypatch.setattr(embeddings.np, "save", half)
    with pytest.raises(Killed):
        save_embeddings(tmp_path, "one", MATRIX + 1)
    with pytest.raises(Killed):
        save_embeddings(tmp_path, "two", MATRIX)
    assert np.array_equal(load_embeddings(tmp_path, "one"), MATRIX)
    assert [path.name for path in tmp_path.iterdir()] == ["one.npy"]


@pytest.mark.parametrize("content", [None, b"", b"\x93NUMPY", b"<html>not found</html>"])
def test_what_is_missing_or_damaged_is_named_with_the_host_and_the_way_out(
    content: bytes | None, tmp_path: Path
) -> None:
    if content is not None:
        (tmp_path / "one.npy").write_bytes(content)
    with pytest.raises(EmbeddingsUnavailable) as caught:
        load_embeddings(tmp_path, "one")
    assert str(caught.value).startswith(
        f"{tmp_path}/one.npy: the test embeddings of a finished fold cannot be read on "
    )
    assert str(caught.value).endswith("give all of them one --artifacts that they share.")
    assert "\n" not in str(caught.value)


def test_what_cannot_be_reached_for_now_is_not_lost(tmp_path: Path) -> None:
    (tmp_path / "one.npy").mkdir()  # as a disk that gives errors
    with pytest.raises(BenchmarkError, match="Check that the place is reached and may be read") as caught:
        load_embeddings(tmp_path, "one")
    assert not isinstance(caught.value, EmbeddingsUnavailable)


@pytest.mark.parametrize(
    ("store", "folder"),
    [
        ("a/b.db", "a/b.db.embeddings"),
        ("sqlite:///a/b.db", "a/b.db.embeddings"),
        ("postgresql+psycopg://me@host/db", "runs/mlrc.embeddings"),
    ],
)
def test_by_default_they_lie_beside_the_store(store: str, folder: str) -> None:
    assert embeddings_folder(store) == Path(folder)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("s4://bucket/p", "wanted a folder, s3://BUCKET/PREFIX or gs://BUCKET/PREFIX."),
        ("ftp://host/p", "wanted a folder, s3://BUCKET/PREFIX or gs://BUCKET/PREFIX."),
        ("s3://", "wanted a folder, s3://BUCKET/PREFIX or gs://BUCKET/PREFIX."),
        ("s3:///prefix", "wanted a folder, s3://BUCKET/PREFIX or gs://BUCKET/PREFIX."),
    ],
)
def test_an_address_of_no_bucket_is_refused(text: str, said: str) -> None:
    with pytest.raises(BenchmarkError) as caught:
        artifacts_place(text)
    assert str(caught.value) == f"--artifacts {text}: {said}"


@pytest.mark.parametrize(("scheme", "module", "extra"), [("s3", "boto3", "s3"), ("gs", "google.cloud.storage", "gcs")])
def test_a_bucket_without_what_reaches_it_names_the_extra(scheme: str, module: str, extra: str) -> None:
    try:
        __import__(module)
    except ImportError:
        with pytest.raises(BenchmarkError, match=rf"not installed; pip install 'mlrc-harness\[{extra}\]'"):
            artifacts_place(f"{scheme}://bucket/prefix")
    else:
        pytest.skip(f"{module} is installed")


def test_a_folder_is_absolute_so_that_other_commands_find_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert artifacts_place("shared") == tmp_path / "shared"


def test_a_place_that_cannot_be_written_costs_no_run(mlrc: Command, images: Path, store: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    said = mlrc("run", "untrained", *options(images, store), "--artifacts", "file/shared").refusal()
    assert said == f"--artifacts {tmp_path}/file/shared: Not a directory; choose another place."
    check_place(tmp_path / "good")
    assert list((tmp_path / "good").iterdir()) == []


def test_a_method_that_wants_more_classes_than_there_are_is_refused_before_there_is_a_store(
    mlrc: Command, images: Path, store: Path
) -> None:
    said = mlrc("run", "contrastive", "hpl3(proxy-nca)", *options(images, store)).refusal()
    assert said.startswith("hpl3(proxy-nca): 2 coarse levels over 2 training classes in a fold; at least 8 classes are")
    assert not store.exists()
