"""What a method remembers is kept whole, or it is said that it cannot be."""

import threading
from collections import deque
from collections.abc import Callable
from types import MappingProxyType

import numpy as np
import pytest
import torch
from torch import nn

from benchmark.methods.classes import middle
from benchmark.methods.entry import W_LR, MethodEntry
from benchmark.methods.registry import METHODS, build_method
from benchmark.training.method_memory import CannotBeKept, MethodMemory

TRAINED = [entry for entry in METHODS.values() if entry.is_trained and not entry.needs_super_classes]


class Loss(nn.Module):
    """A loss with memory of every kind."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.register_buffer("kept", torch.zeros(2))
        self.register_buffer("passing", torch.zeros(2), persistent=False)
        self.count, self.nested, self.none = 0, {"a": [torch.zeros(1), ("b", {1, 2})]}, None
        self.constant, self.function, self.dropped = np.float32(0.5), torch.relu, 1


def changed() -> Loss:
    """One that has learnt."""
    loss = Loss()
    with torch.no_grad():
        loss.linear.weight.fill_(7)
    loss.kept += 1
    loss.passing = loss.passing + 2
    loss.count, loss.none = 3, "now a text"
    loss.nested["a"][0] += 4
    loss.linear.note = [5]  # of a module inside
    del loss.dropped
    return loss


def test_a_method_gets_the_memory_of_another(tmp_path) -> None:
    torch.save(MethodMemory(changed()).state(), tmp_path / "memory.pt")
    other = Loss()
    MethodMemory(other).restore(torch.load(tmp_path / "memory.pt", weights_only=True))
    assert torch.equal(other.linear.weight, torch.full((2, 2), 7.0))
    assert (other.kept.tolist(), other.passing.tolist()) == ([1.0, 1.0], [2.0, 2.0])
    assert (other.count, other.none, other.linear.note) == (3, "now a text", [5])
    assert other.nested == {"a": [torch.tensor([4.0]), ("b", {1, 2})]}
    assert not hasattr(other, "dropped")
    assert type(other.constant) is np.float32
    assert other.function is torch.relu
    assert dict(other.named_buffers()).keys() == {"kept", "passing"}


def generator(loss: Loss) -> None:
    loss.thing.random()


def queue(loss: Loss) -> None:
    loss.thing.append(1)


def of_a_list(loss: Loss) -> None:
    with torch.no_grad():
        loss.thing[0].weight += 1


def another(loss: Loss) -> None:
    loss.thing = np.float32(0.6)


def holding_itself() -> list[object]:
    found: list[object] = []
    found.append(found)
    return found


@pytest.mark.parametrize(
    ("thing", "change"),
    [
        (lambda: np.random.default_rng(0), generator),
        (lambda: deque([0]), queue),
        (lambda: [nn.Linear(2, 2)], of_a_list),
        (lambda: np.float32(0.5), another),
        (holding_itself, queue),
    ],
    ids=["generator", "queue", "module in a list", "another number", "a list that holds itself"],
)
def test_what_is_not_plain_may_be_there_until_it_changes(
    thing: Callable[[], object], change: Callable[[Loss], None]
) -> None:
    loss = Loss()
    loss.thing = thing()
    memory = MethodMemory(loss)
    assert "thing" not in memory.state()["attributes"][""]
    change(loss)
    with pytest.raises(CannotBeKept, match=r"^its attribute thing \(\w+\)$"):
        memory.state()


@pytest.mark.parametrize("thing", [threading.Lock, lambda: MappingProxyType({})])
def test_what_can_be_neither_kept_nor_compared_is_named(thing: Callable[[], object]) -> None:
    loss = Loss()
    loss.linear.thing = thing()
    with pytest.raises(CannotBeKept, match=r"^its attribute linear\.thing \(\w+\)$"):
        MethodMemory(loss).state()


def test_an_attribute_that_came_later_and_is_not_plain_is_named() -> None:
    loss = Loss()
    memory = MethodMemory(loss)
    loss.thing = deque()
    with pytest.raises(CannotBeKept, match="attribute thing"):
        memory.state()


def test_a_view_of_a_weight_is_named_as_it_would_be_a_copy_when_restored() -> None:
    loss = Loss()
    memory = MethodMemory(loss)
    loss.row = loss.kept[:1]
    with pytest.raises(CannotBeKept, match="attribute row"):
        memory.state()


@pytest.mark.parametrize("state", [object(), ZeroDivisionError("of it")])
def test_a_state_dict_that_is_not_plain_or_raises_is_named(state: object, monkeypatch: pytest.MonkeyPatch) -> None:
    def get_extra_state(self: Loss) -> object:
        if isinstance(state, Exception):
            raise state
        return state

    monkeypatch.setattr(Loss, "get_extra_state", get_extra_state)
    with pytest.raises(CannotBeKept, match="its state_dict"):
        MethodMemory(Loss()).state()


@pytest.mark.parametrize("entry", TRAINED, ids=lambda entry: entry.name)
def test_the_memory_of_every_method_of_the_package_can_be_kept(entry: MethodEntry) -> None:
    values = {name: middle(item) for name, item in entry.space(8).items() if name != W_LR}
    torch.manual_seed(0)
    method = build_method(entry, 8, 16, values)
    memory = MethodMemory(method)
    embeddings = nn.functional.normalize(torch.randn(32, 16)).requires_grad_()
    if not hasattr(method, "begin"):
        method(embeddings, torch.arange(32) % 8).backward()
    memory.state()
