"""Stopping and going on: killed, interrupted, terminated, a worker lost, two commands at once. No fold trained twice.

The suite is a slow loss on two worker processes: 3 trials of 4 folds, 1 final run, 17 records. The loss writes a line
for each fold that it begins, so that a fold trained twice is seen. A command is a process of its own only where that is
what is tested: its imports are seconds, and so are those of each of its workers. A second Ctrl-C is in
`test_benchmark_cli_resuming.py`.
"""

import io
import json
import os
import signal
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from conftest import Command, Launch, ended, options, write_loss
from slow_suite import (
    BODY,
    assert_all_end,
    n_begun,
    n_records,
    signal_when,
    slow_forward,
    wait_until,
    workers_of,
)

from benchmark.cli import main
from results.store import Store

N_FOLD_JOBS, N_RECORDS = 3 * 4 + 4, 3 * 4 + 4 + 1
SETTINGS = ("max_steps=4", "n_folds=4", "n_trials=3", "n_startup_trials=2")
FORWARD = slow_forward(0.05)
NEVER = "time.sleep(300)\n        return embeddings[0, 0]"
DYING = f"""{BODY}
        import os, signal
        if os.path.exists("once.txt"):
            os.remove("once.txt")
            os.kill(os.getpid(), signal.SIGKILL)"""

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="looks for processes in /proc")


