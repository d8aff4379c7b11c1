"""The methods beyond the reality check's fourteen, each against a loop written from its formula, in float64."""

from math import acos, cos, exp, floor, log, log1p, pi

import numpy as np
import pytest
import torch
from torch import nn
from torch.autograd import gradcheck
from torch.nn.functional import normalize

from benchmark.methods.margin_dw import draw, log_weights
from benchmark.methods.registry import METHODS, build_method
from benchmark.methods.siamese import MeanOverPairs

DIM, N_CLASSES = 12, 5
BATCHES = {
    "pairs": np.array([0, 0, 1, 1, 2, 2, 2, 3]),  # class 3 has one image, class 4 none
    "lone": np.arange(5),
    "one class": np.zeros(6, dtype=np.int64),
}


def hinge(value: float) -> float:
    return max(value, 0.0)


def distance(a, b) -> float:
    return float(np.sqrt(((a - b) ** 2).sum()))


def pairs(y, same: bool) -> list[tuple[int, int]]:
    return [(i, j) for i in range(len(y)) for j in range(len(y)) if i != j and (y[i] == y[j]) == same]


def mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


def unit(w):
    return w / np.linalg.norm(w, axis=-1, keepdims=True)


def cross_entropy(logits, y) -> float:
    return mean([log(sum(exp(value - row[c]) for value in row)) for row, c in zip(logits, y, strict=True)])


def contrastive_cosine(x, y, w, neg_margin):
    total = sum(1 - x[i] @ x[j] for i, j in pairs(y, True))
    return (total + sum(hinge(x[i] @ x[j] - neg_margin) for i, j in pairs(y, False))) / len(y)


def hadsell(x, y, w, margin):
    found = [distance(x[i], x[j]) ** 2 / 2 for i, j in pairs(y, True)]
    return mean(found + [hinge(margin - distance(x[i], x[j])) ** 2 / 2 for i, j in pairs(y, False)])


def chopra(x, y, w, energy_bound):
    energy = lambda i, j: float(abs(x[i] - x[j]).sum())  # noqa: E731
    found = [2 / energy_bound * energy(i, j) ** 2 for i, j in pairs(y, True)]
    return mean(found + [2 * energy_bound * exp(-2.77 * energy(i, j) / energy_bound) for i, j in pairs(y, False)])


def triplet_semihard(x, y, w, margin):
    found = []
    for a, p in pairs(y, True):
        for n in range(len(y)):
            gap = distance(x[a], x[n]) ** 2 - distance(x[a], x[p]) ** 2
            if y[n] != y[a] and 0 < gap < margin:
                found.append(margin - gap)
    return mean(found)


def lifted(x, y, w, neg_margin):
    found = []
    for i, j in pairs(y, True):
        near = [exp(neg_margin - distance(x[i], x[k])) for k in range(len(y)) if y[k] != y[i]]
        near += [exp(neg_margin - distance(x[j], x[k])) for k in range(len(y)) if y[k] != y[j]]
        found += [hinge(distance(x[i], x[j]) + log(sum(near))) ** 2 / 2] if near else []
    return mean(found)


def n_pairs(x, y, w):
    firsts = [np.flatnonzero(y == c)[:2] for c in sorted(set(y)) if (y == c).sum() > 1]
    return cross_entropy([[x[a] @ x[p] for _, p in firsts] for a, _ in firsts], range(len(firsts)))


def proxy_anchor(x, y, w, margin, alpha):
    s = x @ unit(w).T
    own = [log1p(sum(exp(-alpha * (s[i, c] - margin)) for i in np.flatnonzero(y == c))) for c in range(len(w))]
    other = [log1p(sum(exp(alpha * (s[i, c] + margin)) for i in np.flatnonzero(y != c))) for c in range(len(w))]
    return sum(own) / len(set(y)) + mean(other)


def proxy_nca_pp(x, y, w, temperature):
    return cross_entropy([[-(distance(row, p) ** 2) / temperature for p in unit(w)] for row in x], y)


def sphereface(x, y, w, margin, scale):
    logits = []
    for row, own in zip(x, y, strict=True):
        length, cosines = np.linalg.norm(row), unit(row) @ unit(w).T
        angle = acos(cosines[own])
        k = floor(margin * angle / pi)
        cosines[own] = (-1) ** k * cos(margin * angle) - 2 * k
        logits.append(scale * length * cosines)
    return cross_entropy(logits, y)


FORMULAS = {
    "contrastive-cosine": (contrastive_cosine, {"neg_margin": 0.1}),
    "contrastive-hadsell": (hadsell, {"margin": 1.2}),
    "siamese-chopra": (chopra, {"energy_bound": 6.0}),
    "triplet-semihard": (triplet_semihard, {"margin": 0.6}),
    "lifted": (lifted, {"neg_margin": 0.9}),
    "n-pairs": (n_pairs, {}),
    "proxy-anchor": (proxy_anchor, {"margin": 0.1, "alpha": 32.0}),
    "proxy-nca++": (proxy_nca_pp, {"temperature": 0.1}),
    "sphereface": (sphereface, {"margin": 4, "scale": 5.0}),
}


