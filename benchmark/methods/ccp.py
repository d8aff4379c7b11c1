"""Chance constraints (CCP) around a pair loss l: a chain of proxy problems, each begun from embeddings of real images.

    loss = l(batch; proxies) + batch_weight l(batch; batch) + (lambda / 2) ||theta - theta_prev||^2

The batch is compared with P trainable proxies of every class of the fold, those of classes outside the batch too, as
l's `ref_emb` and `ref_labels`. theta are the trainable weights of trunk and embedder; theta_prev is the last problem's
solution, so the first problem has no such term. A problem ends when three validations in a row bring no MAP@R more than
1e-5 above its best; weights and proxies at its best are its solution. The next one begins from the weights as they are
and from new proxies, chosen by greedy k-center (`k_center.py`) among `pool_size` images of every class for those that
the solution's proxies cover worst; the optimiser forgets the old ones. A pool smaller than P is raised to P times its
size, and a pool of P images becomes the proxies as it is; a class with fewer images than the pool is drawn with
replacement (`short_classes` of the record says how many are, and a command says so once). Two settings with pools of
one size are two trials: lambda is continuous, so a search does not repeat itself exactly.

Proxies are embeddings and pass through the protocol's normalisation at every step, so distances lie between vectors of
one kind. They learn as the network does, at its learning rate and weight decay: the released code multiplies theirs by
1, the paper searches none, and its factor of 100 is for ProxyAnchor, ProxyNCA++ and SoftTriple. `batch_weight` is 0 in
the paper and 0.1 in the released code; its range here is the one value 0, and the published values "ccp:cub200-code",
"ccp:sop-code", ... have 0.1. Those of CCP-S, one proxy a class, are "ccp:cub200-s", ...; their pool is CCP-L's, as no
source tells another. Unlike here, the released code starts the first problem from the images farthest from the origin,
and k-center compares embeddings before normalisation.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from optuna.distributions import FloatDistribution, IntDistribution
from torch import Tensor, nn
from torch.nn.functional import normalize

from benchmark.errors import BenchmarkError
from benchmark.methods import contrastive, contrastive_cosine, ms, triplet
from benchmark.methods.entry import W_LR, MethodEntry, Space, Value
from benchmark.methods.k_center import covering_radii, greedy_k_center, spread
from benchmark.methods.projection import Projection
from benchmark.methods.references import refuse_without_references
from benchmark.training.context import Context

PATIENCE = 3  # validations without gain that end a problem
GAIN = 1e-5  # MAP@R above the problem's best that counts as a gain


class ChanceConstraints(nn.Module):
    """The loss, and all that the chain of problems remembers; the whole of it is in the `state_dict`."""

    proxy_labels: Tensor

    def __init__(
        self,
        base: nn.Module,
        *,
        n_classes: int,
        embedding_dim: int,
        attraction: float,
        n_proxies: int,
        pool_size: int,
        batch_weight: float,
    ) -> None:
        super().__init__()
        self.base = base
        self.attraction, self.batch_weight = attraction, batch_weight
        self.n_classes, self.n_proxies = n_classes, n_proxies
        self.pool_size = pool_size if pool_size >= n_proxies else pool_size * n_proxies
        self.proxies = nn.Parameter(normalize(torch.randn(n_classes * n_proxies, embedding_dim), dim=1))
        labels = torch.arange(n_classes).repeat_interleave(n_proxies)
        self.register_buffer("proxy_labels", labels, persistent=False)
        self._normalise: Callable[[Tensor], Tensor] = torch.positive  # no change, until the protocol's is known
        self._step, self._stale, self._short_classes = 0, 0, 0
        self._problems: list[dict[str, Any]] = []
        # Tensors in these are replaced, never changed: a state_dict may hold them without a copy.
        self._best_network: list[Tensor] = []
        self._best_proxies: Tensor | None = None
        self._previous_network: list[Tensor] = []

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """(B, D) float and (B,) int64 -> scalar."""
        proxies = self._normalise(self.proxies)
        loss: Tensor = self.base(embeddings, labels, ref_emb=proxies, ref_labels=self.proxy_labels)
        if self.batch_weight:
            loss = loss + self.batch_weight * self.base(embeddings, labels)
        return loss

    def penalty(self, context: Context) -> Tensor | float:
        """The projection term: a scalar, or 0.0 in the first problem."""
        if not self._previous_network:
            return 0.0
        penalty: Tensor = Projection.apply(self.attraction, self._previous_network, *context.trainable_parameters)
        return penalty

    def weights_that_learn_as_the_network(self) -> list[nn.Parameter]:
        """The proxies."""
        return [self.proxies]

    def begin(self, context: Context) -> None:
        """Start the first problem."""
        self._normalise = context.normalise
        self._short_classes = sum(len(images) < self.pool_size for images in context.images_by_class)
        self._start_problem(self._pool(context), context)

    def after_step(self, step: int, context: Context) -> None:
        """Count."""
        self._step = step

    @torch.no_grad()
    def after_validation(self, map_at_r: float, context: Context) -> None:
        """Remember the problem's best, or go on to the next problem when there was none for long enough."""
        problem = self._problems[-1]
        if problem["best_map_at_r"] is None or map_at_r > problem["best_map_at_r"] + GAIN:
            problem["best_map_at_r"], problem["best_step"], self._stale = map_at_r, self._step, 0
            # On the host: the device holds one copy of the network, the one that it is compared with at every step.
            self._best_network = [torch.empty_like(w, device="cpu").copy_(w) for w in context.trainable_parameters]
            self._best_proxies = self.proxies.clone()
            return
        self._stale += 1
        if self._stale == PATIENCE:
            pool = self._pool(context)
            self._end_problem(pool)
            self._previous_network = [weight.to(pool.device) for weight in self._best_network]
            self._start_problem(pool, context)

    @torch.no_grad()
    def finish(self, context: Context) -> None:
        """Measure how the last problem's best proxies lie among the images; one begun after the last step is none."""
        if self._step and self._problems[-1]["after_step"] == self._step:
            self._problems.pop()
        else:
            self._end_problem(self._pool(context))

    def summary(self) -> dict[str, Any]:
        """The chain: of each problem its first step, length, lambda, best validation, and its proxies at both ends.

        At both the pool is embedded by the network as it is then. `start` measures the new proxies; `end` those of the
        best validation, which the network has left behind, and the present ones of a problem without a validation.
        `covering_radius` is the largest distance of one of the pool's images to the nearest proxy of its class,
        `covering_radius_over_k` its mean over the first 1 .. P proxies in the order of their choice, `spread` the mean
        distance between two proxies of a class (null for P = 1): means over classes.
        """
        ends = [*(problem["after_step"] for problem in self._problems[1:]), self._step]
        return {
            "n_problems": len(self._problems),
            "pool_size": self.pool_size,
            "short_classes": self._short_classes,
            "problems": [
                {**problem, "n_steps": end - problem["after_step"]}
                for problem, end in zip(self._problems, ends, strict=True)
            ],
        }

    def get_extra_state(self) -> dict[str, Any]:
        """Plain numbers and tensors, loadable with `weights_only`."""
        return {
            "step": self._step,
            "stale": self._stale,
            "problems": [dict(problem) for problem in self._problems],
            "best_network": self._best_network,
            "best_proxies": self._best_proxies,
            "previous_network": self._previous_network,
        }

    def set_extra_state(self, state: dict[str, Any]) -> None:
        """Take up a chain where another left it."""
        self._step, self._stale = state["step"], state["stale"]
        self._problems = [dict(problem) for problem in state["problems"]]
        self._best_network = [weight.cpu() for weight in state["best_network"]]
        best, device = state["best_proxies"], self.proxies.device
        self._best_proxies = None if best is None else best.to(device)
        self._previous_network = [weight.to(device) for weight in state["previous_network"]]

    @torch.no_grad()
    def _start_problem(self, pool: Tensor, context: Context) -> None:
        chosen = pool
        if self.pool_size > self.n_proxies:
            covering = None if self._best_proxies is None else self._by_class(self._best_proxies)
            picked = greedy_k_center(pool, self.n_proxies, covering, context.generator)
            chosen = pool.take_along_dim(picked[:, :, None], dim=1)
        self.proxies.copy_(chosen.flatten(0, 1))
        self._best_proxies = None  # of the problem before
        context.reset_optimiser([self.proxies])
        problem = {"after_step": self._step, "lambda": self.attraction if self._problems else 0.0}
        self._problems.append({**problem, "best_step": None, "best_map_at_r": None, "start": self._measured(pool)})

    def _end_problem(self, pool: Tensor) -> None:
        # Its solution's proxies, but not its solution's network: that would have to embed a pool of its own.
        self._problems[-1]["end"] = self._measured(pool, self._best_proxies)

    def _measured(self, pool: Tensor, proxies: Tensor | None = None) -> dict[str, float | None]:
        """How proxies, by default the present ones, lie among the images of a pool."""
        centres = self._by_class(self.proxies if proxies is None else proxies)
        radii = covering_radii(pool, centres).mean(dim=0)
        return {
            "covering_radius": float(radii[-1]),
            "covering_radius_over_k": float(radii.mean()),
            "spread": float(spread(centres)) if self.n_proxies > 1 else None,
        }

    def _by_class(self, proxies: Tensor) -> Tensor:
        """(C * P, D) -> (C, P, D), normalised."""
        return self._normalise(proxies).reshape(self.n_classes, self.n_proxies, -1)

    def _pool(self, context: Context) -> Tensor:
        """(C, pool_size, D) embeddings of images of every class by the network as it is."""
        drawn = [_draw(len(images), self.pool_size, context.generator) for images in context.images_by_class]
        images = [members[some.numpy()] for members, some in zip(context.images_by_class, drawn, strict=True)]
        embeddings = context.embed(torch.cat([torch.from_numpy(some) for some in images]).numpy())
        return embeddings.reshape(self.n_classes, self.pool_size, -1)


