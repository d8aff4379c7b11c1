"""Worker processes: one that dies is replaced and its job done once more; two deaths are an outcome; others go on."""

import os
import signal
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path

import pytest
from tiny import tiny_bench

from benchmark.errors import BenchmarkError
from benchmark.executors import check_executor, usual_workers
from benchmark.executors.contract import WorkerDied, memory_text
from benchmark.executors.processes import WorkerPool, benches_by_device, ending
from benchmark.jobs import EnsembleJob
from benchmark.methods.registry import method_entry
from benchmark.worker_died import died_record
from results.record import from_json, to_json

HELD = 200 * 2**20


class Stubborn(Exception):
    """An exception that pickle cannot bring back."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


def die_once(note: Path) -> int:
    """Die by a signal; the next time, say which process this is."""
    if not note.exists():
        note.touch()
        os.kill(os.getpid(), signal.SIGSEGV)
    return os.getpid()


def die_full() -> None:
    held = bytearray(HELD)
    held[::4096] = b"1" * len(held[::4096])
    time.sleep(2.5)  # it is looked at every second
    os.kill(os.getpid(), signal.SIGKILL)


def fail(error: Exception) -> None:
    raise error


def fail_stubbornly() -> None:
    raise Stubborn(1, 2)


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerPool]:
    """Two workers that the tests below use one after the other."""
    pool = WorkerPool(tiny_bench(tmp_path_factory.mktemp("bench")), 2)
    yield pool
    pool.stop()


def test_a_worker_that_is_idle_is_used_again_and_no_other_is_started(pool: WorkerPool) -> None:
    assert pool.submit(os.getpid).result() == pool.submit(os.getpid).result() != os.getpid()
    assert list(pool.peak_memory) == ["worker 1"]


def test_an_exception_comes_back_with_the_place_it_came_from(pool: WorkerPool) -> None:
    with pytest.raises(BenchmarkError, match="as it is") as caught:
        pool.submit(fail, BenchmarkError("as it is")).result()
    assert "in fail" in caught.value.__notes__[0]
    with pytest.raises(RuntimeError, match="Stubborn: 1 and 2"):
        pool.submit(fail_stubbornly).result()
    with pytest.raises(Exception, match=r"pickle|local object"):
        pool.submit(lambda: None).result()
    assert pool.submit(abs, -3).result() == 3  # none of it hurt the worker


def test_the_job_of_a_worker_that_dies_is_done_by_another(
    pool: WorkerPool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = pool.submit(os.getpid).result()
    after = pool.submit(die_once, tmp_path / "note").result()
    assert after not in (before, os.getpid())
    assert "worker 1 ended by SIGSEGV" in (said := capsys.readouterr().err)
    assert "its job begins again." in said


def test_a_job_whose_workers_die_twice_is_told_by_signal_and_memory_and_no_other_job_is_lost(pool: WorkerPool) -> None:
    dying = pool.submit(die_full)
    others = [pool.submit(abs, -number) for number in range(8)]
    assert [other.result() for other in others] == list(range(8))
    with pytest.raises(WorkerDied, match=r"ended by SIGKILL \(usually memory\).* and, once more, by SIGKILL") as death:
        dying.result()
    assert death.value.peak_memory_bytes > HELD
    assert max(pool.peak_memory.values()) == death.value.peak_memory_bytes
    assert pool.submit(abs, -3).result() == 3


def test_a_death_is_a_failed_record_of_a_fold_and_an_error_of_a_concatenation(tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path)
    job = bench.job(method_entry("contrastive"), {}, run=1, fold=2)
    death = WorkerDied("its worker ended by SIGBUS", 7)
    record = from_json(to_json(died_record(job, bench, death)))
    assert (record.id, record.reason, record.message) == (job.id, "worker-died", "its worker ended by SIGBUS")
    assert (record.fold, record.peak_memory_bytes) == (2, 7)
    with pytest.raises(BenchmarkError, match=r"the concatenation of run 1 has no result: its worker ended by SIGBUS\."):
        died_record(EnsembleJob(members=(job,)), bench, death)


def test_stopping_waits_for_nobody(tmp_path: Path) -> None:
    pool = WorkerPool(tiny_bench(tmp_path), 1)
    running, waiting = pool.submit(time.sleep, 300), pool.submit(abs, -1)
    while not pool.peak_memory:  # it has not begun
        time.sleep(0.01)
    began = time.monotonic()
    pool.stop()
    assert time.monotonic() - began < 10
    assert waiting.cancelled()
    with pytest.raises(CancelledError):
        running.result()


def test_workers_are_dealt_round_to_the_gpus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from dataclasses import replace

    bench = tiny_bench(tmp_path)
    assert benches_by_device(bench, 4) == [bench]
    on_gpus = benches_by_device(replace(bench, device="cuda"), 4)
    assert [one.device for one in on_gpus] == ["cuda:0", "cuda:1", "cuda:2", "cuda:3"]
    monkeypatch.setattr("torch.cuda.device_count", lambda: 4)
    assert usual_workers("cuda") == 4
    pool = WorkerPool(replace(bench, device="cuda"), 6)  # no process is started before there is work
    dealt = [pool._new_worker()._bench.device for _ in range(6)]
    assert dealt == ["cuda:0", "cuda:1", "cuda:2", "cuda:3", "cuda:0", "cuda:1"]
    pool.stop()


@pytest.mark.parametrize(
    ("exit_code", "said"),
    [(-9, "SIGKILL (usually memory)"), (-11, "SIGSEGV"), (3, "exit code 3"), (-250, "signal 250")],
)
def test_an_ending_is_named(exit_code: int, said: str) -> None:
    assert ending(exit_code) == said


def test_memory_is_told_in_one_line_the_most_first() -> None:
    assert memory_text({}) is None
    assert memory_text({"a": 1_000, "b": 2_000_000}) == "Memory at its most: b 2 MB, a 1 kB."
    many = {f"worker {number}": number * 10**9 for number in range(1, 7)}
    assert memory_text(many) == (
        "Memory at its most: worker 6 6 GB, worker 5 5 GB, worker 4 4 GB, worker 3 3 GB, and 2 with less."
    )


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("dsk", None, None, None), "Did you mean 'dask'?"),
        (("processes", 0, None, None), "--workers is 0"),
        (("processes", None, "tcp://a:1", None), "a Dask scheduler (tcp://a:1) goes with --executor dask"),
        (("dask", None, None, None), "--scheduler tcp://HOST:PORT or --scheduler-file PATH"),
        (("dask", None, "tcp://a:1", Path("s.json")), "one of them"),
        (("dask", 4, "tcp://a:1", None), "as many as were started. Leave it out."),
    ],
)
def test_an_executor_that_cannot_be_is_refused(given: tuple, said: str) -> None:
    with pytest.raises(BenchmarkError) as refused:
        check_executor(*given)
    assert said in str(refused.value)
