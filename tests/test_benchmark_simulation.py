"""The simulated driver on cases that were worked out by hand, and against the real driver on a clock of its own."""

from concurrent.futures import Future
from heapq import heappop, heappush
from itertools import count
from pathlib import Path

import optuna
import pytest
from optuna.storages import InMemoryStorage
from tiny import tiny_bench

from benchmark.campaign import campaigns_at_once
from benchmark.executors.worker import perform
from benchmark.jobs import Job, Work
from benchmark.methods.registry import method_entry
from benchmark.oversight.simulation import Batch, play
from benchmark.suite import Driver
from results.record import Record
from results.store import Store


def search(n_trials: int, seconds: float, n_folds: int = 4, thought_s: float = 0.0) -> list[Batch]:
    return [Batch((seconds,) * n_folds, thought_s)] * n_trials


def test_one_worker_takes_the_sum_of_all_jobs() -> None:
    played = play([search(3, 2.0), search(2, 1.0)], workers=1, n_folds=4)
    assert (played.seconds, played.busy) == (3 * 4 * 2.0 + 2 * 4 * 1.0, 1.0)


def test_the_folds_of_a_trial_run_side_by_side_and_its_trials_one_after_the_other() -> None:
    assert play([search(3, 2.0)], workers=4, n_folds=4).seconds == 3 * 2.0
    assert play([search(3, 2.0)], workers=64, n_folds=4).seconds == 3 * 2.0  # more workers cannot help one method
    assert play([search(3, 2.0)], workers=64, n_folds=4).busy == pytest.approx(4 / 64)


def test_three_workers_do_four_folds_in_two_rounds() -> None:
    assert play([search(1, 1.0)], workers=3, n_folds=4).seconds == 2.0


def test_a_second_campaign_fills_the_gap_in_which_the_first_waits() -> None:
    # 0-1: three folds of A; 1-2: the fourth of A and two of B; 2-3: the other two of B.
    played = play([search(1, 1.0), search(1, 1.0)], workers=3, n_folds=4)
    assert played.seconds == 3.0  # 8 folds on 3 workers; one after the other they would take 4
    assert played.busy == pytest.approx(8 / 9)


def test_only_so_many_campaigns_are_open_at_once() -> None:
    assert [campaigns_at_once(workers, 4) for workers in (1, 4, 5, 8, 64)] == [2, 2, 3, 3, 17]
    # With 4 workers two are open: the third begins when one of them ends, though it is the longest.
    assert play([search(1, 1.0, 1), search(1, 1.0, 1), search(1, 5.0, 1)], workers=4, n_folds=4).seconds == 6.0
    assert play([search(1, 5.0, 1), search(1, 1.0, 1), search(1, 1.0, 1)], workers=4, n_folds=4).seconds == 5.0


def test_workers_idle_while_the_driver_thinks_for_the_only_campaign() -> None:
    assert play([search(3, 2.0, thought_s=0.5)], workers=4, n_folds=4).seconds == 3 * 2.5


def test_another_campaign_goes_on_while_the_driver_thinks() -> None:
    # 0: the driver thinks 1 s for A, then 1 s for B; nothing runs before 2. Two workers, two folds a trial of 1 s.
    # 2-3: A. At 3 the workers are given to B first, then the driver thinks for A until 4. 4-5: A. Done at 5.
    played = play([search(2, 1.0, 2, thought_s=1.0), search(1, 1.0, 2, thought_s=1.0)], workers=2, n_folds=2)
    assert played.seconds == 5.0


def test_final_runs_and_concatenations_follow_the_search() -> None:
    campaign = [*search(2, 1.0), Batch((1.5,) * 8), Batch((0.25,) * 2)]
    assert play([campaign], workers=8, n_folds=4).seconds == 2 * 1.0 + 1.5 + 0.25


def test_a_campaign_with_nothing_left_takes_no_time() -> None:
    played = play([[Batch(()), Batch(())], []], workers=4, n_folds=4)
    assert (played.seconds, played.busy) == (0.0, 1.0)


def test_jobs_of_unlike_length_hold_up_their_own_trial_only() -> None:
    uneven = [Batch((1.0, 3.0)), Batch((1.0, 1.0))]
    even = search(2, 1.0, 2)
    # Two workers. 0: A's folds of 1 s and 3 s. 1-3: B's first trial, one fold after the other. 3-5: A's second trial
    # and B's second one share the two workers.
    assert play([uneven, even], workers=2, n_folds=2).seconds == 5.0


class VirtualTime:
    """An executor whose jobs are real and take as long as they are told, on a clock of its own."""

    def __init__(self, workers: int, seconds) -> None:
        self.workers, self.now, self._seconds = workers, 0.0, seconds
        self._running: list[tuple[float, int, Future, Work]] = []
        self._numbers = count()

    def submit(self, fn, work: Work) -> Future:
        assert len(self._running) < self.workers
        future: Future = Future()
        heappush(self._running, (self.now + self._seconds(work), next(self._numbers), future, work))
        return future

    def wait(self, in_flight, timeout: float, return_when: str) -> tuple[list[Future], None]:
        self.now = max(self.now, self._running[0][0])
        finished = []
        while self._running and self._running[0][0] <= self.now:
            _, _, future, work = heappop(self._running)
            future.set_result(perform(work))
            finished.append(future)
        return finished, None


@pytest.mark.parametrize("workers", [1, 3, 8])
def test_the_real_driver_takes_the_time_that_was_simulated(workers: int, tmp_path: Path, monkeypatch) -> None:
    def seconds(work: Work) -> float:
        if not isinstance(work, Job):
            return 0.25
        return (1.0 if work.purpose == "search" else 1.5) + (2.0 if work.method == "ms" else 0.5) * work.fold

    def campaign(per_fold: float) -> list[Batch]:
        folds = [per_fold * fold for fold in range(4)]
        trial = Batch(tuple(1.0 + fold for fold in folds))
        return [trial, trial, Batch(tuple(1.5 + fold for fold in folds)), Batch((0.25,))]

    bench = tiny_bench(
        tmp_path, "n_trials=2", "n_startup_trials=2", "n_runs=1", "max_steps=1", "cadence.evaluate_every_steps=1"
    )
    entries = [method_entry(name) for name in ("contrastive", "ms", "triplet")]
    executor = VirtualTime(workers, seconds)
    monkeypatch.setattr("benchmark.suite.wait", executor.wait)
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with Store.open(str(tmp_path / "s.db")) as store:
        problems = Driver(bench, store, executor, Silent()).run(entries, InMemoryStorage(), ("search", "finals"))
    assert not problems
    played = play([campaign(0.5), campaign(2.0), campaign(0.5)], workers, n_folds=4)
    assert executor.now == pytest.approx(played.seconds)


class Silent:
    def work_done(self, method: str, work: Work, record: Record, fresh: bool) -> None: ...

    def waiting(self, method: str, holder: str) -> None: ...

    def method_done(self, method: str, problem: str | None) -> None: ...
