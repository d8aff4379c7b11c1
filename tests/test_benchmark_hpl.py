"""Hierarchical proxies: each part against a loop from the definition, and the loss where it must equal the base."""

import io
import json
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import tiny_bench, without_timings
from torch import Tensor, nn
from torch.nn.functional import normalize

from benchmark.checks import check_super_classes
from benchmark.errors import BenchmarkError
from benchmark.methods.hpl import HierarchicalProxyLoss
from benchmark.methods.proxies import ProxyWeight
from benchmark.methods.registry import METHODS, build_method, method_entry, space_hash
from benchmark.training.context import Context
from benchmark.training.training import run_fold

N_CLASSES, DIM, BATCH = 12, 8, 16
PUBLISHED_DIM = 128  # random directions are near right angles, as the largest scales of a space need
BASES = {
    "proxy-nca": {"softmax_scale": 8.0},
    "proxy-nca++": {"temperature": 0.1},
    "proxy-anchor": {"margin": 0.1, "alpha": 16.0},
    "norm-softmax": {"temperature": 0.1},  # its classes are columns
    "arcface": {"margin": 20.0, "scale": 16.0},
}
EVERY_TWO_STEPS = 2
SUPER_CLASSES = [*("bird", "car") * 4, *("aeroplane",) * 4]
UNNORMALISED = """
import torch

class Centres(torch.nn.Module):
    def __init__(self, num_classes, embedding_size):
        super().__init__()
        self.head = torch.nn.Module()
        self.head.centres = torch.nn.Parameter(torch.randn(num_classes, embedding_size))

    def forward(self, embeddings, labels):
        return (embeddings - self.head.centres[labels]).square().sum(dim=1).mean()
"""


def context(seed: int = 0, super_classes: Sequence[str] | None = SUPER_CLASSES, n_classes: int = N_CLASSES) -> Context:
    return Context(
        n_classes=n_classes,
        embedding_dim=DIM,
        images_by_class=[],
        embed=lambda indices: torch.empty(0),
        trainable_parameters=(),
        generator=torch.Generator().manual_seed(seed),
        normalise=torch.positive,
        reset_optimiser=lambda parameters: None,
        class_names=[f"class {number}" for number in range(n_classes)],
        super_classes=super_classes,
    )


def hpl(
    base: str = "proxy-nca",
    n_coarse: Sequence[int] | None = (5, 2),
    omegas: Sequence[float] = (0.5, 0.25),
    n_classes: int = N_CLASSES,
    clustering: str = "kmeans",
) -> HierarchicalProxyLoss:
    """The loss with levels of a test's choice, its weights from seed 0."""
    weight = ProxyWeight("W", 1) if base in ("norm-softmax", "arcface") else ProxyWeight("proxies", 0)

    def build(n: int) -> nn.Module:
        return METHODS[base].build(n_classes=n, embedding_dim=DIM, **BASES[base])

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return HierarchicalProxyLoss(
            build,
            weight,
            n_classes=n_classes,
            omegas=omegas,
            n_coarse=n_coarse,
            update_every=EVERY_TWO_STEPS,
            clustering=clustering,
        )


def plain(base: str) -> nn.Module:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return METHODS[base].build(n_classes=N_CLASSES, embedding_dim=DIM, **BASES[base])


def batch(step: int = 0, dim: int = DIM) -> tuple[Tensor, Tensor]:
    random = torch.Generator().manual_seed(100 + step)
    embeddings = normalize(torch.randn(BATCH, dim, generator=random)).requires_grad_()
    return embeddings, torch.randint(N_CLASSES, (BATCH,), generator=random)


def train(loss: nn.Module, optimiser: torch.optim.Optimizer, steps: range) -> list[float]:
    """Losses of some steps with the hook after each."""
    found = []
    for step in steps:
        optimiser.zero_grad()
        value = loss(*batch(step))
        value.backward()
        optimiser.step()
        found.append(value.item())
        if hasattr(loss, "after_step"):
            loss.after_step(step, context())
    return found


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def numpy_rows(proxies: Tensor) -> np.ndarray:
    return proxies.detach().double().numpy().copy()


