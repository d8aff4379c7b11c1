"""Test embeddings of fold models: one `.npy` file a job, written whole or not at all.

They lie in a folder beside the store, or in the place that `--artifacts` names, which the store remembers: a folder
that all hosts see, or a bucket, `s3://BUCKET/PREFIX` or `gs://BUCKET/PREFIX`. Optuna's artifact stores reach the
buckets, with the credentials and the endpoint that boto3 and google-cloud-storage find in their own files and
variables. A folder is written here, as Optuna's would leave half a file after a kill.
"""

import os
from functools import cache
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING
from warnings import catch_warnings

import numpy as np
import numpy.typing as npt

from benchmark.errors import BenchmarkError, words_of
from results.claims import HOST
from results.database import database_url

if TYPE_CHECKING:
    from optuna.artifacts._protocol import ArtifactStore

    from results.store import Store

Matrix = npt.NDArray[np.float32]
Place = Path | str  # a folder, or the address of a bucket

EXTRAS = {"s3": "s3", "gs": "gcs"}  # by the scheme of a bucket's address: the extra that brings what reaches it


class EmbeddingsUnavailable(BenchmarkError):
    """Test embeddings of a finished fold that are not where they should be, or are damaged."""


def embeddings_folder(store: str) -> Path:
    """Where the embeddings of a store lie, by its path or URL: beside a SQLite file, in `runs/` for a server."""
    url = database_url(store)
    file = Path(url.database or "") if url.get_backend_name() == "sqlite" else Path("runs") / "mlrc"
    return file.with_name(file.name + ".embeddings")


def noted_place(store: "Store") -> Place | None:
    """Where the embeddings of a store lie, or None where they lie beside it."""
    noted = store.note("embeddings", "place")
    return noted if noted is None or "://" in noted else Path(noted)


def note_place(store: "Store", place: Place) -> None:
    """Have the store remember where its embeddings lie."""
    store.put_note("embeddings", "place", str(place))


def stored_place(store: "Store", address: str) -> Place:
    """Where the embeddings of the store at an address lie."""
    return noted_place(store) or embeddings_folder(address)


def artifacts_place(text: str) -> Place:
    """The place that `--artifacts` names; a folder becomes absolute, as other commands may start elsewhere.

    Raises:
        BenchmarkError: for an address of an unknown kind, or without a bucket, or if what reaches it is not installed.
    """
    scheme, is_address, rest = text.partition("://")
    if not is_address:
        return Path(text).expanduser().absolute()
    if scheme not in EXTRAS or not rest.partition("/")[0]:
        raise BenchmarkError(f"--artifacts {text}: wanted a folder, s3://BUCKET/PREFIX or gs://BUCKET/PREFIX.")
    address = text.rstrip("/")
    _bucket(address)
    return address


def save_embeddings(place: Place, job_id: str, embeddings: Matrix) -> None:
    """Write (N, D) float32 as `<place>/<job id>.npy`.

    Raises:
        OSError: if it cannot be written.
    """
    if isinstance(place, Path):
        _save_file(place, job_id, embeddings)
        return
    content = BytesIO()
    np.save(content, embeddings, allow_pickle=False)
    content.seek(0)
    try:
        _bucket(place).write(_key(place, job_id), content)
    except Exception as error:  # boto3 and google-cloud-storage have many words for it
        raise OSError(f"{place}: cannot be written ({words_of(error)})") from error


def load_embeddings(place: Place, job_id: str) -> Matrix:
    """The (N, D) float32 matrix of a job.

    Raises:
        EmbeddingsUnavailable: if the file is missing or damaged.
        BenchmarkError: if it cannot be reached for now.
    """
    from optuna.artifacts.exceptions import ArtifactNotFound

    path = f"{place}/{job_id}.npy"
    try:
        if isinstance(place, Path):
            embeddings: Matrix = np.load(path, allow_pickle=False)
        else:
            with _bucket(place).open_reader(_key(place, job_id)) as file:
                embeddings = np.load(BytesIO(file.read()), allow_pickle=False)
    except (FileNotFoundError, ArtifactNotFound, ValueError, EOFError) as error:
        raise EmbeddingsUnavailable(
            f"{path}: the test embeddings of a finished fold cannot be read on {HOST} ({words_of(error)}). "
            "Restore the file; if another host wrote it, give all of them one --artifacts that they share."
        ) from None
    except Exception as error:  # of the disk, or of what reaches a bucket: the file may be there
        raise BenchmarkError(
            f"{path}: cannot be read on {HOST} ({words_of(error)}). Check that the place is reached and may be read, "
            "then give the same command."
        ) from None
    return embeddings


def check_place(place: Place) -> None:
    """Write, read and remove a small file, so that a wrong --artifacts costs no run.

    Raises:
        BenchmarkError: if that fails.
    """
    probe = f"probe.{HOST}.{os.getpid()}"
    try:
        save_embeddings(place, probe, np.zeros((1, 1), np.float32))
        load_embeddings(place, probe)
        if isinstance(place, Path):
            (place / f"{probe}.npy").unlink()
        else:
            _bucket(place).remove(_key(place, probe))
    except (OSError, BenchmarkError) as error:
        said = words_of(error).removeprefix(f"{place}: ")
        raise BenchmarkError(f"--artifacts {place}: {said}; choose another place.") from None


def _save_file(folder: Path, job_id: str, embeddings: Matrix) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"{job_id}.{HOST}.{os.getpid()}.partial"
    try:
        with partial.open("wb") as file:
            np.save(file, embeddings, allow_pickle=False)
        partial.replace(folder / f"{job_id}.npy")
    finally:
        partial.unlink(missing_ok=True)


@cache
def _bucket(address: str) -> "ArtifactStore":
    from optuna.artifacts import Boto3ArtifactStore, GCSArtifactStore
    from optuna.exceptions import ExperimentalWarning

    scheme, _, rest = address.partition("://")
    bucket = rest.partition("/")[0]
    try:
        with catch_warnings(action="ignore", category=ExperimentalWarning):
            return Boto3ArtifactStore(bucket) if scheme == "s3" else GCSArtifactStore(bucket)
    except ImportError:
        raise BenchmarkError(
            f"--artifacts {address}: what reaches it is not installed; pip install 'mlrc-harness[{EXTRAS[scheme]}]'."
        ) from None
    except Exception as error:  # no region, no credentials
        raise BenchmarkError(f"--artifacts {address}: {words_of(error)}; choose another place.") from None


def _key(address: str, job_id: str) -> str:
    prefix = address.partition("://")[2].partition("/")[2]
    return f"{prefix}/{job_id}.npy" if prefix else f"{job_id}.npy"
