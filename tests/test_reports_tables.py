"""From records to table values: what is averaged, what is missing, and what never shares a table."""

import json
import math
import random
from dataclasses import replace
from typing import Any

import pandas as pd
import pytest

from protocols.catalogue import CCP_ABLATION_V1, CONVENTIONAL_RESNET50_V1, DEMO_V1, MINI_V1
from protocols.derive import derive
from protocols.spec import Protocol
from reports.errors import ReportError
from reports.frame import COLUMNS, runs_frame
from reports.tables import Cell, Row, Table
from reports.tabulation import result_tables, variant_labels
from results.record import FoldRecord, Identity, Provenance, Record, RunRecord

METRICS = ("precision_at_1", "r_precision", "map_at_r")
PROVENANCE = Provenance(
    created_at="2026-01-01T00:00:00Z", versions={}, device="cpu", threads=1, code_revision="0", trunk_weights="random"
)


def identity(method: str, run: int, protocol: Protocol = DEMO_V1, **changes: Any) -> Identity:
    return replace(
        Identity(
            protocol={"title": protocol.title, "digest": protocol.digest(), "values": protocol.values()},
            dataset={"name": "shapes", "content_hash": "ab" * 32, "n_classes": 36, "n_images": 1000},
            split={"kind": "wrapped", "digest": "cd" * 8},
            method=method,
            method_code="",
            hyperparameters={"alpha": 2.0},
            purpose="final",
            run=run,
        ),
        **changes,
    )


def fold_record(who: Identity, fold: int, value: float | None, **changes: Any) -> FoldRecord:
    """Done with all three metrics at `value`, or failed where `value` is None."""
    record = FoldRecord(
        id=f"{who.method}-{who.run}-{fold}",
        identity=who,
        fold=fold,
        seed=0,
        outcome="failed" if value is None else "done",
        reason="collapsed" if value is None else None,
        test=None if value is None else dict.fromkeys(METRICS, value),
        seconds={},
        peak_memory_bytes=0,
        provenance=PROVENANCE,
    )
    return replace(record, **changes)


def run_record(who: Identity, value: float) -> RunRecord:
    return RunRecord(
        id=f"{who.method}-{who.run}",
        identity=who,
        members=tuple(f"{who.method}-{who.run}-{fold}" for fold in range(4)),
        test=dict.fromkeys(METRICS, value),
        embedding_dim=512,
        evaluation_audit={},
        seconds={},
        provenance=PROVENANCE,
    )


def run_of(method: str, run: int, value: float = 0.1, **changes: Any) -> list[Record]:
    """A whole run: folds at value - 0.03 .. value + 0.03, concatenated at twice the value."""
    who = identity(method, run, **changes)
    folds = [fold_record(who, fold, value + 0.02 * (fold - 1.5)) for fold in range(4)]
    return [*folds, run_record(who, 2 * value)]


def runs_of(method: str, value: float = 0.1, **changes: Any) -> list[Record]:
    """All three runs of the demo protocol, at value, value + .01, value + .02."""
    return [record for run in (1, 2, 3) for record in run_of(method, run, value + 0.01 * (run - 1), **changes)]


def one_table(records: list[Record], failures: dict[str, str] | None = None) -> Table:
    (table,) = result_tables(runs_frame(records, failures))
    return table


def row_of(table: Table, method: str) -> Row:
    (row,) = [row for row in table.rows if row.method == method]
    return row


def cell_of(table: Table, method: str, setting: Any = "separated", metric: str = "map_at_r") -> Cell:
    return row_of(table, method).cells[setting, metric]


def test_a_complete_run_is_the_mean_of_its_folds_and_the_concatenated_value() -> None:
    frame = runs_frame(run_of("ms", 1, 0.1))
    first = frame[frame["run"] == 1].set_index(["setting", "metric"])["value"]
    assert first["separated", "map_at_r"] == pytest.approx(0.1)
    assert first["concatenated", "map_at_r"] == 0.2
    assert list(frame.columns) == COLUMNS
    assert len(frame) == 3 * 2 * 3  # runs, settings, metrics: absent runs have rows too


def test_the_order_of_records_changes_no_value() -> None:
    records = runs_of("ms") + runs_of("triplet", 0.3) + runs_of("untrained", 0.02)
    shuffled = random.Random(0).sample(records, len(records))
    keys = ["method", "run", "setting", "metric"]
    first, second = (runs_frame(found).sort_values(keys, ignore_index=True) for found in (records, shuffled))
    pd.testing.assert_frame_equal(first, second)


