"""What a run says of its images before it begins, and when it says nothing."""

from dataclasses import replace
from pathlib import Path

import numpy as np
from conftest import draw_images
from standard_trees import cub_tree, inshop_tree

from protocols.datasets import load_dataset
from protocols.datasets.completeness import remark_on
from protocols.datasets.standard import STANDARD, counts


def test_a_part_of_a_published_data_set_is_told_with_both_sizes_and_the_way_to_know_more(tmp_path: Path) -> None:
    root = cub_tree(tmp_path, n_classes=12, per_class=4)
    assert remark_on(load_dataset(f"cub200:{root}")) == (
        "cub200: 12 classes and 48 images; CUB-200-2011 has 200 classes and 11,788 images. See mlrc data check "
        f"cub200:{root}"
    )


def test_files_that_are_left_out_are_counted_by_their_reason(tmp_path: Path) -> None:
    root = draw_images(tmp_path / "mine", n_classes=8, n_images=4)
    assert remark_on(load_dataset(str(root))) == ""
    for picture in root.glob("*/0.png"):
        picture.rename(picture.with_suffix(".avif"))
    (root / "none").mkdir()
    assert remark_on(load_dataset(str(root))) == (
        "mine: 9 files or folders left out (not an image ending: 8, folder without images: 1). See mlrc data check "
        f"{root}"
    )


def test_a_folder_with_hidden_files_and_generated_images_are_passed_over_in_silence(tmp_path: Path) -> None:
    root = draw_images(tmp_path / "mine", n_classes=8, n_images=4)
    (root / ".DS_Store").write_bytes(b"\0")
    index = load_dataset(str(root))
    assert index.skipped == (".DS_Store: hidden",)
    assert remark_on(index) == remark_on(load_dataset("shapes:shifted?train=2&test=2")) == ""


def test_all_published_images_are_no_matter_and_other_sides_of_them_are(tmp_path: Path, monkeypatch) -> None:
    index = load_dataset(f"inshop:{inshop_tree(tmp_path)}")
    monkeypatch.setitem(STANDARD, "inshop", replace(STANDARD["inshop"], counts=counts(index)))
    assert remark_on(index) == ""
    gallery = index.gallery.copy()
    gallery[np.flatnonzero(gallery)[0]] = False
    assert remark_on(replace(index, gallery=gallery)).startswith(
        "inshop: 8 classes and 20 images as in In-shop Clothes Retrieval, but gallery images: found 7, published 8; "
    )
