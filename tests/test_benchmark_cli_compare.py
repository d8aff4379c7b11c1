"""`mlrc compare` and `mlrc baseline` on jobs that run: verdicts, exit codes, and what is not run twice or at all."""

import json
import re
import shlex
from pathlib import Path
from xml.etree import ElementTree

import pytest
from conftest import SEARCHED, Command, Outcome, options, write_loss

from results.store import Store

DOCS = Path(__file__).parents[1] / "docs"
LINE = re.compile(r"    mlrc |\s+- run: mlrc ")
PULL = "return (embeddings[:, None] - embeddings[None]).square().sum(2).mean()"
BREAKS = "raise RuntimeError('a slip')"


@pytest.fixture
def losses(tmp_path: Path) -> tuple[str, str]:
    """A loss and the same one again, by names relative to the folder in which commands run."""
    write_loss(tmp_path / "new.py", PULL)
    write_loss(tmp_path / "old.py", PULL)
    return "new.py:Loss", "old.py:Loss"


@pytest.fixture
def three(images: Path, store: Path) -> list[str]:
    """The options of a suite of three final runs."""
    return options(images, store, "n_runs=3")


def runs_in(store: Path) -> dict[str, list[int]]:
    with Store.open(str(store)) as opened:
        found = opened.records(kind="run")
    return {method: [one.identity.run for one in found if one.identity.method == method] for method in
            dict.fromkeys(one.identity.method for one in found)}  # fmt: skip


def verdict(outcome: Outcome) -> str:
    """The verdict of a command that was asked for JSON."""
    assert "Traceback" not in outcome.err
    return str(outcome.json["verdict"])


def test_a_comparison_runs_what_is_lacking_once_and_takes_it_from_store_and_exports_after_that(
    mlrc: Command, losses: tuple[str, str], three: list[str], store: Path, tmp_path: Path
) -> None:
    new, old = losses
    first = mlrc("compare", new, "--against", old, *three, "--junit", "gate.xml", "--json")
    assert (first.code, verdict(first)) == (0, "no evidence of a difference")
    assert first.json["notes"] == [
        *(f"{name} has no search space: it ran with its own defaults" for name in losses),
        "all 3 runs are equal to the last bit",
    ]
    assert runs_in(store) == {new: [1, 2, 3], old: [1, 2, 3]}
    (case,) = ElementTree.parse(tmp_path / "gate.xml").iter("testcase")
    assert case.get("name") == f"{new} against {old}"
    assert case.find("failure") is None

    again = mlrc("compare", new, "--against", old, *three, "--from-store", "--json")
    assert (again.out, again.err) == (first.out, "")

    assert mlrc("export", "out", "--store", store).code == 0
    exports = {json.loads(path.read_text())["records"][0]["identity"]["method"]: path for path in Path("out").iterdir()}
    files = mlrc("compare", exports[new], "--against", exports[old], "--json")
    assert files.json["new"]["runs"] == first.json["new"]["runs"]
    assert files.json["difference"] == first.json["difference"]

    text = mlrc("compare", new, "--against", exports[old], *three, "--margin", "0.5", "--require", "non-inferior")
    assert text.code == 0
    assert text.out.splitlines()[-1] == "verdict  equivalent within the margin of 0.5 points; non-inferior, as required"
    assert mlrc("compare", new, "--against", old, *three, "--require", "better").code == 1

    other = mlrc("compare", new, "--against", exports[old], *three, "--set", "max_steps=3", "--json")
    assert (other.code, verdict(other)) == (2, "not comparable")
    assert other.json["differing"][0]["field"] == "protocol.schedule.max_steps"
    assert runs_in(store) == {new: [1, 2, 3], old: [1, 2, 3]}


