"""Embeddings and labels out of the files of any framework: .npy, .npz, .csv, .tsv and, with pyarrow, .parquet.

Nothing is unpickled, since a pickle can run code. Labels become text: 7 and "7" are one class.
"""

import csv
import re
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmark.errors import BenchmarkError, words_of
from benchmark.exchange.spoilt import SEPARATORS, is_number, numpy_fault, other_separator, text_fault
from benchmark.training.embeddings import Matrix

LABEL_HEADINGS = ("label", "labels", "class", "target")
NPY_MAGIC, ZIP_MAGIC = b"\x93NUMPY", b"PK\x03\x04"


def read_embeddings(path: Path) -> Matrix:
    """The (N, D) float32 embeddings in a file; wider numbers are rounded.

    Raises:
        BenchmarkError: if it cannot be read, or holds something else.
    """
    found = _reader(path, _EMBEDDINGS)(path)
    if found.ndim != 2 or 0 in found.shape:
        mend = "Nothing is in it: save it again" if 0 in found.shape else "Save it in that shape"
        raise BenchmarkError(
            f"{path}: holds an array of shape {found.shape}; wanted (N, D), a row for each image. {mend}."
        )
    if found.dtype.kind not in "fiu":
        raise BenchmarkError(f"{path}: holds {found.dtype}; wanted numbers, float32 at best.")
    with np.errstate(over="ignore"):
        rounded = np.array(found, dtype=np.float32, order="C")
    if (too_large := np.isinf(rounded) & np.isfinite(found)).any():
        row = int(too_large.any(axis=1).argmax())
        raise BenchmarkError(
            f"{path}: holds {found.dtype} beyond {np.finfo(np.float32).max:.1e}, the largest float32 (first: row "
            f"{row}, counted from 0); scale the embeddings, such as each row to unit length."
        )
    return rounded


def read_labels(path: Path) -> list[str]:
    """The labels in a file, as text, in its order.

    Raises:
        BenchmarkError: if it cannot be read, or holds something else.
    """
    found: NDArray[Any] | list[str] = _reader(path, _LABELS)(path)
    labels = [label.strip() for label in (_as_texts(found, path) if isinstance(found, np.ndarray) else found)]
    if missing := [place for place, label in enumerate(labels) if label.lower() in ("", "nan")]:
        raise BenchmarkError(
            f"{path}: label {missing[0]} (of 0 to {len(labels) - 1}) is {labels[missing[0]]!r}; every image needs a "
            "whole number or a name."
        )
    return labels


def _as_texts(found: NDArray[Any], path: Path) -> list[str]:
    if found.ndim == 2 and 1 in found.shape:
        found = found.ravel()
    if found.ndim != 1:
        raise BenchmarkError(f"{path}: holds an array of shape {found.shape}; wanted (N,), a label for each image.")
    if found.dtype.kind == "f":
        if not (np.isfinite(found) & (found == np.trunc(found))).all():
            raise BenchmarkError(f"{path}: holds fractions or NaN; wanted whole numbers or names as labels.")
        exact = 2 ** (np.finfo(found.dtype).nmant + 1)
        if (np.abs(found) >= exact).any():
            raise BenchmarkError(
                f"{path}: holds {found.dtype} of {exact:,} and more, where neighbours round to one number; save the "
                "labels as whole numbers."
            )
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
        with _one_line(file, are_numbers=readers is _EMBEDDINGS):
            return readers[kind](path)

    return read


@contextmanager
def _one_line(path: Path, are_numbers: bool) -> Iterator[None]:
    try:
        yield
    except BenchmarkError:
        raise
    except (OSError, ValueError, EOFError, KeyError, zipfile.BadZipFile, csv.Error) as error:
        said = words_of(error)
        is_text = path.suffix.lower() in (".csv", ".tsv")
        fault = text_fault(path, _delimiter(path), are_numbers) if is_text else numpy_fault(said)
        raise BenchmarkError(f"{path}: cannot be read as {path.suffix}{fault or f' ({said}).'}") from None


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
        with file.open("rb") as opened:
            is_cut = opened.read(len(ZIP_MAGIC)) == ZIP_MAGIC
        what = "is cut off" if is_cut else "is no NumPy archive, whatever its name says"
        raise BenchmarkError(f"{file}: {what}; write it with numpy.savez.")
    with np.load(file, allow_pickle=False) as arrays:
        names = arrays.files
        if not names:
            raise BenchmarkError(f"{file}: holds no array; write one into it with numpy.savez.")
        if name not in names and (name or len(names) != 1):
            raise BenchmarkError(f"{file}: holds {', '.join(names)}; name one of them as {file}:NAME.")
        found: NDArray[Any] = arrays[name or names[0]]
        return found


def _rows(path: Path) -> Iterator[list[str]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        yield from (row for row in csv.reader(file, delimiter=_delimiter(path), strict=True) if row)


def _delimiter(path: Path) -> str:
    return "\t" if path.suffix.lower() == ".tsv" else ","


def _csv_embeddings(path: Path) -> NDArray[Any]:
    rows = _rows(path)
    first = next(rows, [])
    if not first:
        raise BenchmarkError(f"{path}: is empty; wanted a row of numbers for each image.")
    has_heading = not all(map(is_number, first))
    if has_heading and next(rows, None) is None:
        raise BenchmarkError(f"{path}: holds one row, and it is no numbers; wanted a row of numbers for each image.")
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
    if len(heading) == 1 and any(name in LABEL_HEADINGS for name in re.split(r"[;\t|]", heading[0])[1:]):
        other = other_separator(heading[0], _delimiter(path))
        raise BenchmarkError(
            f"{path}: its columns are separated by {other}; save it with {SEPARATORS[_delimiter(path)]}."
        )
    if len(heading) == 1 and not columns:
        columns, rows = [0], [[], *rows]
    if len(columns) != 1:
        raise BenchmarkError(
            f"{path}: has {len(heading)} columns and {len(columns)} of them headed {' or '.join(LABEL_HEADINGS)}; "
            "wanted one column, or one so headed. Head it label, or leave the others out."
        )
    if ragged := [place for place, row in enumerate(rows[1:], 2) if len(row) != max(1, len(heading))]:
        found = len(rows[ragged[0] - 1])
        raise BenchmarkError(
            f"{path}: row {ragged[0]} has not as many columns as the first: {found}, not {len(heading)}; mend the row."
        )
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
