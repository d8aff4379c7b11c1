"""ResNet-50 equals torchvision's in names, features and gradients; its batch norm stays frozen."""

import copy
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torchvision.models import resnet50

from protocols import spec
from protocols.catalogue import MLRC_V1
from protocols.errors import ProtocolError
from protocols.trunks import build_trunk
from protocols.trunks.base import TrunkModule
from protocols.trunks.batchnorm import batchnorm_digest

INPUT = spec.Input(
    channels="RGB", scale=1.0, mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225), per_image=False
)  # fmt: skip
RANDOM = replace(MLRC_V1.trunk, name="resnet50", weights="random", pooling="average+max", input=INPUT)
PUBLISHED = replace(RANDOM, weights="imagenet:0676ba61")


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def images() -> Tensor:
    return torch.randn(2, 3, 75, 64, generator=generator(1))


@pytest.fixture(scope="module")
def reference() -> nn.Module:
    """torchvision's network in eval mode, with random weights and statistics, its classifier passing features on."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        network = resnet50(weights=None).eval()
        for name, tensor in network.state_dict().items():
            if name.endswith("running_var"):
                tensor.uniform_(0.5, 2)
            elif name.endswith("running_mean"):
                tensor.normal_(std=0.1)
            elif tensor.dim() == 1 and name.endswith("weight"):
                tensor.uniform_(0.3, 0.8)
            elif tensor.dim() == 1:
                tensor.normal_(std=0.1)
    return network


def ours(network: nn.Module, **values: str) -> TrunkModule:
    trunk = build_trunk(replace(RANDOM, **values), generator())
    trunk.load_state_dict({name: tensor for name, tensor in network.state_dict().items() if name[:3] != "fc."})
    return trunk


def plain(network: nn.Module, pixels: Tensor) -> tuple[Tensor, Tensor]:
    """The average and the maximum of torchvision's last maps."""
    kept = []
    handle = network.layer4.register_forward_hook(lambda module, inputs, maps: kept.append(maps))
    network(pixels)
    handle.remove()
    return kept[0].mean((2, 3)), kept[0].amax((2, 3))


def test_names_shapes_and_order_of_all_tensors_are_torchvisions(reference: nn.Module) -> None:
    theirs = [(name, tensor.shape) for name, tensor in reference.state_dict().items() if name[:3] != "fc."]
    assert [(name, tensor.shape) for name, tensor in build_trunk(RANDOM, generator()).state_dict().items()] == theirs


@pytest.mark.parametrize("pooling", ["average", "average+max"])
def test_features_equal_torchvisions(reference: nn.Module, pooling: str) -> None:
    trunk = ours(reference, pooling=pooling).train()  # frozen: training must not change it
    with torch.no_grad():
        average, maximum = plain(reference, images())
        found = trunk(images())
    expected = average if pooling == "average" else average + maximum
    assert found.shape == (2, 2048)
    assert expected.std(dim=1).min() > 0.01
    assert (found - expected).abs().max() < 1e-5 * expected.abs().max()


@pytest.mark.parametrize("batchnorm", ["frozen", "eval"])
def test_every_gradient_equals_that_of_the_plain_form_in_float64(reference: nn.Module, batchnorm: str) -> None:
    trunk, network = ours(reference, batchnorm=batchnorm).double().train(), copy.deepcopy(reference).double()
    found, expected = trunk(images().double()), sum(plain(network, images().double()))
    upstream = torch.randn(expected.shape, generator=generator(2), dtype=torch.float64)
    found.backward(upstream)
    expected.backward(upstream)
    theirs = dict(network.named_parameters())
    for name, parameter in trunk.named_parameters():
        if batchnorm == "frozen" and ("bn" in name or "downsample.1" in name):
            assert parameter.grad is None
        else:
            wanted = theirs[name].grad
            assert (parameter.grad - wanted).abs().max() < 1e-9 * wanted.abs().max(), name
    assert (found - expected).abs().max() < 1e-12 * expected.abs().max()


def test_nothing_relies_on_relu_working_in_place(reference: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    trunk = ours(reference)
    expected = trunk(images())
    monkeypatch.setattr(F, "relu", lambda maps, inplace=False: maps.clamp_min(0))
    assert torch.equal(trunk(images()), expected)


def test_random_weights_come_from_the_generator_alone_and_let_a_signal_through() -> None:
    state = torch.get_rng_state()
    first, second, other = (build_trunk(RANDOM, generator(seed)) for seed in (7, 7, 8))
    assert torch.equal(torch.get_rng_state(), state)
    for name, tensor in first.state_dict().items():
        assert torch.equal(tensor, second.state_dict()[name]), name
    assert not torch.equal(first.conv1.weight, other.conv1.weight)
    for name, tensor in first.state_dict().items():  # none left as memory happened to be
        if "running_mean" in name or "num_batches" in name or name.endswith("bias"):
            assert not tensor.any(), name
        elif tensor.dim() == 1:
            assert torch.equal(tensor, torch.ones_like(tensor)), name
    assert 0.1 < first(images()).std() < 10_000


@pytest.mark.parametrize("batchnorm", ["frozen", "eval"])
@pytest.mark.parametrize("journey", ["train", "copy", "reload"])
def test_batchnorm_stays_frozen_on_every_journey(journey: str, batchnorm: str) -> None:
    trunk = build_trunk(replace(RANDOM, batchnorm=batchnorm), generator())
    if journey == "copy":
        trunk = copy.deepcopy(trunk)
    if journey == "reload":
        trunk.load_state_dict(copy.deepcopy(trunk.state_dict()))
    trunk.eval().train()
    statistics, everything = (batchnorm_digest(trunk, include_affine=affine) for affine in (False, True))
    optimiser = torch.optim.SGD([item for item in trunk.parameters() if item.requires_grad], lr=1e-3)
    F.normalize(trunk(images()))[:, :9].sum().backward()
    optimiser.step()
    assert batchnorm_digest(trunk, include_affine=False) == statistics
    assert (batchnorm_digest(trunk, include_affine=True) == everything) == (batchnorm == "frozen")


def test_weights_come_from_the_cache_of_pytorch_or_the_variable_and_are_checked(
    reference: nn.Module, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    monkeypatch.delenv("MLRC_RESNET50_WEIGHTS", raising=False)
    file = tmp_path / "hub" / "checkpoints" / "resnet50-0676ba61.pth"
    with pytest.raises(ProtocolError, match=r"MLRC_RESNET50_WEIGHTS.*download\.pytorch\.org/models/resnet50-0676ba61"):
        build_trunk(PUBLISHED, generator())
    file.parent.mkdir(parents=True)
    torch.save(reference.state_dict(), file)
    digest = sha256(file.read_bytes()).hexdigest()
    with pytest.raises(ProtocolError, match=f"{digest[:8]}.*imagenet:0676ba61"):
        build_trunk(PUBLISHED, generator())
    wanted = replace(RANDOM, weights=f"imagenet:{digest[:8]}")
    from_cache = build_trunk(wanted, generator())
    monkeypatch.setenv("MLRC_RESNET50_WEIGHTS", str(file.rename(tmp_path / "mine.pth")))
    for trunk in (from_cache, build_trunk(wanted, generator())):
        assert trunk.weights_hash == digest
        for name, tensor in trunk.state_dict().items():
            assert torch.equal(tensor, reference.state_dict()[name]), name
