"""A loss belongs to one process: a group of processes around it scales nothing and gathers nothing."""

from multiprocessing import get_context
from pathlib import Path

import pytest
import torch
from torch import distributed
from torch.nn.functional import normalize

from benchmark.methods.registry import build_method, method_entry

VALUES = {
    "contrastive": {"pos_margin": 0.2, "neg_margin": 0.6},
    "ms": {"alpha": 2.0, "beta": 40.0, "base": 0.5},
    "norm-softmax": {"temperature": 0.1},
}


def gradients(method: str) -> torch.Tensor:
    """Of the loss of 8 samples with respect to their embeddings and to the loss's own weights."""
    torch.manual_seed(0)
    loss = build_method(method_entry(method), 4, 16, VALUES[method])
    embeddings = torch.randn(8, 16, requires_grad=True)
    loss(normalize(embeddings), torch.arange(8) // 2).backward()
    return torch.cat([found.grad.flatten() for found in (embeddings, *loss.parameters())])


def in_a_group(rank: int, folder: str) -> None:
    """What one of two processes finds, as files."""
    distributed.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    torch.save({method: gradients(method) for method in VALUES}, Path(folder) / f"{rank}.pt")
    distributed.destroy_process_group()


@pytest.mark.skipif(not distributed.is_available(), reason="this torch has no process groups")
def test_gradients_in_a_group_of_two_processes_are_those_of_one(tmp_path: Path) -> None:
    """Two processes, eight samples: neither half of the gradients nor twice as much."""
    started = [get_context("spawn").Process(target=in_a_group, args=(rank, str(tmp_path))) for rank in range(2)]
    for process in started:
        process.start()
    for process in started:
        process.join(120)
    assert [process.exitcode for process in started] == [0, 0]
    alone = {method: gradients(method) for method in VALUES}
    assert all(found.abs().sum() > 0 for found in alone.values())
    for rank in range(2):
        together = torch.load(tmp_path / f"{rank}.pt")
        assert together.keys() == alone.keys()
        assert all(torch.equal(together[method], alone[method]) for method in VALUES)