def test_a_failed_fold_makes_the_run_missing_with_its_reason_and_never_a_mean_of_three() -> None:
    who = identity("ms", 2)
    broken = [fold_record(who, fold, None if fold == 2 else 0.5) for fold in range(4)]
    table = one_table([*run_of("ms", 1, 0.1), *broken, *run_of("ms", 3, 0.3)])
    for setting, mean in (("separated", 0.2), ("concatenated", 0.4)):
        cell = cell_of(table, "ms", setting)
        assert cell.mean == pytest.approx(mean)  # runs 1 and 3 alone
        assert (cell.n_runs, cell.expected_runs, cell.complete) == (2, 3, False)
        assert cell.missing == "run 2: fold 2 failed: collapsed"
    assert table.missing() == ["ms: 2 of 3 runs; run 2: fold 2 failed: collapsed"]


def test_absent_folds_runs_and_metrics_are_named() -> None:
    first, second = identity("ms", 1), identity("ms", 2)
    no_metric = {"precision_at_1": 0.5, "r_precision": 0.5, "map_at_r": math.nan}
    records: list[Record] = [fold_record(first, fold, 0.5) for fold in (0, 2)]
    records += [fold_record(second, fold, 0.5) for fold in range(3)]
    records += [fold_record(second, 3, 0.5, test=no_metric)]
    table = one_table(records)
    assert cell_of(table, "ms").missing == ("run 1: folds 1, 3 not run; run 2: fold 3 without map_at_r; run 3: not run")
    assert cell_of(table, "ms").mean is None
    assert cell_of(table, "ms", metric="r_precision").mean == 0.5  # the hole is one metric's, not the record's
    assert "run 2: fold models not evaluated together" in cell_of(table, "ms", "concatenated", "r_precision").missing


def test_a_mean_uses_only_runs_that_are_there_and_carries_no_interval_for_one() -> None:
    cell = cell_of(one_table(run_of("ms", 2, 0.4)), "ms", "concatenated")
    assert (cell.mean, cell.half_width, cell.n_runs) == (0.8, None, 1)
    assert cell.missing == "runs 1, 3: not run"


def test_pixels_need_one_fold_of_one_run_and_count_the_same_in_both_settings() -> None:
    pixels = fold_record(identity("pixels", 1, hyperparameters={}), 0, 0.05)
    table = one_table([pixels, *runs_of("ms")])
    for setting in ("concatenated", "separated"):
        cell = cell_of(table, "pixels", setting)
        assert (cell.mean, cell.half_width, cell.n_runs, cell.expected_runs) == (0.05, None, 1, 1)
    assert table.missing() == []


def test_a_method_without_a_winner_is_a_row_with_its_reason() -> None:
    table = one_table(runs_of("ms"), failures={"arcface": "3 of 3 trials collapsed"})
    cell = cell_of(table, "arcface")
    assert (cell.mean, cell.n_runs, cell.expected_runs, cell.missing) == (None, 0, 3, "3 of 3 trials collapsed")
    assert table.missing() == ["arcface: 0 of 3 runs; 3 of 3 trials collapsed"]
    assert table.rows[-1].method == "arcface"


def test_failures_are_refused_where_their_comparison_is_open() -> None:
    records = runs_of("ms") + runs_of("ms", protocol=MINI_V1)
    for found in ([], records):
        with pytest.raises(ReportError, match="arcface"):
            runs_frame(found, {"arcface": "collapsed"})


def test_a_method_that_was_only_searched_is_listed_and_its_search_values_are_not_used() -> None:
    searching = fold_record(identity("triplet", 0, purpose="search"), 0, 0.9)
    table = one_table([*runs_of("ms"), searching])
    assert cell_of(table, "triplet").missing == "searched, no final run"
    assert cell_of(table, "triplet").mean is None
    searched_too = fold_record(identity("ms", 0, purpose="search"), 0, 0.9)
    assert one_table([*runs_of("ms"), searched_too]) == one_table(runs_of("ms"))


def test_two_digests_under_one_title_give_two_tables() -> None:
    first = derive(MINI_V1, ["schedule.max_steps=10", "finals.n_runs=3"])
    second = derive(MINI_V1, ["schedule.max_steps=20", "finals.n_runs=3"])
    assert first.title == second.title
    tables = result_tables(runs_frame(runs_of("ms", protocol=first) + runs_of("triplet", protocol=second)))
    assert [[row.method for row in table.rows] for table in tables] == [["ms"], ["triplet"]]
    assert [table.protocol_digest for table in tables] == [first.digest(), second.digest()]


@pytest.mark.parametrize(
    "change",
    [
        {"dataset": {"name": "shapes", "content_hash": "ef" * 32, "n_classes": 36, "n_images": 1000}},
        {"split": {"kind": "wrapped", "digest": "01" * 8}},
    ],
)
def test_another_data_set_or_split_hash_is_another_table(change: dict[str, Any]) -> None:
    assert len(result_tables(runs_frame(runs_of("ms") + runs_of("ms", **change)))) == 2