# --- the loss


@pytest.mark.parametrize("base", BASES)
def test_one_level_is_the_base_bit_for_bit_through_steps_of_training(base) -> None:
    alone, pyramid = plain(base), hpl(base, n_coarse=(), omegas=())
    pyramid.begin(context())
    both = [train(loss, torch.optim.Adam(loss.parameters(), lr=0.1), range(1, 6)) for loss in (alone, pyramid)]
    assert both[0] == both[1]
    assert all(torch.equal(*pair) for pair in zip(alone.parameters(), pyramid.parameters(), strict=True))


@pytest.mark.parametrize("base", BASES)
def test_the_proxies_start_as_those_of_the_base_do(base) -> None:
    (alone,), (within,) = plain(base).parameters(), hpl(base).parameters()
    assert torch.equal(alone, within)


@pytest.mark.parametrize("base", BASES)
def test_the_loss_is_the_sum_over_levels_of_omega_times_the_base_with_coarse_labels(base) -> None:
    loss = hpl(base)
    loss.begin(context())
    embeddings, labels = batch()
    found = loss(embeddings, labels)
    wanted = plain(base)(embeddings, labels).item()
    for omega, level in zip((0.5, 0.25), loss.levels, strict=True):
        labels = torch.tensor([int(level.members[label]) for label in labels])
        coarse = METHODS[base].build(n_classes=len(level.proxies), embedding_dim=DIM, **BASES[base])
        (weight,) = coarse.parameters()
        weight.data = level.proxies if len(weight) == len(level.proxies) else level.proxies.T
        wanted += omega * coarse(embeddings, labels).item()
    assert found.item() == pytest.approx(wanted, rel=1e-6)


@pytest.mark.parametrize("base", BASES)
def test_only_the_class_proxies_learn_and_only_from_their_own_level(base) -> None:
    alone, loss = plain(base), hpl(base)
    loss.begin(context())
    alone(*batch()).backward()
    loss(*batch()).backward()
    (wanted,), (found,) = alone.parameters(), loss.parameters()
    assert torch.equal(found.grad, wanted.grad)
    assert all(not level.proxies.requires_grad for level in loss.levels)
    before = [level.proxies.clone() for level in loss.levels]
    train(loss, torch.optim.SGD(loss.parameters(), lr=1.0, weight_decay=0.1), range(1, 2))
    assert all(torch.equal(*pair) for pair in zip(before, (level.proxies for level in loss.levels), strict=True))


def test_embeddings_learn_from_every_level() -> None:
    loss = hpl()
    loss.begin(context())
    embeddings, labels = batch()
    loss(embeddings, labels).backward()
    alone, _ = batch()
    plain("proxy-nca")(alone, labels).backward()
    assert not torch.allclose(embeddings.grad, alone.grad, rtol=0.01)


def test_a_loss_before_begin_is_no_number() -> None:
    assert hpl()(*batch()).isnan()


# --- the updates


@pytest.mark.parametrize("base", ["proxy-nca", "norm-softmax"])
def test_updates_equal_a_loop_over_assignments_and_means_level_by_level(base) -> None:
    loss = hpl(base)
    loss.begin(context())
    coarse = [numpy_rows(level.proxies) for level in loss.levels]
    optimiser = torch.optim.SGD(loss.parameters(), lr=3.0)
    moved = 0
    for step in range(1, 9):
        before = [level.members.clone() for level in loss.levels]
        train(loss, optimiser, range(step, step + 1))
        if step % EVERY_TWO_STEPS == 0:
            points = unit(numpy_rows(loss._weight.rows(loss.base)))
            for number, level in enumerate(loss.levels):
                members = [int(np.argmin([((p - c) ** 2).sum() for c in coarse[number]])) for p in points]
                for cluster in range(len(coarse[number])):
                    mine = [p for p, member in zip(points, members, strict=True) if member == cluster]
                    if mine:
                        coarse[number][cluster] = sum(mine) / len(mine)
                assert level.members.tolist() == members
                changed = sum(a != b for a, b in zip(before[number].tolist(), members, strict=True))
                assert level.changes[-1] == changed
                moved += changed
                points = unit(coarse[number])
        for level, wanted in zip(loss.levels, coarse, strict=True):
            np.testing.assert_allclose(numpy_rows(level.proxies), wanted, atol=1e-6)
    assert moved  # else the loop compared a hierarchy that never changed
    assert [len(level.changes) for level in loss.levels] == [4, 4]


