"""The metrics equal a slow loop written from the definition: with ties, lone queries, any labels, any piece of work."""

import math
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from pytorch_metric_learning.distances import LpDistance
from pytorch_metric_learning.utils.accuracy_calculator import AccuracyCalculator
from pytorch_metric_learning.utils.inference import CustomKNN

from protocols import metrics, ranking
from protocols.errors import ProtocolError
from protocols.metrics import DEFINITION, METRICS_VERSION, Evaluation, evaluate
from protocols.ranking import _keys

TOGETHER = (1, 7, 64, 500)  # queries


def slow(embeddings, labels, gallery=None, gallery_labels=None, recall_at=()):
    """Metrics and the numbers of queries, left out and tied, one query and one rank at a time, in float64."""
    itself = gallery is None
    references = (embeddings if itself else gallery).double().tolist()
    reference_labels = (labels if itself else gallery_labels).tolist()
    rows, left_out, n_tied = [], 0, 0
    for query, (point, label) in enumerate(zip(embeddings.double().tolist(), labels.tolist(), strict=True)):
        ranking = sorted(
            (sum((a - b) ** 2 for a, b in zip(point, reference, strict=True)), i)
            for i, reference in enumerate(references)
            if not (itself and i == query)
        )
        distances = [distance for distance, _ in ranking]
        hits = [reference_labels[i] == label for _, i in ranking]
        relevant = sum(hits)
        if relevant == 0:
            left_out += 1
            continue
        average = sum(sum(hits[:j]) / j for j in range(1, relevant + 1) if hits[j - 1]) / relevant
        row = [float(hits[0]), sum(hits[:relevant]) / relevant, average]
        rows.append(row + [float(any(hits[:k])) for k in recall_at])
        mixed = {d for d, hit in zip(distances, hits, strict=True) if hit}
        mixed &= {d for d, hit in zip(distances, hits, strict=True) if not hit}
        at_first_hit = distances[hits.index(True)]
        recall_tied = at_first_hit in mixed and distances.index(at_first_hit) < max(recall_at, default=0)
        n_tied += bool(mixed.intersection(distances[:relevant])) or recall_tied
    names = ("precision_at_1", "r_precision", "map_at_r", *(f"recall_at_{k}" for k in recall_at))
    means = np.mean(rows, axis=0).tolist() if rows else []
    return dict(zip(names, means, strict=bool(rows))), (len(rows), left_out, n_tied)


def assert_equal_to_slow(found: Evaluation, *data, recall_at=()) -> None:
    metrics, counts = slow(*data, recall_at=recall_at)
    assert found.metrics == pytest.approx(metrics, abs=1e-12)
    assert (found.audit.queries, found.audit.left_out, found.audit.tied_queries) == counts


def points(*coordinates: float) -> torch.Tensor:
    return torch.tensor(coordinates, dtype=torch.float32)[:, None]


