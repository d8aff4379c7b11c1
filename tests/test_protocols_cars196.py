"""Cars196 from either archive and from class folders: one index, the order of ids, damaged annotations."""

import shutil
from pathlib import Path

import numpy as np
from scipy.io import savemat
from standard_trees import (
    HTML,
    cars_by_class_tree,
    cars_later_tree,
    cars_tree,
    models,
    pictures_of,
    pixels_of,
    refusal,
    split_of,
    write_mat,
    write_text,
)

from protocols.catalogue import CCP_V1
from protocols.datasets import load_dataset


def test_every_layout_of_cars_gives_the_same_index(tmp_path: Path) -> None:
    first_root = cars_tree(tmp_path / "first")
    first = load_dataset(f"cars196:{first_root}")
    nested = cars_later_tree(tmp_path / "nested", nested=True)
    shutil.copy(first_root / "cars_annos.mat", nested)  # one mirror adds it to images that it does not number
    later = cars_later_tree(tmp_path / "later" / "stanford_cars").parent
    for name in ("__MACOSX", ".trash"):  # left by archivers and desktops
        (later / name / "cars_train").mkdir(parents=True)
    inner = cars_tree(tmp_path / "inner")  # car_ims.tgz, unpacked into car_ims/
    (inner / "car_ims").rename(inner / "aside")
    (inner / "car_ims").mkdir()
    (inner / "aside").rename(inner / "car_ims" / "car_ims")
    by_class = [cars_by_class_tree(tmp_path / f"classes {number}") for number in range(3)]
    for root, kept in zip(by_class[1:], (later.rglob("cars_meta.mat"), first_root.glob("cars_annos.mat")), strict=True):
        (root / "names.csv").unlink()  # either file of the archives holds the order of ids too
        shutil.copy(next(kept), root)
    roots = (later, nested, inner, *by_class, first_root)
    for root in roots:
        index = load_dataset(f"cars196:{root}")
        assert index.content_hash == first.content_hash, root
        assert index.image_hashes == first.image_hashes, root
    assert first.classes[:2] == ("001.Zudi 0 C-V Coupe", "002.Yudi 1 C-V Coupe")
    expected = {label: {pixels_of(10 * c), pixels_of(10 * c + 1)} for c, label in enumerate(first.classes, start=1)}
    assert pictures_of(first) == expected
    assert first.test_classes is None


def test_cars_of_196_classes_is_halved_and_two_classes_are_never_validated(tmp_path: Path) -> None:
    index = load_dataset(f"cars196:{cars_tree(tmp_path, n_classes=196)}")
    split = split_of(index)
    assert [int(name[:3]) for name in split.test] == list(range(99, 197))
    assert [int(name[:3]) - 1 for name in split.never_validated] == [24, 73]
    blocks = [[int(fold.validation[k][:3]) - 1 for k in (0, -1)] for fold in split_of(index, CCP_V1).folds]
    assert blocks == [[73, 97], [49, 72], [24, 48], [0, 23]]


def test_cars_class_folders_without_the_order_of_ids_are_refused(tmp_path: Path) -> None:
    root = cars_by_class_tree(tmp_path)
    write_text(root / "names.csv", *models(7))
    assert "none of the data set's classes: car_data/car_data/test/" in refusal(f"cars196:{root}")
    (root / "names.csv").unlink()
    assert "no cars_annos.mat in it or up to 4 folders below" in refusal(f"cars196:{root}")


def test_damaged_or_unfit_cars_annotations_are_refused_by_name(tmp_path: Path) -> None:
    root = cars_later_tree(tmp_path)
    test = root / "cars_test_annos_withlabels.mat"
    test.rename(root / "devkit" / "cars_test_annos.mat")
    assert "no cars_test_annos_withlabels.mat" in refusal(f"cars196:{root}")
    for content in (HTML.encode(), b"", b"MATLAB 5.0 MAT-file" + bytes(200)):
        test.write_bytes(content)
        assert f"{test}: not the MATLAB file" in refusal(f"cars196:{root}")
    write_mat(test, "fname", [("00001.jpg", 9)])
    assert f"{test}: class 9 of 8 named classes" in refusal(f"cars196:{root}")
    savemat(test, {"annotations": np.array([(1.0, "00001.jpg")], dtype=[("bbox_x1", "O"), ("fname", "O")])})
    assert f"{test}: not the MATLAB file" in refusal(f"cars196:{root}")
