"""The proxies of a loss: its one weight with a row (or a column) for each class, wherever the loss keeps it."""

from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn.functional import normalize

from benchmark.errors import BenchmarkError

HOOKS = ("begin", "after_step", "after_validation", "penalty", "finish", "summary")
_FEW, _MORE = 5, 7  # class counts at which a loss is built to see which weight grows with them
_PROBE_BATCH = 32


@dataclass(frozen=True)
class ProxyWeight:
    """Where a loss keeps its proxies: the weight's dotted name, and the axis along which its classes lie."""

    name: str
    axis: int

    def rows(self, loss: nn.Module) -> Tensor:
        """The proxies of a loss, (n_classes, D); a view."""
        weight: Tensor = attrgetter(self.name)(loss)
        return weight if self.axis == 0 else weight.T

    def make_buffer(self, loss: nn.Module) -> None:
        """Turn the weight into a buffer: the loss computes with it as before, and nothing learns it."""
        path, _, leaf = self.name.rpartition(".")
        owner = loss.get_submodule(path)
        values = owner.get_parameter(leaf).detach().clone()
        delattr(owner, leaf)
        owner.register_buffer(leaf, values)


def proxy_weight(method: str, build: Callable[[int], nn.Module], dim: int) -> ProxyWeight:
    """The proxies of a method, whose loss for embeddings of width `dim` `build` builds for a class count.

    Raises:
        BenchmarkError: if the loss does not own exactly one weight, with one row or column a class, or if it has hooks:
            its state could not be kept on several levels at once.
    """
    few, more = build(_FEW), build(_MORE)
    hooks = [hook for hook in HOOKS if hasattr(few, hook)]
    if hooks:
        raise BenchmarkError(f"{method}: a hierarchy needs a loss that is a formula alone; this one has {hooks[0]}().")
    shapes = {key: tuple(weight.shape) for key, weight in few.named_parameters()}
    if len(shapes) == 1:
        ((name, weight),) = more.named_parameters()
        for axis in (0, 1):
            if (shapes[name], tuple(weight.shape)) == (_shape(_FEW, dim, axis), _shape(_MORE, dim, axis)):
                return ProxyWeight(name, axis)
    owned = ", ".join(f"{key} {shape}" for key, shape in shapes.items()) or "none"
    raise BenchmarkError(
        f"{method}: a hierarchy needs a loss whose only weight has one row a class, so that no class lies in two "
        f"coarse ones; for {_FEW} classes in {dim} dimensions this one owns {owned}."
    )


def _shape(n_classes: int, dim: int, axis: int) -> tuple[int, int]:
    return (n_classes, dim) if axis == 0 else (dim, n_classes)


@torch.no_grad()
def ignores_length(loss: nn.Module, weight: ProxyWeight) -> bool:
    """Whether the loss gives its proxies unit length itself: whether proxies twice as long give the same loss."""
    n_classes, dim = weight.rows(loss).shape
    random = torch.Generator().manual_seed(0)
    embeddings = normalize(torch.randn(_PROBE_BATCH, dim, generator=random))
    labels = torch.arange(_PROBE_BATCH) % n_classes

    def at(scale: float) -> Tensor:
        with torch.random.fork_rng(devices=[]):  # a loss may draw
            torch.manual_seed(0)
            scaled = {weight.name: scale * loss.get_parameter(weight.name)}
            found: Tensor = functional_call(loss, scaled, (embeddings, labels))
        return found

    return torch.allclose(at(2.0), at(1.0), rtol=1e-5, atol=0.0)
