"""Which cells are bold: the best trained method and what a paired test over runs does not tell from it."""

import pytest
from test_reports_tables import fold_record, identity, one_table, run_of, run_record, runs_of

from protocols.catalogue import DEMO_V1, MINI_V1
from protocols.derive import derive
from protocols.spec import Protocol
from reports.tables import Table
from results.record import Record

FIVE_RUNS = derive(MINI_V1, ["n_runs=5"])
NOISE = (-0.02, 0.01, 0.0, 0.02, -0.01)


def runs(method: str, values: list[float], protocol: Protocol = FIVE_RUNS) -> list[Record]:
    """Runs with these values in every fold and metric, alone and side by side."""
    found: list[Record] = []
    for run, value in enumerate(values, start=1):
        who = identity(method, run, protocol)
        found += [*(fold_record(who, fold, value) for fold in range(4)), run_record(who, value)]
    return found


def bold(table: Table, metric: str = "map_at_r") -> set[str]:
    (found,) = {
        tuple(sorted(row.method for row in table.rows if row.cells[setting, metric].best))
        for setting in ("separated", "concatenated")
    }
    return set(found)


def test_what_a_paired_test_cannot_tell_from_the_best_is_bold_with_it_and_the_rest_is_not() -> None:
    best = [0.5 + noise for noise in NOISE]
    near = [0.5 + noise for noise in (0.01, -0.02, 0.01, -0.01, 0.0)]  # 0.002 less on average, and noisy
    steady = [value - 0.01 for value in best]  # a little less in every single run
    table = one_table(runs("best", best) + runs("near", near) + runs("steady", steady))
    assert bold(table) == {"best", "near"}


def test_overlapping_intervals_do_not_make_a_method_bold_that_is_worse_in_every_run() -> None:
    best = [0.5 + noise for noise in NOISE]
    steady = [value - 0.005 - 0.0001 * place for place, value in enumerate(best)]
    table = one_table(runs("best", best) + runs("steady", steady))
    cells = {row.method: row.cells["separated", "map_at_r"] for row in table.rows}
    reach = cells["steady"].half_width
    assert reach is not None
    assert cells["steady"].mean is not None
    assert cells["best"].mean is not None
    assert cells["steady"].mean + reach > cells["best"].mean
    assert bold(table) == {"best"}


def test_an_incomplete_leader_leaves_the_column_unmarked_and_an_incomplete_follower_is_never_marked() -> None:
    best = runs("best", [0.5 + noise for noise in NOISE])
    assert bold(one_table(best + runs("holed", [0.7, 0.71, 0.69, 0.7]))) == set()
    assert bold(one_table(best + runs("holed", [0.48, 0.51, 0.49, 0.51]))) == {"best"}


@pytest.mark.parametrize("n_runs", [1, 2])
def test_below_three_runs_nothing_is_bold_and_the_footer_says_why(n_runs: int) -> None:
    protocol = derive(MINI_V1, [f"n_runs={n_runs}"])
    table = one_table(runs("ms", [0.5, 0.52][:n_runs], protocol) + runs("triplet", [0.1, 0.11][:n_runs], protocol))
    assert bold(table) == set()
    assert "Nothing is bold: below 3 runs no method can be told from the best." in " ".join(table.footer())


def test_the_footer_says_what_bold_is_and_warns_of_few_runs() -> None:
    few, enough = (" ".join(one_table(runs_of("ms", protocol=protocol)).footer()) for protocol in (DEMO_V1, FIVE_RUNS))
    for text in (few, enough):
        assert "not distinguishable from it (paired t-test over runs, 5 %, Holm-corrected)" in text
    assert "With 3 runs little can be told apart." in few
    assert "little can be told apart" not in enough


def test_one_value_of_a_method_without_chance_stands_for_every_run() -> None:
    best = runs("best", [0.5 + noise for noise in NOISE])
    for value, expected in ((0.499, {"best", "nca"}), (0.4, {"best"}), (0.6, {"nca"})):
        assert bold(one_table(best + runs("nca", [value]))) == expected


def test_baselines_are_neither_bold_nor_the_measure_of_others() -> None:
    table = one_table(runs_of("untrained", 0.9) + runs_of("ms", 0.2) + runs_of("triplet", 0.3))
    assert bold(table) == {"triplet"}


def test_columns_are_marked_each_for_itself() -> None:
    swapped: list[Record] = []
    for record in runs("other", [0.4 + noise for noise in NOISE]):
        test = {**(record.test or {}), "precision_at_1": 0.9 + 0.001 * record.identity.run}
        swapped.append(type(record)(**{**vars(record), "test": test}))
    table = one_table(runs("best", [0.5 + noise for noise in NOISE]) + swapped)
    assert bold(table) == {"best"}
    assert bold(table, "precision_at_1") == {"other"}


def test_a_table_without_a_trained_method_has_no_mark() -> None:
    assert bold(one_table(run_of("untrained", 1))) == set()
