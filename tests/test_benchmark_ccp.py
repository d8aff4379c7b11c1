"""CCP: its loss, its projection term, its chain of problems, and a chain that is put down and taken up again."""

import io
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import tiny_bench
from torch import nn
from torch.nn.functional import normalize

from benchmark.errors import BenchmarkError
from benchmark.methods.ccp import PATIENCE
from benchmark.methods.entry import W_LR
from benchmark.methods.registry import METHODS, build_method, method_entry
from benchmark.training.context import Context
from benchmark.training.optimisers import build_optimiser
from benchmark.training.training import FoldTraining, run_fold
from protocols.catalogue import CCP_V1, MLRC_V1
from protocols.model import EmbeddingModel, normalised

MARGINS = {"pos_margin": 0.2, "neg_margin": 0.9}
VALUES = {"lambda": 0.01, "n_proxies": 3, "pool_size": 5, **MARGINS}
SIZES = (9, 1, 6, 4)  # images of each class; the second has one
N_CLASSES, DIM = len(SIZES), 8


class Bed:
    """A small network on fixed images, with the optimiser and the context that a method would be given."""

    def __init__(self, values: dict, *, name: str = "ccp-contrastive", rule: str = "l2", protocol=CCP_V1) -> None:
        start = torch.Generator().manual_seed(0)
        self.images = torch.randn(sum(SIZES), 6, generator=start)
        self.labels = torch.arange(N_CLASSES).repeat_interleave(torch.tensor(SIZES))
        trunk, embedder = nn.Linear(6, 7), nn.Linear(7, DIM)
        self.model = EmbeddingModel(trunk, embedder, rule)  # type: ignore[arg-type]
        for weight in self.model.parameters():
            nn.init.normal_(weight, generator=start)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            self.method = build_method(method_entry(name), N_CLASSES, DIM, values)
        self.optimiser = build_optimiser(protocol.optimiser, self.model, self.method, method_entry(name), values)
        self.generator = torch.Generator().manual_seed(2)
        self.n_steps = 0
        self.asked: list[np.ndarray] = []
        ends = np.cumsum(SIZES)
        self.context = Context(
            n_classes=N_CLASSES,
            embedding_dim=DIM,
            images_by_class=[np.arange(end - size, end) for end, size in zip(ends, SIZES, strict=True)],
            embed=self.embed,
            trainable_parameters=tuple(self.model.trainable_parameters()),
            generator=self.generator,
            normalise=lambda vectors: normalised(vectors, rule),  # type: ignore[arg-type]
            reset_optimiser=lambda weights: [self.optimiser.state.pop(weight, None) for weight in weights],
        )  # fmt: skip
        self.method.begin(self.context)

    def embed(self, indices: np.ndarray) -> torch.Tensor:
        self.asked.append(indices)
        with torch.no_grad():
            return self.model(self.images[indices])

    def step(self, n: int = 1) -> list[float]:
        """The losses of the next steps; the batch follows from the step's number."""
        losses = []
        for _ in range(n):
            chosen = np.random.default_rng(self.n_steps).permutation(len(self.labels))[:8]
            loss = self.method(self.model(self.images[chosen]), self.labels[chosen])
            loss = loss + self.method.penalty(self.context)
            self.optimiser.zero_grad()
            loss.backward()
            self.optimiser.step()
            losses.append(loss.item())
            self.n_steps += 1
            self.method.after_step(self.n_steps, self.context)
        return losses

    def validate(self, *found: float) -> None:
        for map_at_r in found:
            self.step()
            self.method.after_validation(map_at_r, self.context)

    def weights(self) -> list[torch.Tensor]:
        return [weight.detach().clone() for weight in self.model.parameters()]


NO_GAIN = (0.5, *([0.5] * PATIENCE))  # validations that end a problem


def test_the_short_names_are_the_composed_methods() -> None:
    for base in ("contrastive", "contrastive-cosine", "ms", "triplet"):
        assert method_entry(f"ccp({base})") is METHODS[f"ccp-{base}"]
        assert METHODS[f"ccp-{base}"].name == f"ccp-{base}"


