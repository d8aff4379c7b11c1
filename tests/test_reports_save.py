"""A report as files: each appears whole or not at all, and what cannot be written is one line."""

import os
import resource
from pathlib import Path

import pytest
from PIL import Image
from small_tables import FULL, row, table

from reports.errors import ReportError
from reports.save import save_tables

STEM = "demo@1-shapes-4beca8-ababab-cdcdcd"
NAMES = [f"{STEM}.png", f"{STEM}.svg", "results.csv", "results.html", "results.md", "results.tex"]


def test_all_files_appear_whole_in_a_new_folder_and_are_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "a b" / "é"
    written = save_tables([FULL], folder)
    assert sorted(path.name for path in written) == NAMES
    assert Image.open(folder / f"{STEM}.png").size[0] == 1200
    before = {path: path.read_bytes() for path in written}
    save_tables([table(row("ms", 0.5))], folder)
    assert all(path.read_bytes() != before[path] for path in written)
    assert sorted(os.listdir(folder)) == NAMES  # noqa: PTH208 - hidden partial files count


def test_an_unwritable_folder_is_one_line_and_costs_no_other_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(ReportError, match="choose another --out") as refusal:
        save_tables([FULL], tmp_path / "file")
    assert "\n" not in str(refusal.value)
    (tmp_path / "results.csv").mkdir()  # a folder where a file should go
    with pytest.raises(ReportError, match="cannot be written"):
        save_tables([FULL], tmp_path)
    assert sorted(os.listdir(tmp_path)) == ["file", "results.csv", "results.md"]  # noqa: PTH208


def test_a_write_that_stops_half_way_leaves_the_old_file_and_no_partial_one(tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in save_tables([FULL], tmp_path)}
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))  # bytes; as a full disk would
    try:
        with pytest.raises(ReportError, match="cannot be written"):
            save_tables([table(row("ms", 0.9))], tmp_path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
