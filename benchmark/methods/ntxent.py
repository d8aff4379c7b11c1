"""NT-Xent (normalised temperature-scaled cross entropy) over the labelled pairs of the batch.

    mean over ordered positive pairs (a, p) of  -log e^(S_ap / t) / (e^(S_ap / t) + sum over n of e^(S_an / t))

S is the dot product, t the temperature, n runs over the anchor's negatives. Other positives of the anchor are not in
the denominator; SimCLR (2020), with one positive an anchor, need not say so. PML's NTXentLoss is the reference. It
floors the ratio at the dtype's smallest normal number, in float32 about 1e-38, and so does this: a pair whose positive
lies some 100 t below its hardest negative costs 87.3 and sends no gradient. At temperatures near the lower bound that
is most pairs of an untrained network. With `ref_emb` and `ref_labels` p and n are these.
"""

import torch
from optuna.distributions import FloatDistribution
from torch import Tensor, nn

from benchmark.methods.distances import dot_product
from benchmark.methods.entry import MethodEntry
from benchmark.methods.pairs import PairLoss, log_sum_exp, masked_mean


class NTXent(PairLoss):
    """The mean over positive pairs."""

    def __init__(self, temperature: float) -> None:
        super().__init__(dot_product())
        self.temperature = temperature

    def of_pairs(self, distances: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        """As the module says; the distances are similarities."""
        own = distances / self.temperature
        others = log_sum_exp(own, negative)
        largest = torch.maximum(own, others).detach()
        numerator = (own - largest).exp()
        ratio = numerator / ((others - largest).exp() + numerator)
        return masked_mean(-(ratio + torch.finfo(ratio.dtype).tiny).log(), positive)


def build(*, n_classes: int, embedding_dim: int, temperature: float) -> nn.Module:
    """A module without weights."""
    return NTXent(temperature)


ENTRY = MethodEntry(
    name="ntxent",
    family="pair",
    build=build,
    space=lambda n_classes: {"temperature": FloatDistribution(1e-5, 100.0, log=True)},
    source="Sohn, NeurIPS 2016; van den Oord et al., https://arxiv.org/abs/1807.03748; "
    "Chen et al., ICML 2020, https://arxiv.org/abs/2002.05709",
    formula="mean over positive pairs of -log e^(S_ap/t) / (e^(S_ap/t) + sum_n e^(S_an/t)); S = <x_i, x_j>",
    published={
        "mlrc:cub200": {"temperature": 0.0091},
        "mlrc:cars196": {"temperature": 0.0219},
        "mlrc:sop": {"temperature": 0.0002},
        "mlrc:cub200-batch256": {"temperature": 0.0415},
    },
)