@pytest.mark.parametrize("base", ["ntxent", "margin", "margin-class", "snr", "pml:CircleLoss", "pml:SupConLoss"])
def test_any_pair_loss_that_takes_references_can_be_the_base(base) -> None:
    entry = method_entry(f"ccp({base})")
    assert entry.name == f"ccp({base})"
    assert (W_LR in entry.space(5)) == (W_LR in method_entry(base).space(5))
    assert entry.own_weight_decay == method_entry(base).own_weight_decay
    assert entry.code == method_entry(base).code


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("ccp(proxy-nca)", "proxy-nca is of the family 'class'; ccp needs a pair loss"),
        ("ccp(untrained)", "family 'baseline'"),
        ("ccp(fastap)", "fastap takes no references: TypeError: .*ref_emb"),
        ("ccp(ccp-contrastive)", "takes no references: TypeError: .*unexpected keyword argument 'ref_emb'"),
        ("ccp(contrastiv)", r"no method named 'contrastiv'. Did you mean 'contrastive'\?"),
    ],
)
def test_a_base_that_cannot_serve_is_refused_with_the_reason(name, reason) -> None:
    with pytest.raises(BenchmarkError, match=reason):
        method_entry(name)


def test_a_loss_of_ones_own_serves_if_its_references_get_a_gradient(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "import torch\n"
        "class Reads(torch.nn.Module):\n"
        "    def forward(self, x, y, ref_emb=None, ref_labels=None):\n"
        "        return (x @ (x if ref_emb is None else ref_emb).T).mean()\n"
        "class Forgets(Reads):\n"
        "    def forward(self, x, y, ref_emb=None, ref_labels=None):\n"
        "        return (x @ x.T).mean()\n",
        encoding="utf-8",
    )
    path = (tmp_path / "own.py").as_posix()
    assert method_entry(f"ccp({path}:Reads)").code == method_entry(f"{path}:Reads").code
    with pytest.raises(BenchmarkError, match="takes no references: they get no gradient"):
        method_entry(f"ccp({path}:Forgets)")


def test_the_space_and_the_published_values_are_the_papers() -> None:
    space = METHODS["ccp-contrastive"].space(75)
    assert (space["lambda"].low, space["lambda"].high, space["lambda"].log) == (1e-5, 1e-1, True)
    for name in ("n_proxies", "pool_size"):
        assert (space[name].low, space[name].high) == (1, 16)
    assert space.keys() == {"lambda", "n_proxies", "pool_size", "batch_weight", "pos_margin", "neg_margin"}
    small, large = (METHODS["ccp-contrastive-cosine"].published[key] for key in ("ccp:cub200", "ccp:sop"))
    assert small == {"lambda": 2e-4, "n_proxies": 8, "pool_size": 12, "batch_weight": 0.0, "neg_margin": 0.5}
    assert large == small | {"n_proxies": 4, "pool_size": 7}


def test_the_published_variants_differ_from_the_papers_setting_in_what_they_are_named_for() -> None:
    published = METHODS["ccp-contrastive"].published
    for dataset in ("ccp:cub200", "ccp:cars196", "ccp:sop", "ccp:inshop"):
        assert published[f"{dataset}-s"] == published[dataset] | {"n_proxies": 1}
        assert published[f"{dataset}-code"] == published[dataset] | {"batch_weight": 0.1}


def test_a_value_left_out_is_named_and_the_batch_weight_may_be() -> None:
    assert build_method(METHODS["ccp-contrastive"], 5, 8, VALUES).batch_weight == 0.0
    with pytest.raises(BenchmarkError, match="ccp-contrastive: no value for lambda, neg_margin"):
        build_method(METHODS["ccp-contrastive"], 5, 8, {"n_proxies": 1, "pool_size": 1, "pos_margin": 0.0})
    with pytest.raises(BenchmarkError, match="'n_proxies' is 0; it must be at least 1"):
        build_method(METHODS["ccp-contrastive"], 5, 8, {**VALUES, "n_proxies": 0})


@pytest.mark.parametrize("rule", ["l2", "lipschitz"])
def test_the_loss_compares_the_batch_with_the_normalised_proxies_of_all_classes(rule) -> None:
    bed = Bed({**VALUES, "batch_weight": 0.1}, rule=rule)
    with torch.no_grad():
        bed.method.proxies.mul_(torch.linspace(0.3, 3.0, len(bed.method.proxies))[:, None])
    x, y = bed.model(bed.images)[:6].detach(), torch.tensor([0, 0, 2, 2, 2, 0])  # two classes are absent
    p, of = bed.method.proxies.detach().double().numpy(), np.repeat(np.arange(N_CLASSES), 3)
    lengths = np.linalg.norm(p, axis=1, keepdims=True)
    p = p / (lengths if rule == "l2" else np.maximum(lengths, 1.0))

    def expected(references, ref_labels, skip_self: bool) -> float:
        hinges: dict[bool, list[float]] = {True: [], False: []}
        for i, a in enumerate(x.double().numpy()):
            for j, b in enumerate(references):
                same = bool(y[i] == ref_labels[j])
                d = np.linalg.norm(a - b)
                if not (skip_self and i == j):
                    hinges[same].append(max(d - 0.2, 0) if same else max(0.9 - d, 0))
        return sum(np.mean([h for h in side if h > 0]) for side in hinges.values() if any(h > 0 for h in side))

    by_hand = expected(p, of, False) + 0.1 * expected(x.double().numpy(), y, True)
    assert bed.method(x, y).item() == pytest.approx(by_hand, rel=1e-5)


