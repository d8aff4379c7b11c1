"""Frozen batch norm stays frozen, whatever is done to the module afterwards."""

import copy
import pickle

import pytest
import torch
from torch import nn

from protocols.errors import ProtocolError
from protocols.trunks.batchnorm import batchnorm_digest, freeze_batchnorm

LAYERS = [nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d, nn.SyncBatchNorm]


def network(layer: type[nn.Module]) -> nn.Sequential:
    torch.manual_seed(0)
    inner = nn.Sequential(layer(4), nn.ReLU())  # nested, so that freezing must go deep
    module = nn.Sequential(layer(4), inner)
    for name, tensor in module.state_dict().items():
        if name.endswith(("weight", "bias", "running_mean")):
            nn.init.normal_(tensor)
    return module


def batch(layer: type[nn.Module]) -> torch.Tensor:
    extra = {nn.BatchNorm1d: (), nn.BatchNorm3d: (2, 2, 2)}.get(layer, (3, 3))
    return torch.randn(8, 4, *extra, generator=torch.Generator().manual_seed(1)) * 5 + 3


def train_a_little(module: nn.Module, images: torch.Tensor) -> None:
    module.train()
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    optimiser = torch.optim.SGD(parameters, lr=0.1) if parameters else None
    for _ in range(2):
        output = module(images)
        if optimiser is not None:
            output.square().mean().backward()
            optimiser.step()


def through_train(module: nn.Module) -> nn.Module:
    return module.eval().train()


def through_assignment(module: nn.Module) -> nn.Module:
    for layer in module.modules():
        layer.training = True
    return module


def through_reload(module: nn.Module) -> nn.Module:
    module.load_state_dict(copy.deepcopy(module.state_dict()))
    return module


def through_replica(module: nn.Module) -> nn.Module:
    """What DataParallel does on each device, on the one device there is."""
    replica = module._replicate_for_data_parallel()
    replica._modules = {name: through_replica(child) for name, child in module._modules.items()}
    replica._parameters, replica._buffers = module._parameters, module._buffers
    return replica


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize(
    "journey",
    [
        *(through_train, through_assignment, copy.deepcopy, through_reload, nn.DataParallel, through_replica),
        *(
            copy.copy,
            lambda module: pickle.loads(pickle.dumps(module)),
            lambda module: module.to(torch.float64).float(),
        ),
    ],
)
def test_statistics_are_bit_equal_after_training(layer: type[nn.Module], journey) -> None:
    if layer is nn.SyncBatchNorm and journey is nn.DataParallel and torch.cuda.is_available():
        pytest.skip("DataParallel moves SyncBatchNorm to devices that need a process group")
    module = network(layer)
    freeze_batchnorm(module, "eval")
    before = batchnorm_digest(module, include_affine=False)
    images = batch(layer)
    frozen_output = module(images)
    travelled = journey(module)
    assert torch.equal(travelled.train()(images), frozen_output)
    train_a_little(travelled, images)
    assert batchnorm_digest(travelled, include_affine=False) == before


def test_a_compiled_network_stays_frozen_and_computes_the_same() -> None:
    module, images = network(nn.BatchNorm2d), batch(nn.BatchNorm2d)
    freeze_batchnorm(module, "eval")
    before, expected = batchnorm_digest(module, include_affine=False), module(images)
    compiled = torch.compile(module, backend="aot_eager")  # traced as for any compiler, and no C++ compiler is needed
    assert torch.equal(compiled.train()(images), expected)
    train_a_little(compiled, images)
    assert batchnorm_digest(module, include_affine=False) == before
    assert not torch.equal(compiled(images), expected)  # weight and bias did learn


@pytest.mark.parametrize("layer", LAYERS[:3])
def test_the_same_network_thaws_when_it_is_not_frozen(layer: type[nn.Module]) -> None:
    module = network(layer).eval()
    before = batchnorm_digest(module, include_affine=False)
    train_a_little(module, batch(layer))
    assert batchnorm_digest(module, include_affine=False) != before


def test_frozen_fixes_weight_and_bias_and_eval_lets_them_learn() -> None:
    for mode, fixed in (("frozen", True), ("eval", False)):
        module = nn.Sequential(nn.Conv2d(4, 4, 1), network(nn.BatchNorm2d))
        freeze_batchnorm(module, mode)
        before = batchnorm_digest(module, include_affine=True)
        train_a_little(copy.deepcopy(module), batch(nn.BatchNorm2d))
        train_a_little(module, batch(nn.BatchNorm2d))
        assert (batchnorm_digest(module, include_affine=True) == before) == fixed
        assert module[0].weight.requires_grad


def test_a_frozen_layer_keeps_its_type_and_the_names_of_its_tensors() -> None:
    module = network(nn.BatchNorm2d)
    names = list(module.state_dict())
    freeze_batchnorm(module, "frozen")
    freeze_batchnorm(module, "frozen")
    assert isinstance(module[0], nn.BatchNorm2d)
    assert list(module.state_dict()) == names
    assert module.training  # only batch norm is held; dropout elsewhere still follows train()


def test_the_digest_sees_one_bit_in_any_tensor_and_no_wrapping() -> None:
    module = network(nn.BatchNorm2d)
    digest = batchnorm_digest(module, include_affine=True)
    assert batchnorm_digest(nn.Sequential(copy.deepcopy(module)), include_affine=True) == digest
    for name in ("running_mean", "running_var", "num_batches_tracked", "weight", "bias"):
        changed = copy.deepcopy(module)
        tensor = getattr(changed[1][0], name).data
        bits = tensor.reshape(-1).view(torch.uint8)
        bits[0] ^= 1
        assert batchnorm_digest(changed, include_affine=True) != digest
        statistics_changed = name not in ("weight", "bias")
        without = batchnorm_digest(module, include_affine=False)
        assert (batchnorm_digest(changed, include_affine=False) != without) == statistics_changed


def test_layers_that_cannot_be_frozen_are_refused_by_name() -> None:
    class OwnBatchNorm(nn.BatchNorm2d):
        pass

    with pytest.raises(ProtocolError, match="'1' is a OwnBatchNorm"):
        freeze_batchnorm(nn.Sequential(nn.ReLU(), OwnBatchNorm(4)), "eval")
    with pytest.raises(ProtocolError, match="keeps no running statistics"):
        freeze_batchnorm(nn.BatchNorm2d(4, track_running_stats=False), "eval")
