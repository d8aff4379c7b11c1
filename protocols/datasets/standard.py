"""The data sets of the papers: the published table, and the index that their readers end in.

The images of a class stand in the order of their hashes. Mirrors move, rename and renumber files, so no other order
gives the same pictures the same index, and with it the same `content_hash`, wherever they lie.

A reader takes any number of images and classes: whether they are the published ones is told by `expected_counts`. What
it refuses is a list that does not fit the files. CUB and Cars have no official test side for this task; the protocols
cut the classes in two halves, and `counts` counts these halves.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from protocols.datasets.files import FileReader, few, file_hashes
from protocols.datasets.index import ImageIndex, canonical_order
from protocols.errors import DataError


@dataclass(frozen=True)
class Published:
    """A data set as the papers have it: its name, the layouts that are read, and its counts by what is counted."""

    title: str
    layouts: str
    counts: dict[str, int]
    caution: str = ""  # what is known against it, which a reader of its numbers should know


def _counts(train: tuple[int, int], test: tuple[int, int], **more: int) -> dict[str, int]:
    (train_classes, train_images), (test_classes, test_images) = train, test
    return {
        "classes": train_classes + test_classes,
        "images": train_images + test_images,
        "train_classes": train_classes,
        "train_images": train_images,
        "test_classes": test_classes,
        "test_images": test_images,
        **more,
    }


STANDARD = {
    "cub200": Published(
        "CUB-200-2011",
        "images.txt and image_class_labels.txt beside images/, or class folders such as 001.Black_footed_Albatross",
        _counts((100, 5_864), (100, 5_924)),
        "its authors warn that some of its images are in ImageNet too: a pretrained trunk may have seen test images",
    ),
    "cars196": Published(
        "Cars196",
        "cars_annos.mat with car_ims/; cars_train/ and cars_test/ with cars_train_annos.mat, cars_meta.mat and "
        "cars_test_annos_withlabels.mat (cars_test_annos.mat holds no classes); or folders named like the classes with "
        "names.csv, cars_meta.mat or cars_annos.mat, which hold their order",
        _counts((98, 8_054), (98, 8_131)),
    ),
    "sop": Published(
        "Stanford Online Products",
        "Ebay_train.txt and Ebay_test.txt beside the twelve image folders or in Info_Files/ beside images/",
        _counts((11_318, 59_551), (11_316, 60_502), train_super_classes=12, test_super_classes=12),
    ),
    "inshop": Published(
        "In-shop Clothes Retrieval",
        "list_eval_partition.txt, in Eval/ or not, with img/ beside it or in Img/",
        _counts((3_997, 25_882), (3_985, 26_830), query_images=14_218, gallery_images=12_612),
    ),
    "inaturalist2019": Published(
        "iNaturalist 2019",
        "train2019.json, val2019.json and categories.json with train_val2019/ beside them or in another folder, which "
        "torchvision calls 2019/; in it Plants/ and other groups or, without these, a folder for each category id",
        {
            "classes": 1_010,
            "images": 268_243,
            "train_classes": 656,
            "test_classes": 354,
            "train_super_classes": 48,
            "test_super_classes": 24,
        },
    ),
    "mnist": Published(
        "MNIST",
        "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte, with .gz "
        "or not, as in the MNIST/raw of torchvision",
        _counts((5, 35_735), (5, 34_265)),
    ),
}


def counts(index: ImageIndex) -> dict[str, int]:
    """How many classes, images, super-classes, queries and gallery images there are, in all and by side."""
    test_side = index.test_side
    is_test = np.array([label in test_side for label in index.classes])
    sizes = np.bincount(index.targets, minlength=index.n_classes)
    test = (int(is_test.sum()), int(sizes[is_test].sum()))
    found = _counts((index.n_classes - test[0], index.n_images - test[1]), test)
    if index.super_classes is not None:
        super_classes = np.array(index.super_classes)
        found["train_super_classes"] = len(set(super_classes[~is_test]))
        found["test_super_classes"] = len(set(super_classes[is_test]))
    if index.gallery is not None:
        found["gallery_images"] = int(index.gallery.sum())
        found["query_images"] = test[1] - found["gallery_images"]
    return found


def expected_counts(index: ImageIndex) -> list[str]:
    """What differs from the published table, a line for each count; none for a data set that is not in it."""
    if index.standard_name not in STANDARD:
        return []
    found, published = counts(index), STANDARD[index.standard_name].counts
    return [
        f"{what.replace('_', ' ')}: found {found.get(what, 0):,}, published {wanted:,}"
        for what, wanted in published.items()
        if found.get(what, 0) != wanted
    ]


class Listed(NamedTuple):
    """An image as a data set lists it."""

    file: str  # relative to the root, with forward slashes
    label: str
    side: str = ""  # "train", "test", "query" or "gallery"; "" where the protocol cuts the sides
    super_class: str = ""


def standard_index(
    dataset: str, root: Path, listed: Sequence[Listed], listing: str, skipped: Iterable[str] = ()
) -> ImageIndex:
    """Index the images that a data set lists; every file is read once, for its hash.

    Args:
        dataset: a key of `STANDARD`.
        root: the absolute folder that the user gave.
        listed: the images, in any order.
        listing: the file or files that list them, for errors.
        skipped: what was found and left out, each with the reason.

    Raises:
        DataError: if an image is missing, listed twice or cannot be read, or a class is on both sides.
    """
    _refuse_misfits(dataset, root, listed, listing)
    hashes = file_hashes(root, [image.file for image in listed])
    classes = canonical_order(image.label for image in listed)
    position = {label: target for target, label in enumerate(classes)}
    ordered = sorted(
        zip(listed, hashes, strict=True), key=lambda pair: (position[pair[0].label], pair[1], pair[0].file)
    )
    images = [image for image, _ in ordered]
    files = tuple(image.file for image in images)
    super_class_of = {image.label: image.super_class for image in images}
    test_classes = frozenset(image.label for image in images if image.side not in ("", "train"))
    searched = any(image.side in ("query", "gallery") for image in images)
    return ImageIndex(
        name=dataset,
        location=f"{dataset}:{root}",
        classes=classes,
        targets=np.array([position[image.label] for image in images], np.int64),
        files=files,
        image_hashes=tuple(image_hash for _, image_hash in ordered),
        reader=FileReader(root, files),
        super_classes=tuple(super_class_of[label] for label in classes) if any(super_class_of.values()) else None,
        test_classes=test_classes or None,
        standard_name=dataset,
        skipped=tuple(skipped),
        gallery=np.array([image.side == "gallery" for image in images]) if searched else None,
    )


def _refuse_misfits(dataset: str, root: Path, listed: Sequence[Listed], listing: str) -> None:
    files = [image.file for image in listed]
    missing = [file for file in files if not (root / file).is_file()]
    if len(missing) == len(files):  # no unpacking mends that: the images lie elsewhere, or not here at all
        found = few([f"{entry.name}{'/' if entry.is_dir() else ''}" for entry in root.iterdir()], 5)
        raise DataError(
            f"{root}: none of the {len(files):,} images in {listing} is where it is looked for, such as {files[0]}; "
            f"found {found}. {STANDARD[dataset].title} is read from {STANDARD[dataset].layouts}."
        )
    if missing:
        raise DataError(
            f"{root}: {len(missing):,} of the {len(files):,} images in {listing} are missing: {few(missing)}. Unpack "
            "the archive again."
        )
    if doubled := [file for file, times in Counter(files).items() if times > 1]:
        raise DataError(f"{root}: listed twice in {listing}: {few(doubled)}. Each image belongs to one class; mend it.")
    train = {image.label for image in listed if image.side == "train"}
    test = {image.label for image in listed if image.side not in ("", "train")}
    if both := train & test:
        raise DataError(f"{root}: on the train and the test side of {listing}: {few(both)}. Fetch the lists again.")
    if bool(train) != bool(test):
        raise DataError(f"{root}: {listing} has images on one side only; wanted train and test. Fetch the lists again.")
