"""Methods that go wrong: exit 4, their folds kept as failed with the reason, and the numbers of all other methods."""

import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import pytest
from conftest import SEARCHED, Command, Outcome, folds_in, lines_of, options, write_loss

import reports.rehearsal
from benchmark.cli import main
from results.record import FoldRecord

FAULTS = {
    "raises": ("raise ValueError('boom\\nand more')", "pass", "method-error", "ValueError: boom (loss.py, line 11)"),
    "exits": ("raise SystemExit(7)", "pass", "method-error", "SystemExit: 7 (loss.py, line 11)"),
    "nan": ("return embeddings.sum() * float('nan')", "pass", "non-finite", "the loss was nan at step 1."),
    "nan at step 2": (
        "self.n += 1\n        return embeddings[0, 0] * (float('nan') if self.n == 2 else 1)",
        "n = 0",
        "non-finite",
        "the loss was nan at step 2.",
    ),
    "constant": ("return torch.tensor(1.0)", "pass", "method-error", "the loss depends neither on the embeddings"),
    "one loss an image": ("return embeddings.sum(1)", "pass", "method-error", "a loss is a scalar tensor"),
    "no dictionary in the end": (
        "return embeddings[0, 0]",
        "def summary(self):\n        return 'fine'",
        "method-error",
        "summary() returned str; wanted a dictionary.",
    ),
    "no number in the end": (
        "return embeddings[0, 0]",
        "def summary(self):\n        return {'scale': float('inf')}",
        "method-error",
        "summary().scale: found inf, wanted a finite number",
    ),
    "raises in the end": (
        "return embeddings[0, 0]",
        "def summary(self):\n        raise ValueError('boom')",
        "method-error",
        "ValueError: boom (loss.py, line 9)",
    ),
    "collapse": (
        "return embeddings[0, 0]",
        "def after_step(self, step, context):\n"
        "        with torch.no_grad():\n"
        "            for parameter in context.trainable_parameters:\n"
        "                parameter.zero_()",
        "collapsed",
        "embeddings are the same",
    ),
}


@dataclass(frozen=True)
class Ran:
    """One run of a method of every fault and a sound one, and the same command again."""

    losses: dict[str, str]  # by fault
    first: Outcome
    again: Outcome
    records: list[FoldRecord]


