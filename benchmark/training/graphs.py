"""The network's part of a training step as two CUDA graphs, forward and backward, each launched at once.

A step of a deep trunk is hundreds of small kernels, and a GPU runs them faster than a process launches them one by one.
The graphs hold the same kernels in the same order. Method, hooks and optimiser run as ever; evaluation and what a
method embeds call the model itself.

What a reader could get wrong: a graph has fixed memory for what goes in and out.
- Images: `copy_` would spread a batch of one over the whole memory, so another shape is refused.
- Weights: they are handed over at each step, and those that lie elsewhere by then are copied. As inputs of the function
  they also need no gradient node of their own from the capture, which would belong to the capture's stream.
- Embeddings: a method may keep them for later steps, so it is given a copy.
- Gradients: they are those of the last way back. PyTorch may make that memory the `.grad` of a weight, so the next step
  must begin with `zero_grad(set_to_none=True)`: added to, it would be counted twice.
Warming up and capturing run the network in earnest: on an empty image, with gradients that no weight is given, with
batch norm that is frozen in every trunk, and with the random streams put back.
"""

import gc
from collections.abc import Callable, Sequence
from functools import partial
from typing import cast

import torch
from torch import Tensor, nn
from torch.func import functional_call

from benchmark.training.failure import FoldFailure
from protocols.model import EmbeddingModel

Weights = Sequence[nn.Parameter]
OfWeights = Callable[..., Tensor]  # of images and then of each weight that learns -> embeddings


def graphed(model: EmbeddingModel, shape: Sequence[int], device: torch.device) -> Callable[[Tensor], Tensor]:
    """The model, from now on in training mode, for (B, C, H, W) images of this one shape on its CUDA device."""
    assert device.type == "cuda", "check_graphs() comes first"
    model.train()
    work, weights = of_weights(model)
    return OneWayBack(_captured(work, torch.zeros(*shape, device=device), weights), weights, shape)


def of_weights(model: EmbeddingModel) -> tuple[OfWeights, Weights]:
    """The model as a function of its weights that learn, and these."""
    learning = {name: weight for name, weight in model.named_parameters() if weight.requires_grad}

    def embeddings_of(images: Tensor, *weights: Tensor) -> Tensor:
        embeddings: Tensor = functional_call(model, dict(zip(learning, weights, strict=True)), (images,))
        return embeddings

    return embeddings_of, tuple(learning.values())


class OneWayBack:
    """What replays a graph, for the learner: embeddings that are the caller's own, and one way back for each.

    A second way back in a step, or one through the embeddings of a step before, would give no error by itself: it would
    change gradients that were given out, or be computed from the images of the last step. Nor can a way back be
    differentiated again. Such a method fails without a result, so that it can be run without graphs on the same store.
    """

    def __init__(self, replay: OfWeights, weights: Weights, shape: Sequence[int]) -> None:
        self._replay, self._weights, self._shape = replay, weights, tuple(shape)
        self._n_calls = 0
        self._open = 0  # the call whose way back is still to come

    def __call__(self, images: Tensor) -> Tensor:
        """(B, C, H, W) -> (B, dim)."""
        assert images.shape == self._shape, f"a batch of shape {tuple(images.shape)}; the graph's is {self._shape}"
        embeddings = self._replay(images, *self._weights)
        self._n_calls += 1
        self._open = self._n_calls
        # Before the copy: a gradient that a method asks for at its embeddings alone does not come this far.
        embeddings.register_hook(partial(self._go_back, self._n_calls))  # type: ignore[no-untyped-call]
        return embeddings.clone()

    def _go_back(self, call: int, _: Tensor) -> None:
        if call != self._open or torch.is_grad_enabled():  # as it is while a graph of the way back is made
            raise FoldFailure(
                "audit",
                "the method asked for a second gradient through the network in one step, for one through an earlier "
                "step, or for one of second order. CUDA graphs have none of these: run it without --cuda-graphs.",
            )
        self._open = 0


def _captured(work: OfWeights, images: Tensor, weights: Weights) -> OfWeights:
    gc.collect()  # a graph lies in a cycle with what replays it, so an earlier job's still holds its memory
    inputs = (images, *(weight.detach().requires_grad_() for weight in weights))  # the memory of the weights themselves
    with torch.random.fork_rng(devices=[images.device]):
        return cast(OfWeights, torch.cuda.make_graphed_callables(work, inputs, allow_unused_input=True))
