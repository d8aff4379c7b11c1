"""Features of the frozen trunk, computed once and shared by all folds, methods, runs and workers of a store.

The file of one side (test images, or all others) is named by everything that its values depend on: the images, which of
them are on the side, the trunk with its weights, the transforms, and what may change the last bits. It is written whole
or not at all; of two workers that come at once both compute and one wins, with the same values. Where the protocol's
trunk has random weights there is nothing to freeze, and the features are the input tensor, flattened.
"""

import json
from hashlib import sha256
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from benchmark.bench import Bench
from benchmark.jobs import BASE_SEED
from benchmark.provenance import device_name, versions
from benchmark.seeding import stream
from benchmark.training.embeddings import save_embeddings
from benchmark.training.learner import rows_by_batch
from protocols.fold import FoldImages, Indices
from protocols.trunks import build_trunk
from protocols.trunks.base import TrunkModule

Features = NDArray[np.float32]


def features_folder(artifacts: Path) -> Path:
    """Beside the folder of the test embeddings: `mlrc.db.features` for `mlrc.db.embeddings`."""
    return artifacts.with_suffix(".features")


class FrozenFeatures:
    """(K, F) float32 features of a fold's images, in the order asked. `trunk` is None where they are the input itself.

    Test images pass the fold's door as they would to be looked at: refused before `open_test()`, and counted once,
    whether this job computes their features or takes them from the file.
    """

    def __init__(self, bench: Bench, images: FoldImages) -> None:
        self.trunk: TrunkModule | None = None
        if bench.protocol.trunk.weights != "random":
            self.trunk = build_trunk(bench.protocol.trunk, stream(BASE_SEED, "no weight is drawn"))
            self.trunk = self.trunk.to(bench.device).eval()
        self.weights_hash = self.trunk.weights_hash if self.trunk is not None else "none"
        self._bench, self._images = bench, images

    def __call__(self, indices: Indices) -> Features:
        """Features of images that are all on the test side, or all on the other.

        Raises:
            ProtocolError: for a test image before the final evaluation.
        """
        is_test = np.isin(indices, self._images.test)
        assert is_test.all() or not is_test.any(), "features are asked for one side at a time"
        others = np.setdiff1d(np.arange(self._bench.index.n_images), self._images.test)
        side = self._images.test if is_test.any() else others
        features: Features = self._of_side(side, indices)[np.searchsorted(side, indices)]
        return features

    def _of_side(self, side: Indices, wanted: Indices) -> Features:
        folder, name = features_folder(self._bench.artifacts), self._name(side)
        kept = _read(folder / f"{name}.npy")
        if kept is not None:
            self._images.admit(wanted)
            return kept
        with torch.inference_mode():
            computed = rows_by_batch(side, self._compute).numpy()
        try:
            save_embeddings(folder, name, computed)
        except PermissionError:
            if not (folder / f"{name}.npy").exists():  # Windows: another worker was first and has it open
                raise
        return computed

    def _compute(self, indices: Indices) -> torch.Tensor:
        batch = self._images.eval_batch(indices)
        found = batch.flatten(1) if self.trunk is None else self.trunk(batch.to(self._bench.device))
        return found.cpu()

    def _name(self, side: Indices) -> str:
        values = self._bench.protocol.values()
        depends = {
            "dataset": self._bench.index.content_hash,
            "side": sha256(side.tobytes()).hexdigest(),
            "weights": self.weights_hash,
            "trunk": values["trunk"],
            "transforms": [values["transforms"][name] for name in ("resize_px", "crop_px")],
            "last bits": [device_name(self._bench.device), self._bench.threads, versions()],
        }
        return sha256(json.dumps(depends, sort_keys=True).encode()).hexdigest()[:16]


def _read(path: Path) -> Features | None:
    """The file as it lies on the disk, or None where there is none or it is damaged, and is to be written again."""
    try:
        features: Features = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError):
        return None
    return features