def test_until_decided_runs_no_more_than_the_looks_ask_for(
    mlrc: Command, losses: tuple[str, str], suite: list[str], store: Path, tmp_path: Path
) -> None:
    write_loss(tmp_path / "new.py", BREAKS)
    without_runs = [part for part in suite if part != "n_runs=1"]
    del without_runs[without_runs.index("--set", without_runs.index("n_startup_trials=1"))]
    given = [*losses[:1], "--against", losses[1], *without_runs, "--until-decided", "--max-runs", "7"]
    found = mlrc("compare", *given, "--json")
    assert (found.code, verdict(found)) == (1, "worse")
    assert "a slip" in found.json["reason"]
    assert [look["n_runs"] for look in found.json["looks"]] == [3]
    assert found.json["max_runs"] == 7
    assert runs_in(store) == {losses[1]: [1, 2, 3]}


def test_a_search_without_a_winner_is_worse_and_a_fold_that_the_machine_lost_is_not_judged(
    mlrc: Command, losses: tuple[str, str], three: list[str], tmp_path: Path
) -> None:
    new, old = losses
    write_loss(tmp_path / "new.py", BREAKS, SEARCHED)
    found = mlrc("compare", new, "--against", old, *three, "--json")
    assert (found.code, verdict(found)) == (1, "worse")
    assert "0 of 2 trials finished: 4 folds method-error" in found.json["reason"]

    reverse = mlrc("compare", old, "--against", new, *three)
    assert reverse.code == 2
    assert "verdict  too few runs: 0 shared" in reverse.out
    assert "runs 1 to 3 of new.py:Loss failed and are left out: 0 of 2 trials" in reverse.out

    write_loss(tmp_path / "new.py", "raise MemoryError('full')")
    lost = mlrc("compare", new, "--against", old, *three)
    assert (lost.code, lost.out) == (4, "")
    assert lost.err.splitlines()[-1].startswith("error: new.py:Loss: fold 0 stopped (out-of-memory)")


def test_a_baseline_is_saved_and_an_edit_that_breaks_the_loss_is_caught(
    mlrc: Command, losses: tuple[str, str], three: list[str], store: Path, tmp_path: Path
) -> None:
    new, old = losses
    saved = mlrc("baseline", "save", "kept.json", new, old, *three)
    assert saved.code == 0, saved.err
    assert saved.out.startswith("written: kept.json: 3 runs of new.py:Loss, old.py:Loss")
    stored = mlrc("baseline", "save", "stored.json", *three, "--json")
    assert stored.json == {"file": "stored.json", "methods": [new, old], "n_runs": 3}

    same = mlrc("baseline", "check", "kept.json", "--executor", "inline", "--json")
    assert same.code == 0
    assert [one["notes"] for one in same.json] == [["all 3 runs are equal to the last bit"]] * 2
    assert [one["level"] for one in same.json] == [0.025] * 2

    write_loss(tmp_path / "new.py", BREAKS)
    broken = mlrc("baseline", "check", "kept.json", "--executor", "inline", "--junit", "check.xml")
    assert broken.code == 1
    assert "verdict  worse: runs 1 to 3 of the new one failed: method-error (RuntimeError: a slip" in broken.out
    suite = ElementTree.parse(tmp_path / "check.xml").find("testsuite")
    assert suite is not None
    assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
    assert mlrc("baseline", "check", "kept.json", old, "--executor", "inline").code == 0

    other = mlrc("baseline", "check", "kept.json", old, "--data", "shapes:shifted?train=4&test=4", "--json")
    assert other.code == 2
    assert other.json[0]["differing"][0]["field"] == "dataset.content_hash"


def commands_shown() -> list[str]:
    """Every command of the page on the gate and of the workflow beside it."""
    page, workflow = (DOCS / f"regression_gate.{kind}" for kind in ("md", "yml"))
    lines = page.read_text(encoding="utf-8").splitlines() + workflow.read_text(encoding="utf-8").splitlines()
    return [line.removeprefix("    ").strip().removeprefix("- run: ") for line in lines if LINE.match(line)]


