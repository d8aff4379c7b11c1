"""Accuracy over publication year: the years are those of the methods' sources, and no two labels touch."""

import re
from itertools import pairwise
from xml.etree import ElementTree

import matplotlib as mpl
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from published_runs import quoted, runs

from benchmark.methods.registry import METHODS
from reports import style
from reports.site.boards import Board
from reports.site.years import years
from reports.tables import Table
from reports.years import YEARS, year_of, years_figure, years_png, years_svg
from results.reference.published import published_values

UNDATED = {"pretrained"}  # its source is the paper that uses it as a baseline
REALITY_CHECK = list(dict.fromkeys(value.method for value in published_values("mlrc@1")))


def full() -> Table:
    records = [record for place, name in enumerate(REALITY_CHECK[1:]) for record in runs(name, 0.2 + place / 200)]
    return quoted(records)[0]


def texts(svg: bytes) -> list[str]:
    return ["".join(item.itertext()) for item in ElementTree.fromstring(svg).iter() if item.tag.endswith("}text")]


def test_every_year_is_the_first_one_that_the_methods_source_names() -> None:
    for name, entry in METHODS.items():
        years = re.findall(r"\b(?:19|20)\d\d\b", re.sub(r"https?://\S+", "", entry.source))
        assert year_of(name) == (int(years[0]) if years and name not in UNDATED else None), name


def test_no_year_is_given_to_what_is_not_there() -> None:
    assert set(YEARS) <= set(METHODS)
    assert year_of("mine.py:Loss") is None


def test_every_method_and_year_is_written_and_every_paper_has_its_mark() -> None:
    found = texts(years_svg(full()))
    assert set(REALITY_CHECK[1:]) <= set(found)
    assert {"2006", "2017", "2019", "2024", "ours", "musgrave2020, this protocol"} <= set(found)
    assert "pretrained" not in found


@pytest.mark.filterwarnings("error")
def test_labels_of_more_than_twenty_methods_do_not_touch() -> None:
    with mpl.rc_context(style.STYLE):
        figure = years_figure(full())
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        (axes,) = figure.axes
        ticks = [label.get_window_extent() for label in axes.get_xticklabels()]
        years = [text.get_window_extent() for text in axes.texts]
    assert len(ticks) > 20
    for boxes in (ticks, years):
        for left, right in pairwise(boxes):
            assert left.x1 <= right.x0
    assert min(box.y0 for box in ticks) > 0


def test_intervals_are_drawn_where_they_exist_and_the_same_table_gives_the_same_bytes() -> None:
    table = full()
    assert years_svg(table) == years_svg(table)
    assert years_png(table).startswith(b"\x89PNG")
    bars = [item for item in years_figure(table).axes[0].containers if item.get_label() == "ours"]
    segments = bars[0].lines[2][0].get_segments()  # type: ignore[attr-defined]
    assert len(segments) == len(REALITY_CHECK) - 1
    assert all(high[1] > low[1] for low, high in segments)


def test_a_mean_that_lacks_runs_is_not_drawn() -> None:
    (table,) = quoted(runs("contrastive", 0.2, n_runs=9) + runs("triplet", 0.2))
    bars = [item for item in years_figure(table).axes[0].containers if item.get_label() == "ours"]
    assert len(bars[0].lines[2][0].get_segments()) == 1  # type: ignore[attr-defined]


def test_the_site_does_not_draw_a_mean_that_lacks_runs_either() -> None:
    whole = [record for name in ("contrastive", "arcface", "cosface", "fastap") for record in runs(name, 0.2)]
    (table,) = quoted(whole + runs("triplet", 0.2, n_runs=9))
    found = years(Board(table=table, records=()))
    assert found is not None
    (marks,) = (path.d for path in found.paths if path.look == "ours")
    assert marks.count("M") == 4