def test_proxies_of_a_class_outside_the_batch_are_pushed_away() -> None:
    bed = Bed({**VALUES, "neg_margin": 2.0})
    bed.method(bed.model(bed.images)[:6], torch.tensor([0, 0, 2, 2, 2, 0])).backward()
    assert (bed.method.proxies.grad.reshape(N_CLASSES, 3, DIM)[[1, 3]].abs().sum(dim=2) > 0).any()


def test_the_penaltys_value_and_gradient_are_those_of_the_written_term() -> None:
    bed = Bed(VALUES)
    assert bed.method.penalty(bed.context) == 0.0  # the first problem has none
    bed.validate(*NO_GAIN)
    bed.step(3)
    found = bed.method.penalty(bed.context)
    gradients = torch.autograd.grad(3 * found, bed.context.trainable_parameters)
    theta = [weight.detach().double().requires_grad_() for weight in bed.context.trainable_parameters]
    term = sum((w - a.double()).square().sum() for w, a in zip(theta, bed.method._previous_network, strict=True))
    written = VALUES["lambda"] / 2 * term
    assert written > 0
    assert found.item() == pytest.approx(written.item(), rel=1e-5)
    for one, two in zip(gradients, torch.autograd.grad(3 * written, theta), strict=True):
        torch.testing.assert_close(one.double(), two, rtol=1e-6, atol=0)


def test_the_larger_lambda_is_the_nearer_the_network_stays_to_the_last_solution() -> None:
    distances = []
    for attraction in (0.0, 1.0, 100.0):
        bed = Bed({**VALUES, "lambda": attraction})
        bed.optimiser.param_groups[0]["lr"] = 1e-3
        bed.validate(*NO_GAIN)
        bed.step(100)
        pairs = zip(bed.weights(), bed.method._previous_network, strict=True)
        distances.append(sum((one - two).square().sum().item() for one, two in pairs) ** 0.5)
    assert distances[0] > 1.2 * distances[1] > 1.2 * distances[2]