def gaussian_classes(n: int, n_classes: int, dim: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Overlapping classes of different sizes, without ties."""
    random = torch.Generator().manual_seed(seed)
    labels = (torch.rand(n, generator=random).square() * n_classes).long()
    centres = torch.randn(n_classes, dim, generator=random)
    return centres[labels] + 0.8 * torch.randn(n, dim, generator=random), labels


def rounded_classes(n: int, n_classes: int, dim: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """The same on a fine lattice, where float32 is exact, so that no near tie is decided by rounding."""
    embeddings, labels = gaussian_classes(n, n_classes, dim, seed)
    return (embeddings * 64).round() / 64, labels


def whole_number_points(n: int, n_classes: int, dim: int, seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Points of a coarse lattice: many duplicates, many equal distances, all exact in float32."""
    random = torch.Generator().manual_seed(seed)
    labels = torch.randint(n_classes, (n,), generator=random)
    return torch.randint(-3, 4, (n, dim), generator=random).float(), labels


def rank_together(n_queries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (metrics, ranking):
        monkeypatch.setattr(module, "PRODUCT_ROWS", n_queries)


@pytest.mark.parametrize("make", [rounded_classes, whole_number_points])
@pytest.mark.parametrize(("n", "n_classes"), [(500, 100), (500, 9), (301, 2)])
def test_metrics_equal_the_definition_however_many_queries_are_ranked_together(monkeypatch, make, n, n_classes):
    embeddings, labels = make(n, n_classes, 3)
    whole = evaluate(embeddings, labels, recall_at=(1, 4, 30))
    assert_equal_to_slow(whole, embeddings, labels, recall_at=(1, 4, 30))
    for n_together in TOGETHER:
        rank_together(n_together, monkeypatch)
        part = evaluate(embeddings, labels, recall_at=(1, 4, 30))
        assert part.metrics == whole.metrics  # every digit
        assert part.audit.tied_queries == whole.audit.tied_queries


@pytest.mark.parametrize("make", [rounded_classes, whole_number_points])
def test_queries_against_a_gallery_equal_the_definition(monkeypatch, make):
    queries, labels = make(150, 12, 3)
    gallery, gallery_labels = make(333, 9, 3, seed=1)  # three classes of queries are not in the gallery
    data = (queries, labels, gallery, gallery_labels)
    for n_together in TOGETHER:
        rank_together(n_together, monkeypatch)
        found = evaluate(queries, labels, gallery=gallery, gallery_labels=gallery_labels, recall_at=(2, 20))
        assert_equal_to_slow(found, *data, recall_at=(2, 20))
    assert found.audit.left_out > 0


@given(data=st.data())
def test_tiny_inputs_full_of_ties_equal_the_definition(data):
    def side(least: int) -> tuple[torch.Tensor, torch.Tensor]:
        rows = data.draw(st.lists(st.tuples(*[st.integers(-1, 2)] * 2, st.integers(0, 2)), min_size=least, max_size=9))
        return torch.tensor([row[:2] for row in rows], dtype=torch.float32), torch.tensor([row[2] for row in rows])

    queries = side(least=1)
    gallery = side(least=1) if data.draw(st.booleans()) else (None, None)
    recall_at = data.draw(st.lists(st.integers(1, 12), max_size=2, unique=True))
    if not slow(*queries, *gallery)[0]:
        with pytest.raises(ProtocolError):
            evaluate(*queries, gallery=gallery[0], gallery_labels=gallery[1])
        return
    found = evaluate(*queries, gallery=gallery[0], gallery_labels=gallery[1], recall_at=recall_at)
    assert_equal_to_slow(found, *queries, *gallery, recall_at=recall_at)


def test_hits_1_0_1_of_r_3_give_map_at_r_of_five_ninths():
    """The other reading, divided by the hits found, would give 0.8333."""
    found = evaluate(
        points(0), torch.tensor([7]), gallery=points(1, 2, 3, 4), gallery_labels=torch.tensor([7, 8, 7, 7])
    )
    assert found.metrics["map_at_r"] == pytest.approx((1 + 2 / 3) / 3, abs=1e-15)
    assert round(found.metrics["map_at_r"], 4) == 0.5556
    assert found.metrics["r_precision"] == pytest.approx(2 / 3)


def test_the_largest_class_decides_how_far_the_search_goes():
    directions = torch.nn.functional.normalize(torch.tensor([[1.0, 0], *[[-1.0, k] for k in range(4)]]))
    embeddings = torch.cat([directions[:1].expand(6, -1), directions[1:]])
    found = evaluate(embeddings, torch.tensor([0] * 6 + [1, 2, 3, 4]))
    assert found.metrics == {"precision_at_1": 1.0, "r_precision": 1.0, "map_at_r": 1.0}
    assert (found.audit.largest_r, found.audit.queries, found.audit.left_out, found.audit.tied_queries) == (5, 6, 4, 0)


def test_a_lone_query_is_left_out_and_counted():
    found = evaluate(points(0, 1, 10, 11, 50), torch.tensor([0, 0, 1, 1, 2]))
    assert set(found.metrics.values()) == {1.0}
    assert (found.audit.queries, found.audit.left_out) == (4, 1)


def test_only_lone_queries_are_an_error():
    with pytest.raises(ProtocolError, match="none of the 5 queries has a reference of its class"):
        evaluate(points(0, 1, 10, 11, 50), torch.arange(5))


def test_a_class_of_2100_has_all_its_neighbours_counted():
    embeddings, labels = gaussian_classes(2100, 1, 2)
    others = torch.tensor([[0.0, 0.1], [0.1, 0.0]])
    found = evaluate(torch.cat([embeddings, others]), torch.cat([labels, torch.tensor([5, 5])]))
    distances = torch.cdist(embeddings.double(), torch.cat([embeddings, others]).double())
    order = distances.fill_diagonal_(math.inf).argsort(dim=1, stable=True)[:, :2099]
    in_class = int((order < 2100).sum())
    in_pair = 2 * (embeddings.double() - others.double()[:1]).norm(dim=1).min().ge(0.1414213).item()
    assert found.audit.largest_r == 2099
    assert found.metrics["r_precision"] == pytest.approx((in_class / 2099 + in_pair) / 2102, abs=1e-12)


def test_a_gallery_smaller_than_every_k_is_searched_to_its_end():
    found = evaluate(
        points(0), torch.tensor([1]), gallery=points(1, 2, 3), gallery_labels=torch.tensor([0, 0, 1]), recall_at=(2, 5)
    )
    assert (found.metrics["recall_at_2"], found.metrics["recall_at_5"]) == (0.0, 1.0)
    everything = evaluate(points(0), torch.tensor([1]), gallery=points(1, 2), gallery_labels=torch.tensor([1, 1]))
    assert set(everything.metrics.values()) == {1.0}


def test_lengths_longer_than_one_are_ranked_by_euclidean_distance():
    gallery = torch.tensor([[9.0, 0.0], [0.9, 0.2]])  # the first has the larger cosine and the larger product
    found = evaluate(
        torch.tensor([[1.0, 0.0]]), torch.tensor([1]), gallery=gallery, gallery_labels=torch.tensor([0, 1])
    )
    assert found.metrics["precision_at_1"] == 1.0


def test_rows_of_the_same_numbers_in_another_order_are_no_copies():
    gallery = torch.tensor(
        [[0.1, 0.7, 0.3], [0.7, 0.1, 0.3], [0.3, 0.7, 0.1], [0.1, 0.7, 0.3], [-0.0, 0, 1], [0, 0, 1]]
    )
    copies, originals = ranking._copies(gallery)
    assert (copies.tolist(), originals.tolist()) == ([3, 5], [0, 4])


def test_the_query_is_left_out_by_index_and_its_copy_is_found():
    found = evaluate(points(0, 5, 0, 5), torch.tensor([0, 1, 0, 1]))
    assert set(found.metrics.values()) == {1.0}
    others = evaluate(points(0, 0, 5, 5), torch.tensor([0, 1, 0, 1]))  # the copy of each is of the other class
    assert others.metrics["precision_at_1"] == 0.0


@pytest.mark.parametrize("width", [2, 33, 128])
def test_equal_references_tie_wherever_they_stand_and_the_lower_index_wins(width):
    random = torch.Generator().manual_seed(width)
    gallery = torch.randn(997, width, generator=random)
    for low, high in ((0, 996), (500, 501), (3, 990), (128, 640)):
        gallery[high] = gallery[low]
        query = gallery[low][None] + 1e-3 * torch.randn(1, width, generator=random)
        for hit, expected in ((low, 1.0), (high, 0.0)):
            labels = torch.zeros(997, dtype=torch.int64)
            labels[hit] = 1
            found = evaluate(query, torch.tensor([1]), gallery=gallery, gallery_labels=labels)
            assert found.metrics["precision_at_1"] == expected
            assert found.audit.tied_queries == 1


def test_collapsed_embeddings_tie_everywhere_and_are_ranked_by_index():
    embeddings, labels = torch.ones(400, 8) / 3, torch.arange(400) % 50
    found = evaluate(embeddings, labels, recall_at=(8,))
    assert found.audit.tied_queries == 400
    assert_equal_to_slow(found, embeddings, labels, recall_at=(8,))


def test_keys_ascend_as_a_stable_descending_sort_of_the_row():
    row = torch.tensor([[0.0, -1.5, -0.0, 2.0, -math.inf, 1e-40, -1e-40, 2.0, 0.0, -3e38, 3e38]])
    expected = torch.sort(row, dim=1, descending=True, stable=True).indices
    assert torch.equal(_keys(row).argsort(dim=1), expected)
    shuffled = torch.tensor([[3, 9, 0, 10, 2, 7, 8, 1, 6, 5, 4]])  # the columns decide, not where they stand
    keys = _keys(row.gather(1, shuffled), shuffled).sort(dim=1).values
    assert torch.equal(keys & ranking.COLUMN_BITS, expected)


def test_metrics_equal_the_accuracy_calculator_without_ties():
    embeddings, labels = gaussian_classes(700, 25, 8)
    embeddings = torch.nn.functional.normalize(embeddings)
    calculator = AccuracyCalculator(
        include=("precision_at_1", "r_precision", "mean_average_precision_at_r"),
        k=None,
        device=torch.device("cpu"),
        knn_func=CustomKNN(LpDistance(normalize_embeddings=False)),
        kmeans_func=lambda embeddings, n_clusters: None,
    )
    expected = calculator.get_accuracy(embeddings, labels)
    found = evaluate(embeddings, labels)
    assert found.audit.tied_queries == 0
    assert found.metrics == pytest.approx(
        {
            "precision_at_1": expected["precision_at_1"],
            "r_precision": expected["r_precision"],
            "map_at_r": expected["mean_average_precision_at_r"],
        },
        abs=1e-4,  # both in float32, so that another machine may swap a near tie
    )


def test_order_of_rows_and_names_of_labels_change_nothing_without_ties():
    embeddings, labels = gaussian_classes(400, 20, 6)
    expected = evaluate(embeddings, labels, recall_at=(1, 10))
    order = torch.randperm(400, generator=torch.Generator().manual_seed(0))
    renamed = (labels * 10**15 - 2**40)[order]
    found = evaluate(embeddings[order], renamed, recall_at=(1, 10))
    assert found.metrics == expected.metrics
    assert found.audit == expected.audit


def test_labels_beyond_2_to_the_24_do_not_collide():
    found = evaluate(points(0, 1, 9, 10), torch.tensor([2**24, 2**24 + 1, 2**24, 2**24 + 1]))
    assert found.metrics["precision_at_1"] == 0.0


@pytest.mark.parametrize("broken", [math.nan, math.inf, -math.inf, 1e30])
def test_embeddings_that_are_not_finite_or_too_large_are_refused_by_row(broken):
    with pytest.raises(ProtocolError, match=r"1 of 4 embeddings .* row 2"):
        evaluate(points(0, 1, broken, 3), torch.tensor([0, 0, 1, 1]))
    with pytest.raises(ProtocolError, match=r"1 of 1 embeddings"):
        evaluate(points(broken), torch.tensor([0]), gallery=points(1), gallery_labels=torch.tensor([0]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"labels": torch.tensor([0, 0])}, r"\(2,\) for 3 embeddings"),
        ({"labels": torch.tensor([0.0, 0.0, 1.0])}, "float32"),
        ({"embeddings": torch.zeros(3, 2, dtype=torch.float64)}, "float64"),
        ({"embeddings": torch.zeros(3, 0)}, r"\(3, 0\).*D > 0"),
        ({"gallery": torch.zeros(3, 2)}, "come together"),
        ({"gallery": torch.zeros(3, 5), "gallery_labels": torch.tensor([0, 0, 1])}, "width 2.*width 5"),
        ({"recall_at": (0,)}, "at least 1"),
    ],
)
def test_arguments_that_do_not_fit_together_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        evaluate(**{"embeddings": torch.zeros(3, 2), "labels": torch.tensor([0, 0, 1]), **arguments})


