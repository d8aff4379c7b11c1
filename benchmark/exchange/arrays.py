"""Embeddings and labels out of the files of any framework: .npy, .npz, .csv, .tsv and, with pyarrow, .parquet.

Nothing is unpickled, since a pickle can run code. Labels become text: 7 and "7" are one class.
"""

import csv
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmark.errors import BenchmarkError

Matrix = NDArray[np.float32]
LABEL_HEADINGS = ("label", "labels", "class", "target")
NPY_MAGIC = b"\x93NUMPY"


def read_embeddings(path: Path) -> Matrix:
    """The (N, D) float32 embeddings in a file; wider numbers are rounded.

    Raises:
        BenchmarkError: if it cannot be read, or holds something else.
    """
    found = _reader(path, _EMBEDDINGS)(path)
    if found.ndim != 2 or 0 in found.shape:
        raise BenchmarkError(f"{path}: holds an array of shape {found.shape}; wanted (N, D), a row for each image.")
    if found.dtype.kind not in "fiu":
        raise BenchmarkError(f"{path}: holds {found.dtype}; wanted numbers, float32 at best.")
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused as such
        return np.array(found, dtype=np.float32, order="C")


def read_labels(path: Path) -> list[str]:
    """The labels in a file, as text, in its order.

    Raises:
        BenchmarkError: if it cannot be read, or holds something else.
    """
    found: NDArray[Any] | list[str] = _reader(path, _LABELS)(path)
    return _as_texts(found, path) if isinstance(found, np.ndarray) else found


def _as_texts(found: NDArray[Any], path: Path) -> list[str]:
    if found.ndim == 2 and 1 in found.shape:
        found = found.ravel()
    if found.ndim != 1:
        raise BenchmarkError(f"{path}: holds an array of shape {found.shape}; wanted (N,), a label for each image.")
    if found.dtype.kind == "f":
        if not (np.isfinite(found) & (found == np.trunc(found))).all():
            raise BenchmarkError(f"{path}: holds fractions or NaN; wanted whole numbers or names as labels.")
        found = found.astype(np.int64)
    if found.dtype.kind == "S":
        found = np.char.decode(found, "utf-8")
    if found.dtype.kind not in "iuUb":
        raise BenchmarkError(f"{path}: holds {found.dtype}; wanted whole numbers or names as labels.")
    return [str(label) for label in found.tolist()]


def _reader(path: Path, readers: dict[str, Callable[[Path], Any]]) -> Callable[[Path], Any]:
    file, _, _ = _within(path)
    kind = file.suffix.lower()
    if kind not in readers:
        raise BenchmarkError(f"{path}: a file of kind {kind or 'unknown'!r}; known are {', '.join(readers)}.")
    if not file.is_file():
        raise BenchmarkError(f"{file}: {'is a folder' if file.is_dir() else 'is not there'}; wanted a file.")

    def read(path: Path) -> Any:
        with _one_line(file):
            return readers[kind](path)

    return read


@contextmanager
def _one_line(path: Path) -> Iterator[None]:
    try:
        yield
    except BenchmarkError:
        raise
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, csv.Error) as error:
        said = next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")
        if "pickle" in said or "object" in said.lower():
            said = "it holds Python objects, which may run code and are not read; save with .astype(str) or as float32"
        raise BenchmarkError(f"{path}: cannot be read as {path.suffix} ({said}).") from None


def _within(path: Path) -> tuple[Path, str, str]:
    """`file.npz:name` as file, colon and name."""
    file, colon, name = str(path).rpartition(":")
    return (Path(file), colon, name) if file.lower().endswith(".npz") else (path, "", "")


def _npy(path: Path) -> NDArray[Any]:
    with path.open("rb") as file:
        if file.read(len(NPY_MAGIC)) != NPY_MAGIC:
            raise BenchmarkError(f"{path}: is no NumPy file, whatever its name says; write it with numpy.save.")
    found: NDArray[Any] = np.load(
        path, mmap_mode="r", allow_pickle=False
    )  # a size that a header makes up costs nothing
    return found


