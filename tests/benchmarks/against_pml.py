"""How much cheaper the losses written with masks are than pytorch-metric-learning's (PML) with its lists of indices.

Forward and backward, PML's form over ours, of the same embeddings and labels, in turns within one process on one
thread; the ratio is the median over the rounds. Three shapes: a batch of 8 classes x 4 images (32 x 1 for a loss over
class weights), 128 wide; a batch of 64 x 4; and 8 x 4 against 600 references, as many as CCP's proxies on CUB200.
`waits` counts what makes the host wait for a device, in PML's form and in ours (see `method_overhead.py`); on a CPU a
wait costs nothing, so that a device gains more than these ratios say.

Run `python tests/benchmarks/against_pml.py [METHOD ...]`: a table on standard error, one JSON line on standard output,
exit code 1 if one of ours waits. About two minutes for all. The tests compare values and gradients of the same forms.
"""

import json
import sys
from collections.abc import Callable, Mapping
from statistics import median
from time import perf_counter

import torch
from method_overhead import Waits  # the script beside this one
from pytorch_metric_learning import losses, miners, reducers, regularizers
from pytorch_metric_learning.distances import SNRDistance
from torch import Tensor, nn
from torch.nn.functional import normalize

from benchmark.memory import prefer_huge_pages
from benchmark.methods.distances import DotProductToUnit, dot_product, euclidean
from benchmark.methods.registry import METHODS, build_method

DIM, N_CLASSES = 128, 75
ROUNDS, SECONDS = 7, 0.04  # of one side in one round
WITHOUT_REFERENCES = {"fastap", "n-pairs"}  # among the pair losses


class Mined(nn.Module):
    """PML's loss of the pairs that its miner keeps."""

    def __init__(self, loss: nn.Module, miner: nn.Module) -> None:
        super().__init__()
        self.loss, self.miner = loss, miner

    def forward(self, x: Tensor, y: Tensor, ref_emb: Tensor | None = None, ref_labels: Tensor | None = None) -> Tensor:
        references = () if ref_emb is None else (ref_emb, ref_labels)
        return self.loss(x, y, self.miner(x, y, *references), *references)


class SumPerImage(reducers.BaseReducer):
    """Sums over pairs by the number of images."""

    def pos_pair_reduction(self, found: Tensor, indices: object, embeddings: Tensor, labels: Tensor) -> Tensor:
        return found.sum() / len(embeddings)

    neg_pair_reduction = pos_pair_reduction


def with_distance(loss: nn.Module, distance: nn.Module) -> nn.Module:
    """The loss with a distance that its constructor does not take."""
    loss.distance = distance
    return loss


def margin_loss(n_classes: int | None, margin: float, init_beta: float) -> nn.Module:
    """With one boundary, or one a class."""
    return losses.MarginLoss(
        margin, beta=init_beta, learn_beta=True, num_classes=n_classes, triplets_per_anchor="all", distance=euclidean()
    )


FORMS: dict[str, tuple[Callable[..., nn.Module], dict[str, float]]] = {  # of PML, with values to build them with
    "contrastive": (
        lambda **values: losses.ContrastiveLoss(**values, distance=euclidean()),
        {"pos_margin": 0.3, "neg_margin": 1.4},
    ),
    "contrastive-cosine": (
        lambda neg_margin: losses.ContrastiveLoss(1.0, neg_margin, distance=dot_product(), reducer=SumPerImage()),
        {"neg_margin": 0.1},
    ),
    "snr": (
        lambda pos_margin, neg_margin, regularizer_weight: losses.SignalToNoiseRatioContrastiveLoss(
            pos_margin=pos_margin,
            neg_margin=neg_margin,
            distance=SNRDistance(normalize_embeddings=False),
            embedding_regularizer=regularizers.ZeroMeanRegularizer(),
            embedding_reg_weight=regularizer_weight,
        ),
        {"pos_margin": 0.4, "neg_margin": 2.0, "regularizer_weight": 0.3},
    ),
    "triplet": (
        lambda margin: losses.TripletMarginLoss(margin, triplets_per_anchor="all", distance=euclidean()),
        {"margin": 0.1},
    ),
    "triplet-semihard": (
        lambda margin: Mined(
            losses.TripletMarginLoss(margin, distance=euclidean(power=2)),
            miners.TripletMarginMiner(margin, type_of_triplets="semihard", distance=euclidean(power=2)),
        ),
        {"margin": 0.4},
    ),
    "margin": (lambda **values: margin_loss(None, **values), {"margin": 0.1, "init_beta": 1.1}),
    "margin-class": (
        lambda num_classes, **values: margin_loss(num_classes, **values),
        {"margin": 0.1, "init_beta": 1.1},
    ),
    "ntxent": (lambda temperature: losses.NTXentLoss(temperature, distance=dot_product()), {"temperature": 0.07}),
    "ms": (
        lambda **values: losses.MultiSimilarityLoss(**values, distance=dot_product()),
        {"alpha": 2.0, "beta": 40.0, "base": 0.5},
    ),
    "ms-miner": (
        lambda epsilon, **values: Mined(
            losses.MultiSimilarityLoss(**values, distance=dot_product()),
            miners.MultiSimilarityMiner(epsilon, distance=dot_product()),
        ),
        {"alpha": 2.0, "beta": 40.0, "base": 0.5, "epsilon": 0.1},
    ),
    "lifted": (lambda neg_margin: losses.LiftedStructureLoss(neg_margin, distance=euclidean()), {"neg_margin": 0.9}),
    "fastap": (lambda num_bins: with_distance(losses.FastAPLoss(num_bins), euclidean(power=2)), {"num_bins": 10}),
    "n-pairs": (lambda: losses.NPairsLoss(distance=dot_product()), {}),
    "proxy-anchor": (
        lambda **values: losses.ProxyAnchorLoss(**values, distance=DotProductToUnit()),
        {"margin": 0.1, "alpha": 32.0},
    ),
    "cosface": (
        lambda **values: with_distance(losses.CosFaceLoss(**values), DotProductToUnit()),
        {"margin": 0.35, "scale": 30.0},
    ),
    "arcface": (
        lambda **values: with_distance(losses.ArcFaceLoss(**values), DotProductToUnit()),
        {"margin": 60.0, "scale": 30.0},
    ),
    "sphereface": (
        lambda **values: losses.SphereFaceLoss(**values),
        {"margin": 4, "scale": 5.0},
    ),
}


