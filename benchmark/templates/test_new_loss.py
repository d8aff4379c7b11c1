"""What must hold for any loss, and for this one: run with `python -m pytest test_new_loss.py`."""

import itertools
from math import exp, log
from pathlib import Path

import pytest
import torch
from optuna.distributions import FloatDistribution
from torch.nn.functional import normalize

from benchmark.methods.classes import middle
from benchmark.methods.registry import build_method, method_entry

ENTRY = method_entry(f"{Path(__file__).with_name('new_loss.py')}:NewLoss")
N_CLASSES, DIM = 4, 16
VALUES = {"threshold": 0.3, "scale": 8.0}
LABELS = torch.tensor([0, 0, 1, 1, 2, 2, 3, 3])


def batch(seed: int = 0) -> torch.Tensor:
    """Eight embeddings of unit length, as the protocol makes them."""
    drawn = torch.randn(len(LABELS), DIM, generator=torch.Generator().manual_seed(seed))
    return normalize(drawn).requires_grad_()


def loss_of(embeddings: torch.Tensor, labels: torch.Tensor = LABELS) -> torch.Tensor:
    """The loss with `VALUES`."""
    found: torch.Tensor = build_method(ENTRY, N_CLASSES, DIM, VALUES)(embeddings, labels)
    return found


def test_it_equals_a_loop_written_from_the_formula() -> None:
    """The most useful test of a loss: slow, plain, and written from the paper instead of from the code."""
    embeddings = batch().tolist()
    terms: dict[bool, list[float]] = {True: [], False: []}
    for i, j in itertools.permutations(range(len(LABELS)), 2):
        similarity = sum(a * b for a, b in zip(embeddings[i], embeddings[j], strict=True))
        alike = bool(LABELS[i] == LABELS[j])
        distance = VALUES["threshold"] - similarity if alike else similarity - VALUES["threshold"]
        terms[alike].append(log(1 + exp(VALUES["scale"] * distance)) / VALUES["scale"])
    expected = sum(sum(found) / len(found) for found in terms.values())
    assert loss_of(batch()).item() == pytest.approx(expected, rel=1e-5)


def test_the_gradient_is_finite_and_not_zero() -> None:
    embeddings = batch()
    (gradient,) = torch.autograd.grad(loss_of(embeddings), embeddings)
    assert gradient.isfinite().all()
    assert gradient.abs().sum() > 0


@pytest.mark.parametrize("labels", [torch.zeros(8, dtype=torch.int64), torch.arange(8)], ids=["one class", "no pairs"])
def test_a_batch_without_pairs_of_a_kind_has_a_finite_loss_and_gradient(labels: torch.Tensor) -> None:
    embeddings = batch()
    loss = loss_of(embeddings, labels)
    (gradient,) = torch.autograd.grad(loss, embeddings)
    assert loss.isfinite()
    assert gradient.isfinite().all()


def test_equal_embeddings_have_a_finite_gradient() -> None:
    embeddings = normalize(torch.ones(len(LABELS), DIM)).requires_grad_()
    (gradient,) = torch.autograd.grad(loss_of(embeddings), embeddings)
    assert gradient.isfinite().all()


def test_the_order_of_the_batch_does_not_matter() -> None:
    order = torch.randperm(len(LABELS), generator=torch.Generator().manual_seed(1))
    assert loss_of(batch()[order], LABELS[order]).item() == pytest.approx(loss_of(batch()).item(), rel=1e-5)


def test_classes_that_stand_apart_lose_less_than_classes_that_are_mixed() -> None:
    """Catches a sign error in either term."""
    apart = torch.eye(DIM)[LABELS]
    assert loss_of(apart).item() < loss_of(apart, LABELS.roll(1)).item()
    assert loss_of(apart).item() < loss_of(normalize(torch.ones(len(LABELS), DIM))).item()


def test_descent_makes_it_smaller() -> None:
    free = batch().detach().requires_grad_()
    before = loss_of(normalize(free)).item()
    for _ in range(50):
        (gradient,) = torch.autograd.grad(loss_of(normalize(free)), free)
        free = (free - gradient).detach().requires_grad_()
    assert loss_of(normalize(free)).item() < 0.8 * before


def test_it_can_be_built_at_the_middle_and_the_ends_of_its_search_space() -> None:
    space = ENTRY.space(N_CLASSES)
    middles = {name: middle(distribution) for name, distribution in space.items()}
    ranges = {name: found for name, found in space.items() if isinstance(found, FloatDistribution)}
    ends = [{**middles, name: end} for name, found in ranges.items() for end in (found.low, found.high)]
    for values in [middles, *ends]:
        assert build_method(ENTRY, N_CLASSES, DIM, values)(batch(), LABELS).isfinite()
