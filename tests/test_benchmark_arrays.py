"""Embeddings and labels out of files: what any framework writes is read to the last bit, what could run code is not."""

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from benchmark.errors import BenchmarkError
from benchmark.exchange.arrays import read_embeddings, read_labels

MATRIX = np.random.default_rng(0).normal(size=(7, 5)).astype(np.float32)


def saved(path: Path, array: object) -> Path:
    np.save(path, np.asarray(array))
    return path


@pytest.mark.parametrize("name", ["a.npy", "a.npz", "a.npz:second", "a.csv", "headed.csv", "bom.csv", "a.tsv"])
def test_embeddings_come_out_of_each_kind_of_file_to_the_last_bit(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    frame = pd.DataFrame(MATRIX.astype(np.float64))
    if name == "a.npz:second":
        np.savez(tmp_path / "a.npz", first=MATRIX[:2], second=MATRIX)
    elif name == "a.npz":
        np.savez_compressed(path, MATRIX)
    elif name == "a.npy":
        saved(path, np.asfortranarray(MATRIX))
    else:
        encoding = "utf-8-sig" if name == "bom.csv" else "utf-8"
        separator = "\t" if name == "a.tsv" else ","
        frame.to_csv(path, index=False, header=name == "headed.csv", encoding=encoding, sep=separator)
    found = read_embeddings(path)
    assert found.dtype == np.float32
    assert np.array_equal(found, MATRIX)


def test_embeddings_and_labels_come_out_of_parquet(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    pd.DataFrame(MATRIX, columns=[f"d{place}" for place in range(5)]).to_parquet(tmp_path / "wide.parquet")
    pd.DataFrame({"embedding": list(MATRIX)}).to_parquet(tmp_path / "list.parquet")
    pd.DataFrame({"file": ["x"] * 3, "label": ["a", "b", "a"]}).to_parquet(tmp_path / "labels.parquet")
    for name in ("wide", "list"):
        assert np.array_equal(read_embeddings(tmp_path / f"{name}.parquet"), MATRIX)
    assert read_labels(tmp_path / "labels.parquet") == ["a", "b", "a"]
    with pytest.raises(BenchmarkError, match="has the column 'label' beside"):
        read_embeddings(tmp_path / "labels.parquet")
    (tmp_path / "text.parquet").write_text("no parquet", encoding="utf-8")
    with pytest.raises(BenchmarkError, match=r"text\.parquet: cannot be read as \.parquet"):
        read_embeddings(tmp_path / "text.parquet")


def test_without_pyarrow_parquet_is_refused_with_the_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    (tmp_path / "a.parquet").write_bytes(b"PAR1")
    with pytest.raises(BenchmarkError, match=r"pip install 'mlrc-harness\[parquet\]', or save it as \.npy"):
        read_embeddings(tmp_path / "a.parquet")


@pytest.mark.parametrize("dtype", ["float16", "float64", "int8", "uint16", ">f4"])
def test_numbers_of_any_width_and_byte_order_become_float32(dtype: str, tmp_path: Path) -> None:
    array = (8 * MATRIX).round().clip(0).astype(dtype)
    assert np.array_equal(read_embeddings(saved(tmp_path / "a.npy", array)), array.astype(np.float32))


@pytest.mark.parametrize(
    ("labels", "found"),
    [
        (np.array([3, 1, 3]), ["3", "1", "3"]),
        (np.array([[3], [1]], dtype=np.uint8), ["3", "1"]),
        (np.array([3.0, 1.0]), ["3", "1"]),
        (np.array(["b", "ä"]), ["b", "ä"]),
        (np.array(["b", "ä"]).astype(object).astype("U"), ["b", "ä"]),
        (np.array([b"b", "ä".encode()]), ["b", "ä"]),
        (np.array([True, False]), ["True", "False"]),
    ],
)
def test_labels_of_any_kind_become_texts(labels: object, found: list[str], tmp_path: Path) -> None:
    assert read_labels(saved(tmp_path / "y.npy", labels)) == found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("3\n1\n3\n", ["3", "1", "3"]),
        ("label\n3\n1\n", ["3", "1"]),
        ("\ufeffLabel\ncat\ndog\n", ["cat", "dog"]),
        ('"cat, black"\r\ndog\r\n', ["cat, black", "dog"]),
        ("file,class\na.png,cat\nb.png,dog\n", ["cat", "dog"]),
    ],
)
def test_labels_come_out_of_csv(text: str, found: list[str], tmp_path: Path) -> None:
    (tmp_path / "y.csv").write_bytes(text.encode())
    assert read_labels(tmp_path / "y.csv") == found


# --- refused


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


class Bomb:
    """What unpickling would run."""

    def __reduce__(self) -> tuple[object, ...]:
        return Path.touch, (Path("ran"),)


