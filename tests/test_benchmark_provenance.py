"""What a worker's package is compared by: the version and the sources that compute, wherever they lie."""

import re
import shutil
from pathlib import Path

from benchmark.provenance import code_digest, package

ROOT = Path(__file__).parents[1]


def test_a_version_is_told_with_the_code_behind_it() -> None:
    found = re.fullmatch(r"\d+\.\d+\.\d+ \(code ([0-9a-f]{12})\)", package())
    assert found
    assert found[1] == code_digest(ROOT)


def test_a_copy_elsewhere_is_the_same_code_and_one_edited_moved_or_new_file_is_other_code(tmp_path: Path) -> None:
    for room in ("protocols", "benchmark", "results"):
        shutil.copytree(ROOT / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__"))
    copied = code_digest(tmp_path)
    assert copied == code_digest(ROOT)
    (tmp_path / "reports").mkdir()
    (tmp_path / "reports" / "page.py").write_text("x = 1\n")  # a worker makes no report
    assert code_digest(tmp_path) == copied
    with (tmp_path / "benchmark" / "seeding.py").open("a", encoding="utf-8") as file:
        file.write("# edited\n")
    edited = code_digest(tmp_path)
    (tmp_path / "benchmark" / "seeding.py").rename(tmp_path / "benchmark" / "seeds.py")
    moved = code_digest(tmp_path)
    (tmp_path / "results" / "more.py").touch()
    assert len({copied, edited, moved, code_digest(tmp_path)}) == 4
