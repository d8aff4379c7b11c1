"""The driver: it takes every method's search and final runs through one executor and writes each record once.

A method's campaign is a generator that yields batches of work and receives their records; it never knows where work
runs. Work whose record is in the store is not run again, so the same command continues what was stopped. A campaign
is claimed in the store first: a second driver on the same store takes other methods, or waits and then finds all done.
"""

import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol as Interface

import optuna

from benchmark.bench import Bench
from benchmark.campaign import campaign, campaigns_at_once
from benchmark.errors import BenchmarkError, Interrupted
from benchmark.executors.contract import JobExecutor, WorkerDied
from benchmark.executors.worker import perform
from benchmark.jobs import Work
from benchmark.methods.entry import MethodEntry, Value
from benchmark.search.search import WorkSteps
from benchmark.training.checkpoint import checkpointed_jobs, remove_checkpoints
from benchmark.training.failure import is_result
from benchmark.worker_died import died_record, has_died
from results.claims import campaign_claim, new_owner
from results.errors import ResultsError
from results.record import FoldRecord, Record
from results.store import Store

BEAT_EVERY_S = 10.0


class Listener(Interface):
    """Hears what happens, to show it."""

    def work_done(self, method: str, work: Work, record: Record, fresh: bool) -> None:
        """A record is in the store; `fresh` if it was made now."""

    def waiting(self, method: str, holder: str) -> None:
        """Another process works on this method."""

    def method_done(self, method: str, problem: str | None) -> None:
        """A campaign ended."""


@dataclass(eq=False)
class _Campaign:
    entry: MethodEntry
    steps: WorkSteps
    claim: str
    batch: list[Work] = field(default_factory=list)
    records: dict[str, Record] = field(default_factory=dict)
    todo: deque[Work] = field(default_factory=deque)