@pytest.fixture(scope="module")
def ran(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Ran:
    folder, losses = tmp_path_factory.mktemp("faulty"), {}
    for number, (fault, (forward, body, *_)) in enumerate(FAULTS.items()):
        (folder / str(number)).mkdir()
        losses[fault] = write_loss(folder / str(number) / "loss.py", forward, body)
    arguments = ["run", *losses.values(), "untrained", *options(images, folder / "store.db"), "--json"]
    outcomes = []
    for _ in range(2):
        with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err, pytest.raises(SystemExit) as left:
            main(arguments)
        outcomes.append(Outcome(int(left.value.code or 0), out.getvalue(), err.getvalue()))
    return Ran(losses, *outcomes, folds_in(folder / "store.db"))


@pytest.mark.parametrize("fault", FAULTS)
def test_a_faulty_method_is_named_with_its_reason_and_has_no_numbers(ran: Ran, fault: str) -> None:
    loss, (*_, reason, message) = ran.losses[fault], FAULTS[fault]
    assert any(line.startswith(f"{loss}: final fold 0 failed, {reason}: ") for line in lines_of(ran.first))
    failed = [record for record in ran.records if record.identity.method == loss]
    assert [record.reason for record in failed] == [reason, reason]
    assert all(message in (record.message or "") for record in failed)
    (row,) = [row for row in ran.first.json[0]["rows"] if row["method"] == loss]
    assert all(cell["mean"] is None and cell["n_runs"] == 0 and cell["missing"] for cell in row["results"])


def test_faulty_methods_cost_no_other_and_are_not_run_again(ran: Ran) -> None:
    assert ran.first.code == ran.again.code == 4
    (sound,) = [row for row in ran.first.json[0]["rows"] if row["method"] == "untrained"]
    assert all(cell["n_runs"] == 1 for cell in sound["results"])
    assert ran.again.json == ran.first.json
    assert len(ran.records) == 2 * len(FAULTS) + 2


def test_a_loss_that_teaches_nothing_gives_the_untrained_numbers(
    mlrc: Command, suite: list[str], tmp_path: Path
) -> None:
    loss = write_loss(tmp_path / "loss.py", "return (embeddings * 0).sum()")
    (table,) = mlrc("run", loss, "untrained", *suite, "--set", "weight_decay=0", "--json").json
    flat, untrained = (row["results"] for row in sorted(table["rows"], key=lambda row: row["method"]))
    assert flat == untrained


def test_a_search_without_a_whole_trial_says_why_in_every_command(
    mlrc: Command, suite: list[str], store: Path, tmp_path: Path
) -> None:
    loss = write_loss(tmp_path / "loss.py", "return embeddings.sum() * float('nan')", SEARCHED)
    why = f"{loss}: 0 of 2 trials finished: 4 folds non-finite; the first: the loss was nan at step 1."
    for command in ("search", "finals", "run"):
        ended_with = mlrc(command, loss, *suite)
        assert ended_with.code == 4
        assert lines_of(ended_with)[-1] == why
    assert "4 folds non-finite" in mlrc("report", "--store", store).out
    assert mlrc("status", "--store", store, "--json").json[0]["trials"] == {"done": 0, "failed": 2, "of": 2}


def test_a_trial_that_fails_is_used_up_and_never_wins(mlrc: Command, images: Path, store: Path, tmp_path: Path) -> None:
    forward = "return embeddings[0, 0] * (float('nan') if self.x > 0.5 else 1.0)"
    write_loss(tmp_path / "loss.py", forward, SEARCHED)
    loss = "loss.py:Loss"  # where the test runs: the draws follow from the name
    suite = options(images, store, "n_trials=6", "n_startup_trials=6")
    (line,) = mlrc("search", loss, *suite, "--json").json
    assert line["trials"]["of"] == line["trials"]["done"] + line["trials"]["failed"] == 6
    assert 0 < line["trials"]["failed"] < 6
    assert line["best_hyperparameters"]["x"] <= 0.5
    assert mlrc("run", loss, *suite).code == 0


def test_finals_without_a_search_ask_for_it(mlrc: Command, suite: list[str], store: Path) -> None:
    early = mlrc("finals", "contrastive", "untrained", *suite)
    assert early.code == 4
    assert "contrastive: 0 of 2 trials are done; search it first (mlrc search)." in lines_of(early)
    assert {record.identity.method for record in folds_in(store)} == {"untrained"}


def test_a_file_that_changed_since_its_search_is_another_method(
    mlrc: Command, suite: list[str], tmp_path: Path
) -> None:
    loss = write_loss(tmp_path / "loss.py", "return self.x * embeddings[0, 0]", SEARCHED)
    assert mlrc("search", loss, *suite).code == 0
    write_loss(tmp_path / "loss.py", "return -self.x * embeddings[0, 0]", SEARCHED)
    changed = mlrc("finals", loss, *suite)
    assert changed.code == 4
    assert "its code changed since it was searched; search it again" in lines_of(changed)[-1]
    write_loss(tmp_path / "loss.py", "return self.x * embeddings[0, 0]", SEARCHED)
    assert mlrc("finals", loss, *suite).code == 0


def test_a_search_space_that_changed_is_refused_and_the_old_trials_stay(
    mlrc: Command, suite: list[str], store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Spaces that share no point: a value that both propose would be found in the store and not run again.
    body = SEARCHED.replace("0.0, 1.0", "*map(float, open('bounds.txt').read().split())")
    loss = write_loss(tmp_path / "loss.py", "return self.x * embeddings[0, 0]", body)
    (tmp_path / "bounds.txt").write_text("0 1")
    assert mlrc("search", loss, *suite).code == 0
    (tmp_path / "bounds.txt").write_text("2 3")
    for name in [name for name in sys.modules if name.startswith("mlrc_method_")]:
        monkeypatch.delitem(sys.modules, name)  # the next command, a process of its own, runs the file again
    widened = mlrc("search", loss, *suite)
    assert widened.code == 4
    assert "its search space is not the one" in lines_of(widened)[-1]
    assert "another --store" in lines_of(widened)[-1]
    assert len(folds_in(store)) == 4
    forked = mlrc("search", loss, *suite, "--fork", "--json")
    assert forked.code == 0, forked.err
    (line,) = forked.json
    assert "/fork-1-" in line["study"]
    assert "2 of 2 trials" in line["superseded"][0]
    assert len(folds_in(store)) == 8


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def broken(:\n", "line 1: SyntaxError"),
        ("import nosuchmodule\n", "line 1: ModuleNotFoundError"),
        ("raise SystemExit(1)\n", "line 1: SystemExit"),
        ("class Other:\n    pass\n", "no class named 'Loss'"),
        ("Loss = 3\n", "no subclass of torch.nn.Module"),
    ],
)
def test_a_file_without_a_usable_class_is_refused(
    mlrc: Command, suite: list[str], tmp_path: Path, text: str, said: str
) -> None:
    (tmp_path / "loss.py").write_text(text)
    assert said in mlrc("run", "loss.py:Loss", *suite).refusal()


def test_a_report_that_cannot_be_made_is_found_before_the_first_trial(
    mlrc: Command, suite: list[str], store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as broken:
        broken.delattr(reports.rehearsal, "to_markdown")
        with pytest.raises(NameError):
            mlrc("run", "contrastive", *suite)
    assert folds_in(store) == []
    assert mlrc("run", "contrastive", *suite).code == 0