def is_over_pairs(name: str) -> bool:
    """Whether the loss has no weights of each class, but pairs."""
    return METHODS[name].family == "pair"


def takes_references(name: str) -> bool:
    """Whether it can compare a batch with others."""
    return is_over_pairs(name) and name not in WITHOUT_REFERENCES


def both(name: str, n_classes: int, dim: int, values: Mapping[str, float] | None = None) -> tuple[nn.Module, nn.Module]:
    """The method's module and PML's form of it, with the same own weights; at the form's values unless others come."""
    form, usual = FORMS[name]
    values = usual if values is None else values
    ours = build_method(METHODS[name], n_classes, dim, values)
    sizes = {"num_classes": n_classes} if name == "margin-class" else {}
    if not is_over_pairs(name):
        sizes = {"num_classes": n_classes, "embedding_size": dim}
    reference = form(**sizes, **values)
    reference.load_state_dict(ours.state_dict())
    return ours, reference


def points(n: int, seed: int) -> Tensor:
    """(n, DIM) random points of the unit sphere."""
    return normalize(torch.randn(n, DIM, generator=torch.Generator().manual_seed(seed)))


def compared(name: str, n_images: int, n_references: int) -> dict[str, float]:
    """Milliseconds of both, the median ratio and the waits."""
    labels = torch.arange(n_images) % (n_images // 4 if is_over_pairs(name) else N_CLASSES)
    references = {}
    if n_references:
        references = {"ref_emb": points(n_references, 2), "ref_labels": torch.arange(n_references) % N_CLASSES}

    def step(module: nn.Module) -> None:
        module(points_of_batch.detach().requires_grad_(), labels, **references).backward()

    points_of_batch, sides = points(n_images, 1), both(name, N_CLASSES, DIM)
    counts = []
    for module in sides:
        step(module)
        with Waits() as waits:
            step(module)
        counts.append(len(waits.names))
    rounds = [[milliseconds(step, module) for module in sides] for _ in range(ROUNDS)]
    return {
        "pml_ms": round(median(theirs for _, theirs in rounds), 3),
        "ms": round(median(ours for ours, _ in rounds), 3),
        "ratio": round(median(theirs / ours for ours, theirs in rounds), 2),
        "pml_waits": counts[1],
        "waits": counts[0],
    }


def milliseconds(step: Callable[[nn.Module], None], module: nn.Module) -> float:
    """Of one step, the mean over as many as fit in SECONDS."""
    began, n = perf_counter(), 0
    while perf_counter() - began < SECONDS or not n:
        step(module)
        n += 1
    return 1000 * (perf_counter() - began) / n


def main(names: list[str]) -> int:
    """Measure and print."""
    torch.set_num_threads(1)
    prefer_huge_pages()
    print(f"{'method':<20}{'batch':>6}{'refs':>6}{'PML ms':>9}{'ms':>9}{'ratio':>8}{'waits':>9}", file=sys.stderr)
    found: dict[str, dict[str, dict[str, float]]] = {}
    for name in names or FORMS:
        for n_images, n_references in ((32, 0), (256, 0), (32, 600)):
            if n_references and not takes_references(name):
                continue
            cost = compared(name, n_images, n_references)
            found.setdefault(name, {})[f"{n_images}x{n_references}"] = cost
            row = f"{name:<20}{n_images:>6}{n_references:>6}{cost['pml_ms']:>9.2f}{cost['ms']:>9.2f}"
            print(f"{row}{cost['ratio']:>8.2f}{cost['pml_waits']:>5} > {cost['waits']}", file=sys.stderr)
    print(json.dumps({"benchmark": "against_pml", "methods": found}))
    return int(any(cost["waits"] for costs in found.values() for cost in costs.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
