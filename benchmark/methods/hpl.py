"""Hierarchical proxies (HPL): a proxy loss over its proxies and, at the same time, over clusters of them.

    loss = sum over levels l of  omega_l base(X, Y^l, P_l),    omega_0 = 1,  y^0 = y

P_0 are the base's own proxies, one a class. P_1 are n_coarse_1 means of them, P_2 n_coarse_2 means of those; y^(l+1) is
the coarse proxy to which the proxy of y^l belongs. Only P_0 and the network learn by gradient. Every `update_every`
steps, level by level, the finest first: each proxy goes to the nearest coarse proxy (squared Euclidean), then each
coarse proxy becomes the mean of its members; one without members keeps its place and is reported. Proxies that have
unit length in the base's formula are clustered, and averaged, at unit length; others as they are.

hpl(NAME) has one coarse level, begun by k-means; hpl-gmm(NAME) begins it by a Gaussian mixture; hpl3(NAME) has two; in
hpl-gt(NAME) the members of the one coarse level are the data set's super-classes, for good, and only the means move.
NAME is any loss whose only weight has one row a class. hpl-NAME and hpl-gt-NAME are short for those around proxy-nca,
proxy-nca++ and proxy-anchor.

The paper's coarse proxies: 500 on In-shop and SOP, 10 on Cars196; given, 12 on SOP and 48 genera on iNaturalist. What
no source tells and this project chose: omega_0 = 1, no warm-up, all ranges. hpl3's space holds all n_coarse_2 that
some n_coarse_1 allows; a search proposes one from 2 to n_coarse_1 / 2 (`benchmark.search.shares`). A larger one, which
only a user can give, fails before the first step and never runs as something else.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, cast

import torch
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from torch import Tensor, nn
from torch.nn.functional import normalize

from benchmark.errors import BenchmarkError
from benchmark.methods import proxy_anchor, proxy_nca, proxy_nca_pp
from benchmark.methods.classes import PROBE_DIM, middle_of
from benchmark.methods.entry import W_LR, MethodEntry, Space
from benchmark.methods.hierarchy import Clustering, CoarseLevel
from benchmark.methods.proxies import ProxyWeight, ignores_length, proxy_weight
from benchmark.training.context import Context

UPDATE_EVERY = (50, 100, 200)  # steps


class HierarchicalProxyLoss(nn.Module):
    """The base's loss over every level of the pyramid; with no `omegas` it is the base's loss, bit for bit.

    Args:
        build: the base's loss for a class count. The base's own is built first, so that its proxies start as they do
            without a hierarchy.
        weight: where that loss keeps its proxies.
        omegas: the weight of each level above the classes.
        n_coarse: the coarse proxies of each such level; None for the data set's super-classes, counted in `begin`.
        update_every: steps from one update to the next.

    Raises:
        BenchmarkError: if a level has too many coarse proxies or fewer than two.
    """

    def __init__(
        self,
        build: Callable[[int], nn.Module],
        weight: ProxyWeight,
        *,
        n_classes: int,
        omegas: Sequence[float],
        n_coarse: Sequence[int] | None,
        update_every: int,
        clustering: Clustering = "kmeans",
    ) -> None:
        super().__init__()
        self.base, self._build, self._weight = build(n_classes), build, weight
        self._n_classes, self._omegas, self._is_given = n_classes, tuple(omegas), n_coarse is None
        self._update_every, self._clustering = update_every, clustering
        self._has_unit_proxies = ignores_length(self.base, weight)
        self._names: dict[str, Any] = {}
        self.levels = nn.ModuleList()
        below, limit, why = n_classes, n_classes - 1, f"of {n_classes} class proxies"
        for number, size in enumerate(n_coarse or (), start=1):
            _refuse_size(f"n_coarse_{number}", size, limit, why)
            self.levels.append(CoarseLevel(build(size), weight, torch.zeros(below, dtype=torch.int64), is_fixed=False))
            below, limit, why = size, size // 2, f"half of n_coarse_{number} = {size}"

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """(B, D) float and (B,) int64 class labels -> scalar."""
        loss: Tensor = self.base(embeddings, labels)
        for omega, level in zip(self._omegas, self._coarse(), strict=True):
            labels = level.members[labels]
            loss = loss + omega * level(embeddings, labels)
        return loss

    @torch.no_grad()
    def begin(self, context: Context) -> None:
        """Place the coarse proxies.

        Raises:
            BenchmarkError: if super-classes are asked for and there are none, one, or as many as classes.
        """
        self._names = {"classes": list(context.class_names), "super_classes": _numbered(context.super_classes)}
        if self._is_given:
            self.levels = nn.ModuleList([self._super_class_level(context.super_classes)])
        points = self._used(self._weight.rows(self.base))
        for level in self._coarse():
            level.place(points, self._clustering, context.generator)
            points = self._used(level.proxies)

    @torch.no_grad()
    def after_step(self, step: int, context: Context) -> None:
        """Every `update_every` steps, update one level after another, the finest first."""
        if step % self._update_every:
            return
        points = self._used(self._weight.rows(self.base))
        for level in self._coarse():
            level.update(points)
            points = self._used(level.proxies)

    def summary(self) -> dict[str, Any]:
        """The hierarchy after the last step, in the numbering of `classes`; the finest level first."""
        return {"hierarchy": {**self._names, "levels": [level.summary() for level in self._coarse()]}}

    def _coarse(self) -> list[CoarseLevel]:
        return cast(list[CoarseLevel], list(self.levels))

    def _used(self, proxies: Tensor) -> Tensor:
        """Proxies as the base's formula has them."""
        return normalize(proxies, dim=1) if self._has_unit_proxies else proxies

    def _super_class_level(self, super_classes: Sequence[str] | None) -> CoarseLevel:
        found = _numbered(super_classes)
        if found is None:
            raise BenchmarkError("the data set has no super-classes to be the given hierarchy; hpl(NAME) needs none.")
        n_coarse = len(found["names"])
        _refuse_size("the number of super-classes", n_coarse, self._n_classes - 1, f"of {self._n_classes} classes")
        members = torch.tensor(found["members"], device=self._weight.rows(self.base).device)
        return CoarseLevel(self._build(n_coarse).to(members.device), self._weight, members, is_fixed=True)


