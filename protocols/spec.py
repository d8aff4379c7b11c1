"""The protocol: one frozen value that holds all that two runs must share before their numbers may meet in a table.

Its `digest()` is its fingerprint. A published protocol never changes; a correction is a new version. A field added
later gets a default and is left out of the canonical JSON while it holds it, so the digests of old versions stay.
Nothing here needs torch: a protocol can be read, compared and printed where no trunk can be built.
"""

import json
from dataclasses import MISSING, dataclass, fields, is_dataclass
from hashlib import sha256
from typing import Any, Literal

from protocols.errors import ProtocolError

Family = Literal["pair", "class"]


@dataclass(frozen=True, kw_only=True)
class Input:
    """What the trunk wants to see: the range its pixels are scaled to, then (x - mean) / std per channel."""

    channels: Literal["RGB", "BGR", "gray"]
    scale: float  # value that a white pixel (255) has before mean and std: 255.0 or 1.0
    mean: tuple[float, ...]  # in the order of `channels`, in units of `scale`
    std: tuple[float, ...]
    per_image: bool  # True: each image is standardised by its own mean and deviation, and mean and std are unused


@dataclass(frozen=True, kw_only=True)
class Trunk:
    """The network below the embedder."""

    name: str
    weights: str  # "random", or "imagenet:" and the first 8 hex digits of the weight file's SHA-256
    pooling: Literal["average", "average+max"]
    batchnorm: Literal["frozen", "eval", "none"]  # frozen: statistics and affine; eval: statistics only; none: has none
    input: Input


@dataclass(frozen=True, kw_only=True)
class Embedding:
    """One linear layer on the trunk's features."""

    dim: int
    normalisation: Literal["l2", "lipschitz"]  # v / ||v||, or v / max(1, ||v||); in the loss and in the evaluation


@dataclass(frozen=True, kw_only=True)
class Transforms:
    """How an image becomes the trunk's input tensor. Resampling is bilinear with antialias, PIL's."""

    resize_px: int  # length of the shorter side
    crop_px: int  # side of the square that the trunk sees
    train_crop: Literal["random-resized", "centre"]  # centre: training sees what evaluation sees
    crop_area: tuple[float, float]  # share of the resized image, random-resized only
    crop_aspect: tuple[float, float]  # width / height, random-resized only
    flip_probability: float


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Images a step: size // samples classes; a fold with fewer classes spreads them as evenly as it can."""

    size: int
    pair_samples_per_class: int  # for losses over pairs and triplets
    class_samples_per_class: int  # for losses with class weights or proxies


@dataclass(frozen=True, kw_only=True)
class Optimiser:
    """For trunk and embedder; a method's own weights use the same optimiser at their searched learning rate."""

    name: Literal["rmsprop", "adam"]
    lr: float
    weight_decay: float
    momentum: float  # rmsprop only
    betas: tuple[float, float]  # adam only
    proxy_warmup_steps: int  # steps in which only embedder and method learn, class family only
    proxy_lr_factor: float | None  # lr of a method's own weights / lr, where the protocol fixes it; None: searched


@dataclass(frozen=True, kw_only=True)
class Cadence:
    """When to validate and when to stop."""

    evaluate_every_steps: int
    patience: int
    patience_unit: Literal["steps", "evaluations"]  # steps: stop when step - best_step > patience;
    # evaluations: stop after `patience` evaluations in a row without gain


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """Length of a training run. The best validation wins and its weights are restored."""

    max_steps: int
    cadence: Cadence  # for every data set that `by_dataset` does not name
    by_dataset: tuple[tuple[str, Cadence], ...]

    def cadence_for(self, dataset: str) -> Cadence:
        """The cadence of a data set of the papers by its standard name, or the one for all others."""
        return dict(self.by_dataset).get(dataset, self.cadence)


