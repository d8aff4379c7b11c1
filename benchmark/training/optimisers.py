"""The protocol's optimiser over the network and the method's own weights."""

import torch
from torch import nn

from benchmark.methods.entry import W_LR, MethodEntry, Value
from protocols.model import EmbeddingModel
from protocols.spec import Optimiser


def build_optimiser(
    spec: Optimiser, model: EmbeddingModel, method: nn.Module, entry: MethodEntry, hyperparameters: dict[str, Value]
) -> torch.optim.Optimizer:
    """One parameter group for the network at the protocol's learning rate, one for the method's own weights at theirs.

    Theirs is `w_lr` where it was searched, a fixed multiple where the protocol says so, else the network's. Those that
    `weights_that_learn_as_the_network()` of the method names are a group of their own with the network's settings.
    """
    groups: list[dict[str, object]] = [{"params": list(model.trainable_parameters())}]
    like_network: list[nn.Parameter] = getattr(method, "weights_that_learn_as_the_network", list)()
    if like_network:
        groups.append({"params": like_network})
    others = [parameter for parameter in method.parameters() if parameter.requires_grad]
    own = [parameter for parameter in others if all(parameter is not named for named in like_network)]
    if own:
        fixed = spec.lr * spec.proxy_lr_factor if spec.proxy_lr_factor is not None else spec.lr
        own_decay = spec.weight_decay if entry.own_weight_decay else 0.0
        groups.append({"params": own, "lr": float(hyperparameters.get(W_LR, fixed)), "weight_decay": own_decay})
    if spec.name == "rmsprop":
        # RMSprop, not Adam: the reality check fixes it, so that only the loss differs between runs.
        return torch.optim.RMSprop(groups, lr=spec.lr, weight_decay=spec.weight_decay, momentum=spec.momentum)
    return torch.optim.Adam(groups, lr=spec.lr, weight_decay=spec.weight_decay, betas=spec.betas, fused=True)
