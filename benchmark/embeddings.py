"""Test embeddings of fold models, kept beside the store: one `.npy` file a job, written whole or not at all."""

import os
from pathlib import Path

import numpy as np
import numpy.typing as npt

from benchmark.errors import BenchmarkError
from results.database import database_url

Matrix = npt.NDArray[np.float32]


def embeddings_folder(store: str) -> Path:
    """Where the embeddings of a store lie, by its path or URL: beside a SQLite file, in `runs/` for a server."""
    url = database_url(store)
    file = Path(url.database or "") if url.get_backend_name() == "sqlite" else Path("runs") / "mlrc"
    return file.with_name(file.name + ".embeddings")


def save_embeddings(folder: Path, job_id: str, embeddings: Matrix) -> None:
    """Write (N, D) float32 as `<folder>/<job id>.npy`."""
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / f"{job_id}.{os.getpid()}.partial"
    try:
        with partial.open("wb") as file:
            np.save(file, embeddings, allow_pickle=False)
        partial.replace(folder / f"{job_id}.npy")
    finally:
        partial.unlink(missing_ok=True)


def load_embeddings(folder: Path, job_id: str) -> Matrix:
    """The (N, D) float32 matrix of a job.

    Raises:
        BenchmarkError: if the file is missing or damaged.
    """
    path = folder / f"{job_id}.npy"
    try:
        embeddings: Matrix = np.load(path, allow_pickle=False)
    except (OSError, ValueError) as error:
        raise BenchmarkError(
            f"{path}: the test embeddings of a finished fold cannot be read ({error}). "
            f"Restore the file, or start with another --store."
        ) from None
    return embeddings