def command_in(folder: Path, forward: str = FORWARD, executor: str = "processes") -> list[str]:
    """The command, whose method is in `folder`, where it is to be run."""
    if not (folder / "slow.py").exists():
        write_loss(folder / "slow.py", forward, BODY)
    inline = options("shapes:shifted?train=4&test=3", folder / "store.db", *SETTINGS)
    inline[inline.index("inline")] = executor
    return ["run", "slow.py:Loss", *inline, "--workers", "2", "--json"]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The tables of the suite when nothing stops it."""
    folder, printed = tmp_path_factory.mktemp("uninterrupted"), io.StringIO()
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(printed):
        patch.chdir(folder)
        with pytest.raises(SystemExit) as left:
            main(command_in(folder, executor="inline"))
    assert left.value.code == 0
    return json.loads(printed.getvalue())


def test_a_killed_command_started_again_ends_with_the_tables_of_an_uninterrupted_one(
    launch: Launch, mlrc: Command, tmp_path: Path, uninterrupted: Any
) -> None:
    store = tmp_path / "store.db"
    process = launch(*command_in(tmp_path))
    wait_until(lambda: n_records(store) >= 6, process)  # in the second trial
    workers = workers_of(process.pid)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert len(workers) == 2
    assert_all_end(workers)
    with Store.open(str(store)) as opened:
        kept = opened.records()
    resumed = mlrc(*command_in(tmp_path, executor="inline"))
    assert resumed.code == 0, resumed.err
    assert resumed.err.startswith(f"slow.py:Loss: trial {len(kept) // 4 + 1}: ")
    assert resumed.json == uninterrupted
    with Store.open(str(store)) as opened:
        assert len(opened.records()) == N_RECORDS
        assert opened.get_many(record.id for record in kept) == {record.id: record for record in kept}
        (study,) = opened.studies()
    assert (study.n_finished, study.n_failed) == (3, 0)
    assert n_begun(tmp_path) <= N_FOLD_JOBS + 2  # the two that were running


def test_a_killed_command_takes_along_workers_that_are_in_the_middle_of_a_step(launch: Launch, tmp_path: Path) -> None:
    process = launch(*command_in(tmp_path, NEVER), "--workers", "1")
    wait_until(lambda: n_begun(tmp_path) == 1, process)
    (worker,) = workers_of(process.pid)
    process.kill()
    assert process.wait() == -signal.SIGKILL
    assert_all_end([worker])


def test_ctrl_c_lets_running_folds_finish_and_the_same_command_goes_on(
    mlrc_and_workers: Command, tmp_path: Path, uninterrupted: Any
) -> None:
    with signal_when(lambda: n_records(tmp_path / "store.db") >= 2, signal.SIGINT) as workers:
        stopped = mlrc_and_workers(*command_in(tmp_path))
    assert len(workers) == 2
    assert stopped.code == 3, stopped.err
    assert stopped.out == ""
    said = stopped.err.splitlines()
    assert "Stopping when the running folds are done; press Ctrl-C again to stop at once." in said
    assert said[-1] == "Interrupted. Everything finished is stored; the same command goes on from here."
    assert n_records(tmp_path / "store.db") == n_begun(tmp_path) < N_FOLD_JOBS
    assert_all_end(workers)
    resumed = mlrc_and_workers(*command_in(tmp_path, executor="inline"))
    assert resumed.code == 0, resumed.err
    assert resumed.json == uninterrupted
    assert n_begun(tmp_path) == N_FOLD_JOBS


def test_a_request_to_terminate_stops_at_once_and_cleanly(mlrc_and_workers: Command, tmp_path: Path) -> None:
    with signal_when(lambda: n_begun(tmp_path) == 1, signal.SIGTERM) as workers:
        stopped = mlrc_and_workers(*command_in(tmp_path, NEVER), "--workers", "1")
    assert len(workers) == 1
    assert stopped.code == 3, stopped.err
    assert stopped.err.splitlines()[-1].startswith("Interrupted.")
    assert n_records(tmp_path / "store.db") == 0  # the fold that was running has not finished
    assert_all_end(workers)


def test_ctrl_c_while_a_worker_starts_is_a_clean_stop(mlrc_and_workers: Command, tmp_path: Path) -> None:
    def among_its_imports() -> bool:
        """Where nothing of ours is at work yet."""
        started = bool(workers_of(os.getpid()))
        time.sleep(0.3 if started else 0)
        return started

    with signal_when(among_its_imports, signal.SIGINT) as workers:
        stopped = mlrc_and_workers(*command_in(tmp_path), "--workers", "1")
    assert len(workers) == 1
    assert stopped.code == 3, stopped.err
    assert "Traceback" not in stopped.err
    assert n_records(tmp_path / "store.db") == n_begun(tmp_path) <= 1


def test_ctrl_c_from_the_first_line_on_is_never_lost(launch: Launch, tmp_path: Path) -> None:
    command = command_in(tmp_path, executor="inline")
    begun = tmp_path / "imported.txt"  # while the loss is imported, much is still to be imported and checked
    loss = tmp_path / "slow.py"
    loss.write_text(
        "import time, weakref\n"
        "class Thing: pass\n"
        "thing = Thing()\n"
        f"def gone(_):\n    open({str(begun)!r}, 'w').close()\n    time.sleep(2)\n"
        "watched = weakref.ref(thing, gone)\n"
        "del thing\n" + loss.read_text()
    )
    process = launch(*command)
    wait_until(begun.exists, process)  # within the callback, where Python drops what is raised
    os.killpg(process.pid, signal.SIGINT)
    stopped = ended(process)
    assert stopped.code == 3, stopped.err
    assert stopped.err.splitlines() == [
        "Stopping; press Ctrl-C again to stop at once.",
        "Interrupted. Everything finished is stored; the same command goes on from here.",
    ]
    assert n_begun(tmp_path) == 0


def test_ctrl_c_before_the_first_job_is_an_interrupt_too(mlrc: Command, tmp_path: Path) -> None:
    command = command_in(tmp_path, executor="inline")
    (tmp_path / "slow.py").write_text("raise KeyboardInterrupt\n")
    stopped = mlrc(*command)
    assert stopped.code == 3
    assert stopped.err.splitlines() == [
        "Interrupted. Everything finished is stored; the same command goes on from here."
    ]


def test_ctrl_c_in_one_process_keeps_the_fold_that_was_running(mlrc: Command, tmp_path: Path) -> None:
    body = BODY.replace(
        "with open", "import os, signal\n        os.kill(os.getpid(), signal.SIGINT)\n        with open"
    )
    write_loss(tmp_path / "slow.py", FORWARD, body)
    for expected in (1, 2):
        stopped = mlrc(*command_in(tmp_path, executor="inline"))
        assert stopped.code == 3
        assert n_records(tmp_path / "store.db") == n_begun(tmp_path) == expected


def test_a_second_command_waits_for_the_first_whose_worker_dies_and_both_end_with_the_same_table(
    launch: Launch, mlrc: Command, tmp_path: Path, uninterrupted: Any
) -> None:
    write_loss(tmp_path / "slow.py", FORWARD, DYING)
    (tmp_path / "once.txt").touch()
    command = [*command_in(tmp_path), "--workers", "1"]
    process = launch(*command)
    wait_until(lambda: n_begun(tmp_path) >= 1, process)  # from here on another worker starts, which takes seconds
    second, first = mlrc(*command), ended(process)
    assert (first.code, second.code) == (0, 0), (first, second)
    assert first.json == second.json == uninterrupted
    assert n_records(tmp_path / "store.db") == N_RECORDS
    assert n_begun(tmp_path) == N_FOLD_JOBS + 1  # the fold of the worker that died
    assert "works on it; waiting for its results." in second.err
    assert "works on it" not in first.err
    assert second.err.splitlines()[-1] == "slow.py:Loss: nothing left to run."
    (said,) = [line for line in first.err.splitlines() if "SIGKILL" in line]
    assert said.startswith("worker ")
    assert "ended by SIGKILL (usually memory)" in said
    assert said.endswith("; its job begins again.")
    assert first.err.splitlines()[-1].startswith("Memory at its most: worker ")


def test_a_method_that_kills_its_workers_stops_alone_and_its_fold_says_why(
    mlrc_and_workers: Command, tmp_path: Path
) -> None:
    write_loss(
        tmp_path / "killer.py", "import os, signal\n        os.kill(os.getpid(), signal.SIGKILL)", "search_space = {}"
    )
    command = [part.replace("slow.py", "killer.py") for part in command_in(tmp_path)]
    stopped = mlrc_and_workers(*command[:2], "pixels", *command[2:], "--workers", "1")
    assert stopped.code == 4, stopped.err
    with Store.open(str(tmp_path / "store.db")) as store:
        failed, done = store.records(kind="fold")
    assert (done.identity.method, done.outcome) == ("pixels", "done")
    assert failed.reason == "worker-died"
    assert failed.message.startswith("its worker ended by SIGKILL (usually memory)")
    assert failed.peak_memory_bytes > 0
    assert "killer.py:Loss: fold 0 stopped (worker-died): its worker ended by SIGKILL" in stopped.err
