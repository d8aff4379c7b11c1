"""A loss over the pairs of a batch. It works as it is: change what is yours, and the test beside it.

    mean over pairs of one class of softplus(scale (threshold - s)) / scale
  + mean over pairs of two classes of softplus(scale (s - threshold)) / scale,    s = <x_i, x_j>

Pairs of one class should be more similar than the threshold, pairs of two classes less.
"""

import torch
from optuna.distributions import FloatDistribution
from torch.nn.functional import softplus


class NewLoss(torch.nn.Module):
    """softplus(scale (t - s)) / scale over pairs of one class + softplus(scale (s - t)) / scale over others."""

    family = "pair"  # "class" for a loss with a weight or proxy for each class: its batches have more classes

    # What is searched, by the names that the constructor takes. Bounds may depend on the number of classes: make it a
    # function of n_classes then. A learning rate for weights of its own, w_lr, is searched unasked.
    search_space = {
        "threshold": FloatDistribution(0.0, 0.9),
        "scale": FloatDistribution(2.0, 64.0, log=True),
    }

    def __init__(self, threshold: float = 0.5, scale: float = 16.0) -> None:
        """Take hyper-parameters; a constructor that names n_classes or embedding_dim is given them."""
        super().__init__()
        self.threshold = threshold
        self.scale = scale

    def forward(self, embeddings: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """(B, D) embeddings of unit length and (B,) labels -> scalar."""
        similarities = embeddings @ embeddings.T
        alike = labels[:, None] == labels[None, :]
        itself = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
        pulled = softplus(self.scale * (self.threshold - similarities)) / self.scale
        pushed = softplus(self.scale * (similarities - self.threshold)) / self.scale
        return self.mean(pulled, alike & ~itself) + self.mean(pushed, ~alike)

    @staticmethod
    def mean(terms: torch.Tensor, chosen: torch.Tensor) -> torch.Tensor:
        """Mean of the chosen terms; 0 where a batch has none, for a mean of nothing would be NaN."""
        return (terms * chosen).sum() / chosen.sum().clamp_min(1)