def test_a_command_that_the_documentation_shows_has_options_that_exist(mlrc: Command) -> None:
    assert len(commands_shown()) == 8
    for command in commands_shown():
        assert mlrc(*shlex.split(command)[1:], "--help").code == 0, command
    assert mlrc("compare", "a", "--agains", "b", "--help").code == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ms", "--against", "ms"], "there is nothing to compare"),
        (["ms", "--against", "./ms.json"], "ms.json: found no file"),
        (["ms", "--against", "msx"], "no method named 'msx'"),
        (["ms.py:Loss", "--against", "ms"], "cannot be read"),
        (["ms", "--against", "contrastive", "--margin", "0"], "--margin is 0"),
        (["ms", "--against", "contrastive", "--margin", "-1"], "--margin is -1"),
        (["ms", "--against", "contrastive", "--margin", "nan"], "--margin is nan"),
        (["ms", "--against", "contrastive", "--margin", "100"], "--margin is 100"),
        (["ms", "--against", "contrastive", "--margin", "x"], "--margin"),
        (["ms", "--against", "contrastive", "--require", "non-inferior"], "needs a --margin"),
        (["ms", "--against", "contrastive", "--require", "best"], "--require"),
        (["ms", "--against", "contrastive", "--setting", "both"], "--setting"),
        (["ms", "--against", "contrastive", "--metric", "map"], "--metric map: mini@1 measures precision_at_1"),
        (["ms", "--against", "contrastive", "--max-runs", "5"], "--max-runs goes with --until-decided"),
        (["ms", "--against", "contrastive", "--until-decided", "--max-runs", "0"], "finals.n_runs is 0"),
        (["ms", "--against", "contrastive", "--until-decided", "--max-runs", "x"], "--max-runs"),
        (["ms", "--against", "contrastive", "--set", "n_runs"], "expected field=value"),
        (["ms", "--against", "contrastive", "--protocol", "minni"], "no protocol named 'minni'"),
        (["ms", "--against", "contrastive", "--published", "x:y"], "no published values"),
        (["ms", "--against", "contrastive", "--from-store", "--store", "none.db"], "no store there yet"),
        (["ms", "--against", "contrastive", "--junit", "no/gate.xml"], "there is no folder no"),
        (["ms", "--against", "contrastive", "--junit", "."], "is a folder"),
        (["ms"], "--against"),
        (["--against", "ms"], "NEW"),
    ],
)
def test_a_mistake_in_a_comparison_is_told_in_one_line_before_anything_is_run(
    mlrc: Command, tmp_path: Path, arguments: list[str], said: str
) -> None:
    assert said in mlrc("compare", *arguments).refusal()
    assert list(tmp_path.rglob("*.db")) == []


def test_a_suite_file_of_several_methods_is_no_side_of_a_comparison(mlrc: Command, tmp_path: Path) -> None:
    (tmp_path / "suite.toml").write_text('methods = ["ms", "contrastive"]', encoding="utf-8")
    said = mlrc("compare", "suite.toml", "--against", "triplet").refusal()
    assert "NEW is one method; the suite file names ms, contrastive." in said


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["save"], "FILE"),
        (["save", "no/base.json", "ms"], "there is no folder no"),
        (["save", ".", "ms"], "is a folder"),
        (["save", "base.json", "ms", "--set", "n_runs=2"], "ms: 2 final runs; a check needs 3 at least"),
        (["save", "base.json", "pixels"], "nothing is random in it, so leave it out"),
        (["save", "base.json", "--store", "none.db"], "no store there yet"),
        (["save", "base.json", "msx"], "no method named 'msx'"),
        (["check"], "FILE"),
        (["check", "none.json"], "none.json: found no file"),
        (["check", "broken.json"], "broken.json: is no JSON"),
        (["check", "other.json"], "no baseline"),
        (["check", "none.json", "--margin", "0"], "--margin is 0"),
        (["check", "none.json", "--require", "non-inferior"], "needs a --margin"),
        (["check", "none.json", "--junit", "no/gate.xml"], "there is no folder no"),
    ],
)
def test_a_mistake_with_a_baseline_is_told_in_one_line_before_anything_is_run(
    mlrc: Command, tmp_path: Path, arguments: list[str], said: str
) -> None:
    (tmp_path / "broken.json").write_text("{", encoding="utf-8")
    (tmp_path / "other.json").write_text("{}", encoding="utf-8")
    assert said in mlrc("baseline", *arguments).refusal()
    assert list(tmp_path.rglob("*.db")) == []
