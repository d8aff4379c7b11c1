"""What figures of test embeddings are given beside the records: the embeddings by job, and the images they are of."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from reports.errors import ReportError
from results.comparison import Comparison
from results.record import FoldRecord

Floats = NDArray[np.floating[Any]]


class Images(Protocol):
    """The test images of a data set, in the order of the rows of their embeddings."""

    @property
    def classes(self) -> tuple[str, ...]:
        """The class of each image."""

    @property
    def files(self) -> tuple[str, ...]:
        """What each image is called."""

    def read(self, image: int) -> NDArray[np.uint8]:
        """One of them, (H, W, 3) RGB."""


class Embedded(NamedTuple):
    """Final fold records of which the embeddings are at hand, by comparison the images, and what loads embeddings."""

    records: list[FoldRecord]
    images: Mapping[Comparison, Images]
    load: Callable[[str], Floats]  # (N, D) of a job id

    def of(self, record: FoldRecord) -> tuple[Floats, Images]:
        """The embeddings of one fold model and their images.

        Raises:
            ReportError: if there is not one for each image.
        """
        embeddings, images = self.load(record.id), self.images[record.identity.comparison]
        if len(embeddings) != len(images.files):
            raise ReportError(
                f"record {record.id}: {len(embeddings)} test embeddings of {len(images.files)} test images; restore "
                "the file of its embeddings."
            )
        return embeddings, images
