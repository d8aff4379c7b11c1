"""The trunk of `mlrc`: BN-Inception, 1024 features, with the published ImageNet weights.

What a reader could get wrong: the input is BGR 0-255 minus (104, 117, 128), not divided. Convolutions have a bias
beside batch norm's. Blocks 3c and 4e halve the side and have neither a 1x1 branch nor a projection. The other blocks
average before their projection and count the padded zeros; 5b takes the maximum. Layers are named as in the published
file, flat, so state dicts are exchanged with it as they are; its classifier is dropped.

Same maths, less work:
- batch norm is folded into the convolutions;
- the 1x1 convolutions that read a block's input are one convolution, split afterwards;
- the average pool and its 1x1 projection are both linear, so they change places and fewer channels are pooled; only the
  projection's bias must wait, because the pool's padding does not have it;
- bias and ReLU commute with max pooling and follow it; a block's branches end in one ReLU over their concatenation.
Every ReLU's result is what is passed on. `inplace` only saves memory: nothing else reads what it overwrites.
Source: Ioffe and Szegedy, "Batch Normalization", ICML 2015, https://arxiv.org/abs/1502.03167; weights by Y. Xiong and
R. Cadene, https://github.com/Cadene/pretrained-models.pytorch
"""

from typing import ClassVar, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from protocols.errors import ProtocolError
from protocols.spec import Input
from protocols.trunks.base import Pooling, TrunkModule, global_pool
from protocols.trunks.folding import folded, normed
from protocols.trunks.weights import PublishedFile


class Block(NamedTuple):
    """Channels out of the layers of one inception block, and what its fourth branch does."""

    name: str
    direct: int  # the 1x1 branch; 0: there is none
    narrow: int  # 1x1 before the 3x3
    single: int
    narrow_double: int  # 1x1 before the two 3x3 in a row, which have equal channels
    double: int
    pool: Literal["average", "max", "halve"]
    projection: int  # 1x1 after the pool; 0: there is none


BLOCKS = (
    Block("3a", 64, 64, 64, 64, 96, "average", 32),
    Block("3b", 64, 64, 96, 64, 96, "average", 64),
    Block("3c", 0, 128, 160, 64, 96, "halve", 0),
    Block("4a", 224, 64, 96, 96, 128, "average", 128),
    Block("4b", 192, 96, 128, 96, 128, "average", 128),
    Block("4c", 160, 128, 160, 128, 160, "average", 128),
    Block("4d", 96, 128, 192, 160, 192, "average", 128),
    Block("4e", 0, 128, 192, 192, 256, "halve", 0),
    Block("5a", 352, 192, 320, 160, 224, "average", 128),
    Block("5b", 352, 192, 320, 192, 224, "max", 128),
)
STEM_CHANNELS = (3, 64, 64, 192)
FEATURES = 1024
SMALLEST_PX = 31


