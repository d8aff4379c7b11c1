"""What the bench asks of an evaluation: the recalls of its protocol and data set, by the definitions of its version."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from standard_trees import inshop_tree
from tiny import tiny_bench

from benchmark.bench import Bench
from benchmark.methods.registry import method_entry
from benchmark.training.training import run_fold
from protocols.catalogue import CONVENTIONAL_BNINCEPTION_V1
from protocols.datasets import load_dataset
from protocols.errors import ProtocolError
from protocols.metrics import evaluate
from protocols.splits import make_split

METRICS = ["precision_at_1", "r_precision", "map_at_r"]


def embeddings(n_images: int, dim: int = 4) -> torch.Tensor:
    drawn = torch.randn(n_images, dim, generator=torch.Generator().manual_seed(0))
    return torch.nn.functional.normalize(drawn)


@pytest.mark.parametrize(
    ("dataset", "ranks"),
    [("", (1, 2, 4, 8)), ("cub200", (1, 2, 4, 8)), ("sop", (1, 10, 100, 1000)), ("inshop", (1, 10, 20, 30))],
)
def test_the_recalls_are_those_of_protocol_and_data_set(tmp_path: Path, dataset: str, ranks: tuple[int, ...]) -> None:
    tiny = tiny_bench(tmp_path)
    bench = replace(tiny, protocol=CONVENTIONAL_BNINCEPTION_V1, index=replace(tiny.index, standard_name=dataset))
    test = bench.index.indices_of(bench.split.test)
    vectors = embeddings(len(test))
    found = bench.evaluate(vectors, test).metrics
    assert list(found) == [*METRICS, *(f"recall_at_{k}" for k in ranks)]
    assert found == evaluate(vectors, torch.from_numpy(bench.index.targets[test]), recall_at=ranks).metrics
    assert found["recall_at_1"] == found["precision_at_1"]
    job = bench.job(method_entry("untrained"), {}, 1, 0)
    assert list(bench.identity(job).metrics) == list(found)


def test_a_protocol_without_recall_has_none(tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path)
    test = bench.index.indices_of(bench.split.test)
    assert list(bench.evaluate(embeddings(len(test)), test).metrics) == METRICS


def test_queries_search_the_gallery_for_recall_too(tmp_path: Path) -> None:
    protocol, index = CONVENTIONAL_BNINCEPTION_V1, load_dataset(f"inshop:{inshop_tree(tmp_path / 'inshop')}")
    split = make_split(index.classes, replace(protocol.folds, holdout_parts=2), index.test_classes)
    bench = Bench(protocol=protocol, index=index, split=split, artifacts=tmp_path, threads=1, device="cpu")
    test = index.indices_of(split.test)
    assert index.gallery is not None
    stored = torch.from_numpy(index.gallery[test])
    vectors, labels = embeddings(len(test)), torch.from_numpy(index.targets[test])
    wanted = evaluate(
        *(vectors[~stored], labels[~stored]),
        gallery=vectors[stored],
        gallery_labels=labels[stored],
        recall_at=(1, 10, 20, 30),
    )
    assert bench.evaluate(vectors, test).metrics == wanted.metrics


def test_a_search_space_holds_for_the_smallest_fold(tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path, "kind=balanced")
    sizes = {bench.n_classes(fold) for fold in range(bench.n_folds)}
    assert sizes == {13, 14}
    assert bench.fewest_classes == 13
    assert bench.space(method_entry("hpl-proxy-nca"))["n_coarse_1"].high == 13 // 2  # half of the classes


def test_definitions_of_another_version_are_never_computed(tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path, "metrics_version=2")
    test = bench.index.indices_of(bench.split.test)
    with pytest.raises(ProtocolError, match="metrics_version is 2; this code computes version 1"):
        bench.evaluate(embeddings(len(test)), test)
    record = run_fold(bench.job(method_entry("untrained"), {}, 1, 0), bench)
    assert (record.outcome, record.reason, record.test) == ("failed", "data-error", None)
    assert "metrics_version is 2" in str(record.message)
