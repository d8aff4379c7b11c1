"""The bench: what all jobs of one suite share. It is sent once to every worker; a job then only names what differs."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from benchmark.errors import BenchmarkError
from benchmark.jobs import Job, fold_seed
from benchmark.methods.entry import W_LR, MethodEntry, Space, Value
from benchmark.methods.registry import space_hash, space_json
from benchmark.search.rules import USUAL, SearchRules
from benchmark.training.embeddings import Place
from protocols.datasets.cache import PixelCache
from protocols.datasets.index import ImageIndex
from protocols.datasets.tensors import ImageTensors
from protocols.errors import ProtocolError
from protocols.metrics import METRICS_VERSION, Evaluation, Search, evaluate
from protocols.spec import Protocol
from protocols.splits import Split
from results.comparison import Comparison
from results.record import Identity
from results.store import Store
from results.study import Study


@dataclass(frozen=True, eq=False, kw_only=True)
class Bench:
    """One protocol on one data set, cut into its folds, with a place for test embeddings.

    `artifacts` is a folder of this host. `threads` is the number of torch threads of one job; it belongs to a record
    because it may change the last bits.
    """

    protocol: Protocol
    index: ImageIndex
    split: Split
    artifacts: Path
    shared: Place | None = None  # where all hosts keep their test embeddings, if not in `artifacts`
    threads: int
    device: str
    cuda_graphs: bool = False  # of the network in training; told with the device
    search: Search = "torch"  # what finds the neighbours; it changes no value
    cache: Path | None = None  # of the resized images, where it is made; it changes no value
    checkpoints: Path | None = None  # where running jobs leave what they need to go on; it changes no value
    keep_checkpoints: bool = False  # whether the best weights of final jobs stay there
    first_runs: int | None = None  # only so many of the final runs, as a comparison that stops early runs them
    rules: SearchRules = USUAL  # how searches are run; no job depends on them

    @cached_property
    def images(self) -> ImageTensors:
        """Input tensors of this process, out of the cache or decoded at most once where they fit."""
        transforms = self.protocol.transforms
        cache = PixelCache(self.cache, self.index, transforms.resize_px) if self.cache else None
        return ImageTensors(self.index, transforms, self.protocol.trunk.input, cache, self.device)

    def __getstate__(self) -> dict[str, Any]:
        """All but the decoded images: each process decodes its own."""
        return {key: value for key, value in self.__dict__.items() if key != "images"}

    @property
    def place(self) -> Place:
        """Where the test embeddings lie."""
        return self.artifacts if self.shared is None else self.shared

    @property
    def comparison(self) -> Comparison:
        """The fingerprints of everything that is run on this bench."""
        return Comparison(self.protocol.digest(), self.index.content_hash, self.split.digest)

    @property
    def n_folds(self) -> int:
        """Folds of the split."""
        return len(self.split.folds)

    def n_classes(self, fold: int) -> int:
        """Training classes of one fold."""
        return len(self.split.folds[fold].train)

    @property
    def fewest_classes(self) -> int:
        """Training classes of the smallest fold, for which a search space must hold."""
        return min(len(cut.train) for cut in self.split.folds)

    def super_classes(self, fold: int) -> tuple[str, ...] | None:
        """The super-class of each training class of one fold, where the data set has any."""
        if self.index.super_classes is None:
            return None
        super_class_of = dict(zip(self.index.classes, self.index.super_classes, strict=True))
        return tuple(super_class_of[name] for name in self.split.folds[fold].train)

    def evaluate(self, embeddings: torch.Tensor, indices: NDArray[np.int64]) -> Evaluation:
        """The metrics of the (N, D) float32 embeddings of these images: all search all, or queries the gallery.

        Raises:
            ProtocolError: if the protocol wants other definitions than this code's, or as `protocols.metrics.evaluate`.
        """
        check_metrics_version(self.protocol)
        labels = torch.from_numpy(self.index.targets[indices]).to(embeddings.device)
        recall_at = self.protocol.evaluation.recall_at_for(self.index.standard_name)
        if self.index.gallery is None or not self.index.gallery[indices].any():
            return evaluate(embeddings, labels, recall_at=recall_at, search=self.search)
        stored = torch.from_numpy(self.index.gallery[indices]).to(embeddings.device)
        queries = embeddings[~stored], labels[~stored]
        gallery = embeddings[stored]
        return evaluate(
            *queries, gallery=gallery, gallery_labels=labels[stored], recall_at=recall_at, search=self.search
        )

    def space(self, entry: MethodEntry) -> Space:
        """The search space of a method here: of its smallest fold, without what the protocol fixes."""
        space = entry.space(self.fewest_classes)
        fixed = W_LR if self.protocol.optimiser.proxy_lr_factor is not None else None
        return {name: distribution for name, distribution in space.items() if name != fixed}

    def study(self, entry: MethodEntry, store: Store) -> Study | None:
        """The state of a method's search in the store; of its newest fork."""
        return store.study(**self.comparison._asdict(), method=entry.name, method_code=entry.code)

    def new_study(self, entry: MethodEntry, space: Space) -> Study:
        """A search that has not begun, as the protocol alone asks for it."""
        study = Study(
            **self.comparison._asdict(),
            protocol_title=self.protocol.title,
            dataset_name=self.index.name,
            method=entry.name,
            method_code=entry.code,
            optuna_name="",
            space=space_json(space),
            space_hash=space_hash(space),
            n_trials=self.protocol.search.n_trials,
            n_finished=0,
            n_failed=0,
            best_trial=None,
            best_hyperparameters=None,
            best_value=None,
            best_standard_error=None,
            updated_at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        return replace(study, optuna_name=study.readable_name)

    def job(self, entry: MethodEntry, hyperparameters: dict[str, Value], run: int, fold: int) -> Job:
        """The job of one fold: run 0 is the search, 1.. are the final runs."""
        return Job(
            protocol=self.protocol.digest(),
            dataset=self.index.content_hash,
            split=self.split.digest,
            method=entry.name,
            method_code=entry.code,
            hyperparameters=tuple(sorted(hyperparameters.items())),
            purpose="final" if run else "search",
            run=run,
            fold=fold,
            seed=fold_seed(run, fold),
        )

    def identity(self, job: Job) -> Identity:
        """The part of a record that says under which fingerprints it was made."""
        return Identity(
            protocol={"title": self.protocol.title, "digest": job.protocol, "values": self.protocol.values()},
            dataset={
                "name": self.index.name,
                "standard_name": self.index.standard_name,
                "content_hash": job.dataset,
                "n_classes": self.index.n_classes,
                "n_images": self.index.n_images,
            },
            split={"kind": self.split.kind, "digest": job.split},
            method=job.method,
            method_code=job.method_code,
            hyperparameters=dict(job.hyperparameters),
            purpose=job.purpose,
            run=job.run,
        )


def check_metrics_version(protocol: Protocol) -> None:
    """Refuse a protocol whose metrics are defined otherwise than here."""
    wanted = protocol.evaluation.metrics_version
    if wanted != METRICS_VERSION:
        raise ProtocolError(
            f"{protocol.title}: evaluation.metrics_version is {wanted}; this code computes version {METRICS_VERSION}. "
            "Use the release of the package that has the protocol."
        )


def check_graphs(asked: bool, device: str) -> None:
    """Refuse CUDA graphs where jobs run on another device.

    Raises:
        BenchmarkError: in one line, with the way out.
    """
    if asked and not device.startswith("cuda"):
        raise BenchmarkError(
            f"--cuda-graphs: jobs would run on the {device} here, and only a CUDA device has graphs. Leave it out, or "
            "see with mlrc doctor why torch finds no such device."
        )


def default_device() -> str:
    """The first CUDA device where there is one."""
    return "cuda" if torch.cuda.is_available() else "cpu"
