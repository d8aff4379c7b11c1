"""ProxyNCA++: a softmax over one learned proxy a class, sharpened by a temperature.

    mean over the batch of  -log e^(-d^2(x_i, p_y) / T) / sum over all classes c of e^(-d^2(x_i, p_c) / T)

Proxies have unit length in the formula, not in memory. The own proxy stands in the denominator, which is what
separates the paper from ProxyNCA (2017); with softmax_scale = 1 / T it is the formula of `proxy-nca`, from other first
proxies. Of the paper's other parts, the faster proxies are `w_lr` (CCP: 100 times the network's rate); max pooling and
the sampler belong to the protocol. T is `temperature`: the paper's is 1/9, CCP's 0.1.
"""

from optuna.distributions import FloatDistribution
from torch import nn

from benchmark.methods.entry import W_LR, MethodEntry, own_weights_lr
from benchmark.methods.proxy_nca import ProxySoftmax


def build(*, n_classes: int, embedding_dim: int, temperature: float) -> nn.Module:
    """Proxies start as normal draws of variance 1/64, as in the authors' code."""
    return ProxySoftmax(n_classes, embedding_dim, scale=1 / temperature, spread=1 / 8)


ENTRY = MethodEntry(
    name="proxy-nca++",
    family="class",
    build=build,
    space=lambda n_classes: {W_LR: own_weights_lr(), "temperature": FloatDistribution(0.01, 1.0, log=True)},
    source="Teh, DeVries, Taylor, ECCV 2020, https://arxiv.org/abs/2004.01113; the range of temperature is a choice of "
    "this project",
    formula="mean over images of -log softmax over all proxies (own one included) of -||x - p||^2 / temperature; "
    "||p|| = 1",
    published={f"ccp:{dataset}": {"temperature": 0.1} for dataset in ("cub200", "cars196", "sop", "inshop")},
)
