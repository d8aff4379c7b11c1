"""Which room may import which: protocols <- benchmark -> results <- reports; results and reports never see torch."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("protocols", "benchmark", "results", "reports")
ALLOWED = {
    "protocols": {"protocols"},
    "results": {"results"},
    "reports": {"reports", "results"},
    "benchmark": {"benchmark", "protocols", "results"},
}


def imported(path: Path) -> set[str]:
    """Top-level names of all imports in a file; a relative import counts as "."."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names.add("." if node.level else (node.module or "").partition(".")[0])
    return names


def is_command_line(path: Path) -> bool:
    """The files that may see all four rooms."""
    return path in (ROOT / "benchmark" / "cli.py", *(ROOT / "benchmark" / "commands").glob("*.py"))


def files(room: str) -> list[Path]:
    found = sorted((ROOT / room).rglob("*.py"))
    assert found, f"no files in {room}/"
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_the_rooms_it_may(room: str) -> None:
    for path in files(room):
        allowed = set(ROOMS) if is_command_line(path) else ALLOWED[room]
        foreign = (imported(path) & set(ROOMS)) - allowed
        assert not foreign, f"{path.relative_to(ROOT)} imports {foreign}"


@pytest.mark.parametrize("room", ROOMS)
def test_imports_are_absolute_so_that_a_line_shows_its_layer(room: str) -> None:
    assert not [path for path in files(room) if "." in imported(path)]


@pytest.mark.parametrize("room", ["results", "reports"])
def test_no_file_of_a_torchless_room_imports_torch(room: str) -> None:
    heavy = {"torch", "torchvision", "pytorch_metric_learning"}
    assert not [path for path in files(room) if imported(path) & heavy]


@pytest.mark.parametrize("room", ROOMS)
def test_no_file_needs_faiss(room: str) -> None:
    """`protocols.candidates` loads it by its name, when it is asked for."""
    assert not [path for path in files(room) if "faiss" in imported(path)]


def test_a_report_is_made_where_torch_is_missing() -> None:
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from reports.rehearsal import rehearse; import results.store, reports.save; rehearse()"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=120)


def test_the_specification_of_protocols_needs_no_third_party() -> None:
    for name in ("spec.py", "catalogue.py", "derive.py", "errors.py"):
        names = imported(ROOT / "protocols" / name) - {"protocols"}
        assert names <= sys.stdlib_module_names, f"{name} imports {names - sys.stdlib_module_names}"


def test_help_answers_without_torch() -> None:
    code = "import sys; sys.modules['torch'] = None; from benchmark.cli import main; main(['--help'])"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "run" in done.stdout


def test_every_module_says_what_it_holds() -> None:
    for room in ROOMS:
        for path in files(room):
            assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))), path.relative_to(ROOT)