BAD = {
    "pickled.npy": (lambda path: path.write_bytes(pickle.dumps(Bomb())), "is no NumPy file, whatever its name says"),
    "objects.npy": (lambda path: np.save(path, np.array([Bomb(), {}]), allow_pickle=True), "may run code"),
    "objects.npz": (lambda path: np.savez(path, np.array([Bomb(), {}], dtype=object)), "may run code"),
    "text.npy": (lambda path: path.write_text("1,2\n3,4\n", encoding="utf-8"), "is no NumPy file"),
    "text.npz": (lambda path: path.write_text("1,2\n3,4\n", encoding="utf-8"), "is no NumPy archive"),
    "empty.npy": (lambda path: path.write_bytes(b""), "is no NumPy file"),
    "cut.npy": (lambda path: cut(saved(path, MATRIX)), "cannot be read as .npy: the file is cut off; save it again"),
    "short.npy": (lambda path: path.write_bytes(saved(path, MATRIX).read_bytes()[:50]), "the file is cut off"),
    "cut.npz": (lambda path: (np.savez(path, MATRIX), cut(path)), "is cut off; write it with numpy.savez"),
    "empty.npz": (lambda path: np.savez(path), "holds no array"),
    "large.npy": (lambda path: np.save(path, MATRIX * np.float64(1e300)), "the largest float32 (first: row 0"),
    "semicolons.csv": (lambda path: path.write_text("1;2\n3;4\n"), "are separated by semicolons; save it with commas"),
    "commas.tsv": (lambda path: path.write_text("1,2\n3,4\n"), "are separated by commas; save it with tabs"),
    "wide.csv": (lambda path: path.write_text("1,2\n3,4\n", encoding="utf-16"), "is UTF-16 text; save it as UTF-8"),
    "heading.csv": (lambda path: path.write_text("x,y\n"), "holds one row, and it is no numbers"),
    "hole.csv": (lambda path: path.write_text("1,2\n,4\n"), "line 2, column 1 is ''; wanted a number"),
    "line.npy": (lambda path: np.save(path, MATRIX[0]), "shape (5,); wanted (N, D)"),
    "cube.npy": (lambda path: np.save(path, MATRIX[None]), "shape (1, 7, 5); wanted (N, D)"),
    "none.npy": (lambda path: np.save(path, MATRIX[:0]), "shape (0, 5); wanted (N, D)"),
    "words.npy": (lambda path: np.save(path, np.array([["a"]])), "holds <U1; wanted numbers"),
    "complex.npy": (lambda path: np.save(path, MATRIX + 1j), "holds complex"),
    "two.npz": (lambda path: np.savez(path, a=MATRIX, b=MATRIX), "holds a, b; name one of them as"),
    "words.csv": (lambda path: path.write_text("x,y\n1,cat\n", encoding="utf-8"), "column 2 is 'cat'"),
    "index.csv": (lambda path: pd.DataFrame(MATRIX).to_csv(path), "has the column '' beside the embeddings"),
    "label.csv": (lambda path: path.write_text("a,label\n1,2\n", encoding="utf-8"), "has the column 'label' beside"),
    "ragged.csv": (lambda path: path.write_text("1,2\n3,4,5\n", encoding="utf-8"), "line 2 has 3 columns"),
    "latin.csv": (lambda path: path.write_bytes(b"1,\xe9\n"), "it is no UTF-8 text (byte 2)"),
    "nothing.csv": (lambda path: path.write_bytes(b""), "is empty"),
    "kind.mat": (lambda path: path.write_bytes(b"MATLAB"), "a file of kind '.mat'; known are .npy, .npz, .csv"),
    "folder.npy": (lambda path: path.mkdir(), "is a folder; wanted a file"),
    "gone.npy": (lambda path: None, "is not there; wanted a file"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_what_holds_no_embeddings_is_refused_in_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make, said = BAD[name]
    make(tmp_path / name)
    with pytest.raises(BenchmarkError) as refused:
        read_embeddings(tmp_path / name)
    assert said in str(refused.value)
    assert name in str(refused.value)
    assert str(refused.value).isprintable()
    assert not Path("ran").exists()


def test_a_header_that_makes_up_a_size_costs_no_memory(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (999999999999, 512), }"
    header = header.ljust(117) + b"\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + MATRIX.tobytes())
    with pytest.raises(BenchmarkError, match=r"a\.npy: cannot be read"):
        read_embeddings(path)


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        ([0.5, 1.0], "holds fractions or NaN"),
        ([float("nan"), 1.0], "holds fractions or NaN"),
        ([[1, 2], [3, 4]], "shape (2, 2); wanted (N,)"),
        ([1j], "holds complex128"),
        ([1e19, 2e19], "where neighbours round to one number"),
        (np.array([2.0**24, 1], np.float32), "holds float32 of 16,777,216"),
        (["a", " "], "label 1 (of 0 to 1) is ''"),
    ],
)
def test_arrays_that_hold_no_labels_are_refused(labels: object, said: str, tmp_path: Path) -> None:
    with pytest.raises(BenchmarkError) as refused:
        read_labels(saved(tmp_path / "y.npy", labels))
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("file,kind\na,b\n", "has 2 columns and 0 of them headed"),
        ("label,class\na,b\n", "has 2 columns and 2 of them headed"),
        ("label,file\na\n", "row 2 has not as many columns as the first: 1, not 2"),
        ("file;label\na;b\n", "its columns are separated by semicolons; save it with commas"),
        ('label\n"a\n', "cannot be read as .csv"),
        ("", "has 0 columns"),
        ("label,file\na,1\n,2\n", "label 1 (of 0 to 1) is ''"),
        ("label\na\nNaN\n", "label 1 (of 0 to 1) is 'NaN'"),
    ],
)
def test_tables_that_hold_no_labels_are_refused(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "y.csv").write_text(text, encoding="utf-8")
    with pytest.raises(BenchmarkError) as refused:
        read_labels(tmp_path / "y.csv")
    assert said in str(refused.value)
