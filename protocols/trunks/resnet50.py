"""ResNet-50, 2048 features: torchvision's network without its classifier, with torchvision's ImageNet weights (V1).

What a reader could get wrong: the input is RGB 0-1, standardised per channel; the stride of a block sits in its 3x3
convolution. Only torchvision's forward is replaced, so that batch norm is folded into the convolutions; layers and
names stay its own. Every ReLU's result is what is passed on; `inplace` only saves memory.
Source: He et al., "Deep Residual Learning for Image Recognition", CVPR 2016, https://arxiv.org/abs/1512.03385
"""

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torchvision.models import resnet50
from torchvision.models.resnet import Bottleneck

from protocols.spec import Input
from protocols.trunks.base import Pooling, TrunkModule, global_pool
from protocols.trunks.folding import normed
from protocols.trunks.weights import PublishedFile

FEATURES = 2048


class ResNet50(TrunkModule):
    """(B, 3, H, W) float32, RGB 0-1 standardised -> (B, 2048) float32.

    Batch norm must be frozen (`freeze_batchnorm`) or in eval mode.
    """

    input: ClassVar[Input] = Input(
        channels="RGB", scale=1.0, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), per_image=False
    )
    features: ClassVar[int] = FEATURES
    classifier: ClassVar[str] = "fc"
    has_batchnorm: ClassVar[bool] = True
    published_file: ClassVar[PublishedFile | None] = PublishedFile(
        name="resnet50-0676ba61.pth",
        address="https://download.pytorch.org/models/resnet50-0676ba61.pth",
        variable="MLRC_RESNET50_WEIGHTS",
    )

    conv1: nn.Conv2d
    bn1: nn.BatchNorm2d
    layer1: nn.Sequential
    layer2: nn.Sequential
    layer3: nn.Sequential
    layer4: nn.Sequential

    def __init__(self, pooling: Pooling) -> None:
        super().__init__(pooling)
        with torch.device("meta"):
            network = resnet50(weights=None)
        for name, child in network.named_children():
            if name != self.classifier:
                self.add_module(name, child)
        self.to_empty(device="cpu")
        for layer in self.modules():
            if isinstance(layer, nn.BatchNorm2d):
                layer.reset_parameters()  # the identity; statistics too

    def forward(self, images: Tensor) -> Tensor:
        """Pooled features."""
        maps = normed(images, self.conv1, self.bn1)
        # Max pooling and ReLU commute, and there is a quarter of the pixels after it.
        maps = F.relu(F.max_pool2d(maps, 3, stride=2, padding=1), inplace=True)
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            for block in stage:
                maps = _block(block, maps)
        return global_pool(maps, self.pooling)


def _block(block: Bottleneck, maps: Tensor) -> Tensor:
    """The bottleneck's own forward with its batch norms folded."""
    inner = F.relu(normed(maps, block.conv1, block.bn1), inplace=True)
    inner = F.relu(normed(inner, block.conv2, block.bn2), inplace=True)
    shortcut = maps if block.downsample is None else normed(maps, *block.downsample)
    return F.relu(normed(inner, block.conv3, block.bn3) + shortcut, inplace=True)
