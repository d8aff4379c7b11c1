"""The embedding model: trunk, one linear layer, normalisation. It is what every method trains and what is evaluated.

Embeddings leave it normalised, so a method and the evaluation see the same vectors; neither normalises again.
"""

from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from protocols.spec import Protocol
from protocols.trunks import build_trunk
from protocols.trunks.base import TrunkModule, initialise_as_pytorch

Normalisation = Literal["l2", "lipschitz"]


class EmbeddingModel(nn.Module):
    """(B, C, H, W) float32 images, as the trunk's `input` says -> (B, dim) float32 normalised embeddings."""

    trunk: TrunkModule
    embedder: nn.Linear
    normalisation: Normalisation

    def __init__(self, trunk: TrunkModule, embedder: nn.Linear, normalisation: Normalisation) -> None:
        super().__init__()
        self.trunk = trunk
        self.embedder = embedder
        self.normalisation = normalisation

    def forward(self, images: Tensor) -> Tensor:
        """Embeddings of a batch."""
        return normalised(self.embedder(self.trunk(images)), self.normalisation)

    def trainable_parameters(self) -> list[nn.Parameter]:
        """Parameters of trunk and embedder that learn; frozen ones are left out."""
        return [parameter for parameter in self.parameters() if parameter.requires_grad]


def normalised(vectors: Tensor, rule: Normalisation) -> Tensor:
    """(B, D) -> (B, D): "l2" is v / ||v||, "lipschitz" is v / max(1, ||v||).

    The zero vector stays zero under both, with a finite gradient: a length is never taken below 1e-12.
    """
    if rule == "l2":
        return F.normalize(vectors, dim=1, eps=1e-12)
    lengths: Tensor = torch.linalg.vector_norm(vectors, dim=1, keepdim=True)
    return vectors / lengths.clamp_min(1.0)


def build_model(protocol: Protocol, generator: torch.Generator) -> EmbeddingModel:
    """The model of `protocol` on the CPU, batch norm frozen as it says; every random weight comes from `generator`.

    Raises:
        ProtocolError: as `protocols.trunks.build_trunk`.
    """
    trunk = build_trunk(protocol.trunk, generator)
    embedder = nn.Linear(trunk.features, protocol.embedding.dim, device="meta").to_empty(device="cpu")
    initialise_as_pytorch(embedder, generator)
    return EmbeddingModel(trunk, embedder, protocol.embedding.normalisation)