def test_the_definition_names_its_version_and_the_audit_carries_it():
    assert DEFINITION.startswith(f"Metrics version {METRICS_VERSION}:")
    assert "\n" not in DEFINITION
    assert evaluate(points(0, 1), torch.tensor([0, 0])).audit.version == METRICS_VERSION


def test_the_gradient_graph_is_left_alone():
    embeddings = torch.randn(6, 2, requires_grad=True)
    assert evaluate(embeddings, torch.tensor([0, 0, 1, 1, 2, 2])).audit.queries == 6


SOP_IMAGES, SOP_BYTES = 60_502, 2**30  # its evaluation stays below this, above the embeddings

LARGE_WITHOUT_FAISS = """
import resource, sys
sys.modules["faiss"] = None  # any import of it fails
import torch

def peak_bytes():
    if sys.platform == "darwin":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Not getrusage: on Linux a new process starts with the peak of the one it came from, and growth below it is unseen.
    (line,) = [line for line in open("/proc/self/status") if line.startswith("VmHWM")]
    return int(line.split()[1]) * 1024

from protocols.metrics import evaluate
random = torch.Generator().manual_seed(0)
n_images, width = map(int, sys.argv[1:])
embeddings = torch.randn(n_images, width, generator=random)
labels = torch.randint(n_images // 5, (n_images,), generator=random)
evaluate(embeddings[:300], labels[:300] % 9, recall_at=(1, 1000))
before = peak_bytes()
audit = evaluate(embeddings, labels, recall_at=(1, 1000)).audit
print(audit.queries, audit.buffer_bytes, peak_bytes() - before)
"""


