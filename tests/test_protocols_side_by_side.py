"""protocols.side_by_side, and the evaluation's use of it: the same numbers on any number of threads."""

from collections.abc import Iterator
from threading import Barrier, Thread, current_thread

import pytest
import torch
from test_protocols_metrics import gaussian_classes, whole_number_points

from protocols import metrics, ranking
from protocols import products as products_module
from protocols.metrics import evaluate
from protocols.side_by_side import side_by_side

PATIENCE_S = 60.0


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """Of torch as they were, afterwards."""
    n_threads = torch.get_num_threads()
    yield
    torch.set_num_threads(n_threads)


def threads_of_a_new_thread() -> int:
    found: list[int] = []
    thread = Thread(target=lambda: found.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    return found[0]


@pytest.mark.parametrize(("n_torch", "n_threads", "of_each"), [(4, 1, 4), (4, 2, 2), (4, 4, 1), (3, 2, 1), (2, 4, 1)])
def test_threads_share_those_of_torch_which_has_them_back_afterwards(n_torch, n_threads, of_each):
    torch.set_num_threads(n_torch)
    together = Barrier(n_threads, timeout=PATIENCE_S)

    def work(number: int) -> tuple[int, int]:
        together.wait()
        return number, torch.get_num_threads()

    assert side_by_side(work, range(8), n_threads) == [(number, of_each) for number in range(8)]
    assert torch.get_num_threads() == threads_of_a_new_thread() == n_torch


@pytest.mark.parametrize("n_threads", [1, 2])
def test_an_error_is_raised_and_torch_has_its_threads_back(n_threads):
    torch.set_num_threads(2)
    with pytest.raises(ZeroDivisionError):
        side_by_side(lambda number: 1 // number, [2, 1, 0, 1], n_threads)
    assert torch.get_num_threads() == threads_of_a_new_thread() == 2


@pytest.mark.parametrize("make", [gaussian_classes, whole_number_points])
@pytest.mark.parametrize("own_bytes", [0, products_module._OWN_BYTES])
def test_queries_are_ranked_side_by_side_and_no_number_changes(monkeypatch, make, own_bytes):
    monkeypatch.setattr(products_module, "_OWN_BYTES", own_bytes)
    embeddings, labels = make(1500, 30, 16)
    embeddings.requires_grad_()  # no thread keeps a history of it
    products = ranking.products
    found = []
    for n_threads in (1, 2, 3):
        torch.set_num_threads(n_threads)
        together, seen = Barrier(n_threads, timeout=PATIENCE_S), set()

        def watched(*arguments, together=together, seen=seen) -> torch.Tensor:
            together.wait()
            seen.add((current_thread(), torch.get_num_threads()))
            return products(*arguments)

        monkeypatch.setattr(ranking, "products", watched)
        found.append(evaluate(embeddings, labels, recall_at=(1, 4)))
        assert len(seen) == n_threads
        assert {of_each for _, of_each in seen} == {1}
        assert found[-1].audit.buffer_bytes == 4 * n_threads * ranking.PRODUCT_ROWS * len(embeddings)
    assert found[0].metrics == found[1].metrics == found[2].metrics
    assert found[0].audit.tied_queries == found[1].audit.tied_queries == found[2].audit.tied_queries


def test_an_evaluation_that_fails_in_a_thread_ends(monkeypatch):
    torch.set_num_threads(2)
    monkeypatch.setattr(ranking, "products", lambda *arguments: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        evaluate(*gaussian_classes(3000, 30, 16))


@pytest.mark.parametrize(
    ("n_queries", "n_references", "width", "largest_r", "expected"),
    [
        (6_000, 6_000, 128, 60, 8),
        (257, 6_000, 128, 60, 2),
        (60_502, 60_502, 512, 12, 2),
        (1_200, 1_200, 154_587, 12, 1),
        (30_000, 30_000, 128, 3_000, 3),
    ],
)
def test_where_a_thread_needs_much_memory_there_are_fewer(n_queries, n_references, width, largest_r, expected):
    torch.set_num_threads(8)
    assert metrics._n_threads(n_queries, n_references, width, largest_r) == expected
