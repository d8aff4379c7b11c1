"""`mlrc new-loss`: what it writes works and passes its own test; a name can do no harm."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from runpy import run_path

import pytest
from conftest import Command

from benchmark.errors import BenchmarkError
from benchmark.methods.registry import method_entry
from benchmark.scaffold import new_loss


def cases_in(path: Path) -> dict[str, Callable[[], None]]:
    """The test functions of a file by name, run as pytest would; it takes seconds to start another one."""
    found = {name: value for name, value in run_path(str(path)).items() if name.startswith("test_")}
    tests: dict[str, Callable[[], None]] = {}
    for name, function in found.items():
        marks = getattr(function, "pytestmark", [])
        cases = [{mark.args[0]: value} for mark in marks for value in mark.args[1]] or [{}]
        tests |= {f"{name} {number}": partial(function, **case) for number, case in enumerate(cases)}
    return tests


def test_the_test_that_it_writes_passes_and_its_loss_is_a_method_with_a_space(tmp_path: Path) -> None:
    found = new_loss("SoftMargin", tmp_path)
    entry = method_entry(found.method)
    assert (entry.family, sorted(entry.space(4))) == ("pair", ["scale", "threshold"])
    tests = cases_in(found.test)
    assert len(tests) == 9
    for test in tests.values():
        test()


@pytest.mark.parametrize(
    ("right", "wrong", "caught_by"),
    [
        ("(self.threshold - similarities)", "(similarities - self.threshold)", "test_classes_that_stand_apart"),
        ("alike & ~itself", "alike", "test_it_equals_a_loop"),
        (".clamp_min(1)", "", "test_a_batch_without_pairs"),
    ],
)
def test_the_test_that_it_writes_catches_slips(tmp_path: Path, right: str, wrong: str, caught_by: str) -> None:
    found = new_loss("SoftMargin", tmp_path)
    text = found.loss.read_text(encoding="utf-8")
    assert right in text
    found.loss.write_text(text.replace(right, wrong, 1), encoding="utf-8")
    failed = []
    for name, test in cases_in(found.test).items():
        try:
            test()
        except AssertionError:
            failed.append(name)
    assert any(name.startswith(caught_by) for name in failed)


@pytest.mark.parametrize(
    ("name", "stem", "class_name"),
    [
        ("SoftMargin", "soft_margin", "SoftMargin"),
        ("soft_margin", "soft_margin", "SoftMargin"),
        ("HTTPLoss2", "http_loss2", "HTTPLoss2"),
        ("a__b_", "a_b", "AB"),
    ],
)
def test_a_name_in_either_manner_names_file_and_class(tmp_path: Path, name: str, stem: str, class_name: str) -> None:
    found = new_loss(name, tmp_path / "new folder")
    assert sorted(path.name for path in found.loss.parent.iterdir()) == sorted([f"{stem}.py", f"test_{stem}.py"])
    assert f"class {class_name}(torch.nn.Module):" in found.loss.read_text(encoding="utf-8")
    assert f"{stem}.py')}}:{class_name}" in found.test.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "name",
    [
        *("", " ", "1loss", "_loss", "my-loss", "my loss", "../escape", "a/b", "a\\b", "a.b", "Lösung", "x" * 61),
        *("A:\n    import os", 'X"""', "A\n", "A\x00", "$(id)", "{0}"),
        *("class", "lambda", "Lambda", "None", "torch", "Torch", "json", "benchmark", "FloatDistribution"),
    ],
)
def test_a_name_that_could_do_harm_writes_nothing(tmp_path: Path, name: str) -> None:
    with pytest.raises(BenchmarkError) as caught:
        new_loss(name, tmp_path)
    assert "\n" not in str(caught.value)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("there", ["soft_margin.py", "test_soft_margin.py"])
def test_nothing_is_overwritten(tmp_path: Path, there: str) -> None:
    (tmp_path / there).write_text("mine", encoding="utf-8")
    with pytest.raises(BenchmarkError, match="is there already"):
        new_loss("SoftMargin", tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [there]
    assert (tmp_path / there).read_text(encoding="utf-8") == "mine"


def test_a_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(BenchmarkError, match="cannot be written"):
        new_loss("SoftMargin", tmp_path / "file")


def test_the_command_says_what_it_wrote_and_what_to_run_next(mlrc: Command) -> None:
    outcome = mlrc("new-loss", "SoftMargin")
    assert outcome.code == 0
    assert outcome.out.splitlines()[:2] == ["written: soft_margin.py", "written: test_soft_margin.py"]
    assert "mlrc compare soft_margin.py:SoftMargin --against contrastive" in outcome.out
    assert "is there already" in mlrc("new-loss", "SoftMargin").refusal()
    found = mlrc("new-loss", "OtherLoss", "--out", "losses", "--json").json
    assert found == {
        "loss": "losses/other_loss.py",
        "test": "losses/test_other_loss.py",
        "method": "losses/other_loss.py:OtherLoss",
    }
