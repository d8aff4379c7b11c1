"""A fold cut out of folders: sides that are given stay, and labels begin at 0 in each fold whatever they are called."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from protocols.catalogue import PUBLISHED
from protocols.datasets import load_dataset
from protocols.datasets.index import ImageIndex
from protocols.datasets.tensors import ImageTensors
from protocols.fold import FoldImages
from protocols.spec import Folds
from protocols.splits import Split, make_split

FOLDS = (
    Folds(n_folds=4, kind="wrapped"),
    Folds(n_folds=4, kind="balanced"),
    Folds(n_folds=1, kind="holdout", holdout_parts=4),
)


def drawn(root: Path, *classes: str) -> ImageIndex:
    """Classes of 1, 2, 3, 1, 2, ... images."""
    for number, name in enumerate(classes):
        (root / name).mkdir(parents=True)
        for image in range(1 + number % 3):
            Image.new("L", (4, 4), 9 * number + image).save(root / name / f"{image}.png")
    return load_dataset(str(root))


def folds_of(index: ImageIndex, split: Split) -> list[FoldImages]:
    images = ImageTensors(index, PUBLISHED[-1].transforms, PUBLISHED[-1].trunk.input)
    return [FoldImages(index, images, split, fold) for fold in range(len(split.folds))]


@pytest.mark.parametrize("folds", FOLDS, ids=lambda folds: folds.kind)
def test_folders_of_two_sides_keep_their_test_and_are_cut_by_class_inside_their_train(
    tmp_path: Path, folds: Folds
) -> None:
    train, test = "abcdefgh", "ijkl"
    index = drawn(tmp_path, *(f"train/{name}" for name in train), *(f"test/{name}" for name in test))
    split = make_split(index.classes, folds, index.test_classes)
    assert split.test == tuple(test)
    assert len(split.folds) == folds.n_folds
    for fold in split.folds:
        assert sorted(fold.train + fold.validation) == list(train)
        assert len(fold.validation) == 2


@pytest.mark.parametrize(
    "names",
    [
        tuple(str(number) for number in (1, 5, 9, 13, 40, 41, 99, 1000)),
        ("-3", "zebra", "ähre", "猫", "a b", "C", "c0", "7"),
    ],
)
@pytest.mark.parametrize("folds", FOLDS, ids=lambda folds: folds.kind)
def test_labels_of_every_fold_begin_at_0_without_gaps_and_name_their_class(
    tmp_path: Path, names: tuple[str, ...], folds: Folds
) -> None:
    index = drawn(tmp_path, *(f"train/{name}" for name in names), "test/x", "test/y")
    split = make_split(index.classes, folds, index.test_classes)
    for cut, images in zip(split.folds, folds_of(index, split), strict=True):
        labels = images.labels[images.train]
        assert set(labels.tolist()) == set(range(len(cut.train)))
        assert len(images.images_by_class) == len(cut.train)
        for image, label in zip(images.train.tolist(), labels.tolist(), strict=True):
            assert index.files[image].startswith(f"train/{cut.train[label]}/")
        assert (np.delete(images.labels, images.train) == -1).all()
