"""MNIST from its four files, packed or not, in every place where others put them; and what is no such file."""

import gzip
import pickle
from pathlib import Path

import numpy as np
import pytest
from standard_trees import HTML, mnist_tree, refusal, split_of

from protocols.catalogue import MINI_V1
from protocols.datasets import load_dataset, scan
from protocols.datasets.standard import STANDARD, expected_counts


def test_mnist_is_ten_classes_of_gray_digits_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    index = load_dataset(f"mnist:{mnist_tree(tmp_path)}")
    assert index.classes == tuple("0123456789")
    assert (index.name, index.standard_name, index.test_classes, index.n_images) == ("mnist", "mnist", None, 50)
    assert index.files[:5] == ("train #0", "train #10", "train #20", "test #0", "test #10")
    assert index.targets.tolist() == sorted(index.targets.tolist())
    random = np.random.default_rng(0).integers(0, 256, (30, 28, 28), dtype=np.uint8)
    assert np.array_equal(index.read(6), np.repeat(random[11][:, :, None], 3, axis=2))
    assert index.files[6] == "train #11"
    assert scan(index) == []


def test_packed_or_not_flat_or_as_torchvision_has_it_or_with_dots_is_the_same_index(tmp_path: Path) -> None:
    first = load_dataset(f"mnist:{mnist_tree(tmp_path / 'a')}")
    others = [mnist_tree(tmp_path / "b", packed=False), mnist_tree(tmp_path / "c" / "MNIST" / "raw").parents[1]]
    dotted = mnist_tree(tmp_path / "d", packed=False)
    for path in list(dotted.iterdir()):
        path.rename(path.with_name(path.name.replace("-idx", ".idx")))
    for root in (*others, dotted):
        index = load_dataset(f"mnist:{root}")
        assert (index.files, index.content_hash) == (first.files, first.content_hash)
        assert np.array_equal(index.read(49), first.read(49))


def test_the_reader_reaches_a_worker_as_a_few_bytes(tmp_path: Path) -> None:
    index = load_dataset(f"mnist:{mnist_tree(tmp_path, n_train=3000)}")
    sent = pickle.dumps(index.reader)
    assert len(sent) < 8 * index.n_images + 2000
    assert np.array_equal(pickle.loads(sent)(7), index.read(7))


def test_the_halves_of_the_published_counts_are_digits_0_to_4_and_5_to_9(tmp_path: Path) -> None:
    index = load_dataset(f"mnist:{mnist_tree(tmp_path)}")
    assert split_of(index, MINI_V1).test == tuple("56789")
    assert STANDARD["mnist"].counts["images"] == 70_000
    assert "images: found 50, published 70,000" in expected_counts(index)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda data: HTML.encode(), "not the file that was wanted"),
        (lambda data: b"", "not the file that was wanted: 0 bytes"),
        (lambda data: data[: len(data) // 2], "damaged (Compressed file ended"),
        (lambda data: gzip.decompress(data)[:-1], "not the file that was wanted"),
        (lambda data: gzip.decompress(data) + b"0", "not the file that was wanted"),
        (lambda data: gzip.compress(b"\0\0\x08\x01\0\0\0\x01\x07"), "not the file that was wanted"),
    ],
)
def test_another_file_in_place_of_the_images_is_named(tmp_path: Path, damage, said: str) -> None:
    path = mnist_tree(tmp_path) / "t10k-images-idx3-ubyte.gz"
    path.write_bytes(damage(path.read_bytes()))
    message = refusal(f"mnist:{tmp_path}")
    assert message.startswith(f"{path}: {said}")
    assert message.endswith("Fetch it again.")


def test_a_missing_file_and_lists_that_do_not_fit_are_named(tmp_path: Path) -> None:
    mnist_tree(tmp_path)
    labels = tmp_path / "train-labels-idx1-ubyte.gz"
    labels.write_bytes(gzip.compress(b"\0\0\x08\x01\0\0\0\x01\x07"))
    assert refusal(f"mnist:{tmp_path}") == f"{labels}: 1 labels for 30 images. Fetch both files again."
    labels.unlink()
    assert f"{tmp_path}: no train-labels-idx1-ubyte or train-labels-idx1-ubyte.gz in it" in refusal(f"mnist:{tmp_path}")