def test_values_of_variants_are_short_where_that_still_tells_them_apart() -> None:
    lr, near = 10**-3.5, 10**-3.5 + 1e-12
    variants = {"a": {"w_lr": lr, "alpha": 2.0}, "b": {"w_lr": 0.1234567, "alpha": 2.0, "n": 123456}}
    of = {name: ("ms", "", json.dumps(values)) for name, values in variants.items()}
    labels = variant_labels(list(of.values()))
    assert labels[of["a"]] == "ms (w_lr=0.0003162, alpha=2.0)"
    assert labels[of["b"]] == "ms (w_lr=0.1235, alpha=2.0, n=123456)"
    of["near"] = ("ms", "", json.dumps({"w_lr": near, "alpha": 2.0}))
    labels = variant_labels(list(of.values()))
    assert labels[of["a"]] == f"ms (w_lr={lr}, alpha=2.0)"
    assert labels[of["near"]] == f"ms (w_lr={near}, alpha=2.0)"
    assert labels[of["b"]] == "ms (w_lr=0.1235, alpha=2.0, n=123456)"


def test_variants_of_one_name_are_never_averaged_together() -> None:
    plain = runs_of("mine.py:Loss", 0.1, method_code="aaa")
    edited = runs_of("mine.py:Loss", 0.3, method_code="bbb")
    other_values = runs_of("ms", 0.1) + runs_of("ms", 0.5, hyperparameters={"alpha": 3.0})
    table = one_table(plain + edited + other_values)
    means = {row.method: row.cells["separated", "map_at_r"].mean for row in table.rows}
    assert means == {
        "mine.py:Loss (aaa)": pytest.approx(0.11),
        "mine.py:Loss (bbb)": pytest.approx(0.31),
        "ms (alpha=2.0)": pytest.approx(0.11),
        "ms (alpha=3.0)": pytest.approx(0.51),
    }


def test_the_same_record_twice_counts_once_and_a_done_one_replaces_a_failed_one() -> None:
    records = runs_of("ms")
    failed = fold_record(identity("ms", 1), 0, None)
    assert one_table(records + records) == one_table(records)
    assert one_table([failed, *records]) == one_table([*records, failed]) == one_table(records)


def test_records_that_contradict_each_other_or_the_protocol_are_refused() -> None:
    with pytest.raises(ReportError, match=r"'ms', run 1.*differ"):
        runs_frame([*runs_of("ms"), fold_record(identity("ms", 1), 0, 0.9)])
    with pytest.raises(ReportError, match="runs 1 to 3"):
        runs_frame(run_of("ms", 4))
    with pytest.raises(ReportError, match="folds 0 to 3"):
        runs_frame([fold_record(identity("ms", 1), 4, 0.9)])


def test_rows_are_baselines_then_ascending_separated_map_at_r_then_methods_without_one() -> None:
    records = runs_of("ms", 0.5) + runs_of("untrained", 0.05) + runs_of("contrastive", 0.3) + runs_of("a", 0.6)
    records.append(fold_record(identity("pixels", 1), 0, 0.9))
    table = one_table(records, failures={"arcface": "collapsed"})
    assert [row.method for row in table.rows] == ["pixels", "untrained", "contrastive", "ms", "a", "arcface"]
    assert [row.baseline for row in table.rows] == [True, True, False, False, False, False]


def test_best_is_the_highest_trained_mean_and_nothing_where_that_lacks_runs() -> None:
    complete = runs_of("untrained", 0.8) + runs_of("ms", 0.2) + runs_of("triplet", 0.3)
    best = [row.method for row in one_table(complete).rows if row.cells["separated", "map_at_r"].best]
    assert best == ["triplet"]
    holed = one_table(complete + run_of("arcface", 1, 0.45))
    assert not any(cell.best for row in holed.rows for cell in row.cells.values())


def test_titles_say_demo_and_derived_with_the_values_and_headings_compute_the_dimensions() -> None:
    demo = one_table(runs_of("ms"))
    assert demo.title() == (
        f"Protocol demo@1 ({DEMO_V1.digest()}): a demonstration, not a measurement",
        "Data set shapes (abababababab), wrapped split (cdcdcdcdcdcd)",
    )
    derived = derive(MINI_V1, ["embedding.dim=64", "folds.n_folds=3"])
    records = [fold_record(identity("ms", 1, derived), fold, 0.5) for fold in range(3)]
    (table,) = result_tables(runs_frame(records), {derived.digest(): "embedding.dim = 64, folds.n_folds = 3"})
    assert table.title()[0] == (
        f"Protocol mini@1+ ({derived.digest()}): derived from mini@1 with other values: "
        "embedding.dim = 64, folds.n_folds = 3"
    )
    assert (table.heading("concatenated"), table.heading("separated")) == (
        "Concatenated (3 x 64 = 192-D)",
        "Separated (64-D)",
    )
    assert one_table(runs_of("ms", protocol=MINI_V1)).protocol_note == ""


