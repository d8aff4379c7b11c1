"""One contract for every method, and each formula against a loop written from its definition."""

from itertools import product
from math import acos, cos, exp, log, pi, radians, sin

import numpy as np
import pytest
import torch
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from pytorch_metric_learning import losses, miners, regularizers
from torch import nn
from torch.nn.functional import normalize

from benchmark.errors import BenchmarkError
from benchmark.methods.classes import middle as middle_of_one
from benchmark.methods.entry import W_LR, MethodEntry
from benchmark.methods.registry import (
    METHODS,
    build_method,
    check_hyperparameters,
    method_entry,
    space_hash,
    space_json,
)
from benchmark.methods.soft_triple import centre_term

N_CLASSES = 37  # a prime, so that a dimension of this size is one of classes
DIM = 128
TRAINED = {name: entry for name, entry in METHODS.items() if entry.is_trained}
FOURTEEN = {  # of the reality check
    *("contrastive", "triplet", "ntxent", "proxy-nca", "margin", "margin-class", "norm-softmax"),
    *("cosface", "arcface", "fastap", "snr", "ms", "ms-miner", "soft-triple"),
}
BOUNDARIES = {"margin", "margin-class", "margin-dw"}  # their own weights start at a hyper-parameter
DRAWN = {"margin-dw", "norm-softmax-sampled"}  # from the global generator, in the order of batch and classes
USER_LOSS = """
import torch
from optuna.distributions import FloatDistribution

class Centres(torch.nn.Module):
    "Squared distance to a learned centre of the class."
    search_space = {"weight": FloatDistribution(0.1, 10.0, log=True)}

    def __init__(self, num_classes, embedding_size, weight):
        super().__init__()
        self.centres = torch.nn.Parameter(torch.randn(num_classes, embedding_size))
        self.weight = weight

    def forward(self, embeddings, labels):
        return self.weight * (embeddings - self.centres[labels]).square().sum(dim=1).mean()
"""
BEGUN = {name for name in TRAINED if name.startswith("hpl-")}  # no loss before begin(): held to it in their own file
CONTRACT = [*sorted(TRAINED.keys() - BEGUN), "pml:CircleLoss", "pml:ProxyAnchorLoss", "user.py:Centres"]


@pytest.fixture(params=CONTRACT)
def entry(request, tmp_path) -> MethodEntry:
    name = request.param
    if name.startswith("user.py"):
        (tmp_path / "user.py").write_text(USER_LOSS)
        name = f"{tmp_path}/{name}"
    return method_entry(name)


def middle(entry: MethodEntry) -> dict:
    """The middle of the space."""
    return {name: middle_of_one(distribution) for name, distribution in entry.space(N_CLASSES).items()}


def ends(distribution: BaseDistribution) -> tuple:
    """The lowest and the highest value, or all choices."""
    if isinstance(distribution, CategoricalDistribution):
        return distribution.choices
    return distribution.low, distribution.high


def built(entry: MethodEntry, hyperparameters: dict, seed: int = 0) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build_method(entry, N_CLASSES, DIM, hyperparameters)


def batch(entry: MethodEntry, seed: int = 1) -> tuple[torch.Tensor, torch.Tensor]:
    """32 random unit embeddings: 8 classes x 4 for pair losses, 32 x 1 for class losses."""
    random = torch.Generator().manual_seed(seed)
    embeddings = normalize(torch.randn(32, DIM, generator=random)).requires_grad_()
    classes = torch.randperm(N_CLASSES, generator=random)
    return embeddings, classes[:8].repeat(4) if entry.family == "pair" else classes[:32]


