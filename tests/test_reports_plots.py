"""The picture: the same table gives the same bytes, and nothing missing is left out."""

import io
import re
from dataclasses import replace
from itertools import pairwise
from xml.etree import ElementTree

import matplotlib as mpl
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from PIL import Image
from published_runs import quoted, runs
from small_tables import FULL, row, table

from reports import style
from reports.plots import BASELINE, TRAINED, _figure, png_bytes, svg_bytes


def texts(svg: bytes) -> list[str]:
    return ["".join(item.itertext()) for item in ElementTree.fromstring(svg).iter() if item.tag.endswith("}text")]


def fills(svg: bytes) -> list[str]:
    return [colour.upper() for colour in re.findall(r"fill: (#[0-9a-f]{6})", svg.decode())]


def test_the_same_table_gives_the_same_bytes_and_global_settings_stay() -> None:
    before = dict(mpl.rcParams)
    assert svg_bytes(FULL) == svg_bytes(FULL)
    assert png_bytes(FULL) == png_bytes(FULL)
    assert b"<dc:date>" not in svg_bytes(FULL)
    assert dict(mpl.rcParams) == before


def test_every_method_is_named_and_what_is_missing_is_written_out() -> None:
    found = texts(svg_bytes(FULL))
    assert {"untrained", "ms", "holed", "lost"} <= set(found)
    assert found.count("missing: no trial finished") == 1
    assert found.count("2 of 3 runs") == 2
    joined = " ".join(found)
    assert "demo@1 (4beca8181092): a demonstration, not a measurement" in joined
    assert "Data set shapes" in joined
    assert "Concatenated (4 x 128 = 512-D)" in found


def test_baselines_are_gray_and_trained_methods_are_not() -> None:
    trained, baseline = set(TRAINED.values()), set(BASELINE.values())
    only_trained = fills(svg_bytes(table(row("ms", 0.3))))
    assert trained <= set(only_trained)
    assert not baseline & set(only_trained)
    with_baseline = fills(svg_bytes(table(row("untrained", 0.1, baseline=True))))
    assert baseline <= set(with_baseline)
    assert {colour: with_baseline.count(colour) for colour in trained} == dict.fromkeys(trained, 1)  # legend only


def test_one_model_has_one_bar_and_no_second_setting() -> None:
    one_model = replace(table(row("ms", 0.3)), n_folds=1, embedding_dim=512)
    drawn, both = svg_bytes(one_model), svg_bytes(table(row("ms", 0.3)))
    assert "One model (512-D)" in texts(drawn)
    assert not [text for text in texts(drawn) if text.startswith(("Concatenated", "Separated"))]
    assert fills(drawn).count(TRAINED["separated"]) == fills(both).count(TRAINED["separated"]) == 2  # bar and legend
    assert TRAINED["concatenated"] not in fills(drawn)


def test_one_run_has_no_interval() -> None:
    one, three = table(row("ms", 0.3, n_runs=1, missing="x")), table(row("ms", 0.3))
    assert svg_bytes(three).count(b"LineCollection") - svg_bytes(one).count(b"LineCollection") == 2  # one a setting


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "name", ["$x_{$", "a_b^c\\d", "<svg>&amp;", "漢字", "very/long/" + "path/" * 40 + "losses.py:Loss", "%"]
)
def test_any_name_can_be_drawn_without_a_warning(name: str) -> None:
    odd = replace(FULL, dataset_name=name, rows=(row(name, 0.2), row(name + "2", None, n_runs=0, missing=name)))
    assert png_bytes(odd)
    assert texts(svg_bytes(odd))


@pytest.mark.filterwarnings("error")
def test_tables_without_any_value_or_any_row_still_draw() -> None:
    assert png_bytes(table(row("lost", None, n_runs=0, missing="not run")))
    assert png_bytes(table(row("zero", 0.0)))
    assert png_bytes(table())


def test_the_picture_grows_with_the_number_of_methods() -> None:
    three, twenty = (
        Image.open(io.BytesIO(png_bytes(table(*[row(f"m{i}", 0.1) for i in range(n)])))).height for n in (3, 20)
    )
    assert twenty - three == 17 * 63  # 0.42 inches each, at 150 dots per inch


@pytest.mark.filterwarnings("error")
def test_twenty_long_names_do_not_touch_each_other_or_leave_the_picture() -> None:
    names = [
        f"my losses/path_{number}/to/a/module_of_many_words.py:TheLossOfMyThesisInItsVersion{number}"
        for number in range(20)
    ]
    with mpl.rc_context(style.STYLE):
        figure = _figure(table(*[row(name, 0.1) for name in names]))
        FigureCanvasAgg(figure).draw()
        boxes = [label.get_window_extent() for label in figure.axes[0].get_yticklabels()]
    assert len(boxes) == 20
    assert all(upper.y0 >= lower.y1 for upper, lower in pairwise(boxes))
    assert min(box.x0 for box in boxes) >= 0


def test_a_paper_under_this_very_protocol_is_a_diamond_and_another_is_not() -> None:
    (found,) = quoted(runs("contrastive", 0.26))
    label = "As published under this protocol"
    assert label in texts(svg_bytes(found))
    derived = replace(found, quoted=tuple(replace(row, same_protocol=False) for row in found.quoted))
    assert label not in texts(svg_bytes(derived))