def test_a_coarse_proxy_without_members_keeps_its_place_and_is_reported() -> None:
    loss = hpl(n_coarse=(3,), omegas=(1.0,))
    loss.begin(context())
    (level,) = loss.levels
    far = -level.proxies.sum(dim=0)
    level.proxies[1] = 100 * far  # nearest to none
    loss.after_step(EVERY_TWO_STEPS, context())
    assert torch.equal(level.proxies[1], 100 * far)
    (found,) = loss.summary()["hierarchy"]["levels"]
    assert found["empty"] == [1]
    assert set(found["members"]) == {0, 2}
    assert found["n_coarse"] == 3


def test_proxies_are_clustered_by_direction_exactly_where_the_base_ignores_their_length(tmp_path) -> None:
    (tmp_path / "own.py").write_text(UNNORMALISED, encoding="utf-8")
    for name, ignores in (("hpl-proxy-nca", True), (f"hpl({tmp_path / 'own.py'}:Centres)", False)):
        entry = method_entry(name)
        values = {"n_coarse_1": 3, "omega_1": 0.5, "update_every": 50}
        loss = build_method(entry, N_CLASSES, DIM, {**values, **(BASES["proxy-nca"] if ignores else {})})
        loss.begin(context())
        (level,) = loss.levels
        points = numpy_rows(next(loss.parameters()))
        points = unit(points) if ignores else points
        means = [points[level.members.numpy() == cluster].mean(axis=0) for cluster in range(3)]
        np.testing.assert_allclose(numpy_rows(level.proxies), means, atol=1e-6)


# --- the start


@pytest.mark.parametrize("clustering", ["kmeans", "gmm"])
def test_clusters_that_stand_apart_are_found_and_the_contexts_stream_alone_decides(clustering) -> None:
    found = []
    for _ in range(2):
        loss = hpl(n_coarse=(3,), omegas=(1.0,), clustering=clustering)
        directions = torch.eye(3, DIM).repeat(4, 1)
        random = torch.Generator().manual_seed(3)
        with torch.no_grad():
            loss.base.proxies.copy_(7 * (directions + 0.05 * torch.randn(N_CLASSES, DIM, generator=random)))
        loss.begin(context(seed=5))
        found.append(loss)
    members = found[0].levels[0].members.reshape(4, 3)
    assert (members == members[0]).all()
    assert len(set(members[0].tolist())) == 3
    assert all(torch.equal(*pair) for pair in zip(found[0].buffers(), found[1].buffers(), strict=True))


def test_another_stream_starts_other_clusters() -> None:
    starts = []
    for seed in (0, 1):
        loss = hpl(n_coarse=(5,), omegas=(1.0,))
        loss.begin(context(seed))
        starts.append(loss.levels[0].members.tolist())
    assert starts[0] != starts[1]


# --- a given hierarchy


def test_given_members_are_the_super_classes_and_stay_while_their_means_follow_the_proxies() -> None:
    loss = hpl(n_coarse=None, omegas=(0.5,))
    loss.begin(context())
    (level,) = loss.levels
    numbers = {"aeroplane": 0, "bird": 1, "car": 2}
    wanted = [numbers[name] for name in SUPER_CLASSES]
    before = level.proxies.clone()
    train(loss, torch.optim.SGD(loss.parameters(), lr=3.0), range(1, 5))
    assert level.members.tolist() == wanted
    assert level.changes == [0, 0]
    assert not torch.allclose(level.proxies, before)
    points = unit(numpy_rows(loss.base.proxies))
    means = [points[np.array(wanted) == number].mean(axis=0) for number in range(3)]
    np.testing.assert_allclose(numpy_rows(level.proxies), means, atol=1e-6)


