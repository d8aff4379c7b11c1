"""SoftTriple: a softmax over classes with several centres each, and a term that draws a class's centres together.

    S_c  = sum over centres k of  q_k <x_i, w_ck>,    q = softmax over k of <x_i, w_ck> / gamma
    loss = mean over the batch of -log softmax over classes of la (S_c - margin [c = y_i])
         + reg_weight x 1/2 x mean distance between two centres of one class

Ten centres a class, as the reality check ran it; soft-triple-s has one, which leaves nothing to `gamma` (q is 1) and to
`reg_weight` (no two centres), so that it is CosFace's formula with the scale la. Centres have unit length in the
formula, not in memory. `gamma` divides, in the paper, in PML and here (PML keeps its inverse under the same name): the
published values near 50 make q nearly uniform. PML's loss has no centre term unless it is given one, and PML's own term
needs the similarities of all centres to all (29 GB at 8,488 classes), so the same sum is computed here class by class,
and not at all where reg_weight is 0. CCP's names are lambda, tau and delta for la, reg_weight and margin. Its
SoftTriple-S is soft-triple-s; its SoftTriple-L is soft-triple on CUB200 and Cars196, where it has ten centres, and
nothing here on SOP and In-shop, where it has four and no figure is printed.
"""

from dataclasses import replace
from math import comb

from optuna.distributions import FloatDistribution
from pytorch_metric_learning.losses import SoftTripleLoss
from torch import Tensor, nn
from torch.nn.functional import normalize

from benchmark.methods.distances import DotProductToUnit
from benchmark.methods.entry import W_LR, MethodEntry, own_weights_lr

CENTRES_PER_CLASS = 10
_SMALL = 1e-5  # as in the authors' code: keeps the root's gradient finite where two centres meet


def centre_term(centres: Tensor) -> Tensor:
    """Half the mean distance between two unit-length centres of one class.

    Args:
        centres: (n_classes * CENTRES_PER_CLASS, D), the centres of a class in consecutive rows.
    """
    per_class = normalize(centres, dim=1).reshape(-1, CENTRES_PER_CLASS, centres.shape[1])
    cosines = per_class @ per_class.transpose(1, 2)
    distances = (2 + _SMALL - 2 * cosines.clamp(max=1)).sqrt()
    n_pairs = len(per_class) * comb(CENTRES_PER_CLASS, 2)
    return distances.triu(diagonal=1).sum() / (2 * n_pairs)


def build(
    *, n_classes: int, embedding_dim: int, la: float, gamma: float, margin: float, reg_weight: float = 0.0
) -> nn.Module:
    """PML's loss with the centre term; without `reg_weight` there is none, as on SOP in the reality check."""
    loss: nn.Module = SoftTripleLoss(
        num_classes=n_classes,
        embedding_size=embedding_dim,
        centers_per_class=CENTRES_PER_CLASS,
        la=la,
        gamma=gamma,
        margin=margin,
        distance=DotProductToUnit(),
        weight_regularizer=centre_term if reg_weight else None,
        weight_reg_weight=reg_weight,
    )
    return loss


def build_one_centre(*, n_classes: int, embedding_dim: int, la: float, margin: float) -> nn.Module:
    """PML's loss with one centre a class; any gamma would do."""
    loss: nn.Module = SoftTripleLoss(
        num_classes=n_classes,
        embedding_size=embedding_dim,
        centers_per_class=1,
        la=la,
        margin=margin,
        distance=DotProductToUnit(),
    )
    return loss


ENTRY = MethodEntry(
    name="soft-triple",
    family="class",
    build=build,
    space=lambda n_classes: {
        W_LR: own_weights_lr(),
        "la": FloatDistribution(0.01, 200.0),
        "gamma": FloatDistribution(1e-4, 100.0),
        "reg_weight": FloatDistribution(0.0, 1.0),
        "margin": FloatDistribution(0.0, 1.0),
    },
    source="Qian et al., ICCV 2019, https://arxiv.org/abs/1909.05235",
    formula="mean over images of -log softmax over classes of la (S_c - margin [c = y]) + reg_weight / 2 mean distance "
    "of a class's centres; S_c = sum_k softmax_k(<x, w_ck> / gamma) <x, w_ck>, 10 centres a class, ||w_ck|| = 1",
    published={
        "mlrc:cub200": {W_LR: 5.37e-05, "la": 78.02, "gamma": 58.95, "reg_weight": 0.3754, "margin": 0.4307},
        "mlrc:cars196": {W_LR: 0.00014, "la": 17.69, "gamma": 19.18, "reg_weight": 0.0669, "margin": 0.3588},
        "mlrc:sop": {W_LR: 8.68e-05, "la": 100.0, "gamma": 47.9, "margin": 0.3145},
        "mlrc:cub200-batch256": {W_LR: 0.000106, "la": 72.12, "gamma": 51.07, "reg_weight": 0.443, "margin": 0.6959},
        "ccp:cub200": {"la": 20.0, "gamma": 0.1, "reg_weight": 0.2, "margin": 0.01},
        "ccp:cars196": {"la": 17.69, "gamma": 19.18, "reg_weight": 0.0669, "margin": 0.3588},
    },
)

ONE_CENTRE = replace(
    ENTRY,
    name="soft-triple-s",
    build=build_one_centre,
    space=lambda n_classes: {name: ENTRY.space(n_classes)[name] for name in (W_LR, "la", "margin")},
    source=f"{ENTRY.source}; with one centre a class: Gurbuz, Can, Alatan, WACV 2024 (SoftTriple-S)",
    formula="mean over images of -log softmax over classes of la (<x, w_c> - margin [c = y]), 1 centre a class, "
    "||w_c|| = 1",
    published={
        "ccp:cub200": {"la": 20.0, "margin": 0.01},
        "ccp:cars196": {"la": 17.69, "margin": 0.3588},
        "ccp:sop": {"la": 100.0, "margin": 0.3145},
        "ccp:inshop": {"la": 20.0, "margin": 0.01},
    },
)