def _numbered(super_classes: Sequence[str] | None) -> dict[str, Any] | None:
    """Distinct names, sorted, and for each class its number among them: on large data sets far shorter than names."""
    if super_classes is None:
        return None
    names = sorted(set(super_classes))
    number_of = {name: number for number, name in enumerate(names)}
    return {"names": names, "members": [number_of[name] for name in super_classes]}


def _refuse_size(name: str, found: int, most: int, why: str) -> None:
    if not 2 <= found <= most:
        raise BenchmarkError(f"{name} is {found}; it must be from 2 to {most} ({why}).")


@dataclass(frozen=True)
class _Variant:
    """What the hierarchy of a method is made of."""

    n_coarse_levels: int = 1
    clustering: Clustering = "kmeans"
    is_given: bool = False

    @property
    def halves(self) -> dict[str, str]:
        """Each coarse level above the first, with the one below it."""
        return {f"n_coarse_{level}": f"n_coarse_{level - 1}" for level in range(2, self.n_coarse_levels + 1)}

    def space(self, n_classes: int) -> Space:
        """n_coarse_l from 2 to n_classes / 2^l; under a second level n_coarse_1 from 4, or no n_coarse_2 would fit."""
        top = self.n_coarse_levels
        levels = range(1, top + 1)
        sizes: Space = {}
        if not self.is_given:
            if n_classes < 2 ** (top + 1):
                raise BenchmarkError(
                    f"{top} coarse level{'s' * (top > 1)} over {n_classes} training classes in a fold; at least "
                    f"{2 ** (top + 1)} classes are needed. Add classes."
                )
            bounds = {level: (2 ** (1 + top - level), n_classes // 2**level) for level in levels}
            sizes = {f"n_coarse_{level}": IntDistribution(*bounds[level], log=True) for level in levels}
        return {
            **sizes,
            **{f"omega_{level}": FloatDistribution(0.01, 1.0, log=True) for level in levels},
            "update_every": CategoricalDistribution(UPDATE_EVERY),
        }


_VARIANTS = {
    "hpl": _Variant(),
    "hpl-gmm": _Variant(clustering="gmm"),
    "hpl3": _Variant(n_coarse_levels=2),
    "hpl-gt": _Variant(is_given=True),
}
_SHORT = [(prefix, base) for prefix in ("hpl", "hpl-gt") for base in ("proxy-nca", "proxy-nca++", "proxy-anchor")]


def compose(base: MethodEntry, prefix: str = "hpl") -> MethodEntry:
    """The method prefix(base).

    Raises:
        BenchmarkError: if the base is no loss with one proxy a class.
    """
    name = f"{prefix}-{base.name}" if (prefix, base.name) in _SHORT else f"{prefix}({base.name})"
    if base.family != "class":
        raise BenchmarkError(f"{name}: {base.name} is of the family {base.family!r}; a hierarchy needs class proxies.")
    variant = _VARIANTS[prefix]
    weight = _proxies_of(base, name)

    def space(n_classes: int) -> Space:
        return {**base.space(n_classes), **variant.space(n_classes)}

    def build(*, n_classes: int, embedding_dim: int, **values: Any) -> nn.Module:
        missing = sorted(space(n_classes).keys() - values.keys() - {W_LR})
        if missing:
            raise BenchmarkError(f"{name}: no value for {', '.join(missing)}.")
        own = {key: values.pop(key) for key in variant.space(n_classes)}
        levels = range(1, variant.n_coarse_levels + 1)
        return HierarchicalProxyLoss(
            lambda n: base.build(n_classes=n, embedding_dim=embedding_dim, **values),
            weight,
            n_classes=n_classes,
            omegas=[own[f"omega_{level}"] for level in levels],
            n_coarse=None if variant.is_given else [int(own[f"n_coarse_{level}"]) for level in levels],
            update_every=own["update_every"],
            clustering=variant.clustering,
        )

    return replace(
        base,
        name=name,
        build=build,
        space=space,
        source=f"Yang et al. (HPL), WACV 2022, https://arxiv.org/abs/2103.13538; {base.name}: {base.source}",
        formula=f"sum over levels l of omega_l base(X, Y^l, P_l), omega_0 = 1; base = {base.name}: {base.formula}",
        published={},
        needs_super_classes=variant.is_given,
        halves=variant.halves,
    )


def _proxies_of(base: MethodEntry, name: str) -> ProxyWeight:
    def build(n_classes: int) -> nn.Module:
        return base.build(n_classes=n_classes, embedding_dim=PROBE_DIM, **middle_of(base.space(n_classes)))

    with torch.random.fork_rng(devices=[]):
        return proxy_weight(name, build, PROBE_DIM)


COMPOSERS: dict[str, Callable[[MethodEntry], MethodEntry]] = {
    prefix: partial(compose, prefix=prefix) for prefix in _VARIANTS
}
_BASES = {entry.name: entry for entry in (proxy_nca.ENTRY, proxy_nca_pp.ENTRY, proxy_anchor.ENTRY)}
ENTRIES = tuple(compose(_BASES[base], prefix) for prefix, base in _SHORT)
