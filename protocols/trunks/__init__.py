"""The trunks that can be built here, by the name a protocol gives them.

A trunk is built to the letter of its `protocols.spec.Trunk`: a value that this trunk cannot honour (another input,
batch norm it does not have, weights that nobody ships) is refused, never ignored.
"""

import os
from pathlib import Path
from pickle import UnpicklingError

import torch

from protocols import spec
from protocols.errors import ProtocolError, did_you_mean
from protocols.trunks.base import TrunkModule
from protocols.trunks.batchnorm import freeze_batchnorm
from protocols.trunks.bn_inception import BNInception
from protocols.trunks.conv3 import Conv3
from protocols.trunks.efficientnet_lite import EfficientNetLite0
from protocols.trunks.resnet50 import ResNet50
from protocols.trunks.weights import PublishedFile, published_weights, read_tensors, weight_file

TRUNKS: dict[str, type[TrunkModule]] = {
    "bn-inception": BNInception,
    "conv3": Conv3,
    "efficientnet-lite0": EfficientNetLite0,
    "resnet50": ResNet50,
}


def build_trunk(trunk: spec.Trunk, generator: torch.Generator) -> TrunkModule:
    """The network that `trunk` describes, on the CPU, its weights set and its batch norm frozen.

    Random weights are drawn from `generator` alone; loaded ones draw nothing. PyTorch's global random state is
    neither read nor moved.

    Raises:
        ProtocolError: no such trunk, a value it cannot honour, or weights that are missing or not the named ones.
    """
    if trunk.name not in TRUNKS:
        hint = did_you_mean(trunk.name, TRUNKS)
        raise ProtocolError(f"no trunk named {trunk.name!r} here.{hint} Known: {', '.join(sorted(TRUNKS))}.")
    kind = TRUNKS[trunk.name]
    if trunk.input != kind.input:
        raise ProtocolError(f"trunk {trunk.name} wants the input {kind.input}; the protocol gives {trunk.input}.")
    if (trunk.batchnorm == "none") == kind.has_batchnorm:
        wanted = '"frozen" or "eval"' if kind.has_batchnorm else '"none"'
        has = "has" if kind.has_batchnorm else "has no"
        raise ProtocolError(
            f"trunk {trunk.name} {has} batch norm, but trunk.batchnorm is {trunk.batchnorm!r}; wanted {wanted}."
        )
    module = kind(trunk.pooling)
    if trunk.weights == "random":
        module.initialise(generator)
        module.weights_hash = "random"
    else:
        module.weights_hash = _load(module, trunk)
    if trunk.batchnorm != "none":
        freeze_batchnorm(module, trunk.batchnorm)
    # channels_last is faster on a CPU; it comes after the draws, which follow the order of the memory.
    return module.to(memory_format=torch.channels_last)


def published_file(trunk: spec.Trunk) -> PublishedFile | None:
    """The file on the web that a trunk's weights come from; None where they come from nowhere or with a package."""
    return TRUNKS[trunk.name].published_file if trunk.name in TRUNKS and trunk.weights != "random" else None


def use_weight_file(trunk: spec.Trunk, path: Path) -> None:
    """From now on, here and in processes started from here, read the weights of this trunk from `path`.

    Raises:
        ProtocolError: if this trunk's weights come from nowhere or with a package, or there is no such file.
    """
    file = published_file(trunk)
    if file is None:
        raise ProtocolError(
            f"--weights {path}: trunk {trunk.name} with weights {trunk.weights!r} reads no file; leave --weights out."
        )
    path = path.expanduser().absolute()
    if not path.is_file():
        raise ProtocolError(f"--weights {path}: no such file. Download {file.address} and give its path.")
    os.environ[file.variable] = str(path)


def _load(module: TrunkModule, trunk: spec.Trunk) -> str:
    """Set every tensor of `module` from the file that `trunk.weights` names; returns the file's SHA-256."""
    if module.weight_package is not None:
        content, digest = weight_file(module.weight_package, trunk.weights)
    elif module.published_file is not None:
        content, digest = published_weights(module.published_file, trunk.weights)
    else:
        raise ProtocolError(f'trunk {trunk.name} has no published weights; trunk.weights must be "random".')
    try:
        named = {module.parameter_name(name): tensor for name, tensor in read_tensors(content).items()}
        module.load_state_dict({name: tensor for name, tensor in named.items() if name is not None})
    except (KeyError, ValueError, RuntimeError, UnpicklingError) as error:
        raise ProtocolError(
            f"the weight file {digest[:8]} does not fit trunk {trunk.name}: a tensor is missing, unknown or of another "
            "shape, or it holds more than tensors; name a file of this trunk in trunk.weights."
        ) from error
    return digest
