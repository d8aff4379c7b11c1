"""The images that test embeddings are of, for figures and sites: of which records, in which order."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from benchmark.errors import BenchmarkError
from protocols.datasets.index import ImageIndex
from protocols.spec import Folds
from protocols.splits import make_split
from results.comparison import Comparison
from results.record import FoldRecord, Record
from results.repeats import ONE_MODEL


@dataclass(frozen=True, eq=False)
class HeldOutImages:
    """The test images of a data set, in the order of the rows of their embeddings."""

    index: ImageIndex
    indices: NDArray[np.int64]

    @cached_property
    def classes(self) -> tuple[str, ...]:
        """The class of each image."""
        return tuple(self.index.classes[target] for target in self.index.targets[self.indices].tolist())

    @cached_property
    def files(self) -> tuple[str, ...]:
        """What each image is called."""
        return tuple(self.index.files[image] for image in self.indices.tolist())

    @property
    def gallery(self) -> NDArray[np.bool_] | None:
        """Which of them queries search among and are no queries; None: all search all others."""
        whole = self.index.gallery
        return None if whole is None else whole[self.indices]

    def read(self, image: int) -> NDArray[np.uint8]:
        """One of them, (H, W, 3) RGB."""
        return self.index.read(int(self.indices[image]))


def fold_models(records: Iterable[Record], index: ImageIndex) -> list[FoldRecord]:
    """The final fold models that are done and were tested on these images, of all methods that have folds.

    Raises:
        BenchmarkError: if there are some, but all on other images.
    """
    done = [record for record in records if isinstance(record, FoldRecord) and record.outcome == "done"]
    trained = [record for record in done if record.identity.method not in ONE_MODEL]
    found = [record for record in trained if record.identity.comparison.dataset_hash == index.content_hash]
    if trained and not found:
        others = sorted({f"{one['name']} ({one['content_hash']})" for one in (r.identity.dataset for r in trained)})
        raise BenchmarkError(
            f"--data {index.location} is {index.name} ({index.content_hash}); what is recorded there is on "
            f"{', '.join(others)}. Give that data set, unchanged."
        )
    return found


def held_out_images(records: Sequence[FoldRecord], index: ImageIndex) -> dict[Comparison, HeldOutImages]:
    """By comparison, the images that the records were tested on, which are in `index`.

    Raises:
        BenchmarkError: if this code cuts other classes than theirs.
    """
    found: dict[Comparison, HeldOutImages] = {}
    for record in records:
        comparison = record.identity.comparison
        if comparison in found:
            continue
        folds = Folds(**record.identity.protocol["values"]["folds"])
        split = make_split(index.classes, folds, index.test_classes)
        if split.digest != comparison.split_digest:
            raise BenchmarkError(
                f"record {record.id}: its split is {comparison.split_digest}; this code cuts {split.digest}. "
                "Use the release of the package that made the record."
            )
        found[comparison] = HeldOutImages(index, index.indices_of(split.test))
    return found
