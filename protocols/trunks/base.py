"""What every trunk is: images in, one pooled feature vector an image out, and the statement of what it wants to see.

A trunk's parameters are left unset by its constructor, so that nothing is drawn from PyTorch's global random state;
`protocols.trunks.build_trunk` either initialises them from the generator it is given or loads a checked weight file.
"""

import math
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from protocols.spec import Input
from protocols.trunks.weights import PublishedFile

Pooling = Literal["average", "average+max"]


class TrunkModule(nn.Module):
    """Base of the trunks: `forward(images (B, C, H, W) float32) -> (B, features) float32`."""

    input: ClassVar[Input]  # what the weights were, or are to be, trained on
    features: ClassVar[int]
    has_batchnorm: ClassVar[bool]
    classifier: ClassVar[str] = ""  # the layer of the weight file that ends it
    weight_package: ClassVar[str | None] = None  # importable name of the installed package that ships weights
    published_file: ClassVar[PublishedFile | None] = None  # or the file of weights that its authors publish

    weights_hash: str  # "random", or the SHA-256 of the weight file; set by build_trunk
    pooling: Pooling

    def __init__(self, pooling: Pooling) -> None:
        super().__init__()
        self.pooling = pooling

    def initialise(self, generator: torch.Generator) -> None:
        """Set what training from random weights starts from, drawing from `generator` alone.

        By default He's normal rule by fan-in for every convolution: a signal survives dozens of layers though batch
        norm is frozen as the identity.
        """
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu", generator=generator)
                if layer.bias is not None:
                    nn.init.zeros_(layer.bias)

    @classmethod
    def parameter_name(cls, file_name: str) -> str | None:
        """Our name of a tensor of the weight file, by default the file's; None for the classifier, which is dropped."""
        return None if file_name.startswith(f"{cls.classifier}.") else file_name


def global_pool(maps: Tensor, pooling: Pooling) -> Tensor:
    """(B, C, H, W) -> (B, C): the spatial average, or its sum with the spatial maximum."""
    average = F.adaptive_avg_pool2d(maps, 1).flatten(1)
    return average if pooling == "average" else average + F.adaptive_max_pool2d(maps, 1).flatten(1)


def initialise_as_pytorch(layer: nn.Conv2d | nn.Linear, generator: torch.Generator) -> None:
    """PyTorch's default for convolutions and linear layers (uniform, Kaiming with a = sqrt 5), from `generator`."""
    nn.init.kaiming_uniform_(layer.weight, a=math.sqrt(5), generator=generator)
    if layer.bias is not None:
        bound = 1 / math.sqrt(layer.weight[0].numel())
        nn.init.uniform_(layer.bias, -bound, bound, generator=generator)
