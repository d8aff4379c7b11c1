"""One fold's images: the only door to the data that a job has.

Labels are re-numbered 0..C-1 inside the fold. Test images stay shut until `open_test()`, and every image that passes
the door is counted, so that a job can prove what it saw.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch

from protocols.datasets.index import ImageIndex
from protocols.datasets.tensors import ImageTensors
from protocols.draws import Draws
from protocols.errors import ProtocolError
from protocols.splits import Split
from protocols.transforms import ImageTransforms, Pixels

Indices = npt.NDArray[np.int64]


class FoldImages:
    """Training, validation and test images of one fold, as image indices of the data set in ascending order.

    `images_by_class` holds the training images of each class of the fold; `labels` (N,) int64 is the class of every
    training image in the fold's numbering and -1 elsewhere.
    """

    def __init__(self, index: ImageIndex, images: ImageTensors, split: Split, fold: int) -> None:
        cut = split.folds[fold]
        self._images = images.fresh()
        self.images_by_class: list[Indices] = [index.indices_of([name]) for name in cut.train]
        self.train = index.indices_of(cut.train)
        self.validation = index.indices_of(cut.validation)
        self.test = index.indices_of(split.test)
        self.targets = index.targets
        self.labels = np.full(index.n_images, -1, dtype=np.int64)
        for label, members in enumerate(self.images_by_class):
            self.labels[members] = label
        self._is_test = np.zeros(index.n_images, dtype=bool)
        self._is_test[self.test] = True
        self._test_is_open = False

    def train_batch(self, indices: Indices, seeds: Sequence[int]) -> torch.Tensor:
        """(B, C, H, W) float32 through the train transform; image i's randomness comes from seeds[i] alone."""
        self._refuse_test(indices)
        return self._images.train(indices, seeds)

    def eval_batch(self, indices: Indices) -> torch.Tensor:
        """(B, C, H, W) float32 through the eval transform."""
        self._refuse_test(indices)
        return self._images.eval(indices)

    def eval_probe(self, image: Pixels) -> torch.Tensor:
        """The evaluation tensor of an image that is not of the data set, by the path of all others."""
        return self._images.eval_probe(image)

    def train_probe(self, image: Pixels, seed: int) -> torch.Tensor:
        """The same, a training tensor."""
        return self._images.train_probe(image, seed)

    @property
    def transform(self) -> ImageTransforms:
        """The transforms that every image passes through."""
        return self._images.transform

    def admit(self, indices: Indices) -> None:
        """Let images pass whose features an earlier job computed: through the same door, refused and counted alike."""
        self._refuse_test(indices)
        self._images.count_opened(indices)

    def open_test(self) -> None:
        """Let test images pass from now on; only a final run may."""
        self._test_is_open = True

    @property
    def test_images_opened(self) -> Indices:
        """How often each of the test images has passed so far, in their order."""
        return self._images.times_opened(self.test)

    @property
    def drawn(self) -> Draws:
        """What was drawn so far for training images; a job that goes on puts there what it had before."""
        return self._images.drawn

    @drawn.setter
    def drawn(self, draws: Draws) -> None:
        self._images.drawn = draws

    def _refuse_test(self, indices: Indices) -> None:
        if not self._test_is_open and self._is_test[indices].any():
            raise ProtocolError("a test image was asked for before the final evaluation; only a final run opens them.")