def _npz(path: Path) -> NDArray[Any]:
    file, _, name = _within(path)
    if not zipfile.is_zipfile(file):
        raise BenchmarkError(f"{file}: is no NumPy archive, whatever its name says; write it with numpy.savez.")
    with np.load(file, allow_pickle=False) as arrays:
        names = arrays.files
        if name not in names and (name or len(names) != 1):
            raise BenchmarkError(f"{file}: holds {', '.join(names) or 'nothing'}; name one of them as {file}:NAME.")
        found: NDArray[Any] = arrays[name or names[0]]
        return found


def _rows(path: Path) -> Iterator[list[str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        yield from (row for row in csv.reader(file, delimiter=_delimiter(path), strict=True) if row)


def _delimiter(path: Path) -> str:
    return "\t" if path.suffix.lower() == ".tsv" else ","


def _csv_embeddings(path: Path) -> NDArray[Any]:
    first = next(_rows(path), [])
    if not first:
        raise BenchmarkError(f"{path}: is empty; wanted a row of numbers for each image.")
    has_heading = not all(map(_is_number, first))
    if has_heading:
        _refuse_other_columns(first, path)
    elif len(first) > 1:  # pandas heads columns without names by their numbers
        has_heading = first == [str(place) for place in range(len(first))]
    return np.loadtxt(
        path,
        delimiter=_delimiter(path),
        skiprows=int(has_heading),
        ndmin=2,
        quotechar='"',
        comments=None,
        encoding="utf-8-sig",
    )


def _csv_labels(path: Path) -> list[str]:
    rows = list(_rows(path))
    heading = [name.strip().lower() for name in rows[0]] if rows else []
    columns = [place for place, name in enumerate(heading) if name in LABEL_HEADINGS]
    if len(heading) == 1 and not columns:
        columns, rows = [0], [[], *rows]
    if len(columns) != 1:
        raise BenchmarkError(
            f"{path}: has {len(heading)} columns and {len(columns)} of them headed {' or '.join(LABEL_HEADINGS)}; "
            "wanted one column, or one so headed."
        )
    if ragged := [place for place, row in enumerate(rows[1:], 2) if len(row) != max(1, len(heading))]:
        raise BenchmarkError(f"{path}: row {ragged[0]} has not as many columns as the first.")
    return [row[columns[0]].strip() for row in rows[1:]]


def _table(path: Path) -> Any:
    try:
        from pyarrow import ArrowException, parquet
    except ModuleNotFoundError:
        raise BenchmarkError(
            f"{path}: Parquet is read with pyarrow, which is not installed; pip install 'mlrc-harness[parquet]', or "
            "save it as .npy."
        ) from None
    try:
        table = parquet.read_table(path)
    except ArrowException as error:
        raise ValueError(str(error)) from None
    if any(column.null_count for column in table.columns):
        raise BenchmarkError(f"{path}: has empty cells; every image needs all its values.")
    return table


def _parquet_embeddings(path: Path) -> NDArray[Any]:
    table = _table(path)
    if table.num_columns == 1 and "list" in str(table.schema.types[0]):
        return np.array(table.column(0).to_pylist())
    _refuse_other_columns(table.column_names, path)
    return np.stack([column.to_numpy() for column in table.columns], axis=1)


def _parquet_labels(path: Path) -> NDArray[Any]:
    table = _table(path)
    names = [name for name in table.column_names if name.lower() in LABEL_HEADINGS]
    if table.num_columns != 1 and len(names) != 1:
        raise BenchmarkError(f"{path}: has {table.num_columns} columns; wanted one, or one named label.")
    return np.array(table.column(names[0] if names else 0).to_pylist())


def _refuse_other_columns(names: list[str], path: Path) -> None:
    """Columns that would silently become dimensions."""
    for name in names:
        if name.strip().lower() in (*LABEL_HEADINGS, "", "id", "index", "__index_level_0__"):
            raise BenchmarkError(f"{path}: has the column {name!r} beside the embeddings; leave it out.")


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


_EMBEDDINGS: dict[str, Callable[[Path], Any]] = {
    ".npy": _npy,
    ".npz": _npz,
    ".csv": _csv_embeddings,
    ".tsv": _csv_embeddings,
    ".parquet": _parquet_embeddings,
}
_LABELS: dict[str, Callable[[Path], Any]] = {
    **_EMBEDDINGS,
    ".csv": _csv_labels,
    ".tsv": _csv_labels,
    ".parquet": _parquet_labels,
}