class BNInception(TrunkModule):
    """(B, 3, H, W) float32, BGR 0-255 minus (104, 117, 128) -> (B, 1024) float32.

    Batch norm must be frozen (`freeze_batchnorm`) or in eval mode.
    """

    input: ClassVar[Input] = Input(
        channels="BGR", scale=255.0, mean=(104.0, 117.0, 128.0), std=(1.0, 1.0, 1.0), per_image=False
    )
    features: ClassVar[int] = FEATURES
    classifier: ClassVar[str] = "last_linear"
    has_batchnorm: ClassVar[bool] = True
    published_file: ClassVar[PublishedFile | None] = PublishedFile(
        name="bn_inception-52deb4733.pth",
        address="http://data.lip6.fr/cadene/pretrainedmodels/bn_inception-52deb4733.pth",
        variable="MLRC_BN_INCEPTION_WEIGHTS",
    )

    def __init__(self, pooling: Pooling) -> None:
        super().__init__(pooling)
        self._add("conv1_7x7_s2", STEM_CHANNELS[0], STEM_CHANNELS[1], kernel=7, stride=2)
        self._add("conv2_3x3_reduce", STEM_CHANNELS[1], STEM_CHANNELS[2], kernel=1)
        self._add("conv2_3x3", STEM_CHANNELS[2], STEM_CHANNELS[3], kernel=3)
        channels = STEM_CHANNELS[3]
        for block in BLOCKS:
            channels = self._add_block(block, channels)

    def _add(self, name: str, channels_in: int, channels_out: int, kernel: int, stride: int = 1) -> None:
        convolution = nn.Conv2d(channels_in, channels_out, kernel, stride, padding=kernel // 2, device="meta")
        self.add_module(name, convolution.to_empty(device="cpu"))
        self.add_module(f"{name}_bn", nn.BatchNorm2d(channels_out))

    def _add_block(self, block: Block, channels: int) -> int:
        """Add the layers of a block that reads `channels`; returns the channels that leave it."""
        prefix, last_stride = f"inception_{block.name}", 2 if block.pool == "halve" else 1
        if block.direct:
            self._add(f"{prefix}_1x1", channels, block.direct, kernel=1)
        self._add(f"{prefix}_3x3_reduce", channels, block.narrow, kernel=1)
        self._add(f"{prefix}_3x3", block.narrow, block.single, kernel=3, stride=last_stride)
        self._add(f"{prefix}_double_3x3_reduce", channels, block.narrow_double, kernel=1)
        self._add(f"{prefix}_double_3x3_1", block.narrow_double, block.double, kernel=3)
        self._add(f"{prefix}_double_3x3_2", block.double, block.double, kernel=3, stride=last_stride)
        if block.projection:
            self._add(f"{prefix}_pool_proj", channels, block.projection, kernel=1)
        return block.direct + block.single + block.double + (block.projection or channels)

    def forward(self, images: Tensor) -> Tensor:
        """Pooled features.

        Raises:
            ProtocolError: for a height or width at which the branches of blocks 3c and 4e come out unequal: their
                input has (pixels + 1) // 8 to a side, which must be a multiple of 4.
        """
        height_px, width_px = images.shape[2:]
        if min(height_px, width_px) < SMALLEST_PX or (height_px + 1) // 8 % 4 or (width_px + 1) // 8 % 4:
            raise ProtocolError(
                f"bn-inception cannot take images of {height_px} x {width_px} px, whose branches do not fit together; "
                "223 to 230 px can be taken, and 255 to 262."
            )
        maps = self._halved_after("conv1_7x7_s2", images)
        maps = F.relu(self._convolved("conv2_3x3_reduce", maps), inplace=True)
        maps = self._halved_after("conv2_3x3", maps)
        for block in BLOCKS:
            maps = self._block(block, maps)
        return global_pool(maps, self.pooling)

    def _block(self, block: Block, maps: Tensor) -> Tensor:
        prefix, averages = f"inception_{block.name}", block.pool == "average"
        readers = ["1x1"] * bool(block.direct) + ["3x3_reduce", "double_3x3_reduce"] + ["pool_proj"] * averages
        weights, biases = zip(*(folded(*self._layer(f"{prefix}_{reader}")) for reader in readers), strict=True)
        at_once = torch.cat([*biases[:-1], torch.zeros_like(biases[-1])] if averages else biases)
        merged = F.conv2d(maps, torch.cat(weights), at_once)
        parts = dict(zip(readers, torch.split(merged, [len(bias) for bias in biases], dim=1), strict=True))

        single = self._convolved(f"{prefix}_3x3", F.relu(parts["3x3_reduce"]))
        double = self._convolved(f"{prefix}_double_3x3_1", F.relu(parts["double_3x3_reduce"]))
        double = self._convolved(f"{prefix}_double_3x3_2", F.relu(double, inplace=True))
        if averages:
            pooled = F.avg_pool2d(parts["pool_proj"], 3, stride=1, padding=1) + biases[-1][:, None, None]
        elif block.pool == "max":
            pooled = self._convolved(f"{prefix}_pool_proj", F.max_pool2d(maps, 3, stride=1, padding=1))
        else:
            pooled = _halved(maps)  # not negative, so the ReLU below leaves it as it is
        direct = [parts["1x1"]] if block.direct else []
        return F.relu(torch.cat([*direct, single, double, pooled], dim=1), inplace=True)

    def _halved_after(self, name: str, maps: Tensor) -> Tensor:
        """Convolution, max pool, then bias and ReLU: they commute with the pool, which leaves a quarter of the work."""
        convolution, norm = self._layer(name)
        weight, bias = folded(convolution, norm)
        pooled = _halved(F.conv2d(maps, weight, None, convolution.stride, convolution.padding))
        return F.relu(pooled + bias[:, None, None], inplace=True)

    def _layer(self, name: str) -> tuple[nn.Conv2d, nn.BatchNorm2d]:
        convolution, norm = self.get_submodule(name), self.get_submodule(f"{name}_bn")
        assert isinstance(convolution, nn.Conv2d)
        assert isinstance(norm, nn.BatchNorm2d)
        return convolution, norm

    def _convolved(self, name: str, maps: Tensor) -> Tensor:
        return normed(maps, *self._layer(name))


def _halved(maps: Tensor) -> Tensor:
    """The maximum of 3 x 3 at every second pixel; windows that start inside count, so the side is rounded down."""
    return F.max_pool2d(maps, 3, stride=2, ceil_mode=True)