def test_one_problem_with_lambda_0_is_the_base_with_proxies_as_references_to_the_last_bit() -> None:
    bed = Bed({**VALUES, "lambda": 0.0})
    model = EmbeddingModel(nn.Linear(6, 7), nn.Linear(7, DIM), "l2")  # type: ignore[arg-type]
    model.load_state_dict(bed.model.state_dict())
    proxies = nn.Parameter(bed.method.proxies.detach().clone())
    loss_function = build_method(METHODS["contrastive"], N_CLASSES, DIM, MARGINS)
    spec = CCP_V1.optimiser
    weights = [*model.parameters(), proxies]
    optimiser = torch.optim.Adam(weights, lr=spec.lr, weight_decay=spec.weight_decay, betas=spec.betas, fused=True)
    losses = []
    for step in range(20):
        chosen = np.random.default_rng(step).permutation(len(bed.labels))[:8]
        references, labels = normalize(proxies), torch.arange(N_CLASSES).repeat_interleave(3)
        x, y = model(bed.images[chosen]), bed.labels[chosen]
        loss = loss_function(x, y, ref_emb=references, ref_labels=labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert bed.step(20) == losses
    assert all(torch.equal(one, two) for one, two in zip(bed.weights(), model.parameters(), strict=True))
    assert torch.equal(bed.method.proxies, proxies)


def test_lambda_0_changes_nothing_in_a_later_problem_either() -> None:
    bed, free = Bed({**VALUES, "lambda": 0.0}), Bed({**VALUES, "lambda": 0.0})
    free.method.penalty = lambda context: 0.0
    for one in (bed, free):
        one.validate(*NO_GAIN)
    assert bed.step(10) == free.step(10)
    assert all(torch.equal(one, two) for one, two in zip(bed.weights(), free.weights(), strict=True))


@pytest.mark.parametrize("n_proxies", [1, 3])
def test_the_first_proxies_are_embeddings_of_images_of_their_class(n_proxies) -> None:
    for pool_size in (1, 3, 5):
        bed = Bed({**VALUES, "n_proxies": n_proxies, "pool_size": pool_size})
        found = bed.method.proxies.detach().reshape(N_CLASSES, n_proxies, DIM)
        own = [bed.embed(images) for images in bed.context.images_by_class]
        for centres, embeddings in zip(found, own, strict=True):
            assert torch.cdist(centres, embeddings).amin(dim=1).max() < 1e-3


@pytest.mark.parametrize(
    ("n_proxies", "pool_size", "expected"), [(3, 1, 3), (3, 2, 6), (3, 3, 3), (3, 5, 5), (1, 4, 4), (1, 1, 1)]
)
def test_a_pool_smaller_than_the_proxies_is_raised_to_a_multiple(n_proxies, pool_size, expected) -> None:
    bed = Bed({**VALUES, "n_proxies": n_proxies, "pool_size": pool_size})
    assert bed.method.summary()["pool_size"] == expected
    drawn = bed.asked[0].reshape(N_CLASSES, expected)
    for some, images in zip(drawn, bed.context.images_by_class, strict=True):
        assert set(some) <= set(images)
        assert len(images) < expected or len(set(some)) == expected  # none twice where there are enough
    assert bed.method.summary()["short_classes"] == sum(size < expected for size in SIZES)


def test_new_proxies_are_the_images_that_the_solution_covers_worst() -> None:
    bed = Bed({**VALUES, "n_proxies": 1, "pool_size": 4})
    bed.validate(0.5)
    solution = normalize(bed.method.proxies.detach().clone())
    bed.validate(*[0.5] * PATIENCE)
    pool = bed.embed(bed.asked[-1]).reshape(N_CLASSES, 4, DIM)
    farthest = torch.cdist(pool, solution[:, None])[:, :, 0].argmax(dim=1)
    torch.testing.assert_close(bed.method.proxies.detach(), pool[torch.arange(N_CLASSES), farthest])


def test_a_problem_ends_after_three_validations_without_gain_and_its_best_is_the_next_anchor() -> None:
    bed = Bed(VALUES)
    bed.validate(0.1, 0.2)
    best = bed.weights()
    bed.validate(0.2 + 0.9e-5, 0.1)
    assert bed.method.summary()["n_problems"] == 1
    before = bed.weights()
    bed.validate(0.2)
    assert bed.method.summary()["n_problems"] == 2
    assert all(torch.equal(a, b) for a, b in zip(bed.method._previous_network, best, strict=True))
    assert not any(torch.equal(a, b) for a, b in zip(bed.weights(), best, strict=True))  # training goes on from here
    assert all((a - b).abs().max() < 1e-3 for a, b in zip(bed.weights(), before, strict=True))
    first, second = bed.method.summary()["problems"]
    assert (first["after_step"], first["n_steps"], first["best_step"], first["best_map_at_r"]) == (0, 5, 2, 0.2)
    assert (second["after_step"], second["n_steps"], second["best_step"]) == (5, 0, None)
    assert (first["lambda"], second["lambda"]) == (0.0, VALUES["lambda"])


def test_a_gain_must_exceed_a_hundred_thousandth_and_each_gain_starts_the_count_again() -> None:
    bed = Bed(VALUES)
    bed.validate(0.2, 0.2, 0.2, 0.2 + 1.1e-5, 0.2, 0.2, 0.3, 0.2, 0.2)
    assert bed.method.summary()["n_problems"] == 1
    bed.validate(0.3)
    assert bed.method.summary()["n_problems"] == 2
    bed.validate(0.1, 0.1, 0.1)  # a problem is measured against its own best
    assert bed.method.summary()["n_problems"] == 2


def test_a_run_that_always_gains_stays_in_its_first_problem() -> None:
    bed = Bed(VALUES)
    bed.validate(*np.linspace(0.1, 0.9, 20).tolist())
    bed.method.finish(bed.context)
    found = bed.method.summary()
    assert (found["n_problems"], found["problems"][0]["n_steps"], found["problems"][0]["lambda"]) == (1, 20, 0.0)


def test_a_problem_that_the_last_validation_began_is_not_in_the_chain() -> None:
    bed = Bed(VALUES)
    bed.validate(*NO_GAIN)
    assert bed.method.summary()["n_problems"] == 2
    bed.method.finish(bed.context)
    found = bed.method.summary()
    assert [problem["n_steps"] for problem in found["problems"]] == [len(NO_GAIN)]
    assert found["problems"][0]["end"]


def test_a_problem_without_a_validation_ends_with_its_own_proxies() -> None:
    bed = Bed({**VALUES, "pool_size": 3})
    bed.validate(*NO_GAIN)
    bed.step()
    with torch.no_grad():
        bed.method.proxies.copy_(bed.method.proxies[0].expand_as(bed.method.proxies))
    bed.method.finish(bed.context)
    assert bed.method.summary()["problems"][1]["end"]["spread"] == pytest.approx(0.0, abs=1e-6)


def test_the_optimiser_forgets_the_old_proxies_and_nothing_else() -> None:
    bed = Bed(VALUES)
    bed.validate(*NO_GAIN)
    assert bed.method.proxies not in bed.optimiser.state
    assert all(weight in bed.optimiser.state for weight in bed.model.parameters())
    bed.step()
    assert bed.optimiser.state[bed.method.proxies]["step"] == 1
    assert bed.optimiser.state[bed.model.embedder.weight]["step"] == bed.n_steps


@pytest.mark.parametrize("protocol", [CCP_V1, MLRC_V1], ids=["ccp", "mlrc"])
def test_proxies_learn_as_the_network_does_whatever_other_own_weights_do(protocol) -> None:
    values = {"lambda": 0.01, "n_proxies": 3, "pool_size": 5, "margin": 0.1, "init_beta": 1.0, W_LR: 0.02}
    bed = Bed(values, name="ccp(margin)", protocol=protocol)
    network, proxies, beta = bed.optimiser.param_groups
    assert proxies["params"][0] is bed.method.proxies
    assert (proxies["lr"], proxies["weight_decay"]) == (network["lr"], network["weight_decay"]) != (0.02, 0.0)
    assert (beta["lr"], beta["weight_decay"], len(beta["params"])) == (0.02, 0.0, 1)


@pytest.mark.parametrize("base", ["contrastive", "triplet", "ms"])
def test_a_step_of_a_later_problem_never_waits_for_the_device(base, monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parent / "benchmarks"))
    from method_overhead import Waits

    own = {name: (low.low + low.high) / 2 for name, low in METHODS[base].space(5).items()}
    bed = Bed({"lambda": 0.01, "n_proxies": 3, "pool_size": 5, **own}, name=f"ccp-{base}")
    bed.validate(*NO_GAIN)
    x = bed.model(bed.images)
    with Waits() as waits:
        (bed.method(x, bed.labels) + bed.method.penalty(bed.context)).backward()
        bed.method.after_step(1, bed.context)
    assert waits.names == []