def seeded(module: nn.Module, embeddings: torch.Tensor, labels: torch.Tensor) -> float:
    """The loss where all draws begin anew."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(9)
        return module(embeddings, labels).item()


def test_the_fourteen_methods_and_two_baselines_are_registered_under_their_names() -> None:
    assert set(TRAINED) >= FOURTEEN
    linear = {name for name, entry in METHODS.items() if entry.family == "linear"}
    assert set(METHODS) - set(TRAINED) - linear == {"untrained", "pixels", "pretrained"}
    assert all(name == entry.name for name, entry in METHODS.items())
    assert all("\n" not in entry.formula and entry.source for entry in METHODS.values())


def test_loss_and_gradient_are_finite_and_not_zero_at_plausible_hyperparameters(entry) -> None:
    for hyperparameters in (middle(entry), *entry.published.values()):
        embeddings, labels = batch(entry)
        loss = built(entry, hyperparameters)(embeddings, labels)
        loss.backward()
        assert loss.shape == ()
        assert loss.isfinite()
        assert embeddings.grad.isfinite().all()
        assert embeddings.grad.abs().max() > 0, hyperparameters


def test_a_method_owns_weights_exactly_if_their_learning_rate_is_searched(entry) -> None:
    module = built(entry, middle(entry))
    as_network = getattr(module, "weights_that_learn_as_the_network", list)()
    assert bool(list(module.parameters())) == (W_LR in entry.space(N_CLASSES) or bool(as_network))
    assert bool(module.state_dict()) == (bool(list(module.parameters())) or entry.name.startswith("xbm-"))


def test_own_weights_get_a_gradient_and_move_with_the_module(entry) -> None:
    module = built(entry, middle(entry))
    module(*batch(entry)).backward()
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in module.parameters())
    module.to("meta")
    assert all(tensor.is_meta for tensor in (*module.parameters(), *module.buffers()))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_the_loss_on_a_gpu_equals_the_loss_on_the_cpu(entry) -> None:
    if entry.name in DRAWN:
        pytest.skip("its draws depend on the device")
    module = built(entry, middle(entry))
    embeddings, labels = batch(entry)
    on_cpu = module(embeddings, labels).item()
    assert module.to("cuda")(embeddings.cuda(), labels.cuda()).item() == pytest.approx(on_cpu, rel=1e-4)


def test_a_state_dict_carries_the_whole_loss(entry) -> None:
    first, second = (built(entry, middle(entry), seed) for seed in (0, 1))
    second.load_state_dict(first.state_dict())
    assert seeded(first, *batch(entry)) == seeded(second, *batch(entry))


def test_own_weights_are_drawn_from_the_seed_alone(entry) -> None:
    first, again, other = (seeded(built(entry, middle(entry), seed), *batch(entry)) for seed in (0, 0, 1))
    assert first == again
    owns_weights = bool(list(built(entry, middle(entry)).parameters()))
    assert (first != other) == (entry.name not in BOUNDARIES and owns_weights)


def test_neither_names_of_classes_nor_order_of_the_batch_matter(entry) -> None:
    if entry.name in {*DRAWN, "n-pairs"}:  # which takes the first two images of each class
        pytest.skip("it depends on the order by its definition")
    module, renamed = (built(entry, middle(entry)) for _ in range(2))
    embeddings, labels = batch(entry)
    loss = module(embeddings, labels).item()
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(2))
    assert module(embeddings[order], labels[order]).item() == pytest.approx(loss, rel=1e-5)
    new_name = torch.randperm(N_CLASSES, generator=torch.Generator().manual_seed(3))
    renamed.load_state_dict({key: by_class(value, new_name) for key, value in module.state_dict().items()})
    assert renamed(embeddings, new_name[labels]).item() == pytest.approx(loss, rel=1e-5)


def by_class(weights: torch.Tensor, new_name: torch.Tensor) -> torch.Tensor:
    """Per-class weights under new class names; a class may own several in a row."""
    if not isinstance(weights, torch.Tensor):
        return weights  # what a module remembers beside its tensors
    old_name = new_name.argsort()
    for dimension, size in enumerate(weights.shape):
        if size % N_CLASSES == 0:
            each = size // N_CLASSES
            rows = (old_name[:, None] * each + torch.arange(each)).flatten()
            return weights.index_select(dimension, rows)
    return weights


def test_every_corner_of_the_space_gives_a_finite_loss_and_gradient(entry) -> None:
    space = entry.space(N_CLASSES)
    for corner in product(*map(ends, space.values())):
        embeddings, labels = batch(entry)
        loss = built(entry, dict(zip(space, corner, strict=True)))(embeddings, labels)
        loss.backward()
        assert loss.isfinite(), corner
        assert embeddings.grad.isfinite().all(), corner


@pytest.mark.parametrize("n_classes", [2, 3, 75, 8488, 11318])
def test_the_space_is_valid_for_any_class_count_and_holds_the_published_values(entry, n_classes) -> None:
    space = entry.space(n_classes)
    assert all(len(set(ends(distribution))) > 1 for name, distribution in space.items() if name != "batch_weight")
    assert space_json(space) == space_json(entry.space(n_classes))
    for source, values in entry.published.items():
        outside = {name for name, value in values.items() if not space[name]._contains(value)}
        expected = {"batch_weight"} if source.endswith("-code") else set()
        assert outside == ({"num_bins"} if (entry.name, source) == ("fastap", "mlrc:cub200-batch256") else expected)


@pytest.mark.parametrize("name", sorted(FOURTEEN))
def test_each_of_the_fourteen_has_the_published_values_of_four_settings(name) -> None:
    entry = METHODS[name]
    assert set(entry.published) >= {"mlrc:cub200", "mlrc:cars196", "mlrc:sop", "mlrc:cub200-batch256"}
    for source, values in entry.published.items():
        absent = {"reg_weight"} if (entry.name, source) == ("soft-triple", "mlrc:sop") else set()
        absent |= set() if source.startswith("mlrc:") else {W_LR}  # CCP's protocol fixes it
        assert set(values) == set(entry.space(75)) - absent
        check_hyperparameters(entry, 75, values)


@pytest.mark.parametrize("labels", [torch.zeros(8, dtype=torch.int64), torch.arange(8)], ids=["one class", "lone"])
def test_a_batch_without_pairs_still_has_a_gradient_path(entry, labels) -> None:
    embeddings = normalize(torch.randn(8, DIM, generator=torch.Generator().manual_seed(4))).requires_grad_()
    loss = built(entry, middle(entry))(embeddings, labels)
    loss.backward()
    assert loss.isfinite()
    assert embeddings.grad.isfinite().all()


def test_a_misspelt_hyperparameter_is_refused_with_the_nearest_and_the_allowed_names() -> None:
    with pytest.raises(BenchmarkError, match=r"triplet: no .* 'margn'. Did you mean 'margin'\? Allowed: margin\.$"):
        build_method(METHODS["triplet"], 5, 8, {"margn": 0.1})
    with pytest.raises(BenchmarkError, match=r"'lr'\. Did you mean 'w_lr', .* Allowed: w_lr, softmax_scale\.$"):
        build_method(METHODS["proxy-nca"], 5, 8, {"lr": 0.1, "softmax_scale": 8.0})
    with pytest.raises(BenchmarkError, match=r"'lr'\. The method has no weights of its own"):
        build_method(METHODS["triplet"], 5, 8, {"lr": 0.1, "margin": 0.1})


@pytest.mark.parametrize("value", ["0.1", True, float("nan"), float("inf")])
def test_a_hyperparameter_that_is_no_finite_number_is_refused(value) -> None:
    with pytest.raises(BenchmarkError, match="must be a finite number"):
        check_hyperparameters(METHODS["triplet"], 5, {"margin": value})


def test_values_left_out_or_of_a_wrong_kind_are_refused() -> None:
    with pytest.raises(BenchmarkError, match="ms: no value for base, beta"):
        check_hyperparameters(METHODS["ms"], 5, {"alpha": 2.0})
    with pytest.raises(BenchmarkError, match="must be a whole number"):
        check_hyperparameters(METHODS["fastap"], 5, {"num_bins": 10.5})


def test_an_unknown_method_is_refused_with_the_nearest_name_and_every_way_to_name_one() -> None:
    said = r"'tripelt'. Did you mean 'triplet'\? mlrc methods lists them.*pml:Name.*\.py:"
    with pytest.raises(BenchmarkError, match=said):
        method_entry("tripelt")
    with pytest.raises(BenchmarkError, match=r"Did you mean 'pml:CircleLoss'\?"):
        method_entry("CircleLoss")


@pytest.mark.parametrize("name", ["untrained", "pixels", "pretrained"])
def test_a_baseline_has_nothing_to_search_and_refuses_to_be_trained(name) -> None:
    module = build_method(METHODS[name], 5, 8, {})
    assert METHODS[name].space(5) == {}
    assert not list(module.parameters())
    with pytest.raises(BenchmarkError, match="never trained"):
        module(torch.zeros(2, 8), torch.zeros(2, dtype=torch.int64))


def test_only_the_boundaries_of_the_margin_loss_are_free_of_weight_decay() -> None:
    assert {name for name, entry in METHODS.items() if not entry.own_weight_decay} == BOUNDARIES


def test_margin_has_one_boundary_and_margin_class_one_a_class() -> None:
    values = {"margin": 0.1, "init_beta": 0.7, W_LR: 0.1}
    assert [parameter.tolist() for parameter in built(METHODS["margin"], values).parameters()] == [[pytest.approx(0.7)]]
    assert [parameter.shape for parameter in built(METHODS["margin-class"], values).parameters()] == [(N_CLASSES,)]


def test_a_space_is_named_by_its_content_not_by_its_order() -> None:
    one, two = FloatDistribution(0.1, 1.0, log=True), IntDistribution(2, 32)
    assert space_json({"a": two}) == (
        '{"a":{"attributes":{"high":32,"log":false,"low":2,"step":1},"name":"IntDistribution"}}'
    )
    assert space_hash({"a": one, "b": two}) == space_hash({"b": two, "a": one})
    assert len({space_hash(space) for space in ({}, {"a": one}, {"b": one}, {"a": two})}) == 4
    assert len(space_hash({"c": CategoricalDistribution(["x", "y"])})) == 12


# Formulas. `x` (B, D) float64 of length at most 1, `y` (B,) class ids, `w` (C, D) or (C, K, D) own weights.

Y = np.array([0, 0, 1, 1, 2, 2, 2, 3])  # class 3 has one image


def hinge(value: float) -> float:
    return max(value, 0.0)


def mean_over_non_zero(values: list[float]) -> float:
    kept = [value for value in values if value > 0]
    return sum(kept) / len(kept) if kept else 0.0


def pairs(y, same: bool) -> list[tuple[int, int]]:
    return [(i, j) for i in range(len(y)) for j in range(len(y)) if i != j and (y[i] == y[j]) == same]


def triplets(y) -> list[tuple[int, int, int]]:
    return [(a, p, n) for a, p in pairs(y, True) for n in range(len(y)) if y[n] != y[a]]


def unit(w):
    return w / np.linalg.norm(w, axis=-1, keepdims=True)


def cross_entropy(logits, y) -> float:
    return float(np.mean([np.log(np.exp(row - row[c]).sum()) for row, c in zip(logits, y, strict=True)]))


def contrastive(x, y, w, pos_margin, neg_margin, distance=lambda a, b: np.linalg.norm(a - b)):
    positive = mean_over_non_zero([hinge(distance(x[i], x[j]) - pos_margin) for i, j in pairs(y, True)])
    return positive + mean_over_non_zero([hinge(neg_margin - distance(x[i], x[j])) for i, j in pairs(y, False)])


def triplet(x, y, w, margin):
    d = lambda i, j: np.linalg.norm(x[i] - x[j])  # noqa: E731
    return mean_over_non_zero([hinge(d(a, p) - d(a, n) + margin) for a, p, n in triplets(y)])


def ntxent(x, y, w, temperature):
    total = []
    for a, p in pairs(y, True):
        own = exp(x[a] @ x[p] / temperature)
        others = sum(exp(x[a] @ x[n] / temperature) for n in range(len(y)) if y[n] != y[a])
        total.append(-log(own / (own + others)))
    return np.mean(total)


def margin(x, y, w, margin, init_beta):
    d = lambda i, j: np.linalg.norm(x[i] - x[j])  # noqa: E731
    hinges = [hinge(d(a, p) - init_beta + margin) for a, p, n in triplets(y)]
    hinges += [hinge(init_beta - d(a, n) + margin) for a, p, n in triplets(y)]
    return mean_over_non_zero(hinges)


def fastap(x, y, w, num_bins):
    width, losses_ = 4 / num_bins, []
    for i in range(len(y)):
        pulse = lambda j, b, i=i: hinge(1 - abs(np.sum((x[i] - x[j]) ** 2) - b * width) / width)  # noqa: E731
        positives = [j for j in range(len(y)) if j != i and y[j] == y[i]]
        others = [j for j in range(len(y)) if j != i]
        precision, found, seen = 0.0, 0.0, 0.0
        for b in range(num_bins + 1):
            here = sum(pulse(j, b) for j in positives)
            found, seen = found + here, seen + sum(pulse(j, b) for j in others)
            precision += here * found / seen if seen else 0.0
        if positives:
            losses_.append(1 - precision / len(positives))
    return np.mean(losses_)


def snr(x, y, w, pos_margin, neg_margin, regularizer_weight):
    ratio = lambda a, b: np.var(a - b) / np.var(a)  # noqa: E731
    zero_mean = np.mean([abs(row.sum()) for row in x])
    return contrastive(x, y, w, pos_margin, neg_margin, ratio) + regularizer_weight * zero_mean


def ms(x, y, w, alpha, beta, base, epsilon=None):
    total = 0.0
    for i in range(len(y)):
        positives = [x[i] @ x[j] for j in range(len(y)) if j != i and y[j] == y[i]]
        negatives = [x[i] @ x[j] for j in range(len(y)) if y[j] != y[i]]
        if epsilon is not None and positives:
            kept = [s for s in positives if s < max(negatives) + epsilon]
            positives, negatives = kept, [s for s in negatives if s > min(positives) - epsilon]
        elif epsilon is not None:
            negatives = []  # the miner compares with the hardest positive, and there is none
        total += log(1 + sum(exp(-alpha * (s - base)) for s in positives)) / alpha
        total += log(1 + sum(exp(beta * (s - base)) for s in negatives)) / beta
    return total / len(y)


def proxy_nca(x, y, w, softmax_scale):
    return cross_entropy(-softmax_scale * ((x[:, None] - unit(w)[None]) ** 2).sum(-1), y)


def norm_softmax(x, y, w, temperature):
    return cross_entropy(x @ unit(w).T / temperature, y)


def cosface(x, y, w, margin, scale):
    return cross_entropy(scale * (x @ unit(w).T - margin * np.eye(len(w))[y]), y)


def arcface(x, y, w, margin, scale):
    cosines, m = x @ unit(w).T, radians(margin)
    for i, c in enumerate(y):
        theta = acos(cosines[i, c])
        cosines[i, c] = cos(theta + m) if theta + m <= pi else cos(theta) - m * sin(m)
    return cross_entropy(scale * cosines, y)


def soft_triple(x, y, w, la, gamma, margin, reg_weight):
    w = unit(w)
    cosines = np.einsum("bd,ckd->bck", x, w)
    share = np.exp(cosines / gamma) / np.exp(cosines / gamma).sum(-1, keepdims=True)
    classes = (share * cosines).sum(-1)
    apart = [np.linalg.norm(c[j] - c[k]) for c in w for j in range(10) for k in range(j)]
    return cross_entropy(la * (classes - margin * np.eye(len(w))[y]), y) + reg_weight / 2 * np.mean(apart)


def soft_triple_s(x, y, w, la, margin):
    return cross_entropy(la * (x @ unit(w).T - margin * np.eye(len(w))[y]), y)


FORMULAS = {
    "contrastive": (contrastive, {"pos_margin": 0.3, "neg_margin": 1.4}),
    "triplet": (triplet, {"margin": 0.1}),
    "ntxent": (ntxent, {"temperature": 0.2}),
    "proxy-nca": (proxy_nca, {"softmax_scale": 5.0}),
    "margin": (margin, {"margin": 0.1, "init_beta": 1.1}),
    "margin-class": (margin, {"margin": 0.1, "init_beta": 1.1}),
    "norm-softmax": (norm_softmax, {"temperature": 0.2}),
    "cosface": (cosface, {"margin": 0.3, "scale": 10.0}),
    "arcface": (arcface, {"margin": 85.0, "scale": 10.0}),
    "fastap": (fastap, {"num_bins": 7}),
    "snr": (snr, {"pos_margin": 0.4, "neg_margin": 2.0, "regularizer_weight": 0.3}),
    "ms": (ms, {"alpha": 2.0, "beta": 10.0, "base": 0.3}),
    "ms-miner": (ms, {"alpha": 2.0, "beta": 10.0, "base": 0.3, "epsilon": 0.1}),
    "soft-triple": (soft_triple, {"la": 8.0, "gamma": 0.2, "margin": 0.1, "reg_weight": 0.4}),
    "soft-triple-s": (soft_triple_s, {"la": 8.0, "margin": 0.1}),
}


def weights_by_class(module: nn.Module, n_classes: int, dim: int):
    """(C, D), or (C, K, D) with several a class; an empty array without weights."""
    for weights in module.state_dict().values():
        if weights.ndim == 2:
            rows = weights if weights.shape[1] == dim else weights.T
            each = len(rows) // n_classes
            return (rows if each == 1 else rows.reshape(n_classes, each, dim)).numpy()
    return np.empty((0, dim))


@pytest.mark.parametrize("longest", [1.0, 0.7], ids=["unit", "shorter"])
@pytest.mark.parametrize("name", FORMULAS)
def test_the_loss_equals_a_loop_written_from_the_formula_on_embeddings_as_they_come(name, longest) -> None:
    oracle, hyperparameters = FORMULAS[name]
    random = np.random.default_rng(5)
    x = unit(random.normal(size=(8, 12)) + 0.5 * random.normal(size=(4, 12))[Y])
    x *= np.linspace(longest, 1.0, 8)[:, None]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(6)
        module = build_method(TRAINED[name], 4, 12, hyperparameters).double()
    expected = oracle(x, Y, weights_by_class(module, 4, 12), **hyperparameters)
    assert module(torch.from_numpy(x), torch.from_numpy(Y)).item() == pytest.approx(expected, rel=1e-6)


# The same methods as pytorch-metric-learning builds them by itself.

CLASS_ARGUMENTS = {"num_classes": N_CLASSES, "embedding_size": DIM}
PLAIN = {
    "contrastive": lambda pos_margin, neg_margin: losses.ContrastiveLoss(pos_margin, neg_margin),
    "triplet": lambda margin: losses.TripletMarginLoss(margin),
    "ntxent": lambda temperature: losses.NTXentLoss(temperature),
    "proxy-nca": lambda **values: losses.ProxyNCALoss(**CLASS_ARGUMENTS, **values),
    "margin": lambda margin, init_beta: losses.MarginLoss(margin, beta=init_beta, learn_beta=True),
    "margin-class": lambda margin, init_beta: losses.MarginLoss(
        margin, beta=init_beta, learn_beta=True, num_classes=N_CLASSES
    ),
    "norm-softmax": lambda **values: losses.NormalizedSoftmaxLoss(**CLASS_ARGUMENTS, **values),
    "cosface": lambda **values: losses.CosFaceLoss(**CLASS_ARGUMENTS, **values),
    "arcface": lambda **values: losses.ArcFaceLoss(**CLASS_ARGUMENTS, **values),
    "fastap": lambda num_bins: losses.FastAPLoss(num_bins),
    "snr": lambda pos_margin, neg_margin, regularizer_weight: losses.SignalToNoiseRatioContrastiveLoss(
        pos_margin=pos_margin,
        neg_margin=neg_margin,
        embedding_regularizer=regularizers.ZeroMeanRegularizer(),
        embedding_reg_weight=regularizer_weight,
    ),
    "ms": lambda **values: losses.MultiSimilarityLoss(**values),
    "ms-miner": lambda epsilon, **values: MinedByHand(epsilon, **values),
    "soft-triple": lambda reg_weight, **values: losses.SoftTripleLoss(
        **CLASS_ARGUMENTS,
        **values,
        weight_regularizer=regularizers.SparseCentersRegularizer(N_CLASSES, 10),
        weight_reg_weight=reg_weight,
    ),
}


class MinedByHand(nn.Module):
    def __init__(self, epsilon, **values) -> None:
        super().__init__()
        self.loss, self.miner = losses.MultiSimilarityLoss(**values), miners.MultiSimilarityMiner(epsilon)

    def forward(self, embeddings, labels):
        return self.loss(embeddings, labels, self.miner(embeddings, labels))


@pytest.mark.parametrize("name", PLAIN)
def test_on_unit_embeddings_values_and_gradients_equal_the_librarys_own(name) -> None:
    entry = TRAINED[name]
    values = {key: value for key, value in entry.published["mlrc:cars196"].items() if key != W_LR}
    ours, plain = built(entry, values), PLAIN[name](**values)
    plain.load_state_dict(ours.state_dict())
    results = []
    for module in (ours, plain):
        features = (3 * batch(entry)[0]).detach().requires_grad_()
        loss = module(normalize(features), batch(entry)[1])
        loss.backward()
        results.append((loss.item(), features.grad))
    assert results[0][0] == pytest.approx(results[1][0], rel=1e-5)
    torch.testing.assert_close(results[0][1], results[1][1], rtol=1e-4, atol=1e-5 * results[1][1].abs().max().item())


def test_the_centre_term_equals_the_librarys_sparse_centres() -> None:
    centres = torch.randn(30, 6, generator=torch.Generator().manual_seed(7))
    plain = regularizers.SparseCentersRegularizer(3, 10)(centres).item()
    assert centre_term(centres).item() == pytest.approx(plain, rel=1e-5)


def test_the_centre_term_has_a_finite_gradient_where_centres_meet() -> None:
    centres = torch.ones(20, 6, requires_grad=True)
    centre_term(centres).backward()
    assert centres.grad.isfinite().all()


@pytest.mark.parametrize(
    ("name", "values"), [("proxy-nca", {"softmax_scale": 100.0}), ("proxy-nca++", {"temperature": 0.01})]
)
def test_a_softmax_over_proxies_has_finite_gradients_where_shares_underflow(
    name: str, values: dict[str, float]
) -> None:
    for seed in range(20):
        torch.manual_seed(seed)
        module = build_method(METHODS[name], 12, 8, values)
        embeddings = normalize(torch.randn(32, 8)).requires_grad_()
        module(embeddings, torch.arange(32) % 12).backward()
        assert torch.isfinite(embeddings.grad).all()
        assert torch.isfinite(module.proxies.grad).all()
