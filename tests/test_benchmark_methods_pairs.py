"""The losses written with masks: those of pytorch-metric-learning (PML) in value and gradient, without a wait.

PML's forms are those that `benchmarks/against_pml.py` times.
"""

from functools import partial
from math import exp, log
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from benchmark.errors import BenchmarkError
from benchmark.methods.pairs import mean_over_positive, pair_masks
from benchmark.methods.registry import METHODS, method_entry
from benchmark.methods.triplet import n_farther

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(Path(__file__).parent / "benchmarks"))
    from against_pml import FORMS, both, takes_references
    from method_overhead import Waits, in_the_middle_of_a_job, made_up_context

pytestmark = pytest.mark.filterwarnings("ignore:__array_wrap__:DeprecationWarning")  # of PML's sphereface
DIM, N_CLASSES = 16, 9
TRAINED = [name for name, entry in METHODS.items() if entry.is_trained]
COMPOSED = [f"{composer}({name})" for composer in ("ccp", "xbm") for name in FORMS if takes_references(name)]
Case = tuple[Tensor, Tensor, Tensor | None, Tensor | None]  # batch, its labels, references, theirs


def points(labels: Tensor, seed: int) -> Tensor:
    """(N, DIM) float64 of unit length, alike within a class."""
    random = torch.Generator().manual_seed(seed)
    classes = torch.randn(N_CLASSES, DIM, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return normalize(0.7 * classes[labels] + torch.randn(len(labels), DIM, generator=random, dtype=torch.float64))


def batch(labels: Tensor, seed: int = 2, copies: tuple[tuple[int, int], ...] = (), shortest: float = 1.0) -> Case:
    """Without references; of each pair in `copies` the first image becomes the second."""
    x = points(labels, seed) * torch.linspace(shortest, 1.0, len(labels), dtype=torch.float64)[:, None]
    for copy, of in copies:
        x[copy] = x[of]
    return x, labels, None, None


def against(labels: Tensor, ref_labels: Tensor) -> Case:
    """A batch and references."""
    return points(labels, 3), labels, points(ref_labels, 4), ref_labels


SOME = torch.tensor([0, 0, 1, 1, 2, 2, 2, 3])
MIXED = torch.tensor([0, 6, 2, 2, 5, 1, 3, 0, 6, 2, 4, 4])
CASES = {
    "8 x 4": batch(torch.arange(8).repeat(4)),
    "shorter, uneven": batch(MIXED, shortest=0.5),
    "lone": batch(torch.arange(9)),
    "one class": batch(torch.zeros(6, dtype=torch.int64)),
    "copies": batch(SOME, copies=((1, 0), (3, 0), (6, 4))),
    "one point": batch(SOME, copies=tuple((copy, 0) for copy in range(1, 8))),
    "references": against(MIXED, torch.arange(9).repeat_interleave(5)),
    "as many references": against(MIXED, MIXED.flip(0)),
    "references of one class": against(MIXED, torch.full((7,), 2)),
    "no positive reference": against(torch.full((5,), 1), torch.full((7,), 3)),
}
WITHOUT_HINGE = {  # values at which no hinge is above 0
    "contrastive": {"pos_margin": 3.0, "neg_margin": -0.2},
    "snr": {"pos_margin": 50.0, "neg_margin": -1.0, "regularizer_weight": 0.3},
    "triplet": {"margin": -3.0},
    "triplet-semihard": {"margin": 0.0},
    "margin": {"margin": -4.0, "init_beta": 1.0},
    "margin-class": {"margin": -4.0, "init_beta": 1.0},
    "lifted": {"neg_margin": -50.0},
}


def serves(name: str, case: str) -> bool:
    """Whether PML can be asked: not for references where it takes none, or takes its own meaning of them (lifted)."""
    return CASES[case][2] is None or (takes_references(name) and name != "lifted")


def loss_and_gradients(module: nn.Module, case: Case, dtype: torch.dtype) -> list[Tensor]:
    """The loss, and its gradients by batch, references and own weights: 0 where PML does not pass any on."""
    x, y, references, ref_labels = case
    leaves = [x.to(dtype, copy=True).requires_grad_()]
    further: dict[str, Tensor | None] = {}
    if references is not None:
        leaves.append(references.to(dtype, copy=True).requires_grad_())
        further = {"ref_emb": leaves[1], "ref_labels": ref_labels}
    loss = module.to(dtype)(leaves[0], y, **further)
    loss.backward()
    assert loss.shape == ()
    leaves.extend(module.parameters())
    return [loss.detach(), *(torch.zeros_like(leaf) if leaf.grad is None else leaf.grad for leaf in leaves)]


def assert_as_pml(name: str, values: dict | None, case: Case, dtype: torch.dtype = torch.float64) -> None:
    tolerance = 1e-12 if dtype == torch.float64 else 1e-5
    sides = (loss_and_gradients(side, case, dtype) for side in both(name, N_CLASSES, DIM, values))
    for ours, theirs in zip(*sides, strict=True):
        assert ours.isfinite().all()
        # Of the largest entry: where parts of a gradient cancel, what is left is rounding on both sides.
        torch.testing.assert_close(ours, theirs, rtol=0, atol=tolerance * max(1.0, float(theirs.abs().max())))


@pytest.mark.parametrize(("name", "case"), [(name, case) for name in FORMS for case in CASES if serves(name, case)])
def test_value_and_gradient_are_those_of_pml(name, case) -> None:
    assert_as_pml(name, None, CASES[case])


@pytest.mark.parametrize("name", FORMS)
def test_in_float32_they_are_those_of_pml_up_to_rounding(name) -> None:
    for case in filter(partial(serves, name), ("8 x 4", "references")):
        assert_as_pml(name, None, CASES[case], torch.float32)


@pytest.mark.parametrize("name", WITHOUT_HINGE)
def test_without_a_hinge_above_0_they_are_those_of_pml(name) -> None:
    for case in filter(partial(serves, name), ("8 x 4", "references")):
        assert_as_pml(name, WITHOUT_HINGE[name], CASES[case])


@pytest.mark.parametrize("name", [name for name in FORMS if serves(name, "references")])
def test_references_that_are_the_batch_itself_leave_an_image_out_of_its_own_pairs(name) -> None:
    x, y, _, _ = CASES["8 x 4"]
    ours, theirs = (side.double() for side in both(name, N_CLASSES, DIM))
    assert ours(x, y, ref_emb=x, ref_labels=y) == ours(x, y)
    copied = ours(x, y, ref_emb=x, ref_labels=y.clone())  # other images that happen to be alike
    assert copied.item() == pytest.approx(theirs(x, y, ref_emb=x, ref_labels=y.clone()).item(), rel=1e-12)


def test_lifted_takes_the_negatives_of_a_reference_from_the_batch() -> None:
    x, y, references, ref_labels = CASES["references"]
    d = torch.cdist(x, references).numpy()
    found = []
    for i, j in np.argwhere(y.numpy()[:, None] == ref_labels.numpy()):
        near = [exp(0.9 - d[i, k]) for k in range(len(ref_labels)) if ref_labels[k] != y[i]]
        near += [exp(0.9 - d[k, j]) for k in range(len(y)) if y[k] != ref_labels[j]]
        found.append(max(d[i, j] + log(sum(near)), 0) ** 2 / 2)
    module = METHODS["lifted"].build(n_classes=N_CLASSES, embedding_dim=DIM, neg_margin=0.9)
    loss = module(x, y, ref_emb=references, ref_labels=ref_labels)
    assert loss.item() == pytest.approx(sum(found) / len(found), rel=1e-12)


@pytest.mark.parametrize("or_equal", [False, True])
def test_the_counts_of_triplets_are_those_of_a_loop_ties_included(or_equal) -> None:
    random = torch.Generator().manual_seed(7)
    distances = torch.randint(0, 5, (6, 14), generator=random) / 4  # with many ties, exact in floating point
    positive, negative = pair_masks(torch.arange(6) % 3, torch.arange(14) % 4)
    expected = torch.zeros(2, 6, 14, dtype=torch.int64)
    for a in range(6):
        for p in positive[a].nonzero()[:, 0]:
            for n in negative[a].nonzero()[:, 0]:
                apart = distances[a, p] + 0.25 - distances[a, n]
                if apart > 0 or (or_equal and apart == 0):
                    expected[0, a, p] += 1
                    expected[1, a, n] += 1
    found = torch.stack(n_farther(distances, 0.25, positive, negative, or_equal=or_equal))
    assert torch.equal(found, expected)


def test_a_mean_over_no_positive_entry_is_0_and_not_no_number() -> None:
    x = torch.tensor([-1.0, 0.0]).requires_grad_()
    loss = mean_over_positive(x.relu())
    loss.backward()
    assert (loss.item(), x.grad.tolist()) == (0.0, [0.0, 0.0])
    assert mean_over_positive(torch.tensor([0.0, 3.0, 1.0])).item() == 2.0


def test_one_pair_of_either_kind_counts_where_pml_gives_0() -> None:
    ours, theirs = (side.double() for side in both("contrastive", N_CLASSES, DIM))
    x, references = points(torch.tensor([0]), 3), points(torch.tensor([0, 1]), 4)
    case = {"ref_emb": references, "ref_labels": torch.tensor([0, 1])}
    to_own, to_other = torch.cdist(x, references)[0].tolist()
    expected = max(to_own - ours.pos_margin, 0) + max(ours.neg_margin - to_other, 0)
    assert ours(x, torch.tensor([0]), **case).item() == pytest.approx(expected)
    assert theirs(x, torch.tensor([0]), **case).item() == 0


@pytest.mark.parametrize("name", [*TRAINED, *COMPOSED])
def test_no_method_lets_the_host_wait_for_the_device_in_a_step(name) -> None:
    entry = method_entry(name)
    module, labels = in_the_middle_of_a_job(entry, 75)
    context = made_up_context(75)
    x = normalize(torch.randn(len(labels), 128, generator=torch.Generator().manual_seed(1))).requires_grad_()
    with Waits() as waits:
        module(x, labels).backward()
        getattr(module, "after_step", lambda step, context: None)(1, context)
    assert waits.names == []


@pytest.mark.parametrize("name", FORMS)
def test_what_is_computed_depends_on_no_value(name) -> None:
    """On the meta device, where there are no values: whatever reads one, or needs one for a shape, fails."""
    module = both(name, N_CLASSES, DIM)[0].to("meta")
    x, labels = (
        torch.empty(12, DIM, device="meta", requires_grad=True),
        torch.empty(12, dtype=torch.int64, device="meta"),
    )
    module(x, labels).backward()
    assert x.grad.shape == x.shape
    if takes_references(name):
        references = torch.empty(20, DIM, device="meta", requires_grad=True)
        module(x, labels, ref_emb=references, ref_labels=labels.new_empty(20)).backward()
        assert references.grad.shape == references.shape


def test_the_count_of_waits_sees_each_kind() -> None:
    x = torch.arange(4.0)
    with Waits() as waits:
        x[x > 1].sum().item()
        x[x > 2] = 0.0
        x.nonzero(), x.unique(), torch.equal(x, x + 1)
    assert waits.names == ["index", "_local_scalar_dense", "index_put_", "nonzero", "_unique2", "equal"]


@pytest.mark.parametrize("name", ["fastap", "n-pairs", "margin-dw"])
def test_what_takes_no_references_says_so(name) -> None:
    with pytest.raises(BenchmarkError, match=rf"{name} takes no references: TypeError: .*'ref_emb'"):
        method_entry(f"ccp({name})")
