"""The index of a data set: which images there are, in which classes, on which side, and how to read one.

Classes are in canonical order: numeric where every label is an integer, plain string order elsewhere. Images are in
class order, then by relative path or number; in the papers' data sets, whose files have many names, by hash. Neither
the place of the data set nor the order in which a file system lists it changes anything, and `targets` are always
0..n_classes-1, whatever the labels are.
"""

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256

import numpy as np
from numpy.typing import NDArray

from protocols.errors import DataError, did_you_mean

_INTEGER = re.compile(r"[+-]?[0-9]+")


def canonical_order(labels: Iterable[str]) -> tuple[str, ...]:
    """The distinct labels, sorted by number where all of them are integers and as plain strings elsewhere."""
    distinct = sorted(set(labels))
    if all(_INTEGER.fullmatch(label) for label in distinct):
        distinct.sort(key=int)  # stable: "7" and "07" stay two classes in string order
    return tuple(distinct)


@dataclass(frozen=True, eq=False)
class ImageIndex:
    """A data set that can be cut into folds and read image by image.

    Raises:
        DataError: when built with fewer than two classes, with no class that has two images, or with a gallery that is
            not a part of the official test side.
    """

    name: str  # "shapes-shifted", "cub200", or the name of the folder
    location: str  # what `load_dataset` takes to find it again; absolute for a folder
    classes: tuple[str, ...]  # in canonical order
    targets: NDArray[np.int64]  # (N,) index into `classes`, ascending
    files: tuple[str, ...]  # a label for each image: its relative path, or "disk 030 #17"
    image_hashes: tuple[str, ...]  # SHA-256 of each image file's bytes (of the pixels where there is no file)
    reader: Callable[[int], NDArray[np.uint8]] = field(repr=False)  # image index -> (H, W, 3) uint8 RGB; picklable
    super_classes: tuple[str, ...] | None = None  # one for each class
    test_classes: frozenset[str] | None = None  # the official test side; None: the protocol cuts one
    standard_name: str = ""  # "cub200": a data set of the papers, for which a protocol may have its own schedule
    skipped: tuple[str, ...] = ()  # what was found and left out, each with the reason
    gallery: NDArray[np.bool_] | None = None  # (N,) the test images that the others search; None: all search all others

    def __post_init__(self) -> None:
        """Refuse what no benchmark can be run on."""
        if self.n_classes < 2:
            raise DataError(
                f"{self.location}: {self.n_classes} class with {self.n_images} images; at least 2 classes are needed. "
                "Give the folder that holds the class folders, one folder for each class."
            )
        if self._sizes.max() < 2:
            raise DataError(
                f"{self.location}: each of the {self.n_classes} classes has one image; retrieval needs a class with "
                "at least 2. Add images."
            )
        if self.gallery is not None:
            self._refuse_gallery(self.gallery)

    @property
    def n_images(self) -> int:
        """Images in all classes."""
        return len(self.targets)

    @property
    def n_classes(self) -> int:
        """Classes on both sides."""
        return len(self.classes)

    @property
    def test_side(self) -> frozenset[str]:
        """The official test classes, or else the second half of all, as the protocols cut them."""
        return frozenset(self.classes[self.n_classes // 2 :]) if self.test_classes is None else self.test_classes

    @property
    def lone_classes(self) -> tuple[str, ...]:
        """Classes with a single image: as queries they have no match, so an evaluation leaves them out and counts."""
        return tuple(self.classes[target] for target in np.flatnonzero(self._sizes == 1))

    @cached_property
    def content_hash(self) -> str:
        """12 hex digits over labels, super-classes, test side, image bytes and gallery, all in canonical order."""
        digest = sha256()
        for target, label in enumerate(self.classes):
            super_class = None if self.super_classes is None else self.super_classes[target]
            is_test = None if self.test_classes is None else label in self.test_classes
            images = [self.image_hashes[image] for image in self._of(target)]
            entry = [label, super_class, is_test, images]
            if self.gallery is not None:  # left out elsewhere, so that the hashes of other data sets stay
                entry.append(self.gallery[self._of(target)].tolist())
            digest.update(json.dumps(entry).encode() + b"\n")
        return digest.hexdigest()[:12]

    def read(self, image: int) -> NDArray[np.uint8]:
        """One image, (H, W, 3) uint8 RGB.

        Raises:
            DataError: if its file does not decode; the path is named.
        """
        return self.reader(image)

    def images_of(self, class_name: str) -> NDArray[np.int64]:
        """Ascending image indices of one class; DataError for a class that is not there."""
        if class_name not in self._positions:
            hint = did_you_mean(class_name, self.classes)
            raise DataError(f"{self.location}: no class {class_name!r} among {self.n_classes}.{hint}")
        return self._of(self._positions[class_name])

    def indices_of(self, class_names: Iterable[str]) -> NDArray[np.int64]:
        """Ascending image indices of all images of these classes; DataError for a class that is not there."""
        chosen = [self.images_of(name) for name in set(class_names)]
        return np.sort(np.concatenate(chosen)) if chosen else np.empty(0, np.int64)

    def _refuse_gallery(self, gallery: NDArray[np.bool_]) -> None:
        is_test = np.zeros(self.n_images, bool)
        is_test[self.indices_of(self.test_classes or ())] = True
        n_gallery, n_strangers = int(gallery.sum()), int((gallery & ~is_test).sum())
        n_queries = int((is_test & ~gallery).sum())
        if n_strangers or not n_gallery or not n_queries:
            raise DataError(
                f"{self.location}: {n_queries} query and {n_gallery} gallery images, {n_strangers} of the latter in "
                "train classes; both kinds are needed, in test classes only. Fetch the lists again."
            )

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {label: target for target, label in enumerate(self.classes)}

    @cached_property
    def _sizes(self) -> NDArray[np.int64]:
        return np.bincount(self.targets, minlength=self.n_classes).astype(np.int64)

    @cached_property
    def _starts(self) -> NDArray[np.int64]:
        return np.concatenate([[0], np.cumsum(self._sizes)])

    def _of(self, target: int) -> NDArray[np.int64]:
        return np.arange(self._starts[target], self._starts[target + 1], dtype=np.int64)
