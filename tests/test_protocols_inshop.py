"""In-shop Clothes Retrieval: queries and gallery apart on the test side, and in the hash."""

import json
import pickle
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from standard_trees import inshop_tree, pixels_of, refusal, split_of, write_text

from protocols.datasets import load_dataset
from protocols.datasets.standard import counts
from protocols.errors import DataError


def test_inshop_queries_and_gallery_are_told_apart_on_the_test_side_only(tmp_path: Path) -> None:
    index = load_dataset(f"inshop:{inshop_tree(tmp_path)}")
    assert index.classes == tuple(f"id_{item:08d}" for item in range(1, 9))
    assert split_of(index).test == index.classes[4:]
    for label in index.classes:
        item = int(label[3:])
        searched = {index.read(k).tobytes() for k in index.images_of(label) if index.gallery[k]}
        assert searched == ({pixels_of(10 * item + 1), pixels_of(10 * item + 2)} if item > 4 else set())
    assert counts(index)["query_images"] == 4
    assert counts(index)["gallery_images"] == 8
    copy = pickle.loads(pickle.dumps(index))
    assert copy.content_hash == index.content_hash


def test_every_layout_of_inshop_gives_the_same_index(tmp_path: Path) -> None:
    found = [
        load_dataset(f"inshop:{inshop_tree(tmp_path / 'a')}"),
        load_dataset(f"inshop:{inshop_tree(tmp_path / 'b', images='.')}"),
        load_dataset(f"inshop:{inshop_tree(tmp_path / 'c' / 'In-shop Clothes Retrieval', '.', '.').parent}"),
        load_dataset(f"inshop:{inshop_tree(tmp_path / 'd', '.', 'Img')}"),
        load_dataset(f"inshop:{inshop_tree(tmp_path / 'e', '.', 'img')}"),  # img.zip, unpacked into img/
        load_dataset(f"inshop:{inshop_tree(tmp_path / 'f', 'Eval', 'img')}"),
    ]
    assert len({index.content_hash for index in found}) == 1


def test_the_gallery_is_part_of_the_hash_and_hashes_without_one_stay(tmp_path: Path) -> None:
    index = load_dataset(f"inshop:{inshop_tree(tmp_path)}")
    swapped = index.gallery.copy()
    first = index.images_of(index.classes[-1])
    swapped[first] = ~swapped[first]
    without = replace(index, gallery=None)
    assert len({index.content_hash, without.content_hash, replace(index, gallery=swapped).content_hash}) == 3
    digest = sha256()  # the definition that indexes had before there was a gallery
    for label in index.classes:
        hashes = [index.image_hashes[k] for k in index.images_of(label)]
        digest.update(json.dumps([label, None, label in index.test_classes, hashes]).encode() + b"\n")
    assert without.content_hash == digest.hexdigest()[:12]


def test_a_gallery_in_train_classes_or_without_queries_is_refused(tmp_path: Path) -> None:
    index = load_dataset(f"inshop:{inshop_tree(tmp_path)}")
    test = np.isin(index.targets, range(4, 8))
    for gallery, found in (
        (~test, "8 gallery images, 8 of"),
        (test, "0 query and 12"),
        (test & False, "12 query and 0"),
    ):
        with pytest.raises(DataError, match=found):
            replace(index, gallery=gallery)
    with pytest.raises(DataError, match="12 of the latter in train classes"):
        replace(index, gallery=test, test_classes=None)


def test_an_inshop_list_cut_short_is_refused(tmp_path: Path) -> None:
    path = inshop_tree(tmp_path) / "Eval" / "list_eval_partition.txt"
    write_text(path, *path.read_text().splitlines()[:-3])
    assert f"{path}: 17 images; its first line announces 20" in refusal(f"inshop:{tmp_path}")
