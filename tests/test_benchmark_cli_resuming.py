"""Folds that a command leaves half trained: the same command goes on where they stood, and leaves nothing behind.

The suite is two final folds of a loss that writes a line at each of its steps, and waits at one of them where told to.
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from conftest import Command, Launch, ended, folds_in, lines_of, options, write_loss
from slow_suite import assert_all_end, wait_until, workers_of
from tiny import without_timings

N_STEPS, N_FOLDS = 12, 2
SETTINGS = (f"max_steps={N_STEPS}", "evaluate_every_steps=1", f"cadence.patience={N_STEPS}", "n_runs=1")
COUNTING = """seen = 0

    def begin(self, context):
        self.seen = 0"""
FORWARD = """self.seen += 1
        with open("steps.txt", "a") as file:
            file.write(f"{self.seen}\\n")
        with open("hold.txt") as file:
            if self.seen == int(file.read()):
                time.sleep(300)
        return (embeddings[0] @ embeddings[1] - 1 / self.seen) ** 2"""

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals of a process group")


def command_in(folder: Path, executor: str, hold: int) -> list[str]:
    """The command, whose folds wait at step `hold`."""
    write_loss(folder / "counting.py", FORWARD, COUNTING)
    (folder / "hold.txt").write_text(str(hold))
    arguments = options("shapes:shifted?train=4&test=3", "store.db", *SETTINGS)
    arguments[arguments.index("inline")] = executor
    return ["run", "counting.py:Loss", *arguments]


def steps_in(folder: Path) -> list[int]:
    taken = folder / "steps.txt"
    return [int(line) for line in taken.read_text().splitlines()] if taken.exists() else []


def test_folds_that_a_second_ctrl_c_ended_at_once_go_on_to_the_records_of_a_run_that_was_not_stopped(
    launch: Launch, mlrc: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "store.db.checkpoints"
    process = launch(*command_in(tmp_path, "processes", hold=6), "--workers", "2")
    wait_until(lambda: steps_in(tmp_path).count(6) == N_FOLDS, process)
    workers = workers_of(process.pid)
    os.killpg(process.pid, signal.SIGINT)
    time.sleep(0.5)
    assert process.poll() is None  # the folds that are running may finish
    os.killpg(process.pid, signal.SIGINT)
    began = time.monotonic()
    stopped = ended(process)
    assert time.monotonic() - began < 20
    assert stopped.code == 3
    assert lines_of(stopped)[-1].startswith("Interrupted.")
    assert_all_end(workers)
    assert folds_in(tmp_path / "store.db") == []
    resumed = mlrc(*command_in(tmp_path, "inline", hold=0))
    assert resumed.code == 0, resumed.err
    assert not any("checkpoint" in line for line in lines_of(resumed))
    assert steps_in(tmp_path).count(1) == N_FOLDS  # no fold began again
    assert not folder.exists()
    (tmp_path / "undisturbed").mkdir()
    monkeypatch.chdir(tmp_path / "undisturbed")
    assert mlrc(*command_in(tmp_path / "undisturbed", "inline", hold=0)).code == 0
    found, wanted = (folds_in(store) for store in (tmp_path / "store.db", tmp_path / "undisturbed" / "store.db"))
    assert len(found) == N_FOLDS
    by_id = {record.id: without_timings(record) for record in wanted}
    assert {record.id: without_timings(record) for record in found} == by_id


def test_a_suite_sweeps_what_a_kill_left_and_keeps_the_best_weights_where_asked(mlrc: Command, tmp_path: Path) -> None:
    folder = tmp_path / "store.db.checkpoints"
    command = ["run", "contrastive", *options("shapes:shifted?train=4&test=3", "store.db")]
    assert mlrc(*command, "--keep-checkpoints").code == 0
    finals = [record for record in folds_in(tmp_path / "store.db") if record.identity.purpose == "final"]
    assert sorted(path.name for path in folder.iterdir()) == sorted(f"{record.id}.best.pt" for record in finals)
    weights = torch.load(next(folder.iterdir()), weights_only=True)
    assert "embedder.weight" in weights
    for name in (f"{finals[0].id}.pt", f"{finals[0].id}.pt.7.partial", "0123456789abcdef.pt"):
        (folder / name).touch()
    assert mlrc(*command).code == 0
    others = {path.name for path in folder.iterdir() if not path.name.endswith(".best.pt")}
    assert others == {"0123456789abcdef.pt"}  # of another suite, and not finished
    assert len(list(folder.glob("*.best.pt"))) == len(finals)


def test_a_job_that_is_killed_three_times_ends_with_the_record_of_one_that_was_not() -> None:
    script = Path(__file__).with_name("benchmarks") / "kill_test.py"
    command = [sys.executable, str(script), "3", "margin-dw"]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=300)
    assert done.returncode == 0, done.stderr
    counts = json.loads(done.stdout)["methods"]["margin-dw"]
    assert counts["kills"] == 3
    assert counts["resumed"] > 0
    assert counts["equal"] == counts["records"] > 0
