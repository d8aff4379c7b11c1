"""A suite on a Dask cluster that breaks: each job ends once, in the table of a suite that nobody disturbed.

The suite is a slow loss: 2 trials of 4 folds, 1 final run, 13 records. It writes a line for each fold that it begins.
"""

import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from cluster import Cluster, free_port
from conftest import Command, Launch, Outcome, options, write_loss
from slow_suite import BODY, n_begun, n_records, slow_forward, wait_until

pytest.importorskip("distributed", reason="the extra `dask` is not installed")

N_FOLD_JOBS, N_RECORDS = 2 * 4 + 4, 2 * 4 + 4 + 1
SETTINGS = ("max_steps=4", "n_folds=4", "n_trials=2")
FORWARD = slow_forward(0.2)
SAID = ("no worker of", "worker tcp://", "the scheduler ", "slow.py:Loss: ", "Memory at its most: tcp://")
ROOT = Path(__file__).parents[1]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    (tmp_path / "cluster").mkdir()
    with Cluster(tmp_path / "cluster") as running:
        yield running


def command_in(folder: Path, store: str, *executor: object) -> list[str]:
    """The command, whose method is in `folder`, where it is to be run."""
    write_loss(folder / "slow.py", FORWARD, BODY)
    arguments = options("shapes:shifted?train=4&test=3", folder / store, *SETTINGS)
    place = arguments.index("inline")
    arguments[place : place + 1] = map(str, executor)
    return ["run", "slow.py:Loss", *arguments, "--json"]


def test_workers_killed_and_cut_off_and_a_scheduler_restarted_and_each_job_ends_once(
    launch: Launch, mlrc: Command, cluster: Cluster, tmp_path: Path, three_executors: ModuleType
) -> None:
    whole = mlrc(*command_in(tmp_path, "inline.db", "inline"))
    assert whole.code == 0, whole.err
    (tmp_path / "begun.txt").unlink()

    store = tmp_path / "store.db"
    process = launch(*command_in(tmp_path, "store.db", "dask", "--scheduler-file", cluster.file))
    assert process.stderr is not None
    waits = process.stderr.readline()
    assert waits.startswith("no worker of"), waits
    for _ in range(3):
        cluster.start_worker()
    wait_until(lambda: n_begun(tmp_path) >= 3, process)
    cluster.workers[0].kill()  # in mid-job
    wait_until(lambda: n_records(store) >= 4, process)
    cluster.workers[1].send_signal(signal.SIGSTOP)  # cut off: it holds its connections and says nothing
    wait_until(lambda: n_records(store) >= 7, process)
    assert cluster.scheduler is not None
    cluster.scheduler.kill()
    cluster.scheduler.wait()
    cluster.start_scheduler()
    cluster.start_worker()
    out, err = process.communicate(timeout=400)
    done = Outcome(process.returncode, out, err)
    assert done.code == 0, done.err
    assert [line for line in done.err.splitlines() if not line.startswith(SAID)] == []
    assert done.json == whole.json
    wanted, found = (three_executors.found_in(tmp_path / name) for name in ("inline.db", "store.db"))
    assert found == wanted
    assert three_executors.counted(wanted, found) == {"embeddings": [4, 4], "record": [13, 13], "search": [1, 1]}
    assert n_records(store) == N_RECORDS
    assert n_begun(tmp_path) <= N_FOLD_JOBS + 2 + 3  # two workers and a scheduler were lost in mid-job
    for said in ("was lost; its job begins again", "is away (", "the scheduler is back after"):
        assert said in done.err
    cluster.workers[2].wait(timeout=120)  # a worker without its scheduler ends, and its job with it
    cluster.workers[1].send_signal(signal.SIGCONT)
    cluster.workers[1].wait(timeout=120)
    assert n_records(store) == N_RECORDS


def test_a_worker_of_another_version_is_refused_with_both(mlrc: Command, cluster: Cluster, tmp_path: Path) -> None:
    for room in ("protocols", "benchmark", "results", "reports"):
        shutil.copytree(ROOT / room, tmp_path / "other" / room)
    with (tmp_path / "other" / "benchmark" / "seeding.py").open("a", encoding="utf-8") as file:
        file.write("\nOTHER = True\n")
    cluster.start_worker(PYTHONPATH=str(tmp_path / "other"))
    while "Registered to" not in cluster.said():
        assert cluster.workers[0].poll() is None, cluster.said()
        time.sleep(0.05)
    refused = mlrc(*command_in(tmp_path, "store.db", "dask", "--scheduler", cluster.address)).refusal()
    assert refused.startswith("1 of 1 Dask workers cannot take part. worker tcp://127.0.0.1:")
    assert refused.count("(code ") == 2
    assert n_records(tmp_path / "store.db") == 0


def test_a_cluster_that_is_not_there_is_refused_with_the_way_out(mlrc: Command, tmp_path: Path) -> None:
    address = f"tcp://127.0.0.1:{free_port()}"
    refused = mlrc(*command_in(tmp_path, "store.db", "dask", "--scheduler", address)).refusal()
    assert refused.startswith(f"no Dask scheduler answers at {address}")
    missing = mlrc(*command_in(tmp_path, "store.db", "dask", "--scheduler-file", "nowhere.json")).refusal()
    assert missing.startswith("--scheduler-file nowhere.json: No such file or directory; `dask scheduler")
    (tmp_path / "empty.json").write_text("{}")
    empty = mlrc(*command_in(tmp_path, "store.db", "dask", "--scheduler-file", "empty.json")).refusal()
    assert "holds no address" in empty
