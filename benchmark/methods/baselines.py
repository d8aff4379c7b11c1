"""What no method may fall below: the network before its first step, and the image itself.

A baseline is evaluated like a method and never trained, so it has no loss and nothing to search.
"""

from torch import Tensor, nn

from benchmark.errors import BenchmarkError
from benchmark.methods.entry import MethodEntry


class NoLoss(nn.Module):
    """Stands where a loss would; a baseline that reaches a training step is a slip, and says so."""

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """Refuse.

        Raises:
            BenchmarkError: always.
        """
        raise BenchmarkError("a baseline has no loss and is never trained; evaluate it as it stands.")


def build(*, n_classes: int, embedding_dim: int) -> nn.Module:
    """A module without weights."""
    return NoLoss()


UNTRAINED = MethodEntry(
    name="untrained",
    family="baseline",
    build=build,
    space=lambda n_classes: {},
    source="choice of this project",
    formula="no loss: the embeddings of the network at step 0",
)

PIXELS = MethodEntry(
    name="pixels",
    family="baseline",
    build=build,
    space=lambda n_classes: {},
    source="choice of this project",
    formula="no loss: the trunk's input tensor, flattened",
)
