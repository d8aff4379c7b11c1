"""How much faster BN-Inception is here than the plain network: at least 1.8 times in training, 2 times in evaluation.

Both sides have the same weights, images, labels, loss (contrastive), frozen batch norm and plain RMSprop, in float32 at
the protocol's 32 x 227 px; before anything is timed, their losses and embeddings must agree. The plain side is the
network of `pretrainedmodels` as it comes: eager, NCHW, the default heap. Ours holds its heap as a worker does, so each
side has a process of its own; they take turns, and the ratio is the median over the rounds. Both use as many threads as
torch finds cores. `of_gemm_rate` is ours: floating-point operations a second of the plain form's convolutions and
linear layer, over those of one large matrix product in the same process, by the BLAS or as a 1x1 convolution, whichever
is faster here.

Run `python tests/benchmarks/bn_inception.py` on an idle machine: one JSON line, exit code 1 if a bound is missed. About
two minutes.
"""

import json
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from time import perf_counter

import torch
from pytorch_metric_learning.losses import ContrastiveLoss
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from benchmark.memory import prefer_huge_pages, retain_heap
from protocols.catalogue import MLRC_V1
from protocols.model import EmbeddingModel, build_model

# Seconds of the plain network / seconds of ours. Evaluation comes first, while both sides still have the same weights.
BOUNDS = {"evaluate": 2.0, "train": 1.8}
ROUNDS = 7
REPEATS = {"evaluate": 3, "train": 1}  # in a round, as one is shorter than the other
GEMM_SIDE = 3072
PRODUCTS = ("product", "product_by_convolution")
AGREEMENT = 1e-4  # float32 over 30 layers, relative


class PlainTrunk(nn.Module):
    """The network of `pretrainedmodels` with the weights of one of our trunks, batch norm in eval mode."""

    def __init__(self, weights: dict[str, Tensor]) -> None:
        super().__init__()
        package = find_spec("pretrainedmodels")
        if package is None:
            sys.exit('pretrainedmodels is not installed: pip install "mlrc-harness[test]"')
        path = Path(package.submodule_search_locations[0]) / "models" / "bninception.py"
        found = spec_from_file_location("plain_bn_inception", path)  # the package imports much that nobody needs
        module = module_from_spec(found)
        found.loader.exec_module(module)
        self.network = module.bninception(pretrained=None)
        self.network.last_linear = nn.Identity()
        self.network.load_state_dict(weights)
        self.eval()
        for name, parameter in self.named_parameters():
            parameter.requires_grad_("_bn." not in name)

    def forward(self, images: Tensor) -> Tensor:
        return self.network.features(images).mean((2, 3))


class Side:
    """One of the two networks with all that a step needs."""

    def __init__(self, name: str) -> None:
        if name == "ours":
            retain_heap()
        protocol = replace(MLRC_V1, trunk=replace(MLRC_V1.trunk, weights="random"))
        generator = torch.Generator().manual_seed(0)
        self.model = build_model(protocol, generator)
        if name == "plain":
            trunk = PlainTrunk(self.model.trunk.state_dict())
            self.model = EmbeddingModel(trunk, self.model.embedder, self.model.normalisation)
        side_px, samples = protocol.transforms.crop_px, protocol.batch.pair_samples_per_class
        self.images = torch.rand(protocol.batch.size, 3, side_px, side_px, generator=generator) * 255 - 117
        self.labels = torch.arange(protocol.batch.size) // samples
        self.matrix = torch.rand(GEMM_SIDE, GEMM_SIDE, generator=generator)
        self.maps = self.matrix.reshape(16, -1, 1, GEMM_SIDE).movedim(3, 1)  # a row of the matrix to a pixel
        self.kernels = self.matrix[:, :, None, None].contiguous(memory_format=torch.channels_last)
        self.loss = ContrastiveLoss()
        spec = protocol.optimiser
        self.optimiser = torch.optim.RMSprop(
            self.model.trainable_parameters(), lr=spec.lr, weight_decay=spec.weight_decay, momentum=spec.momentum
        )

    def train(self) -> Tensor:
        """One step; the loss."""
        loss = self.loss(self.model(self.images), self.labels)
        self.optimiser.zero_grad()
        loss.backward()
        self.optimiser.step()
        return loss.detach()

    def evaluate(self) -> Tensor:
        """Embeddings of the batch."""
        with torch.inference_mode():
            return self.model(self.images)

    def product(self) -> Tensor:
        """One large matrix product by the BLAS."""
        return self.matrix @ self.matrix

    def product_by_convolution(self) -> Tensor:
        """The same product as a 1x1 convolution."""
        return nn.functional.conv2d(self.maps, self.kernels)


side: Side


def start(name: str) -> None:
    """Make this process one of the two sides."""
    global side
    side = Side(name)


def outcome(work: str) -> list[float]:
    """What `work` computes, for comparison; it also warms up."""
    return getattr(side, work)().flatten().tolist()


def seconds(work: str) -> float:
    """Seconds that `work` takes."""
    repeats = REPEATS.get(work, 1)
    began = perf_counter()
    for _ in range(repeats):
        getattr(side, work)()
    return (perf_counter() - began) / repeats


def operations(work: str) -> int:
    """Floating-point operations of `work`."""
    with FlopCounterMode(display=False) as counter:
        getattr(side, work)()
    return counter.get_total_flops()


def check_agreement(plain: list[float], ours: list[float], work: str) -> None:
    """Stop unless both sides computed the same."""
    apart, scale = max(abs(a - b) for a, b in zip(plain, ours, strict=True)), max(map(abs, plain))
    if not apart < AGREEMENT * scale:
        sys.exit(f"{work}: the two sides differ by {apart:.3g} of {scale:.3g}: not the same maths.")


def main() -> int:
    """Measure, print, and say whether the bounds hold."""
    context = get_context("spawn")
    pools = {}
    for name in ("plain", "ours"):
        if name == "ours":
            prefer_huge_pages()  # as the workers of a suite do
        pools[name] = ProcessPoolExecutor(1, mp_context=context, initializer=start, initargs=(name,))
        pools[name].submit(int).result()  # it starts now, in this environment
    report: dict[str, object] = {"benchmark": "bn_inception", "at_least": BOUNDS}
    missed = False
    for work, bound in BOUNDS.items():
        check_agreement(*(pool.submit(outcome, work).result() for pool in pools.values()), work)
        rounds = [{name: pool.submit(seconds, work).result() for name, pool in pools.items()} for _ in range(ROUNDS)]
        ratio = median(found["plain"] / found["ours"] for found in rounds)
        gemm_s = min(pools["ours"].submit(seconds, name).result() for name in PRODUCTS for _ in range(ROUNDS))
        rate = pools["plain"].submit(operations, work).result() / median(found["ours"] for found in rounds)
        report[work] = {
            "ratio": round(ratio, 3),
            "of_gemm_rate": round(rate / (2 * GEMM_SIDE**3 / gemm_s), 3),
            "gflop_per_s": round(rate / 1e9, 1),
            **{f"{name}_s": [round(found[name], 3) for found in rounds] for name in pools},
        }
        missed |= ratio < bound
    print(json.dumps(report))
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