class Driver:
    """Runs campaigns. `stop()` may be called from a signal handler: running work is finished, nothing new begins."""

    def __init__(self, bench: Bench, store: Store, executor: JobExecutor, listener: Listener) -> None:
        self._bench, self._store, self._executor, self._listener = bench, store, executor, listener
        self._owner = new_owner()
        self._in_flight: dict[Future[Record], tuple[_Campaign, Work]] = {}
        self._problems: dict[str, str] = {}
        self._stopping = False

    def stop(self) -> None:
        """Begin nothing new."""
        self._stopping = True

    def run(
        self,
        entries: Sequence[MethodEntry],
        storage: optuna.storages.BaseStorage,
        phases: Sequence[str],
        given: Mapping[str, dict[str, Value]] | None = None,
    ) -> dict[str, str]:
        """Take every method through the phases; returns what went wrong, by method.

        `given`: by method, the hyper-parameters of its final runs where these do not come from a search.

        Raises:
            Interrupted: after `stop()`, when running work is finished and stored.
        """
        waiting = deque(
            _Campaign(
                entry,
                campaign(entry, self._bench, self._store, storage, phases, (given or {}).get(entry.name)),
                campaign_claim(self._bench.comparison, entry.name, entry.code),
            )
            for entry in entries
        )
        self._sweep()
        active: list[_Campaign] = []
        with _Heartbeat(self._store, self._owner):
            try:
                while (waiting or active) and not (self._stopping and not self._in_flight):
                    self._admit(waiting, active)
                    self._submit(active)
                    self._collect(active)
            finally:
                for held in active:
                    held.steps.close()
                    self._store.release(held.claim, self._owner)
        if self._stopping and (waiting or active):
            raise Interrupted
        return self._problems

    def _sweep(self) -> None:
        """Remove what a kill left of jobs whose record it did not prevent."""
        stored = self._store.get_many(checkpointed_jobs(self._bench.checkpoints))
        remove_checkpoints(self._bench.checkpoints, [job_id for job_id, record in stored.items() if is_result(record)])

    def _admit(self, waiting: deque[_Campaign], active: list[_Campaign]) -> None:
        at_once = campaigns_at_once(self._executor.workers, self._bench.n_folds)
        for _ in range(len(waiting)):
            if self._stopping or len(active) >= at_once:
                return
            held = waiting.popleft()
            if self._store.claim(held.claim, self._owner):
                active.append(held)
                self._advance(held, active, None)
            else:
                waiting.append(held)
                self._listener.waiting(held.entry.name, self._store.holder(held.claim) or "another process")

    def _advance(self, held: _Campaign, active: list[_Campaign], answers: list[Record] | None) -> None:
        """Give a campaign the records it waits for until it yields work that is not in the store, or ends."""
        problem: str | None = None
        try:
            while True:
                held.batch = list(next(held.steps) if answers is None else held.steps.send(answers))
                stored = self._store.get_many([work.id for work in held.batch])
                held.records = {key: record for key, record in stored.items() if is_result(record)}
                for work in held.batch:
                    if work.id in held.records:
                        self._listener.work_done(held.entry.name, work, held.records[work.id], fresh=False)
                held.todo = deque(work for work in held.batch if work.id not in held.records)
                if held.todo:
                    return
                answers = self._answers(held)
        except StopIteration:
            pass
        except BenchmarkError as error:
            problem = str(error)
        self._end(held, active, problem)

    def _answers(self, held: _Campaign) -> list[Record]:
        """The records of a whole batch, in its order. A final fold without a result is a problem of its method."""
        records = [held.records[work.id] for work in held.batch]
        folds = (record for record in records if isinstance(record, FoldRecord))
        failed = [record for record in folds if record.outcome == "failed" and record.identity.purpose == "final"]
        if failed:
            first = f"run {failed[0].identity.run} fold {failed[0].fold}, {failed[0].reason}: {failed[0].message}"
            self._problems[held.entry.name] = f"{len(failed)} final folds failed; the first: {first}"
        return records

    def _end(self, held: _Campaign, active: list[_Campaign], problem: str | None) -> None:
        held.steps.close()
        active.remove(held)
        self._store.release(held.claim, self._owner)
        if problem is not None:
            self._problems[held.entry.name] = problem
        self._listener.method_done(held.entry.name, problem)

    def _submit(self, active: list[_Campaign]) -> None:
        """Keep every worker busy and queue nothing behind them: what is queued could not be taken back."""
        for held in active:
            while held.todo and not self._stopping and len(self._in_flight) < self._executor.workers:
                work = held.todo.popleft()
                self._in_flight[self._executor.submit(perform, work)] = (held, work)

    def _collect(self, active: list[_Campaign]) -> None:
        if not self._in_flight:
            time.sleep(0.0 if active and self._executor.workers else 0.5)
            return
        finished, _ = wait(self._in_flight, timeout=1.0, return_when=FIRST_COMPLETED)
        complete = []
        for future in finished:
            held, work = self._in_flight.pop(future)
            try:
                record = self._record_of(future, work)
            except BenchmarkError as error:
                if held in active:
                    self._end(held, active, str(error))
                continue
            self._store.add(record)
            if not has_died(record):  # such a job goes on from its checkpoint when it is given again
                remove_checkpoints(self._bench.checkpoints, [work.id])
            if held not in active:
                continue  # its campaign was given up while this ran
            self._listener.work_done(held.entry.name, work, record, fresh=True)
            if not is_result(record):
                self._end(held, active, _machine_problem(record))
                continue
            held.records[work.id] = record
            if len(held.records) == len(held.batch):
                complete.append(held)
        self._submit(active)  # the workers go on with another method while the sampler thinks
        for held in complete:
            if self._store.claim(held.claim, self._owner):
                self._advance(held, active, self._answers(held))
            else:  # the store was out of reach for so long that this process was taken for dead
                holder = self._store.holder(held.claim) or "another process"
                self._end(held, active, f"{holder} took it over from here. The same command waits for it and goes on.")

    def _record_of(self, future: Future[Record], work: Work) -> Record:
        try:
            return future.result()
        except WorkerDied as death:
            return died_record(work, self._bench, death)


class _Heartbeat(threading.Thread):
    """Tells other drivers that this one lives, whatever its main thread is doing."""

    def __init__(self, store: Store, owner: str) -> None:
        super().__init__(daemon=True)
        self._store, self._owner, self._over = store, owner, threading.Event()

    def run(self) -> None:
        while not self._over.wait(BEAT_EVERY_S):
            with suppress(ResultsError):  # the main thread meets the same store, and says what is wrong with it
                self._store.beat(self._owner)

    def __enter__(self) -> None:
        self.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self.join()


def _machine_problem(record: Record) -> str:
    assert isinstance(record, FoldRecord)
    said = (record.message or "").rstrip(".")
    return f"fold {record.fold} stopped ({record.reason}): {said}. The same command goes on from here."