def built(name: str, values: dict, seed: int = 6) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return build_method(METHODS[name], N_CLASSES, DIM, values).double()


def embeddings(y, shortest: float = 1.0):
    """(B, D) float64, alike within a class; of unit length, or from `shortest` to 1."""
    random = np.random.default_rng(5)
    x = unit(random.normal(size=(len(y), DIM)) + 0.5 * random.normal(size=(N_CLASSES, DIM))[y])
    return x * np.linspace(shortest, 1.0, len(y))[:, None]


def weights(module: nn.Module):
    """(C, D) own weights."""
    found = [parameter.detach().numpy() for parameter in module.parameters()]
    return (found[0] if found[0].shape == (N_CLASSES, DIM) else found[0].T) if found else None


@pytest.mark.parametrize("shortest", [1.0, 0.7], ids=["unit", "shorter"])
@pytest.mark.parametrize("labels", BATCHES)
@pytest.mark.parametrize("name", FORMULAS)
def test_the_loss_equals_a_loop_written_from_the_formula_with_and_without_pairs(name, labels, shortest) -> None:
    oracle, values = FORMULAS[name]
    y = BATCHES[labels]
    x, module = embeddings(y, shortest), built(name, values)
    expected = oracle(x, y, weights(module), **values)
    assert module(torch.from_numpy(x), torch.from_numpy(y)).item() == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_semi_hard_triplets_are_chosen_by_squared_distances_too() -> None:
    y = BATCHES["pairs"]
    x = 0.3 * embeddings(y)  # where distances differ by more than their squares
    found = built("triplet-semihard", {"margin": 0.05})(torch.from_numpy(x), torch.from_numpy(y)).item()
    assert found == pytest.approx(triplet_semihard(x, y, None, 0.05), rel=1e-6)


def test_a_negative_that_is_farther_by_exactly_the_margin_is_not_semi_hard() -> None:
    x = torch.tensor([[0.0, 0.0], [0.5, 0.0], [1.0, 0.0], [0.0, 0.75]], dtype=torch.float64)
    y = torch.tensor([0, 0, 1, 1])  # of the first pair the gaps are 0.75 and 0.3125, back 0 and 0.5625
    assert built("triplet-semihard", {"margin": 0.75})(x, y).item() == pytest.approx((0.4375 + 0.1875) / 2)


@pytest.mark.parametrize("name", FORMULAS)
def test_the_gradient_is_that_of_the_value(name) -> None:
    y = BATCHES["pairs"]
    module, x = built(name, FORMULAS[name][1]), torch.from_numpy(embeddings(y)).requires_grad_()
    assert gradcheck(lambda at: module(at, torch.from_numpy(y)), x, atol=1e-6)


@pytest.mark.parametrize("name", [*FORMULAS, "margin-dw", "norm-softmax-sampled"])
def test_images_that_lie_on_one_point_send_a_finite_gradient(name) -> None:
    y = torch.from_numpy(BATCHES["pairs"])
    values = {
        "margin-dw": {"margin": 0.2, "init_beta": 1.2},
        "norm-softmax-sampled": {"temperature": 0.1, "share": 0.1},
    }
    x = torch.from_numpy(embeddings(y.numpy())[[0] * 6 + [6, 7]]).requires_grad_()
    loss = built(name, FORMULAS[name][1] if name in FORMULAS else values[name])(x, y)
    loss.backward()
    assert loss.isfinite()
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("name", ["contrastive-cosine", "contrastive-hadsell", "siamese-chopra", "triplet-semihard"])
def test_references_take_the_place_of_the_other_images_of_the_batch(name) -> None:
    """The pairs of a batch with references are those of one batch of all, minus the pairs on either side."""
    oracle, values = FORMULAS[name]
    y = BATCHES["pairs"]
    x, module = embeddings(y), built(name, values)
    tensors = torch.from_numpy(x), torch.from_numpy(y)
    found = module(tensors[0][:1], tensors[1][:1], ref_emb=tensors[0][1:], ref_labels=tensors[1][1:]).item()
    every, rest = oracle(x, y, None, **values), oracle(x[1:], y[1:], None, **values)
    if name == "contrastive-cosine":  # sums over the 8 and the 7 images; each pair counts in both orders
        assert found == pytest.approx((8 * every - 7 * rest) / 2)
    elif name == "triplet-semihard":
        assert found == pytest.approx(anchored_at_first(x, y, **values))
    else:  # means over 56 and 42 ordered pairs
        assert found == pytest.approx((56 * every - 42 * rest) / 14)


def anchored_at_first(x, y, margin):
    squared = [distance(x[0], other) ** 2 for other in x]
    gaps = [squared[n] - squared[1] for n in range(2, len(y))]
    return mean([margin - gap for gap in gaps if 0 < gap <= margin])


def test_references_may_be_as_many_as_the_batch_without_a_pair_being_left_out() -> None:
    class Distances(MeanOverPairs):
        def of_pairs(self, distances, same):
            return distances

    module = Distances(METHODS["contrastive-hadsell"].build(n_classes=2, embedding_dim=2, margin=1.0).distance)
    x, far = torch.zeros(2, 2), torch.tensor([[3.0, 4.0], [3.0, 4.0]])
    labels = torch.tensor([0, 1])
    assert module(x, labels, ref_emb=far, ref_labels=labels).item() == 5.0