def _draw(n_images: int, n: int, generator: torch.Generator) -> Tensor:
    """n of the numbers below n_images, none twice where there are enough."""
    if n_images < n:
        return torch.randint(n_images, (n,), generator=generator)
    return torch.randperm(n_images, generator=generator)[:n]


def compose(base: MethodEntry) -> MethodEntry:
    """The method ccp(base).

    Raises:
        BenchmarkError: if the base is no pair loss, or one that cannot compare a batch with references.
    """
    if base.name in ENTRIES:
        return ENTRIES[base.name]
    refuse_without_references(base, "ccp", "proxies")
    return _entry(base, f"ccp({base.name})")


def _entry(base: MethodEntry, name: str) -> MethodEntry:
    def space(n_classes: int) -> Space:
        return {
            "lambda": FloatDistribution(1e-5, 1e-1, log=True),
            "n_proxies": IntDistribution(1, 16),
            "pool_size": IntDistribution(1, 16),
            "batch_weight": FloatDistribution(0.0, 0.0),
            **base.space(n_classes),
        }

    def build(*, n_classes: int, embedding_dim: int, **values: Any) -> nn.Module:
        missing = sorted(space(n_classes).keys() - values.keys() - {W_LR, "batch_weight"})
        if missing:
            raise BenchmarkError(f"{name}: no value for {', '.join(missing)}.")
        own = {key: int(values.pop(key)) for key in ("n_proxies", "pool_size")}
        attraction, batch_weight = values.pop("lambda"), values.pop("batch_weight", 0.0)
        _refuse_sizes(name, own)
        return ChanceConstraints(
            base.build(n_classes=n_classes, embedding_dim=embedding_dim, **values),
            n_classes=n_classes,
            embedding_dim=embedding_dim,
            attraction=attraction,
            batch_weight=batch_weight,
            **own,
        )

    return replace(
        base,
        name=name,
        build=build,
        space=space,
        source=f"Gurbuz, Can, Alatan, WACV 2024, https://github.com/yetigurbuz/ccp-dml; {base.name}: {base.source}",
        formula="l(batch; proxies) + batch_weight l(batch; batch) + lambda/2 ||theta - theta_prev||^2, "
        f"l = {base.name}: {base.formula}",
        published={
            f"{key}{ending}": {**values, **changed, **base.published[key]}
            for key, values in _PUBLISHED.items()
            if key in base.published
            for ending, changed in _VARIANTS.items()
        },
    )


def _refuse_sizes(name: str, sizes: dict[str, int]) -> None:
    for key, value in sizes.items():
        if value < 1:
            raise BenchmarkError(f"{name}: hyper-parameter {key!r} is {value}; it must be at least 1.")


_SMALL: dict[str, Value] = {"lambda": 2e-4, "n_proxies": 8, "pool_size": 12, "batch_weight": 0.0}
_LARGE: dict[str, Value] = {"lambda": 2e-4, "n_proxies": 4, "pool_size": 7, "batch_weight": 0.0}
_VARIANTS: dict[str, dict[str, Value]] = {  # CCP-L by the paper, CCP-S, CCP-L by the released code
    "": {},
    "-s": {"n_proxies": 1},
    "-code": {"batch_weight": 0.1},
}
_PUBLISHED = {"ccp:cub200": _SMALL, "ccp:cars196": _SMALL, "ccp:sop": _LARGE, "ccp:inshop": _LARGE}
ENTRIES: dict[str, MethodEntry] = {  # those with a short name, by the name of their base
    base.name: _entry(base, f"ccp-{base.name}")
    for base in (contrastive.ENTRY, contrastive_cosine.ENTRY, ms.MS, triplet.ENTRY)
}
