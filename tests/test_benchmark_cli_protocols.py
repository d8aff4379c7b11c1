"""Every protocol of a big trunk goes from the command line to its table; here on tiny crops and random weights."""

from pathlib import Path

import pytest
from conftest import Command, draw_images, folds_in

from protocols.catalogue import protocol_named
from results.record import RunRecord
from results.store import Store

METRICS = {"precision_at_1", "r_precision", "map_at_r"}
RECALLS = {"recall_at_1", "recall_at_2", "recall_at_4", "recall_at_8"}
# BN-Inception's smallest image; one step of the smallest batch, one trial, one run.
TINY = (
    *("trunk.weights=random", "resize_px=31", "crop_px=31", "batch.size=8", "max_steps=1"),
    *("n_trials=1", "n_startup_trials=1", "n_runs=1"),
)
TWO_FOLDS = ("n_folds=2",)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return draw_images(tmp_path_factory.mktemp("data") / "images", n_classes=16, n_images=2)


def command(name: str, folder: Path, store: Path, *settings: str) -> list[str]:
    pairs = [part for setting in (*TINY, *settings) for part in ("--set", setting)]
    place = ["--data", str(folder), "--store", str(store), "--executor", "inline"]
    return ["run", "pixels", "untrained", "contrastive", "--protocol", name, *place, *pairs]


@pytest.mark.parametrize(
    ("name", "settings", "dimensions", "metrics"),
    [
        ("mlrc", TWO_FOLDS, {"concatenated": 256, "separated": 128}, METRICS),
        ("mlrc-batch256", TWO_FOLDS, {"concatenated": 256, "separated": 128}, METRICS),
        ("ccp", TWO_FOLDS, {"concatenated": 256, "separated": 128}, METRICS),
        ("ccp-ablation", (), {"separated": 128}, METRICS),
        ("conventional-bninception", (), {"separated": 512}, METRICS | RECALLS),
        ("conventional-resnet50", (), {"separated": 512}, METRICS | RECALLS),
    ],
)
def test_a_protocol_is_searched_run_and_reported(
    mlrc: Command,
    folder: Path,
    store: Path,
    name: str,
    settings: tuple[str, ...],
    dimensions: dict[str, int],
    metrics: set[str],
) -> None:
    done = mlrc(*command(name, folder, store, *settings), "--json")
    assert done.code == 0, done.err
    (table,) = done.json
    assert table["protocol"]["title"] == f"{name}@1+"
    assert table["split"]["kind"] == protocol_named(name).folds.kind
    assert table["dimensions"] == dimensions
    assert [row["method"] for row in table["rows"]] == ["pixels", "untrained", "contrastive"]
    for row in table["rows"]:
        cells = {(cell["setting"], cell["metric"]): cell["mean"] for cell in row["results"]}
        assert cells.keys() == {(setting, metric) for setting in dimensions for metric in metrics}
        assert all(0 <= mean <= 1 for mean in cells.values())
    for record in folds_in(store):
        assert record.outcome == "done"
        assert (record.test or {}).keys() == (metrics if record.identity.purpose == "final" else set())


def test_one_model_is_never_concatenated_and_its_search_has_no_spread(mlrc: Command, folder: Path, store: Path) -> None:
    done = mlrc(*command("ccp-ablation", folder, store))
    assert done.code == 0, done.err
    assert "One model (128-D)" in done.out
    assert "oncatenated (" not in done.out
    with Store.open(str(store)) as opened:
        assert not [record for record in opened.records() if isinstance(record, RunRecord)]
    lines = mlrc("status", "--store", store, "--json").json
    (searched,) = [line for line in lines if line["method"] == "contrastive"]
    assert searched["trials"] == {"done": 1, "failed": 0, "of": 1}
    assert searched["best_standard_error"] is None
    assert searched["final_folds"] == {"done": 1, "failed": 0, "of": 1}


def test_the_recalls_are_a_block_of_the_printed_table(mlrc: Command, folder: Path, store: Path) -> None:
    arguments = command("conventional-bninception", folder, store)
    arguments.remove("contrastive")
    done = mlrc(*arguments)
    assert done.code == 0, done.err
    assert "One model (512-D)" in done.out
    (heading,) = [line for line in done.out.splitlines() if "R@1" in line]
    assert heading.split()[:5] == ["Method", "R@1", "R@2", "R@4", "R@8"]


def test_too_few_classes_to_hold_out_two_are_refused_with_the_number(mlrc: Command, images: Path, store: Path) -> None:
    refused = mlrc(*command("conventional-bninception", images, store)).refusal()  # 8 classes: 4 for training
    assert "fold 0's validation side is the single class" in refused
    assert "4 parts need 5 for training" in refused


def test_metrics_of_another_definition_are_refused_before_anything_runs(
    mlrc: Command, folder: Path, store: Path
) -> None:
    refused = mlrc("run", "untrained", "--data", folder, "--store", store, "--set", "metrics_version=2").refusal()
    assert refused.startswith("mini@1+: evaluation.metrics_version is 2; this code computes version 1.")
    assert not store.exists()