@pytest.mark.parametrize(
    ("super_classes", "message"),
    [
        (None, "the data set has no super-classes"),
        (["all"] * N_CLASSES, r"the number of super-classes is 1; it must be from 2 to 11 \(of 12 classes\)"),
        ([str(number) for number in range(N_CLASSES)], "the number of super-classes is 12; it must be from 2 to 11"),
    ],
)
def test_super_classes_that_are_no_hierarchy_are_refused(super_classes, message) -> None:
    with pytest.raises(BenchmarkError, match=message):
        hpl(n_coarse=None, omegas=(0.5,)).begin(context(super_classes=super_classes))


def test_a_data_set_without_super_classes_is_refused_before_the_first_job(tmp_path) -> None:
    bench = tiny_bench(tmp_path)
    check_super_classes(METHODS["hpl-gt-proxy-nca"], bench)
    without = replace(bench, index=replace(bench.index, super_classes=None))
    check_super_classes(METHODS["hpl-proxy-nca"], without)
    with pytest.raises(BenchmarkError, match=r"hpl-gt-proxy-nca: .* has 0 super-classes over the \d+ training classes"):
        check_super_classes(METHODS["hpl-gt-proxy-nca"], without)


# --- what is refused


@pytest.mark.parametrize(
    ("n_coarse", "message"),
    [
        ((12,), r"n_coarse_1 is 12; it must be from 2 to 11 \(of 12 class proxies\)\."),
        ((13,), "n_coarse_1 is 13"),
        ((1,), "n_coarse_1 is 1;"),
        ((5, 3), r"n_coarse_2 is 3; it must be from 2 to 2 \(half of n_coarse_1 = 5\)\."),
    ],
)
def test_as_many_coarse_proxies_as_proxies_are_refused_with_the_numbers(n_coarse, message) -> None:
    with pytest.raises(BenchmarkError, match=message):
        hpl(n_coarse=n_coarse, omegas=[0.5] * len(n_coarse))


@pytest.mark.parametrize(
    ("name", "message"),
    [
        (
            "hpl(soft-triple)",
            r"hpl\(soft-triple\): .* only weight has one row a class.* this one owns fc \(128, 50\)\.",
        ),
        ("hpl(triplet)", r"triplet is of the family 'pair'; a hierarchy needs class proxies\."),
        ("hpl3(hpl-proxy-nca)", r"needs a loss that is a formula alone; this one has begin\(\)\."),
        ("hpl-gt(untrained)", "untrained is of the family 'baseline'"),
    ],
)
def test_a_base_without_one_proxy_a_class_is_refused_with_the_reason(name, message) -> None:
    with pytest.raises(BenchmarkError, match=message):
        method_entry(name)


def test_a_missing_value_is_named() -> None:
    values = {"n_coarse_1": 3, "update_every": 50}
    with pytest.raises(BenchmarkError, match=r"hpl-proxy-nca: no value for omega_1, softmax_scale\."):
        build_method(METHODS["hpl-proxy-nca"], N_CLASSES, DIM, values)


# --- names and spaces


def test_a_composed_name_and_its_short_one_are_the_same_method() -> None:
    for base in ("proxy-nca", "proxy-nca++", "proxy-anchor"):
        for prefix in ("hpl", "hpl-gt"):
            assert method_entry(f"{prefix}({base})").name == f"{prefix}-{base}" in METHODS
    for name in ("hpl(norm-softmax)", "hpl3(proxy-anchor)", "hpl-gmm(proxy-nca)", "hpl(pml:ProxyAnchorLoss)"):
        assert method_entry(name).name == name


def test_the_code_of_a_users_loss_stays_with_the_composed_method(tmp_path) -> None:
    (tmp_path / "own.py").write_text(UNNORMALISED, encoding="utf-8")
    path = f"{tmp_path / 'own.py'}:Centres"
    assert method_entry(f"hpl({path})").code == method_entry(path).code != ""


