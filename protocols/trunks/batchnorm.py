"""Batch norm that stays frozen, and the digest that proves it did.

What goes wrong elsewhere: `eval()` is called once and the next `train()` thaws the statistics. Here a layer's class is
swapped for a subclass whose `training` is always False, whoever sets it. A class survives what a patched method or a
hook does not: `copy.deepcopy`, pickling, `load_state_dict`, DataParallel's replicas. The layer keeps its type for
`isinstance`, its name and its tensors.
"""

from hashlib import sha256
from typing import Literal

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from protocols.errors import ProtocolError


class _Frozen:
    """Shadows `nn.Module.training`, so that `train()` and assignment alike leave it False."""

    @property
    def training(self) -> bool:
        return False

    @training.setter
    def training(self, mode: bool) -> None:
        pass


class FrozenBatchNorm1d(_Frozen, nn.BatchNorm1d):
    """BatchNorm1d that only ever uses its running statistics."""


class FrozenBatchNorm2d(_Frozen, nn.BatchNorm2d):
    """BatchNorm2d that only ever uses its running statistics."""


class FrozenBatchNorm3d(_Frozen, nn.BatchNorm3d):
    """BatchNorm3d that only ever uses its running statistics."""


class FrozenSyncBatchNorm(_Frozen, nn.SyncBatchNorm):
    """SyncBatchNorm that only ever uses its running statistics."""


FROZEN: dict[type[_BatchNorm], type[_BatchNorm]] = {
    nn.BatchNorm1d: FrozenBatchNorm1d,
    nn.BatchNorm2d: FrozenBatchNorm2d,
    nn.BatchNorm3d: FrozenBatchNorm3d,
    nn.SyncBatchNorm: FrozenSyncBatchNorm,
}


def batchnorm_layers(module: nn.Module) -> list[_BatchNorm]:
    """All batch norm layers in `module` (itself included), in the order of `modules()`."""
    return [layer for layer in module.modules() if isinstance(layer, _BatchNorm)]


def freeze_batchnorm(module: nn.Module, mode: Literal["frozen", "eval"]) -> None:
    """Fix the statistics of every batch norm layer below `module`, in place; "frozen" fixes weight and bias as well.

    Freezing twice is harmless; "frozen" after "eval" fixes more, "eval" after "frozen" thaws nothing.

    Raises:
        ProtocolError: for a layer that cannot be frozen: one without running statistics, or of a class not known here.
    """
    for name, layer in module.named_modules():
        if not isinstance(layer, _BatchNorm):
            continue
        if layer.running_mean is None:
            raise ProtocolError(
                f"batch norm layer {name!r} keeps no running statistics, so it cannot be frozen; "
                "build it with track_running_stats=True."
            )
        if type(layer) in FROZEN:
            layer.__class__ = FROZEN[type(layer)]
        elif not isinstance(layer, _Frozen):
            raise ProtocolError(
                f"batch norm layer {name!r} is a {type(layer).__name__}, which cannot be frozen; "
                f"use one of {', '.join(kind.__name__ for kind in FROZEN)}."
            )
        if mode == "frozen":
            layer.requires_grad_(False)


def batchnorm_digest(module: nn.Module, include_affine: bool) -> str:
    """First 12 hex digits of the SHA-256 over the bits of all batch norm statistics, with or without weight and bias.

    It depends on the layers' order and not on their names, so a wrapped module has the digest of its original.
    """
    content = sha256()
    for layer in batchnorm_layers(module):
        tensors = dict(layer.named_buffers(recurse=False))
        if include_affine:
            tensors |= dict(layer.named_parameters(recurse=False))
        for name, tensor in tensors.items():
            content.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
            content.update(tensor.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return content.hexdigest()[:12]