def evaluated_alone(n_images: int, width: int) -> tuple[int, int, int]:
    """Queries, bytes of the buffer, and bytes by which a process grows beyond its embeddings."""
    ran = subprocess.run(
        [sys.executable, "-c", LARGE_WITHOUT_FAISS, str(n_images), str(width)],
        capture_output=True,
        text=True,
        check=True,
    )
    queries, buffer_bytes, grown_bytes = map(int, ran.stdout.split())
    return queries, buffer_bytes, grown_bytes


@pytest.mark.parametrize("n_images", [6_000, 12_000])
def test_memory_grows_with_the_number_of_images_and_faiss_is_not_needed(n_images):
    queries, buffer_bytes, grown_bytes = evaluated_alone(n_images, 16)
    bound_bytes = SOP_BYTES * n_images / SOP_IMAGES
    assert 4 * n_images**2 > bound_bytes  # the matrix of all pairs would be too large
    assert queries > 0.9 * n_images
    assert buffer_bytes < bound_bytes / 2
    assert grown_bytes < bound_bytes


def test_wide_embeddings_are_not_held_twice():
    """As the pixels of a large crop are."""
    n_images, width = 1_200, 50_000
    _, _, grown_bytes = evaluated_alone(n_images, width)
    assert grown_bytes < 4 * n_images * width