@pytest.mark.parametrize("n_classes", [4, 75, 8488])
def test_the_space_is_the_bases_and_bounds_follow_the_class_count(n_classes) -> None:
    space = METHODS["hpl-proxy-anchor"].space(n_classes)
    assert space.keys() == METHODS["proxy-anchor"].space(n_classes).keys() | {"n_coarse_1", "omega_1", "update_every"}
    coarse = space["n_coarse_1"]
    assert (coarse.low, coarse.high, coarse.log) == (2, n_classes // 2, True)
    assert (space["omega_1"].low, space["omega_1"].high, space["omega_1"].log) == (0.01, 1.0, True)
    assert space["update_every"].choices == (50, 100, 200)
    given = METHODS["hpl-gt-proxy-anchor"].space(n_classes)
    assert space_hash(given) == space_hash({key: item for key, item in space.items() if key != "n_coarse_1"})


def test_the_space_of_two_coarse_levels_leaves_room_for_the_second() -> None:
    space = method_entry("hpl3(proxy-nca)").space(75)
    bounds = {name: (space[name].low, space[name].high) for name in ("n_coarse_1", "n_coarse_2", "omega_2")}
    assert bounds == {"n_coarse_1": (4, 37), "n_coarse_2": (2, 18), "omega_2": (0.01, 1.0)}


@pytest.mark.parametrize(("name", "n_classes", "least"), [("hpl-proxy-nca", 3, 4), ("hpl3(proxy-nca)", 7, 8)])
def test_too_few_classes_for_a_hierarchy_are_refused_when_the_space_is_built(name, n_classes, least) -> None:
    entry = method_entry(name)
    assert entry.space(least)
    with pytest.raises(BenchmarkError, match=rf"over {n_classes} training classes in a fold; at least {least} classes"):
        entry.space(n_classes)


# --- state and record


@pytest.mark.parametrize("n_coarse", [(5, 2), None], ids=["clustered", "given"])
def test_a_state_saved_between_updates_goes_on_bit_for_bit(n_coarse) -> None:
    omegas = (0.5, 0.25) if n_coarse else (0.5,)

    def begun(seed: int) -> tuple[HierarchicalProxyLoss, torch.optim.Optimizer]:
        loss = hpl(n_coarse=n_coarse, omegas=omegas)
        loss.begin(context(seed))
        return loss, torch.optim.Adam(loss.parameters(), lr=0.1)

    loss, optimiser = begun(seed=0)
    train(loss, optimiser, range(1, 8))
    file = io.BytesIO()
    torch.save((loss.state_dict(), optimiser.state_dict()), file)
    wanted = train(loss, optimiser, range(8, 14))
    file.seek(0)
    again, optimiser_again = begun(seed=1)
    states = torch.load(file, weights_only=True)
    again.load_state_dict(states[0])
    optimiser_again.load_state_dict(states[1])
    assert train(again, optimiser_again, range(8, 14)) == wanted
    assert again.summary() == loss.summary()
    assert len(again.summary()["hierarchy"]["levels"][0]["changes"]) == 6


def test_the_summary_of_eight_thousand_classes_is_short_json() -> None:
    n_classes = 8488
    loss = hpl(n_classes=n_classes, n_coarse=(500,), omegas=(0.5,))
    loss._names = {"classes": [f"{number:05d}.chair" for number in range(n_classes)], "super_classes": None}
    loss.levels[0].members.copy_(torch.arange(n_classes) % 499)
    text = json.dumps(loss.summary(), allow_nan=False)
    assert loss.summary()["hierarchy"]["levels"][0]["empty"] == [499]
    assert len(text) < 200_000


def test_a_fold_records_which_classes_share_a_coarse_proxy_and_gives_the_same_bits_again(tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path)
    entry = METHODS["hpl-proxy-nca"]
    values = {"w_lr": 0.01, "softmax_scale": 8.0, "n_coarse_1": 3, "omega_1": 0.5, "update_every": 50}
    first, again = (run_fold(bench.job(entry, values, 0, 1), bench) for _ in range(2))
    assert first.outcome == "done", first.message
    assert without_timings(first) == without_timings(again)
    found = first.method_state["hierarchy"]
    assert found["classes"] == list(bench.split.folds[1].train)
    super_class_of = dict(zip(bench.index.classes, bench.index.super_classes, strict=True))
    given = [found["super_classes"]["names"][number] for number in found["super_classes"]["members"]]
    assert given == [super_class_of[name] for name in found["classes"]]
    (level,) = found["levels"]
    assert len(level["members"]) == len(found["classes"])
    assert set(level["members"]) <= set(range(3))


def test_a_fold_with_a_given_hierarchy_has_the_data_sets_super_classes(tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path)
    values = {"w_lr": 0.01, "softmax_scale": 8.0, "omega_1": 0.5, "update_every": 50}
    record = run_fold(bench.job(METHODS["hpl-gt-proxy-nca"], values, 0, 0), bench)
    assert record.outcome == "done", record.message
    found = record.method_state["hierarchy"]
    assert found["levels"][0]["members"] == found["super_classes"]["members"]


def test_a_proposal_that_is_no_pyramid_fails_before_its_first_step_and_runs_as_nothing_else(tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path)
    sizes = {"n_coarse_1": 4, "n_coarse_2": 3, "omega_1": 0.5, "omega_2": 0.5}
    values = {"w_lr": 0.01, "softmax_scale": 8.0, "update_every": 50, **sizes}
    record = run_fold(bench.job(method_entry("hpl3(proxy-nca)"), values, 0, 0), bench)
    assert (record.outcome, record.reason, record.n_steps) == ("failed", "method-error", 0)
    assert record.message == "n_coarse_2 is 3; it must be from 2 to 2 (half of n_coarse_1 = 4)."


# --- what every method is held to, once begun


@pytest.mark.parametrize("name", [name for name in METHODS if name.startswith("hpl-")])
def test_every_corner_of_the_space_gives_a_finite_loss_and_gradient(name) -> None:
    space = METHODS[name].space(N_CLASSES)
    ends = [item.choices[:1] if hasattr(item, "choices") else (item.low, item.high) for item in space.values()]
    for corner in product(*ends):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            loss = build_method(METHODS[name], N_CLASSES, PUBLISHED_DIM, dict(zip(space, corner, strict=True)))
        loss.begin(context())
        for labels in (batch()[1], torch.zeros(BATCH, dtype=torch.int64)):
            embeddings, _ = batch(dim=PUBLISHED_DIM)
            value = loss(embeddings, labels)
            value.backward()
            assert value.isfinite(), corner
            assert embeddings.grad.isfinite().all(), corner
            assert next(loss.parameters()).grad.isfinite().all(), corner


@pytest.mark.parametrize("n_coarse", [(5, 2), None], ids=["clustered", "given"])
def test_all_of_it_moves_with_the_module(n_coarse) -> None:
    loss = hpl(n_coarse=n_coarse, omegas=(0.5, 0.25) if n_coarse else (0.5,))
    loss.begin(context())
    loss.to("meta")
    assert all(tensor.is_meta for tensor in (*loss.parameters(), *loss.buffers()))
    assert {"base.proxies", "levels.0.loss.proxies", "levels.0.members"} <= loss.state_dict().keys()


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_updates_on_a_gpu_equal_those_on_the_cpu() -> None:
    found = []
    for device in ("cpu", "cuda"):
        loss = hpl().to(device)
        loss.begin(context())
        with torch.no_grad():
            loss.base.proxies.add_(torch.linspace(0, 3, N_CLASSES * DIM, device=device).reshape(N_CLASSES, DIM).sin())
        loss.after_step(EVERY_TWO_STEPS, context())
        found.append(loss)
    assert found[0].summary() == found[1].summary()
    torch.testing.assert_close(found[0].levels[0].proxies, found[1].levels[0].proxies.cpu())