def test_the_footer_defines_metrics_ties_and_intervals_and_owns_up_to_wrapped_splits() -> None:
    text = " ".join(one_table(runs_of("ms")).footer())
    for claim in ("MAP@R: 1/R", "smaller reference index first", "over 3 runs", "4 fold models", "in no fold's"):
        assert claim in text
    balanced = one_table(runs_of("ms", split={"kind": "balanced", "digest": "cd" * 8}))
    assert "in no fold's" not in " ".join(balanced.footer())


def one_model_run(
    method: str, run: int, value: float, protocol: Protocol = CONVENTIONAL_RESNET50_V1, dataset: str = "cub200"
) -> FoldRecord:
    """A run of one model with the recalls that its protocol asks for: value, then 0.1 more at each K."""
    who = identity(method, run, protocol)
    who = replace(who, dataset={**who.dataset, "standard_name": dataset}, split={"kind": "holdout", "digest": "9" * 12})
    recalls = [name for name in who.metrics if name.startswith("recall_at_")]
    found = dict.fromkeys(METRICS, value) | {name: value + 0.1 * place for place, name in enumerate(recalls)}
    return fold_record(who, 0, value, test=found)


def test_a_protocol_of_one_model_has_one_setting_and_its_recalls_in_the_table() -> None:
    protocol = derive(CONVENTIONAL_RESNET50_V1, ["n_runs=2"])
    records: list[Record] = [one_model_run("ms", run, 0.3 + 0.1 * run, protocol) for run in (1, 2)]
    pixels = one_model_run("pixels", 1, 0.05, protocol)
    table = one_table([*records, pixels])
    recalls = ("recall_at_1", "recall_at_2", "recall_at_4", "recall_at_8")
    assert table.settings == ("separated",)
    assert table.metrics == (*METRICS, *recalls)
    assert table.blocks == (("separated", recalls), ("separated", METRICS))
    assert table.heading("separated") == "One model (512-D)"
    assert {setting for row in table.rows for setting, _ in row.cells} == {"separated"}
    assert cell_of(table, "ms", metric="recall_at_4").mean == pytest.approx(0.65)
    assert cell_of(table, "pixels").expected_runs == 1
    assert table.missing() == []
    footer = " ".join(table.footer())
    for claim in ("R@K: share of queries", "A run is one model", "are not trained on", "ascending MAP@R"):
        assert claim in footer
    assert "Concatenated" not in footer


@pytest.mark.parametrize(
    ("dataset", "ranks"),
    [("cars196", (1, 2, 4, 8)), ("sop", (1, 10, 100, 1000)), ("inshop", (1, 10, 20, 30)), ("", (1, 2, 4, 8))],
)
def test_the_recalls_of_a_table_are_those_of_its_data_set(dataset: str, ranks: tuple[int, ...]) -> None:
    table = one_table([one_model_run("ms", 1, 0.3, dataset=dataset)])
    assert table.metrics[3:] == tuple(f"recall_at_{k}" for k in ranks)


def test_a_missing_run_of_one_model_is_named_once_and_without_a_setting() -> None:
    table = one_table([one_model_run("ms", 1, 0.3)], failures={"arcface": "collapsed"})
    assert table.missing() == [
        "ms: 1 of 10 runs; runs 2 to 10: not run",
        "arcface: 0 of 10 runs; collapsed",
    ]


def test_one_model_of_the_ablation_protocol_has_no_recall() -> None:
    table = one_table([one_model_run("ms", 1, 0.3, CCP_ABLATION_V1)])
    assert (table.blocks, table.heading("separated")) == ((("separated", METRICS),), "One model (128-D)")


def test_no_record_gives_an_empty_frame_and_no_table() -> None:
    frame = runs_frame([])
    assert frame.empty
    assert list(frame.columns) == COLUMNS
    assert result_tables(frame) == []


def test_control_characters_of_a_name_never_reach_a_table() -> None:
    table = one_table(runs_of("a\x1b[2J\nb"), failures={"c": "two\nlines"})
    assert row_of(table, "a\N{REPLACEMENT CHARACTER}[2J\N{REPLACEMENT CHARACTER}b")
    assert all(line.isprintable() for line in table.missing())


def test_a_method_that_was_not_searched_is_named_below_the_table() -> None:
    unsearched = [record for name in ("pml:CircleLoss", "untrained") for record in run_of(name, 1, hyperparameters={})]
    records = [*run_of("searched", 1), *unsearched]
    [table] = result_tables(runs_frame(records))
    assert table.unsearched == ("pml:CircleLoss",)
    assert "Not searched, run with its own defaults: pml:CircleLoss." in table.footer()
    [searched] = result_tables(runs_frame(run_of("searched", 1)))
    assert not [line for line in searched.footer() if "Not searched" in line]