def saved(bed: Bed) -> io.BytesIO:
    file = io.BytesIO()
    state = {"model": bed.model, "method": bed.method, "optimiser": bed.optimiser}
    torch.save(
        {name: held.state_dict() for name, held in state.items()}
        | {"generator": bed.generator.get_state(), "n_steps": bed.n_steps},
        file,
    )
    file.seek(0)
    return file


def restored(file: io.BytesIO, values: dict) -> Bed:
    bed, found = Bed(values), torch.load(file, weights_only=True)
    bed.step(2)  # whatever it did before must not show
    for name in ("model", "method", "optimiser"):
        getattr(bed, name).load_state_dict(found[name])
    bed.generator.set_state(found["generator"])
    bed.n_steps = found["n_steps"]
    return bed


@pytest.mark.parametrize("n_validations", [0, 4, 5, 6, 9])
def test_a_chain_put_down_anywhere_goes_on_to_the_same_bits(n_validations) -> None:
    scores = [0.1, 0.3, 0.2, 0.2, 0.2, 0.15, 0.2, 0.1, 0.2, 0.2, 0.1, 0.3]
    whole = Bed(VALUES)
    whole.validate(*scores[:n_validations])
    whole.step(3)  # in the middle of a problem, with proxies that have moved and an optimiser that remembers
    resumed = restored(saved(whole), VALUES)
    for bed in (whole, resumed):
        bed.validate(*scores[n_validations:])
    assert whole.step(5) == resumed.step(5)
    assert all(torch.equal(one, two) for one, two in zip(whole.weights(), resumed.weights(), strict=True))
    assert torch.equal(whole.method.proxies, resumed.method.proxies)
    for bed in (whole, resumed):
        bed.method.finish(bed.context)
    assert whole.method.summary() == resumed.method.summary()
    assert whole.method.summary()["n_problems"] >= 3


