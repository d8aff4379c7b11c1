"""Holes in a table: which cell is missing and why, which job it lacks, and where the numbers are if not here."""

import json
from dataclasses import replace
from typing import Any

import pytest
from test_reports_tables import cell_of, fold_record, identity, one_table, row_of, run_of, run_record, runs_of

from protocols.catalogue import DEMO_V1
from protocols.derive import derive
from reports.frame import runs_frame
from reports.render import as_dict, to_csv, to_markdown
from reports.tables import Table
from reports.tabulation import result_tables
from results.errors import ResultsError
from results.record import FoldRecord, Record, to_json

BALANCED = {"kind": "balanced", "digest": "ef" * 8}


def data(name: str) -> dict[str, Any]:
    return {"dataset": {"name": name, "content_hash": name * 8, "n_classes": 36, "n_images": 1000}}


def tables_of(records: list[Record]) -> list[Table]:
    return result_tables(runs_frame(records))


def test_a_dropped_fold_record_is_named_as_the_job_that_is_missing() -> None:
    whole = runs_of("ms") + runs_of("triplet", 0.3)
    dropped = [record for record in whole if record.id != "ms-2-3"]
    table = one_table(dropped)
    assert table.missing() == ["ms: 2 of 3 runs; run 2: fold 3 not run (separated)"]
    assert "ms: 2 of 3 runs; run 2: fold 3 not run" in to_markdown(table)
    assert row_of(table, "triplet") == row_of(one_table(whole), "triplet")


def test_a_dropped_run_record_is_named_too() -> None:
    dropped = [record for record in runs_of("ms") if record.id != "ms-2"]
    assert one_table(dropped).missing() == ["ms: 2 of 3 runs; run 2: fold models not evaluated together (concatenated)"]


def test_three_losses_on_three_data_sets_with_one_score_missing_lose_one_cell_and_nothing_else() -> None:
    losses, names = ("ms", "triplet", "margin"), ("birds", "cars", "shoes")
    records = [record for name in names for loss in losses for record in runs_of(loss, **data(name))]
    place = next(
        place
        for place, record in enumerate(records)
        if (record.identity.dataset["name"], record.id) == ("cars", "triplet-2-1")
    )
    whole = {table.dataset_name: table for table in tables_of(records)}
    lacking = replace(records[place], test={"precision_at_1": 0.1, "r_precision": 0.1})
    records[place] = lacking
    holed = {table.dataset_name: table for table in tables_of(records)}
    for name in ("birds", "shoes"):
        assert holed[name] == whole[name]
    for loss in losses:
        for column, cell in row_of(holed["cars"], loss).cells.items():
            is_hole = (loss, column) == ("triplet", ("separated", "map_at_r"))
            assert cell.complete is not is_hole
    assert cell_of(holed["cars"], "triplet").missing == "run 2: fold 1 without map_at_r"
    with pytest.raises(ResultsError, match="map_at_r missing"):
        to_json(lacking)  # such a record is refused when it is written


def test_a_method_on_three_of_four_data_sets_is_named_in_the_fourth_and_no_mean_hides_it() -> None:
    records = [record for name in ("birds", "cars", "shoes", "toys") for record in runs_of("ms", **data(name))]
    records += [record for name in ("birds", "cars", "shoes") for record in runs_of("triplet", 0.3, **data(name))]
    tables = {table.dataset_name: table for table in tables_of(records)}
    assert tables["birds"].elsewhere == ()
    assert [line.partition(":")[0] for line in tables["toys"].elsewhere] == ["triplet"] * 3
    assert [row.method for row in tables["toys"].rows] == ["ms"]


def test_equal_losses_under_two_split_hashes_never_share_a_table_and_each_table_says_where_the_other_is() -> None:
    here, there = tables_of([*runs_of("ms"), *runs_of("triplet", split=BALANCED)])
    assert here.elsewhere == ("triplet: recorded with balanced split (efefefefefef)",)
    assert there.elsewhere == ("ms: recorded with wrapped split (cdcdcdcdcdcd)",)
    for table in (here, there):
        assert table.split_digest[:12] in " ".join(table.title())
        assert table.elsewhere[0] in to_markdown(table)
        assert as_dict(table)["elsewhere"] == list(table.elsewhere)


def test_the_fingerprint_that_differs_is_named() -> None:
    other = derive(DEMO_V1, ["max_steps=7"])
    records = [*runs_of("ms"), *runs_of("a", protocol=other), *runs_of("b", **data("cars"))]
    records += runs_of("c", protocol=other, split=BALANCED) + runs_of("d", protocol=other, **data("toys"))
    first = tables_of(records)[0]
    assert first.elsewhere == (
        f"a: recorded under protocol demo@1+ ({other.digest()})",
        "b: recorded on data set cars (carscarscars)",
        f"c: recorded under protocol demo@1+ ({other.digest()}) and with balanced split (efefefefefef)",
    )  # d has neither protocol nor data set in common


def test_a_method_that_failed_here_and_ran_there_has_both_told() -> None:
    failed: list[Record] = [fold_record(identity("triplet", run), 0, None) for run in (1, 2, 3)]
    table = tables_of([*runs_of("ms"), *failed, *runs_of("triplet", split=BALANCED)])[0]
    assert "fold 0 failed: collapsed, folds 1 to 3 not run" in table.missing()[0]
    assert table.elsewhere == ("triplet: recorded with balanced split (efefefefefef)",)


def test_a_method_with_numbers_here_and_baselines_are_not_looked_for_elsewhere() -> None:
    records = [*run_of("ms", 1), *runs_of("ms", split=BALANCED), *runs_of("untrained", split=BALANCED)]
    assert tables_of(records)[0].elsewhere == ()


def test_a_mean_of_the_folds_that_are_there_is_never_formed() -> None:
    who = identity("ms", 1)
    three = [fold_record(who, fold, 0.9) for fold in range(3)]
    table = one_table([*three, run_record(who, 0.9)])
    assert cell_of(table, "ms", "separated").mean is None
    assert ",0.9," not in "".join(line for line in to_csv([table]).splitlines() if ",separated," in line)


def audited(record: FoldRecord, **counts: int) -> FoldRecord:
    return replace(record, evaluation_audit={"queries": 6, "left_out": 4, "smallest_r": 5, "largest_r": 5, **counts})


def test_what_was_evaluated_is_told_with_the_queries_left_out() -> None:
    folds = [audited(record) for record in run_of("ms", 1) if isinstance(record, FoldRecord)]
    table = one_table([*folds])
    assert table.evaluated == "6 queries, 4 left out, R = 5"
    assert "Here: 6 queries, 4 left out, R = 5." in to_markdown(table)
    assert json.loads(json.dumps(as_dict(table)))["evaluated"] == table.evaluated
    larger = one_table([audited(record, queries=5924, left_out=0, largest_r=59) for record in folds])
    assert larger.evaluated == "5,924 queries, none left out, R from 5 to 59"


def test_records_that_were_evaluated_on_other_queries_show_it() -> None:
    folds = [record for record in run_of("ms", 1) if isinstance(record, FoldRecord)]
    mixed = [audited(folds[0]), *(audited(record, queries=7) for record in folds[1:])]
    assert one_table([*mixed]).evaluated == "6 queries, 4 left out, R = 5 or 7 queries, 4 left out, R = 5"
