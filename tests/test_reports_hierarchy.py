"""The report on hierarchies: the groups by name, their agreement with super-classes, and the command for it."""

from dataclasses import replace
from pathlib import Path

import pytest
from conftest import Command, draw_images, options
from sklearn.metrics import adjusted_rand_score

from reports.errors import ReportError
from reports.hierarchy import (
    as_dict,
    hierarchies,
    to_lines,
)
from results.record import FoldRecord, Identity, Provenance

TWO_LEVELS = {
    "classes": ["wren", "robin", "truck", "car", "[b]oat"],
    "super_classes": {"names": ["bird", "vehicle"], "members": [0, 0, 1, 1, 1]},
    "levels": [
        {"n_coarse": 4, "members": [3, 3, 0, 1, 1], "empty": [2], "changes": [2, 0]},
        {"n_coarse": 2, "members": [1, 1, 0, 0], "empty": [], "changes": [0, 1]},
    ],
}
PROVENANCE = Provenance(
    created_at="2020-08-23T12:00:00+00:00",
    versions={},
    device="cpu",
    threads=1,
    code_revision="0",
    trunk_weights="random",
)


def fold(state: dict | None, method: str = "hpl3(proxy-nca)", purpose: str = "final", number: int = 0) -> FoldRecord:
    identity = Identity(
        protocol={"title": "demo@1", "digest": "2d4a094267cf", "values": {}},
        dataset={"name": "things", "content_hash": "ab", "n_classes": 9, "n_images": 90},
        split={"kind": "wrapped", "digest": "cd"},
        method=method,
        method_code="",
        hyperparameters={},
        purpose=purpose,
        run=1 if purpose == "final" else 0,
    )
    return FoldRecord(
        id=f"{method} {purpose} {number}",
        identity=identity,
        fold=number,
        seed=0,
        outcome="done",
        seconds={},
        peak_memory_bytes=0,
        provenance=PROVENANCE,
        method_state=state,
    )


# --- the hierarchies of records


def test_each_level_lists_the_classes_under_each_coarse_proxy_by_name() -> None:
    (found,) = hierarchies([fold({"hierarchy": TWO_LEVELS})])
    fine, coarse = found.levels
    assert fine.groups == (("[b]oat", "car"), ("robin", "wren"), ("truck",))
    assert (fine.n_coarse, fine.n_empty, fine.n_updates, fine.changes) == (4, 1, 2, (2, 0))
    # The second level's members are coarse proxies of the first: 0 and 1 go to 1, 3 to 0.
    assert coarse.groups == (("[b]oat", "car", "truck"), ("robin", "wren"))
    assert (coarse.adjusted_rand_index, coarse.normalised_mutual_information) == (1.0, 1.0)
    assert fine.adjusted_rand_index == pytest.approx(adjusted_rand_score([3, 3, 0, 1, 1], [0, 0, 1, 1, 1]))


def test_lines_for_people_show_names_as_they_are_and_values_for_programs_hold_the_same() -> None:
    (found,) = hierarchies([fold({"hierarchy": TWO_LEVELS})])
    lines = list(to_lines(found))
    assert lines[0] == "hpl3(proxy-nca), run 1, fold 0 (demo@1, things)"
    assert lines[1].startswith(
        "  level 1: 5 classes under 4 coarse proxies (1 empty); 2 updates, 2 changes; with 2 super"
    )
    assert "    2: [b]oat, car" in lines
    assert "adjusted Rand index 1.000, NMI 1.000" in lines[5]
    values = as_dict(found)
    assert values["n_super_classes"] == 2
    assert values["levels"][1]["groups"] == found.levels[1].groups


def test_without_super_classes_there_is_no_agreement() -> None:
    (found,) = hierarchies([fold({"hierarchy": {**TWO_LEVELS, "super_classes": None}})])
    assert found.n_super_classes is found.levels[0].adjusted_rand_index is None
    assert list(to_lines(found))[1].endswith("; no super-classes to compare with")


def test_only_final_folds_that_hold_a_hierarchy_are_listed_and_one_method_may_be_chosen() -> None:
    records = [
        fold({"hierarchy": TWO_LEVELS}, purpose="search"),
        fold({"hierarchy": TWO_LEVELS}),
        fold({"hierarchy": TWO_LEVELS}, "hpl-proxy-nca", number=1),
        fold(None, "triplet"),
        replace(fold({"n_problems": 2}, "ccp-ms"), outcome="failed"),
    ]
    assert [one.method for one in hierarchies(records)] == ["hpl3(proxy-nca)", "hpl-proxy-nca"]
    assert [(one.method, one.fold) for one in hierarchies(records, "hpl-proxy-nca")] == [("hpl-proxy-nca", 1)]
    with pytest.raises(
        ReportError, match=r"no final run of 'triplet' with .* one: hpl-proxy-nca, hpl3\(proxy-nca\)\.$"
    ):
        hierarchies(records, "triplet")
    with pytest.raises(ReportError, match=r"^no final run with a hierarchy .* none; mlrc run hpl-proxy-anchor"):
        hierarchies(records[3:])


# --- the command


@pytest.fixture(scope="module")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Ten classes in five super-class folders."""
    folder = tmp_path_factory.mktemp("data") / "kinds"
    for kind in range(5):
        draw_images(folder / f"kind {kind}", n_classes=2, n_images=4)
    return folder


def test_the_report_lists_the_classes_of_each_fold_and_json_holds_the_same(mlrc: Command, kinds, store) -> None:
    # Half of ten classes less a fold's share leave three to train on: enough for super-classes, not for clusters.
    suite = options(kinds, store, "n_trials=1", "batch.size=2", "folds.n_folds=2")
    done = mlrc("run", "hpl-gt-proxy-nca++", *suite)
    assert done.code == 0, done.err
    printed = mlrc("report", "--hierarchy", "--store", store)
    assert printed.code == 0, printed.err
    assert "hpl-gt-proxy-nca++, run 1, fold 0 (mini@1+, kinds)" in printed.out
    folds = mlrc("report", "hpl-gt-proxy-nca++", "--hierarchy", "--json", "--store", store).json
    assert [(one["run"], one["fold"]) for one in folds] == [(1, 0), (1, 1)]
    for one in folds:
        (level,) = one["levels"]
        assert level["adjusted_rand_index"] == level["normalised_mutual_information"] == 1.0
        assert all(len({name.partition("/")[0] for name in group}) == 1 for group in level["groups"])
        assert all(name in printed.out for group in level["groups"] for name in group)


def test_a_method_or_a_folder_that_the_report_cannot_use_is_refused(mlrc: Command, store, tmp_path) -> None:
    assert "goes with --hierarchy" in mlrc("report", "hpl-proxy-nca", "--store", store).refusal()
    refused = mlrc("report", "--hierarchy", "--out", tmp_path / "out", "--store", store).refusal()
    assert refused.startswith("--hierarchy writes no files")


def test_super_classes_that_are_missing_are_told_before_any_job_runs(mlrc: Command, suite, store) -> None:
    refused = mlrc("run", "hpl-gt-proxy-nca", *suite).refusal()
    assert "has 0 super-classes over the" in refused
    assert not store.exists()