def test_a_state_that_was_taken_does_not_change_when_training_goes_on() -> None:
    bed = Bed(VALUES)
    bed.validate(*NO_GAIN, 0.6)
    state = bed.method.get_extra_state()
    before = [weight.clone() for weight in (*state["best_network"], *state["previous_network"], state["best_proxies"])]
    bed.validate(0.7, *NO_GAIN)
    after = (*state["best_network"], *state["previous_network"], state["best_proxies"])
    assert all(torch.equal(one, two) for one, two in zip(before, after, strict=True))
    assert len(state["problems"]) == 2


def test_the_summary_is_plain_and_measures_both_ends_of_every_problem() -> None:
    bed = Bed(VALUES)
    bed.validate(*NO_GAIN)
    bed.step(2)
    bed.method.finish(bed.context)
    found = bed.method.summary()
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    for problem in found["problems"]:
        for end in (problem["start"], problem["end"]):
            assert 0 < end["covering_radius"] < end["covering_radius_over_k"] < 2
            assert end["spread"] > 0
    lone = Bed({**VALUES, "n_proxies": 1}).method.summary()["problems"][0]["start"]
    assert lone["spread"] is None
    assert lone["covering_radius"] == lone["covering_radius_over_k"]


def mean_radius(pool: torch.Tensor, proxies: torch.Tensor) -> float:
    """The largest distance of a pool's image to the nearest proxy of its class, mean over classes; by loops."""
    classes = zip(pool, normalize(proxies).reshape(N_CLASSES, -1, DIM), strict=True)
    return float(np.mean([max(min((x - p).norm().item() for p in known) for x in some) for some, known in classes]))


@pytest.mark.parametrize("ends_by_itself", [True, False])
def test_an_end_measures_the_best_proxies_among_images_as_the_network_embeds_them_by_then(ends_by_itself) -> None:
    bed = Bed(VALUES)
    bed.validate(0.5)
    best = bed.method.proxies.detach().clone()
    moves = torch.Generator().manual_seed(3)
    with torch.no_grad():  # as far as many steps would
        for weight in (bed.method.proxies, bed.model.embedder.weight):
            weight.add_(torch.randn(weight.shape, generator=moves))
    bed.validate(0.5, 0.5)
    present = bed.method.proxies.detach().clone()
    if ends_by_itself:
        bed.validate(0.5)
    else:
        bed.method.finish(bed.context)
    found = bed.method.summary()["problems"][0]["end"]["covering_radius"]
    pool = bed.embed(bed.asked[-1]).reshape(N_CLASSES, VALUES["pool_size"], DIM)
    assert found == pytest.approx(mean_radius(pool, best), rel=1e-4)
    assert found != pytest.approx(mean_radius(pool, present), rel=0.01)


LONGER = ("max_steps=14", "cadence.evaluate_every_steps=2", "cadence.patience=6", "lr=1e-7")
CROPS = ("train_crop=random-resized", "crop_area=[0.3, 1.0]", "flip_probability=0.5")


def test_the_reset_of_a_fold_reaches_its_optimiser(tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path)
    training = FoldTraining(bench.job(METHODS["ccp-contrastive"], VALUES, 0, 0), bench)
    training.run()
    learner = training.learner
    assert learner.method.proxies in learner._optimiser.state
    learner._context.reset_optimiser([learner.method.proxies])
    assert learner.method.proxies not in learner._optimiser.state
    assert training.model.embedder.weight in learner._optimiser.state


def test_a_fold_runs_through_several_problems_and_its_record_tells_them(tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path, *LONGER, *CROPS)
    job = bench.job(METHODS["ccp-contrastive"], VALUES, 1, 0)
    record, again = run_fold(job, bench), run_fold(job, bench)
    assert record.outcome == "done", record.message
    assert (record.curve, record.test, record.method_state) == (again.curve, again.test, again.method_state)
    problems = record.method_state["problems"]
    assert len(problems) >= 2
    steps = {point.step for point in record.curve}
    assert {problem["after_step"] for problem in problems[1:]} <= steps
    assert sum(problem["n_steps"] for problem in problems) == record.n_steps
    assert problems[-1]["end"]["covering_radius"] > 0
