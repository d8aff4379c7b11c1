"""One contrastive loss, the same one written another way, and three slips of the kind that a review lets through.

    mean over active of [d(i, j) - PULL]+ for pairs of one class
  + mean over active of [PUSH - d(i, j)]+ for pairs of two classes,    d = ||x_i - x_j||

A pair is active where its hinge is positive. `planted_faults.py` runs them.
"""

import torch
from torch import Tensor, nn

PULL, PUSH = 0.2, 0.9


def distances(embeddings: Tensor) -> Tensor:
    """(B, D) of unit length -> (B, B)."""
    return (2 - 2 * embeddings @ embeddings.T).clamp_min(1e-12).sqrt()


def mean_of_active(hinges: Tensor, chosen: Tensor) -> Tensor:
    """Mean over the chosen hinges that are positive; 0 where none is."""
    active = chosen & (hinges > 0)
    return (hinges * active).sum() / active.sum().clamp_min(1)


class Contrastive(nn.Module):
    """As the formula above."""

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """(B, D) and (B,) -> scalar."""
        apart = distances(embeddings)
        alike = labels[:, None] == labels[None, :]
        itself = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
        return self.pull(apart, alike & ~itself) + self.push(apart, ~alike)

    def pull(self, apart: Tensor, alike: Tensor) -> Tensor:
        """The term of pairs of one class."""
        return mean_of_active(apart - PULL, alike)

    def push(self, apart: Tensor, unlike: Tensor) -> Tensor:
        """The term of pairs of two classes."""
        return mean_of_active(PUSH - apart, unlike)


class Refactored(nn.Module):
    """The same loss from each pair once, by lists of pairs instead of masks."""

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        """(B, D) and (B,) -> scalar."""
        first, second = torch.triu_indices(len(labels), len(labels), offset=1, device=labels.device)
        apart = (embeddings[first] - embeddings[second]).square().sum(dim=1).clamp_min(1e-12).sqrt()
        alike = labels[first] == labels[second]
        terms = (torch.relu(apart[alike] - PULL), torch.relu(PUSH - apart[~alike]))
        return sum((term.sum() / (term > 0).sum().clamp_min(1) for term in terms), torch.zeros(()))


class SignError(Contrastive):
    """Pairs of two classes are pulled together beyond the margin instead of pushed apart within it."""

    def push(self, apart: Tensor, unlike: Tensor) -> Tensor:
        """The slip: PUSH - d became d - PUSH."""
        return mean_of_active(apart - PUSH, unlike)


class DoubledMargin(Contrastive):
    """The margin of pairs of two classes is twice what it should be."""

    def push(self, apart: Tensor, unlike: Tensor) -> Tensor:
        """The slip: 2 PUSH for PUSH."""
        return mean_of_active(2 * PUSH - apart, unlike)


class NotNormalised(Contrastive):
    """Hinges are summed instead of averaged over the active ones."""

    def pull(self, apart: Tensor, alike: Tensor) -> Tensor:
        """The slip: no division by the number of active pairs."""
        return torch.relu(apart - PULL)[alike].sum()

    def push(self, apart: Tensor, unlike: Tensor) -> Tensor:
        """The slip: no division by the number of active pairs."""
        return torch.relu(PUSH - apart)[unlike].sum()
