"""The search by faiss: to the last digit the numbers of torch, whatever rounding does, and not needed by anything."""

import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch
from conftest import Command
from test_protocols_metrics import gaussian_classes, points, rank_together, rounded_classes, whole_number_points
from tiny import tiny_bench

from benchmark.methods.registry import method_entry
from benchmark.training.training import run_fold
from protocols import candidates, ranking
from protocols.errors import ProtocolError
from protocols.metrics import Evaluation, evaluate
from protocols.ranking import Sides

needs_faiss = pytest.mark.skipif(find_spec("faiss") is None, reason="faiss is not installed")


def near_ties(n: int, n_classes: int, dim: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Unit vectors so close together that float32 decides most ranks by its rounding."""
    random = torch.Generator().manual_seed(seed)
    embeddings = torch.randn(dim, generator=random) + 3e-3 * torch.randn(n, dim, generator=random)
    return torch.nn.functional.normalize(embeddings), torch.randint(n_classes, (n,), generator=random)


def assert_equal_by_both(*arguments, **options) -> Evaluation:
    by_torch, by_faiss = (evaluate(*arguments, **options, search=search) for search in ("torch", "faiss"))
    assert by_faiss.metrics == by_torch.metrics  # every digit
    of_threads = by_torch.audit.buffer_bytes  # faiss has its own
    assert replace(by_faiss.audit, search="torch", searched_again=0, buffer_bytes=of_threads) == by_torch.audit
    assert (by_faiss.audit.search, by_torch.audit.search) == ("faiss", "torch")
    assert by_torch.audit.searched_again == 0
    return by_faiss


@needs_faiss
@pytest.mark.parametrize("make", [gaussian_classes, rounded_classes, whole_number_points, near_ties])
@pytest.mark.parametrize(("n", "n_classes"), [(500, 100), (301, 2), (30, 4)])
def test_faiss_and_torch_give_equal_numbers(monkeypatch, make, n, n_classes):
    for recall_at in ((), (1, 4, 30, 1000)):
        assert_equal_by_both(*make(n, n_classes, 16), recall_at=recall_at)
    rank_together(1, monkeypatch)
    assert_equal_by_both(*make(n, n_classes, 16), recall_at=(2,))


@needs_faiss
def test_faiss_is_asked_by_one_thread_as_it_has_its_own():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        found = evaluate(*gaussian_classes(600, 9, 16), search="faiss")
    finally:
        torch.set_num_threads(before)
    assert found.audit.buffer_bytes == 4 * ranking.PRODUCT_ROWS * 600


@needs_faiss
@pytest.mark.parametrize("make", [gaussian_classes, whole_number_points, near_ties])
def test_faiss_and_torch_give_equal_numbers_with_a_gallery(make):
    queries, labels = make(150, 12, 3)
    gallery, gallery_labels = make(333, 9, 3, seed=1)
    assert_equal_by_both(queries, labels, gallery=gallery, gallery_labels=gallery_labels, recall_at=(1, 3, 400))


@needs_faiss
def test_rounding_would_change_numbers_if_it_were_not_settled(monkeypatch):
    embeddings, labels = near_ties(500, 100, 64)
    assert_equal_by_both(embeddings, labels)
    monkeypatch.setattr(candidates.Neighbours, "settled", lambda self, hits, relevant: torch.ones(len(hits)) > 0)
    unsettled = evaluate(embeddings, labels, search="faiss")
    assert unsettled.metrics != evaluate(embeddings, labels).metrics


@needs_faiss
def test_ties_with_references_that_faiss_does_not_return_are_left_to_torch():
    found = assert_equal_by_both(torch.ones(400, 8) / 3, torch.arange(400) % 50)
    assert found.audit.searched_again == found.audit.tied_queries == 400


@needs_faiss
def test_faiss_settles_nearly_all_queries_where_neighbours_lie_apart():
    found = assert_equal_by_both(*gaussian_classes(2000, 400, 16), recall_at=(1, 10))
    assert found.audit.queries > 0
    assert found.audit.searched_again < found.audit.queries / 20


@needs_faiss
def test_a_gallery_smaller_than_every_k_gives_no_neighbour_that_is_not_there():
    found = assert_equal_by_both(
        points(0), torch.tensor([1]), gallery=points(1, 2, 3), gallery_labels=torch.tensor([0, 0, 1]), recall_at=(2, 5)
    )
    assert (found.metrics["recall_at_2"], found.metrics["recall_at_5"]) == (0.0, 1.0)
    assert found.audit.searched_again == 0


@needs_faiss
def test_an_id_of_minus_1_leaves_the_query_to_torch(monkeypatch):
    """faiss pads what it returns with -1; Python would take that for the last reference."""
    embeddings, labels = gaussian_classes(60, 6, 4)
    expected = evaluate(embeddings, labels, recall_at=(1, 5))
    nearest = candidates.Candidates.nearest

    class Short:
        def __init__(self, index) -> None:
            self.index = index

        def search(self, queries, k):
            distances, ids = self.index.search(queries, k)
            ids[::2, 3:], distances[::2, 3:] = -1, 3.4e38
            return distances, ids

    def short(self, *arguments):
        whole, self.index = self.index, Short(self.index)
        found = nearest(self, *arguments)
        self.index = whole
        return found

    monkeypatch.setattr(candidates.Candidates, "nearest", short)
    found = evaluate(embeddings, labels, recall_at=(1, 5), search="faiss")
    assert found.metrics == expected.metrics
    assert found.audit.searched_again >= expected.audit.queries / 2 - 1


@needs_faiss
def test_more_neighbours_than_an_index_returns_at_once_are_left_to_torch(monkeypatch):
    """On a GPU faiss refuses k > 2048."""
    made = candidates.Candidates.__init__

    def limited(self, references):
        made(self, references)
        self.largest_k = 40

    monkeypatch.setattr(candidates.Candidates, "__init__", limited)
    embeddings, _ = gaussian_classes(300, 60, 4)
    assert assert_equal_by_both(embeddings, torch.arange(300) % 2).audit.searched_again == 300
    assert assert_equal_by_both(embeddings, torch.arange(300) % 60).audit.searched_again < 100


@needs_faiss
def test_a_class_of_2100_has_all_its_neighbours_counted_by_faiss():
    embeddings, labels = gaussian_classes(2100, 1, 2)
    others = torch.tensor([[0.0, 0.1], [0.1, 0.0]])
    found = assert_equal_by_both(torch.cat([embeddings, others]), torch.cat([labels, torch.tensor([5, 5])]))
    assert found.audit.largest_r == 2099


@pytest.mark.parametrize("n_queries", [1, 77])  # kernels for one row are others than those for many
@pytest.mark.parametrize("dim", [3, 128, 513])
def test_a_product_rounds_a_query_the_same_wherever_it_stands_in_a_block(dim, n_queries):
    """So that the queries which faiss leaves open may be put together in blocks of their own."""
    embeddings, labels = near_ties(900, 9, dim)
    sides = Sides(embeddings, labels, None, None)
    buffer = torch.empty(ranking.PRODUCT_ROWS, 900)
    whole = torch.cat([sides.similarity(block, buffer).clone() for block in torch.arange(900).split(len(buffer))])
    some = torch.randperm(900, generator=torch.Generator().manual_seed(0))[:n_queries]
    assert torch.equal(sides.similarity(some, buffer), whole[some])


@needs_faiss
def test_a_record_says_what_searched_and_has_the_same_numbers(tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path)
    job = bench.job(method_entry("untrained"), {}, 1, 0)
    by_torch, by_faiss = run_fold(job, bench), run_fold(job, replace(bench, search="faiss"))
    assert by_faiss.id == by_torch.id
    assert by_faiss.test == by_torch.test
    assert by_torch.evaluation_audit is not None
    assert by_faiss.evaluation_audit is not None
    assert (by_torch.evaluation_audit["search"], by_torch.evaluation_audit["device"]) == ("torch", "cpu")
    assert by_faiss.evaluation_audit["search"] == "faiss"
    expected = {"queries", "left_out", "smallest_r", "largest_r", "tied_queries", "buffer_bytes"}
    assert expected < by_torch.evaluation_audit.keys()


def test_faiss_that_is_asked_for_and_missing_is_one_line_with_the_way_out(mlrc: Command, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(ProtocolError, match="faiss cannot be imported"):
        evaluate(points(0, 1), torch.tensor([0, 0]), search="faiss")
    assert evaluate(points(0, 1), torch.tensor([0, 0])).audit.search == "torch"
    said = mlrc("run", "untrained", "--search", "faiss").refusal()
    assert 'pip install "mlrc-harness[cpu]"' in said
    assert "faiss cannot be imported" in said


def test_a_search_by_something_else_is_refused_by_name(mlrc: Command) -> None:
    said = mlrc("run", "untrained", "--search", "annoy").refusal()
    assert "annoy" in said
    assert "faiss" in said
