"""What was in force while a fold ran, read back from the objects that did the work, never from the protocol.

A record keeps it beside the protocol it was made under, so that anybody can see whether the two say the same. What no
object can tell of itself is told by what it did: sizes by an image put through, crops and flips by the draws, the
schedule by the steps at which validations came. The values are JSON's: lists, not tuples.
"""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import torch

from protocols.draws import Draws
from protocols.fold import FoldImages
from protocols.model import EmbeddingModel
from protocols.sampler import Coverage
from protocols.trunks.batchnorm import batchnorm_layers
from results.record import Validation
from results.strict import plain

InForce = dict[str, Any]


def images_in_force(images: FoldImages) -> InForce:
    """What a small image is brought to: `sizes`; and the transform's own `input`, which the audit's probes prove."""
    probe = np.zeros((2, 3, 3), np.uint8)
    sizes = {"resize_px": min(images.transform.resize(probe).shape[:2]), "crop_px": images.eval_probe(probe).shape[-1]}
    return _json({"sizes": sizes, "input": asdict(images.transform.input)})


def numerics_in_force() -> InForce:
    """What torch may do to the last bits of a result: `numerics`."""
    return {
        "numerics": {
            "deterministic_algorithms": torch.are_deterministic_algorithms_enabled(),
            "matmul_tf32": torch.backends.cuda.matmul.allow_tf32,
            "cudnn_tf32": torch.backends.cudnn.allow_tf32,
            "cudnn_deterministic": torch.backends.cudnn.deterministic,
            "cudnn_benchmark": torch.backends.cudnn.benchmark,
        }
    }


def network_in_force(model: EmbeddingModel) -> InForce:
    """The network: `trunk`, `batchnorm`, `embedder`, `normalisation`, `n_trainable` (numbers that learn)."""
    return _json(
        {
            "trunk": {
                "class": type(model.trunk).__name__,
                "weights": model.trunk.weights_hash,
                "features": model.trunk.features,
                "pooling": model.trunk.pooling,
            },
            "batchnorm": _batchnorm(model),
            "embedder": {"in_features": model.embedder.in_features, "out_features": model.embedder.out_features},
            "normalisation": model.normalisation,
            "n_trainable": sum(parameter.numel() for parameter in model.trainable_parameters()),
        }
    )


def training_in_force(optimiser: torch.optim.Optimizer, counts: Sequence[int], warmup_steps: int) -> InForce:
    """How the network learns: `optimiser` with its groups, `batch` (images of each class), `warmup_steps`."""
    groups = [
        {"n_weights": sum(weights.numel() for weights in group["params"])}
        | {name: value for name, value in group.items() if name != "params"}
        for group in optimiser.param_groups
    ]
    return _json(
        {
            "optimiser": {"class": type(optimiser).__name__, "groups": groups},
            "batch": counts,
            "warmup_steps": warmup_steps,
        }
    )


def draws_in_force(drawn: Draws) -> InForce:
    """Crops and flips of the training images, as they were drawn: `drawn`."""
    return _json({"drawn": drawn.told()})


def validations_in_force(curve: Sequence[Validation], best_step: int) -> InForce:
    """When training was validated and when it ended: `validations`.

    `steps_between` are the fewest and the most steps from one to the next; `after_best` is how many validations came
    after the best, and how many steps.
    """
    steps = [point.step for point in curve]
    between = np.diff(steps, prepend=0).tolist()
    after = {"validations": sum(step > best_step for step in steps), "steps": steps[-1] - best_step}
    found = {"number": len(steps), "steps_between": [min(between), max(between)], "after_best": after}
    return _json({"validations": found})


def coverage_in_force(coverage: Coverage) -> InForce:
    """What training has seen of its fold when it is over: `coverage`."""
    return _json({"coverage": asdict(coverage)})


def _batchnorm(model: EmbeddingModel) -> InForce:
    """The layers, and the mode that they show when they are told to train: none, frozen, eval or training."""
    layers, was_training = batchnorm_layers(model), model.training
    model.train()
    thawed = any(layer.training for layer in layers)
    model.train(was_training)
    learns = any(parameter.requires_grad for layer in layers for parameter in layer.parameters(recurse=False))
    mode = "training" if thawed else "eval" if learns else "frozen"
    return {"mode": mode if layers else "none", "n_layers": len(layers)}


def _json(values: InForce) -> InForce:
    found: InForce = plain(values)
    return found