# margin-dw


def test_the_weight_of_a_negative_is_the_inverse_density_of_its_distance_up_to_lambda() -> None:
    d = np.linspace(0.2, 1.99, 50)
    q = d ** (DIM - 2) * (1 - d**2 / 4) ** ((DIM - 3) / 2)
    expected = np.minimum(1 / (0.5 ** (DIM - 2) * (1 - 0.5**2 / 4) ** ((DIM - 3) / 2)), 1 / q)
    found = log_weights(torch.from_numpy(d), DIM).exp().numpy()
    np.testing.assert_allclose(found / found[0], expected / expected[0], rtol=1e-9)
    assert log_weights(torch.tensor([0.0, 2.0, 2.1]), 128).isfinite().all()


def draws(x, y) -> torch.Tensor:
    """(N, N): for each image and another of its class, a negative."""
    return draw(torch.cdist(x, x), y[:, None] != y, DIM)


def test_every_positive_pair_draws_one_negative_as_often_as_its_weight_says() -> None:
    y = torch.from_numpy(BATCHES["pairs"])
    x = torch.from_numpy(embeddings(y.numpy()))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(8)
        drawn = torch.stack([draws(x, y) for _ in range(2000)])
    assert (y[drawn] != y[:, None]).all()
    counts = torch.bincount(drawn[:, 0, 1], minlength=len(y)).double()
    weights = log_weights(torch.cdist(x, x)[0], DIM).exp() * (y != y[0])
    expected = counts.sum() * weights / weights.sum()
    chi_squared = ((counts - expected) ** 2 / expected)[y != y[0]].sum()
    assert chi_squared < 20.5  # 99.9 % point at the 5 degrees of freedom of 6 negatives


@pytest.mark.parametrize("labels", BATCHES)
def test_margin_dw_is_the_margin_loss_of_its_draws(labels) -> None:
    y = torch.from_numpy(BATCHES[labels])
    points, module = embeddings(y.numpy()), built("margin-dw", {"margin": 0.2, "init_beta": 1.1})
    x = torch.from_numpy(points)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(8)
        loss = module(x, y).item()
        torch.manual_seed(8)
        negatives = draws(x, y)
    triplets = [(a, p, negatives[a, p]) for a, p in pairs(y, True) if (y != y[a]).any()]
    hinges = [hinge(distance(points[a], points[p]) - 1.1 + 0.2) for a, p, _ in triplets]
    hinges += [hinge(1.1 - distance(points[a], points[n]) + 0.2) for a, _, n in triplets]
    assert loss == pytest.approx(mean([value for value in hinges if value > 0]), rel=1e-6)


# norm-softmax-sampled


def sampled(share: float, n_classes: int) -> nn.Module:
    return build_method(METHODS["norm-softmax-sampled"], n_classes, DIM, {"temperature": 0.2, "share": share})


@pytest.mark.parametrize(("share", "n_drawn"), [(0.1, 40), (0.01, 8)], ids=["10 %", "1 %, raised to the batch"])
def test_a_step_sees_the_classes_of_its_batch_and_others_up_to_the_share(share, n_drawn) -> None:
    y, module = torch.from_numpy(BATCHES["pairs"]), sampled(share, 400)
    draws = [module.draw(y) for _ in range(20)]
    assert all(len(set(found.tolist())) == len(found) == n_drawn for found in draws)
    assert all(set(y.tolist()) <= set(found.tolist()) for found in draws)
    assert len({tuple(sorted(found.tolist())) for found in draws}) == 20


def test_norm_softmax_sampled_is_the_softmax_over_its_draws() -> None:
    y, module = torch.from_numpy(BATCHES["pairs"]), sampled(0.1, 200).double()
    x = torch.from_numpy(embeddings(y.numpy()))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(8)
        loss = module(x, y).item()
        torch.manual_seed(8)
        classes = module.draw(y).tolist()
    logits = x.numpy() @ unit(module.weights.detach().numpy())[classes].T / 0.2
    assert loss == pytest.approx(cross_entropy(logits, [classes.index(c) for c in y.tolist()]))


def test_a_share_that_covers_all_classes_is_norm_softmax() -> None:
    y, module = torch.arange(20) % 17, sampled(0.1, 17)
    x = normalize(torch.randn(20, DIM, generator=torch.Generator().manual_seed(3)))
    plain = build_method(METHODS["norm-softmax"], 17, DIM, {"temperature": 0.2})
    plain.load_state_dict({name: module.weights.detach().T for name in plain.state_dict()})
    assert module(x, y).item() == pytest.approx(plain(x, y).item(), rel=1e-5)


def test_only_the_classes_of_the_step_get_a_gradient() -> None:
    y, module = torch.from_numpy(BATCHES["pairs"]), sampled(0.1, 400)
    module(torch.from_numpy(embeddings(y.numpy())).float(), y).backward()
    assert (module.weights.grad.abs().sum(dim=1) > 0).sum() == 40
