"""The best so far of searches and its mean, on trials with known values."""

import math
from dataclasses import replace

import pandas as pd
import pytest
from figure_records import drawn, fold, identity, texts

from reports.analyses.search_budget import search_budget
from reports.errors import ReportError
from reports.statistics.search_budget import COLUMNS, MEAN_COLUMNS, best_so_far, mean_best_so_far
from results.record import FoldRecord


def trial(number: int, values: tuple[float | None, ...], method: str = "ms", dataset: str = "ab") -> list[FoldRecord]:
    """The folds of one trial, made one minute after those of the trial before."""
    of = identity("search", method=method, alpha=number)
    of = replace(of, dataset={**of.dataset, "content_hash": dataset, "name": f"things {dataset}"})
    made = replace(fold(of, 0, 0.0).provenance, created_at=f"2024-01-01T12:{number:02}:00+00:00")
    return [
        replace(fold(of, place, value), id=f"{dataset} {method} {number} {place}", provenance=made)
        for place, value in enumerate(values)
    ]


SEARCH = [
    *trial(1, (None, 0.5)),  # failed
    *trial(2, (0.2, 0.4)),
    *trial(3, (0.1, 0.3)),
    *trial(4, (0.6, None)),  # failed
    *trial(5, (0.5, 0.7)),
]
VALUES = ((None, 0.5), (0.2, 0.4), (0.1, 0.3), (0.6, None), (0.5, 0.7))


def test_the_best_so_far_rises_with_each_better_trial_and_failed_trials_are_budget_too() -> None:
    found = best_so_far(SEARCH)
    assert list(found.columns) == COLUMNS
    assert found["trial"].tolist() == [1, 2, 3, 4, 5]
    assert found["best_so_far"].tolist()[1:] == pytest.approx([0.3, 0.3, 0.3, 0.6])
    assert math.isnan(found["best_so_far"][0])
    assert found["missing"].tolist() == ["collapsed", "", "", "collapsed", ""]


def test_trials_are_ordered_by_time_whatever_order_the_records_come_in() -> None:
    by_id = sorted(SEARCH, key=lambda record: hash(record.id))
    pd.testing.assert_frame_equal(best_so_far(by_id), best_so_far(SEARCH))
    pd.testing.assert_frame_equal(best_so_far(reversed(SEARCH)), best_so_far(SEARCH))


def test_times_of_other_zones_are_ordered_as_times() -> None:
    first, second = trial(1, (0.5, 0.5)), trial(2, (0.1, 0.1))
    early = replace(second[0].provenance, created_at="2024-01-01T14:00:30+02:00")
    found = best_so_far([*first, *(replace(record, provenance=early) for record in second)])
    assert found["map_at_r"].tolist() == pytest.approx([0.1, 0.5])


def test_an_open_trial_and_final_runs_are_no_trials() -> None:
    final = fold(identity("final", run=1, method="ms", alpha=2), 0, 0.9)
    assert len(best_so_far([*SEARCH, *trial(6, (0.9,)), final])) == 5


def test_the_mean_is_over_searches_and_missing_where_one_of_them_has_no_value() -> None:
    other = [
        *trial(1, (0.4, 0.4), dataset="cd"),
        *trial(2, (0.2, 0.2), dataset="cd"),
        *trial(3, (0.7, 0.9), dataset="cd"),
    ]
    found = mean_best_so_far(best_so_far([*SEARCH, *other]))
    assert list(found.columns) == MEAN_COLUMNS
    assert found["n_searches"].tolist() == [2] * 5
    assert found["best_so_far"].tolist()[1:3] == pytest.approx([(0.3 + 0.4) / 2, (0.3 + 0.8) / 2])
    assert found["best_so_far"].isna().tolist() == [True, False, False, True, True]
    assert found["missing"].tolist() == [
        "no trial has finished in 1 of 2 searches",
        "",
        "",
        "1 of 2 searches have fewer trials",
        "1 of 2 searches have fewer trials",
    ]


def test_methods_and_protocols_are_never_averaged_together() -> None:
    others = [*trial(1, (0.1, 0.1), method="triplet"), *trial(2, (0.3, 0.3), method="triplet")]
    derived = [
        replace(record, identity=replace(record.identity, protocol={**record.identity.protocol, "digest": "d2"}))
        for record in trial(1, (0.8, 0.8))
    ]
    found = mean_best_so_far(best_so_far([*SEARCH, *others, *derived]))
    assert found.groupby(["protocol_digest", "method"]).size().to_dict() == {
        ("d1", "ms"): 5,
        ("d1", "triplet"): 2,
        ("d2", "ms"): 1,
    }
    assert set(found["n_searches"]) == {1}


def test_no_search_is_an_empty_frame() -> None:
    assert best_so_far([]).empty
    assert best_so_far(trial(1, (0.9,))).empty
    assert mean_best_so_far(best_so_far([])).columns.tolist() == MEAN_COLUMNS


def test_the_figure_has_a_line_for_each_method_and_its_csv_the_numbers() -> None:
    other = [*trial(1, (0.1, 0.3), "triplet"), *trial(2, (0.5, 0.5), "triplet")]
    gallery = search_budget([*SEARCH, *other])
    (drawing,) = gallery.drawings
    assert {"ms", "triplet", "trial"} <= set(texts(drawn(drawing)))
    found = drawing.data[drawing.data["method"] == "triplet"]
    assert found["best_so_far"].tolist() == pytest.approx([0.2, 0.5])
    with pytest.raises(ReportError, match="no search with a finished trial"):
        search_budget(trial(1, (None, 0.5)))


def test_lines_of_the_figure_are_told_apart_without_their_colours_and_marked_where_a_trial_is_better() -> None:
    methods = [f"m{number}" for number in range(10)]
    found = [line for method in methods for number in range(1, 6) for line in trial(number, VALUES[number - 1], method)]
    (drawing,) = search_budget(found).drawings
    figure = drawing.figure()
    lines = figure.axes[0].get_lines()
    assert len({(line.get_marker(), line.get_linestyle()) for line in lines}) == len(methods)
    for line in lines:
        marked = [line.get_xdata()[place] for place in line.get_markevery()]
        assert [trial for trial in marked if trial != 1] == [2, 5]  # the first trial has no value to be marked
    (legend,) = figure.legends
    assert not legend.get_frame_on()
    handles = legend.legend_handles
    assert len({(handle.get_marker(), handle.get_linestyle()) for handle in handles}) == len(methods)
