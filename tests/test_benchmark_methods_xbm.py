"""Cross-batch memory: what it remembers, when it counts, what it can be composed with."""

from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import MARGINS, tiny_bench
from torch import nn
from torch.nn.functional import normalize

from benchmark.errors import BenchmarkError
from benchmark.methods import xbm
from benchmark.methods.registry import METHODS, build_method, check_hyperparameters, method_entry
from benchmark.training.training import run_fold

DIM, N_CLASSES, SIZE = 8, 4, 6
VALUES = {"neg_margin": 0.2}


@pytest.fixture
def soon(monkeypatch) -> None:
    """The memory counts two steps after it is full, not a thousand."""
    monkeypatch.setattr(xbm, "START_STEP", 2)


def built(memory_batches: int = 3, name: str = "xbm(contrastive-cosine)", **values) -> nn.Module:
    hyperparameters = {**(values or VALUES), "memory_batches": memory_batches}
    return build_method(method_entry(name), N_CLASSES, DIM, hyperparameters)


def batch(number: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The same for the same number: 6 images of 4 classes, not of unit length all of them."""
    random = torch.Generator().manual_seed(number)
    x = normalize(torch.randn(SIZE, DIM, generator=random)) * torch.linspace(0.8, 1, SIZE)[:, None]
    return x.requires_grad_(), torch.randint(N_CLASSES, (SIZE,), generator=random)


def losses(module: nn.Module, first: int, last: int) -> list[float]:
    """Take the batches of these numbers; the losses."""
    found = []
    for number in range(first, last):
        loss = module(*batch(number))
        loss.backward()
        module.after_step(number + 1, None)
        found.append(loss.item())
    return found


def by_hand(number: int, memory: range) -> float:
    """The sum of both terms of one batch, in float64."""
    numbers = [batch(other) for other in (number, *memory)]
    points = [x.detach().double().numpy() for x, _ in numbers]
    labels = [y.numpy() for _, y in numbers]
    total = 0.0
    for other, (references, names) in enumerate(zip(points, labels, strict=True)):
        similarity, same = points[0] @ references.T, labels[0][:, None] == names
        loss = np.where(same, 1 - similarity, np.maximum(similarity - VALUES["neg_margin"], 0))
        total += loss.sum() - (np.diag(loss).sum() if other == 0 else 0)
    return total / SIZE


def test_the_loss_is_the_bases_until_the_memory_counts_and_then_has_the_last_batches_beside_it(soon) -> None:
    found = losses(built(), 0, 9)
    alone = [by_hand(number, range(0)) for number in range(5)]
    with_memory = [by_hand(number, range(number - 3, number)) for number in range(5, 9)]
    assert found == pytest.approx(alone + with_memory, rel=1e-5)


def test_the_memory_counts_after_a_thousand_steps_and_its_filling() -> None:
    module = built(memory_batches=2)
    losses(module, 0, 2)
    module.n_steps = 1001
    assert losses(module, 7, 8) == pytest.approx([by_hand(7, range(0))], rel=1e-5)
    assert module.n_steps == 1002
    assert losses(module, 8, 9)[0] > 1.2 * by_hand(8, range(0))


def test_the_memory_holds_the_last_batches_and_sends_nothing_back(soon) -> None:
    module = built(memory_batches=2)
    losses(module, 0, 7)
    held = {tuple(row.tolist()) for row in module.memory}
    assert held == {tuple(row.tolist()) for number in (5, 6) for row in batch(number)[0].detach()}
    labels = {tuple(row.tolist()): int(label) for row, label in zip(module.memory, module.memory_labels, strict=True)}
    assert all(
        labels[tuple(row.tolist())] == int(label)
        for number in (5, 6)
        for row, label in zip(*batch(number), strict=True)
    )
    assert not module.memory.requires_grad


def test_a_run_that_is_stopped_and_loaded_goes_on_with_the_same_bits(soon, tmp_path) -> None:
    module, again = built(), built()
    before = losses(module, 0, 7)
    torch.save(module.state_dict(), tmp_path / "state.pt")
    again.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    assert before == losses(built(), 0, 7)
    assert losses(module, 7, 11) == losses(again, 7, 11)
    assert again.summary() == module.summary() == {"memory_images": 18, "steps_with_memory": 6}


def test_a_state_from_before_the_first_step_loads() -> None:
    module = built()
    losses(module, 0, 2)
    module.load_state_dict(built().state_dict())
    assert module.summary() == {"memory_images": 0, "steps_with_memory": 0}
    assert losses(module, 0, 2) == losses(built(), 0, 2)


def test_the_record_of_a_job_says_how_many_steps_had_the_memory(soon, tmp_path) -> None:
    bench = tiny_bench(tmp_path)
    with_memory, plain = (
        run_fold(bench.job(method_entry(name), values, run=0, fold=0), bench)
        for name, values in (("xbm(contrastive)", {**MARGINS, "memory_batches": 1}), ("contrastive", MARGINS))
    )
    assert with_memory.method_state == {"memory_images": bench.protocol.batch.size, "steps_with_memory": 1}
    assert with_memory.curve[0].loss == plain.curve[0].loss  # steps 1 and 2
    assert with_memory.curve[1].loss > plain.curve[1].loss


def test_a_short_name_and_the_composed_one_are_one_method() -> None:
    for base in ("contrastive", "contrastive-cosine"):
        assert method_entry(f"xbm({base})") is METHODS[f"xbm-{base}"]
        assert METHODS[f"xbm-{base}"].name == f"xbm-{base}"


def test_every_pair_loss_that_takes_references_can_have_a_memory(soon) -> None:
    able = set()
    for entry in METHODS.values():
        try:
            composed = xbm.compose(entry)
        except BenchmarkError:
            continue
        able.add(entry.name)
        assert composed.space(N_CLASSES).keys() == {*entry.space(N_CLASSES), "memory_batches"}
    assert able == {
        *("contrastive", "contrastive-cosine", "contrastive-hadsell", "siamese-chopra", "triplet", "triplet-semihard"),
        *("ntxent", "margin", "margin-class", "lifted", "snr", "ms", "ms-miner"),
    }


@pytest.mark.parametrize(
    ("base", "reason"),
    [
        ("arcface", "is of the family 'class'; xbm needs a pair loss"),
        ("untrained", "is of the family 'baseline'"),
        ("n-pairs", "takes no references: TypeError: .*ref_emb"),
        ("margin-dw", "takes no references: TypeError: "),
        ("ccp-contrastive", "takes no references: TypeError: "),
        ("xbm-contrastive", "takes no references: TypeError: "),
    ],
)
def test_what_cannot_have_a_memory_is_refused_with_the_reason(base, reason) -> None:
    with pytest.raises(BenchmarkError, match=rf"^xbm\({base}\): {base} {reason}"):
        method_entry(f"xbm({base})")


def test_a_users_loss_keeps_the_fingerprint_of_its_file(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "import torch\nclass Mine(torch.nn.Module):\n"
        "    def forward(self, embeddings, labels, *, ref_emb=None, ref_labels=None):\n"
        "        return (embeddings @ (embeddings if ref_emb is None else ref_emb).T).mean()\n",
        encoding="utf-8",
    )
    name = f"{tmp_path.as_posix()}/mine.py:Mine"
    composed = method_entry(f"xbm({name})")
    assert composed.name == f"xbm({name})"
    assert composed.code == method_entry(name).code != ""


@pytest.mark.parametrize("name", ["contrastive", "contrastive-cosine"])
def test_the_memories_of_ccp_are_published_with_the_values_of_their_base(name) -> None:
    entry = method_entry(f"xbm({name})")
    sizes = {key.removeprefix("ccp:"): values["memory_batches"] for key, values in entry.published.items()}
    assert sizes == {
        **{"cub200-s": 3, "cub200-l": 25, "cars196-s": 3, "cars196-l": 25},
        **{"sop-s": 400, "sop-l": 1400, "inshop-s": 100, "inshop-l": 400},
    }
    for key, values in entry.published.items():
        assert values == {**METHODS[name].published[key[:-2]], "memory_batches": values["memory_batches"]}
        check_hyperparameters(entry, 75, values)
