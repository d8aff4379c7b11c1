"""CUB-200-2011 from its archive and from mirrors: labels, folds, order, and lists that disagree."""

import shutil
from pathlib import Path

import numpy as np
from standard_trees import cub_tree, pictures_of, pixels_of, refusal, split_of, write_image, write_text

from protocols.datasets import load_dataset
from protocols.datasets.standard import expected_counts


def test_cub_is_read_from_its_archive_with_readable_labels_in_the_order_of_ids(tmp_path: Path) -> None:
    index = load_dataset(f"cub200:{cub_tree(tmp_path / 'CUB_200_2011')}")
    assert index.classes[:2] == ("001.Bird_A_0", "002.Bird_H_1")
    assert (index.name, index.standard_name) == ("cub200", "cub200")
    assert load_dataset(index.location).content_hash == index.content_hash
    assert pictures_of(index) == {
        label: {pixels_of(2 * k), pixels_of(2 * k + 1)} for k, label in enumerate(index.classes)
    }
    assert index.test_classes is None
    assert index.super_classes is None
    assert index.gallery is None


def test_cub_of_200_classes_is_halved_and_folded_as_published(tmp_path: Path) -> None:
    split = split_of(index := load_dataset(f"cub200:{cub_tree(tmp_path, n_classes=200, per_class=1 + 1)}"))
    assert [int(name[:3]) for name in split.test] == list(range(101, 201))
    validated = [[int(name[:3]) - 1 for name in (fold.validation[0], fold.validation[-1])] for fold in split.folds]
    assert validated == [[75, 99], [0, 24], [25, 49], [50, 74]]
    assert [line for line in expected_counts(index) if "classes" in line] == []


def test_cub_ids_may_have_gaps_and_targets_have_none(tmp_path: Path) -> None:
    index = load_dataset(f"cub200:{cub_tree(tmp_path, n_classes=5, step=9)}")
    assert [label[:3] for label in index.classes] == ["001", "010", "019", "028", "037"]
    assert np.unique(index.targets).tolist() == [0, 1, 2, 3, 4]


def test_every_layout_of_cub_gives_the_same_index(tmp_path: Path) -> None:
    archive = cub_tree(tmp_path / "archive" / "CUB_200_2011")
    write_text(archive / "attributes" / "attributes.txt", "1 has_bill_shape::curved")
    write_image(archive / "segmentations" / "001.Bird_A_0" / "Bird_0000.png", 999)
    alone = Path(shutil.copytree(archive, tmp_path / "alone"))
    (alone / "images.txt").unlink()
    (alone / "images" / "001.Bird_A_0" / "notes.txt").write_text("no picture")
    parted = tmp_path / "parted"
    for folder in sorted((archive / "images").iterdir()):  # some mirrors part the images of each class
        for side, file in zip(("train", "test"), sorted(folder.iterdir()), strict=True):
            (parted / "cub" / side / folder.name).mkdir(parents=True)
            shutil.copy(file, parted / "cub" / side / folder.name / f"renamed {file.name}")
    beside = Path(shutil.copytree(archive, tmp_path / "beside"))
    shutil.rmtree(beside / "segmentations")
    for folder in (beside / "images").iterdir():
        folder.rename(beside / folder.name)
    found = [load_dataset(f"cub200:{root}") for root in (archive, archive.parent, alone, parted, beside)]
    assert {index.content_hash for index in found} == {found[0].content_hash}
    assert {index.image_hashes for index in found} == {found[0].image_hashes}
    assert found[2].skipped == ("images/001.Bird_A_0/notes.txt: not an image ending",)


def test_cub_lists_that_disagree_are_refused(tmp_path: Path) -> None:
    root = cub_tree(tmp_path)
    lines = (root / "image_class_labels.txt").read_text().splitlines()
    write_text(root / "image_class_labels.txt", *lines[:-1], lines[-1].replace(" 8", " 7"))
    assert "is of class 7, but images.txt has it in 008." in refusal(f"cub200:{root}")
    write_text(root / "image_class_labels.txt", *lines[1:])
    assert "is of class None, but images.txt" in refusal(f"cub200:{root}")
