"""The picture: both files appear whole, the same table gives the same bytes, and nothing missing is left out."""

import io
import os
import re
import resource
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import matplotlib as mpl
import pytest
from PIL import Image

from reports.errors import ReportError
from reports.plots import BASELINE, TRAINED, png_bytes, save_plot, svg_bytes
from reports.tables import Cell, Row, Table


def row(method: str, mean: float | None, *, n_runs: int = 3, missing: str = "", baseline: bool = False) -> Row:
    found = Cell(
        mean=mean,
        half_width=0.01 if mean is not None and n_runs > 1 else None,
        n_runs=n_runs,
        expected_runs=3,
        missing=missing,
    )
    return Row(
        method=method, baseline=baseline, cells={("concatenated", "map_at_r"): found, ("separated", "map_at_r"): found}
    )


def table(*rows: Row) -> Table:
    return Table(
        protocol_title="demo@1",
        protocol_digest="4beca8181092",
        protocol_note="a demonstration, not a measurement",
        dataset_name="shapes",
        dataset_hash="ab" * 32,
        split_kind="wrapped",
        split_digest="cd" * 8,
        n_folds=4,
        n_runs=3,
        embedding_dim=128,
        primary_metric="map_at_r",
        metrics=("map_at_r",),
        rows=rows,
    )


FULL = table(
    row("untrained", 0.05, baseline=True),
    row("ms", 0.3),
    row("holed", 0.25, n_runs=2, missing="run 2: not run"),
    row("lost", None, n_runs=0, missing="no trial finished"),
)


def texts(svg: bytes) -> list[str]:
    return ["".join(item.itertext()) for item in ElementTree.fromstring(svg).iter() if item.tag.endswith("}text")]


def fills(svg: bytes) -> list[str]:
    return [colour.upper() for colour in re.findall(r"fill: (#[0-9a-f]{6})", svg.decode())]


def test_both_files_appear_whole_in_a_new_folder_and_are_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "a b" / "é"
    png, svg = save_plot(FULL, folder, "demo")
    assert (png, svg) == (folder / "demo.png", folder / "demo.svg")
    assert Image.open(png).size[0] == 1200
    first = svg.read_bytes()
    save_plot(table(row("ms", 0.5)), folder, "demo")
    assert svg.read_bytes() != first
    assert sorted(item.name for item in folder.iterdir()) == ["demo.png", "demo.svg"]


def test_an_unwritable_folder_is_one_line_and_leaves_the_old_file_alone(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    with pytest.raises(ReportError, match="Choose another folder") as refusal:
        save_plot(FULL, blocked, "demo")
    assert "\n" not in str(refusal.value)
    (tmp_path / "demo.png").mkdir()  # a folder where the file should go
    with pytest.raises(ReportError, match=r"demo\.png"):
        save_plot(FULL, tmp_path, "demo")
    assert sorted(os.listdir(tmp_path)) == ["demo.png", "file"]  # noqa: PTH208 - hidden partial files count


def test_a_write_that_stops_half_way_leaves_the_old_file_and_no_partial_one(tmp_path: Path) -> None:
    png, _ = save_plot(FULL, tmp_path, "demo")
    before, (soft, hard) = png.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, hard))  # bytes; as a full disk would
    try:
        with pytest.raises(ReportError, match="cannot be written"):
            save_plot(table(row("ms", 0.9)), tmp_path, "demo")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert png.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["demo.png", "demo.svg"]  # noqa: PTH208 - hidden partial files count


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