@dataclass(frozen=True, kw_only=True)
class Folds:
    """How classes are cut. Without an official test list the second half of the sorted classes is the test set."""

    n_folds: int
    kind: Literal["wrapped", "balanced"]


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What is measured and what selects."""

    primary_metric: Literal["map_at_r"]
    metrics: tuple[str, ...]  # names in protocols.metrics


@dataclass(frozen=True, kw_only=True)
class SearchBudget:
    """Bayesian optimisation of one method on one data set. The objective is the folds' mean best validation MAP@R."""

    n_trials: int  # a total: finished and failed trials both use it up
    sampler: Literal["gp", "tpe", "random"]
    n_startup_trials: int  # drawn at random before the sampler models anything


@dataclass(frozen=True, kw_only=True)
class FinalRuns:
    """Runs with the winning hyper-parameters. They differ by seed only; the searched trial is not one of them."""

    n_runs: int


@dataclass(frozen=True, kw_only=True)
class Protocol:
    """All that two runs must share before their numbers may stand in one table."""

    name: str
    version: int
    purpose: str  # one sentence for people
    source: str
    derived: bool  # True: made with --set from the published protocol of this name and version
    trunk: Trunk
    embedding: Embedding
    transforms: Transforms
    batch: Batch
    optimiser: Optimiser
    schedule: Schedule
    folds: Folds
    evaluation: Evaluation
    search: SearchBudget
    finals: FinalRuns
    precision: Literal["float32"]

    def __post_init__(self) -> None:
        """Refuse budgets and sizes that no run could have."""
        at_least_one = {
            "embedding.dim": self.embedding.dim,
            "transforms.resize_px": self.transforms.resize_px,
            "transforms.crop_px": self.transforms.crop_px,
            "batch.size": self.batch.size,
            "batch.pair_samples_per_class": self.batch.pair_samples_per_class,
            "batch.class_samples_per_class": self.batch.class_samples_per_class,
            "schedule.max_steps": self.schedule.max_steps,
            "schedule.cadence.evaluate_every_steps": self.schedule.cadence.evaluate_every_steps,
            "schedule.cadence.patience": self.schedule.cadence.patience,
            "search.n_trials": self.search.n_trials,
            "search.n_startup_trials": self.search.n_startup_trials,
            "finals.n_runs": self.finals.n_runs,
        }
        for path, found in at_least_one.items():
            if found < 1:
                raise ProtocolError(f"{self.title}: {path} is {found}; it must be at least 1.")
        if self.folds.n_folds < 2:
            raise ProtocolError(f"{self.title}: folds.n_folds is {self.folds.n_folds}; it must be at least 2.")
        if self.transforms.crop_px > self.transforms.resize_px:
            raise ProtocolError(
                f"{self.title}: transforms.crop_px {self.transforms.crop_px} is larger than "
                f"transforms.resize_px {self.transforms.resize_px}; the crop must fit the resized image."
            )
        if not self.optimiser.lr > 0:
            raise ProtocolError(f"{self.title}: optimiser.lr is {self.optimiser.lr}; it must be positive.")

    @property
    def title(self) -> str:
        """`mini@1`, or `mini@1+` for a derived protocol."""
        return f"{self.name}@{self.version}{'+' if self.derived else ''}"

    def values(self) -> dict[str, Any]:
        """All fields as plain JSON values; a field added later is absent while it holds its default."""
        plain: dict[str, Any] = _plain(self)
        return plain

    def digest(self) -> str:
        """First 12 hex digits of the SHA-256 of `values()` as sorted JSON. Prose (purpose, source) is left out."""
        held = {key: value for key, value in self.values().items() if key not in ("purpose", "source")}
        text = json.dumps(held, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return sha256(text.encode()).hexdigest()[:12]


def _plain(value: Any) -> Any:  # noqa: ANN401 - any field value in, any JSON value out
    if is_dataclass(value):
        held = ((item, getattr(value, item.name)) for item in fields(value))
        return {item.name: _plain(found) for item, found in held if item.default is MISSING or found != item.default}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value
