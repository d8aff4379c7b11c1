"""The protocol: one frozen value that holds all that two runs must share before their numbers may meet in a table.

Its `digest()` is its fingerprint. A published protocol never changes; a correction is a new version. A field added
later gets a default and is left out of the canonical JSON while it holds it, so the digests of old versions stay.
Nothing here needs torch: a protocol can be read, compared and printed where no trunk can be built.
"""

import json
from collections.abc import Iterator
from dataclasses import MISSING, dataclass, fields, is_dataclass
from hashlib import sha256
from itertools import pairwise
from math import inf
from typing import Any, Literal

from protocols.errors import ProtocolError

Family = Literal["pair", "class"]
SplitKind = Literal["wrapped", "balanced", "holdout"]
METRICS = ("precision_at_1", "r_precision", "map_at_r")
# Far beyond any study, and small enough that a slip of the keyboard is answered at once.
MOST_STEPS, MOST_TRIALS, MOST_RUNS, MOST_PX, MOST_WIDE = 1_000_000_000, 100_000, 1_000, 16_384, 1_000_000


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

    @property
    def is_random(self) -> bool:
        """Whether a training image depends on its seed; where not, training sees what evaluation sees."""
        return self.train_crop != "centre" or self.flip_probability > 0


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
    kind: SplitKind
    holdout_parts: int = 0  # holdout only: one model, trained on all but the last of so many parts, validated on that


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """What is measured and what selects."""

    primary_metric: Literal["map_at_r"]
    metrics: tuple[str, ...]  # names in protocols.metrics
    metrics_version: int = 1  # of the definitions, protocols.metrics.METRICS_VERSION
    recall_at: tuple[int, ...] = ()  # the K of each recall@K, for every data set that the next field does not name
    recall_at_by_dataset: tuple[tuple[str, tuple[int, ...]], ...] = ()

    def recall_at_for(self, dataset: str) -> tuple[int, ...]:
        """The K of each recall@K on a data set of the papers by its standard name, or those for all others."""
        return dict(self.recall_at_by_dataset).get(dataset, self.recall_at)


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
        """Refuse budgets, sizes and shares that no run could have."""
        for path, found, low, high in _ranges(self):
            if not low <= found <= high:  # so written that NaN is refused
                wanted = f"at least {low}" if high == inf else f"from {low:,} to {high:,}"
                raise ProtocolError(f"{self.title}: {path} is {found}; it must be {wanted}.")
        if self.transforms.crop_px > self.transforms.resize_px:
            raise ProtocolError(
                f"{self.title}: transforms.crop_px {self.transforms.crop_px} is larger than "
                f"transforms.resize_px {self.transforms.resize_px}; the crop must fit the resized image."
            )
        folds = self.folds
        if folds.kind == "holdout" and not (folds.n_folds == 1 and folds.holdout_parts >= 2):
            raise ProtocolError(
                f"{self.title}: folds.n_folds is {folds.n_folds} and folds.holdout_parts {folds.holdout_parts}; "
                "folds.kind holdout trains one model, so it wants 1 and at least 2."
            )
        if not 0 < self.optimiser.lr < inf:
            raise ProtocolError(f"{self.title}: optimiser.lr is {self.optimiser.lr}; it must be positive.")
        if set(self.evaluation.metrics) != set(METRICS):
            raise ProtocolError(
                f"{self.title}: evaluation.metrics is {list(self.evaluation.metrics)}; it must be {list(METRICS)}."
            )

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


def _ranges(protocol: Protocol) -> Iterator[tuple[str, float, float, float]]:
    """Field, value, and the lowest and highest value that it may have."""
    transforms, batch, optimiser = protocol.transforms, protocol.batch, protocol.optimiser
    cadences = [("cadence", protocol.schedule.cadence), *protocol.schedule.by_dataset]
    yield "embedding.dim", protocol.embedding.dim, 1, MOST_WIDE
    yield "transforms.resize_px", transforms.resize_px, 1, MOST_PX
    yield "transforms.crop_px", transforms.crop_px, 1, MOST_PX
    yield "transforms.crop_area[0]", transforms.crop_area[0], 1e-6, 1
    yield "transforms.crop_area[1]", transforms.crop_area[1], transforms.crop_area[0], 1
    yield "transforms.crop_aspect[0]", transforms.crop_aspect[0], 1e-3, 1e3
    yield "transforms.crop_aspect[1]", transforms.crop_aspect[1], transforms.crop_aspect[0], 1e3
    yield "transforms.flip_probability", transforms.flip_probability, 0, 1
    yield "batch.size", batch.size, 1, MOST_WIDE
    yield "batch.pair_samples_per_class", batch.pair_samples_per_class, 1, MOST_WIDE
    yield "batch.class_samples_per_class", batch.class_samples_per_class, 1, MOST_WIDE
    yield "optimiser.weight_decay", optimiser.weight_decay, 0, 1e6
    yield "optimiser.momentum", optimiser.momentum, 0, 1
    yield "optimiser.betas[0]", optimiser.betas[0], 0, 1
    yield "optimiser.betas[1]", optimiser.betas[1], 0, 1
    yield "optimiser.proxy_warmup_steps", optimiser.proxy_warmup_steps, 0, MOST_STEPS
    yield "schedule.max_steps", protocol.schedule.max_steps, 1, MOST_STEPS
    for name, cadence in cadences:
        yield f"schedule.{name}.evaluate_every_steps", cadence.evaluate_every_steps, 1, MOST_STEPS
        yield f"schedule.{name}.patience", cadence.patience, 1, MOST_STEPS
    if protocol.folds.kind != "holdout":
        yield "folds.n_folds", protocol.folds.n_folds, 2, MOST_RUNS
    for name, ranks in (("recall_at", protocol.evaluation.recall_at), *protocol.evaluation.recall_at_by_dataset):
        for place, (before, k) in enumerate(pairwise((0, *ranks))):
            yield f"evaluation.{name}[{place}]", k, before + 1, inf
    yield "search.n_trials", protocol.search.n_trials, 1, MOST_TRIALS
    yield "search.n_startup_trials", protocol.search.n_startup_trials, 1, MOST_TRIALS
    yield "finals.n_runs", protocol.finals.n_runs, 1, MOST_RUNS


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        held = ((item, getattr(value, item.name)) for item in fields(value))
        return {item.name: _plain(found) for item, found in held if item.default is MISSING or found != item.default}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value
