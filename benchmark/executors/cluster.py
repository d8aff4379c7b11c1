"""A running Dask cluster as an executor: jobs go to its workers, records come back through the store.

Which job goes to which worker is decided here and not by Dask's scheduler, for three reasons: one worker does one job
at a time, only workers that passed their checks take part, and a job whose worker is lost goes to another one that
often and no more. Workers may come and go. A scheduler that goes away is waited for; jobs that were running begin again
from their checkpoints, unless their record is in the store.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from distributed import Future as Reply
from distributed import KilledWorker

from benchmark.bench import Bench
from benchmark.console import say_error
from benchmark.errors import BenchmarkError
from benchmark.executors.connection import ANSWER_S, Connection
from benchmark.executors.contract import ClusterAway, P, T, WorkerDied
from benchmark.executors.joining import NotJoined, join, leave, perform_here
from benchmark.executors.offering import offer_of, unlike
from benchmark.jobs import Work
from benchmark.provenance import versions
from benchmark.training.failure import one_line
from results.claims import new_owner
from results.errors import ResultsError
from results.record import FoldRecord, Record
from results.store import Store

FIRST_LOOK_S = 120.0  # for the checks of the workers that are there at the start
SCHEDULER_AWAY_S = 600.0  # as long as a store's server is waited for
LOST_AT_MOST = 3  # workers that a job may lose
_LOOK_EVERY_S = 0.5
# In words that a worker understands which has another version of this package, or none.
_TELL = "__import__('benchmark.executors.joining', fromlist=['told']).told()"


@dataclass(eq=False)
class _Task:
    future: "Future[Any]"
    fn: Callable[[Work], Record]
    work: Work
    lost: list[str] = field(default_factory=list)  # the workers that it was on


@dataclass(eq=False)
class _Member:
    """A worker. `state`: asked, joining, free, busy, or refused."""

    address: str
    state: str = "asked"
    reply: Reply | None = None
    host: str = ""
    device: str = ""
    task: _Task | None = None
    reason: str = ""  # of the refusal


class ClusterExecutor(Executor):
    """The workers of a cluster that passed their checks."""

    def __init__(self, bench: Bench, store: Store, scheduler: str | Path) -> None:
        self.peak_memory: dict[str, int] = {}
        self._store, self._scheduler = store, scheduler
        self._offer = offer_of(bench, store)
        self._owner = new_owner()
        self._tasks: deque[_Task] = deque()
        self._members: dict[str, _Member] = {}
        self._said: set[str] = set()
        self._away_since: float | None = None
        self._wake, self._is_over = threading.Event(), False
        self._end: BaseException | None = None  # of the thread, before its time
        self._connection: Connection | None = Connection(scheduler, self._wake)
        self._thread = threading.Thread(target=self._tend, daemon=True)
        try:
            self._open_doors()
            self._look_first()
        except BaseException:
            self._close_doors()
            raise
        self._thread.start()

    @property
    def workers(self) -> int:
        """Workers that take part now.

        Raises:
            ClusterAway: if the scheduler stays away.
        """
        if self._end is not None:
            raise self._end
        return sum(member.state in ("free", "busy") for member in list(self._members.values()))

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Hand over `fn(work)`, which makes a record; the future has it when it is in the store."""
        (work,) = args
        future: Future[T] = Future()
        future.set_running_or_notify_cancel()
        self._tasks.append(_Task(future, cast(Callable[[Work], Record], fn), cast(Work, work)))
        self._wake.set()
        return future

    def stop(self) -> None:
        """Leave the cluster. A job that runs there goes on to its end, and its record is kept."""
        self._is_over = True
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout=ANSWER_S)
        self._close_doors()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """As `stop()`, when everything is done where that is wanted."""
        while wait and not cancel_futures and self._thread.is_alive() and any(self._open_tasks()):
            time.sleep(_LOOK_EVERY_S)
        self.stop()

    # --- the way in and out

    def _open_doors(self) -> None:
        """What a worker looks for, to know that it sees the same store and the same folder."""
        self._store.claim(self._offer.claim, self._owner)
        if self._offer.marker is not None:
            self._offer.marker.parent.mkdir(parents=True, exist_ok=True)
            self._offer.marker.touch()

    def _close_doors(self) -> None:
        for member in self._members.values():
            if member.reply is not None:
                member.reply.release()
        if self._connection is not None:
            with suppress(Exception):  # else they let go of the suite when others join
                free = list(self._in("free"))
                for member in free:
                    self._ask(member, "leaving", leave, self._offer.token)
                for member in free:
                    if member.reply is not None:
                        member.reply.result(timeout=1.0)
            self._connection.close()
        if self._offer.marker is not None:
            self._offer.marker.unlink(missing_ok=True)
        self._store.release(self._offer.claim, self._owner)

    def _look_first(self) -> None:
        """Check all workers that are there.

        Raises:
            BenchmarkError: if one of them cannot take part.
        """
        deadline = time.monotonic() + FIRST_LOOK_S
        self._follow()
        while time.monotonic() < deadline and any(self._in("asked", "joining")):
            self._wake.wait(_LOOK_EVERY_S)
            self._wake.clear()
            self._follow()
        if refused := list(self._in("refused")):
            said = "; ".join(f"{_name(member)}: {member.reason.rstrip('.')}" for member in refused[:3])
            more = f"; and {len(refused) - 3} more" if len(refused) > 3 else ""
            raise BenchmarkError(f"{len(refused)} of {len(self._members)} Dask workers cannot take part. {said}{more}.")
        if n_busy := len(list(self._in("asked", "joining"))):
            say_error(f"{n_busy} of {len(self._members)} Dask workers have not answered; they take part when they do.")

    # --- in a thread of its own

    def _tend(self) -> None:
        try:
            while not self._is_over:
                self._wake.wait(_LOOK_EVERY_S)
                self._wake.clear()
                self._follow()
                self._hand_out()
        except BaseException as error:  # nobody else would tell those who wait
            self._fail_all(error)

    def _follow(self) -> None:
        """See which workers there are and what those that were asked have answered."""
        if self._connection is None and not self._is_back():
            return
        assert self._connection is not None
        try:
            present = self._connection.workers()
        except OSError as error:
            self._lose_scheduler(error)
            return
        for address in self._members.keys() - present.keys():
            self._lose(self._members.pop(address))
        for address in present.keys() - self._members.keys():
            if present[address] == "running":
                self._members[address] = _Member(address)
                self._ask(self._members[address], "asked", eval, _TELL)
        for member in self._members.values():
            self._hear(member)
        if self.workers:
            self._said.discard("no worker")
        elif self._thread.is_alive() and not any(self._in("asked", "joining")):
            self._say_once(f"no worker of {self._scheduler} can take part now; waiting for one.", "no worker")

    def _ask(self, member: _Member, state: str, fn: Callable[..., Any], *args: Any, key: str = "ask") -> None:
        assert self._connection is not None
        member.state, member.reply = state, self._connection.ask(member.address, fn, *args, key=key)

    def _hear(self, member: _Member) -> None:
        """Take a worker one state further, if it has answered."""
        if member.reply is None or member.reply.status == "pending":
            return
        reply, member.reply = member.reply, None
        try:
            if reply.status in ("cancelled", "lost"):
                self._begin_again(member)
            elif member.state == "busy":
                self._hear_of_job(member, None if reply.status == "finished" else reply.exception(timeout=ANSWER_S))
            elif reply.status != "finished":
                self._refuse(member, reply.exception(timeout=ANSWER_S))
            elif member.state == "asked":
                self._compare(member, reply.result(timeout=ANSWER_S))
            else:
                self._welcome(member, reply.result(timeout=ANSWER_S))
        except TimeoutError:  # it died with its answer
            self._begin_again(member)
        finally:
            reply.release()

    def _begin_again(self, member: _Member) -> None:
        self._lose(member)
        self._ask(member, "asked", eval, _TELL)

    def _compare(self, member: _Member, told: dict[str, Any]) -> None:
        member.host = told["host"]
        if reason := unlike(told, self._store):
            self._refuse(member, BenchmarkError(reason))
        else:
            for name, version in versions().items():
                if (theirs := told["versions"].get(name, "missing")) != version:
                    self._say_once(f"{name} is {theirs} on {member.host} and {version} here: last bits may differ.")
            self._ask(member, "joining", join, self._offer)

    def _welcome(self, member: _Member, device: str) -> None:
        member.state, member.device = "free", device
        others = {other.device for other in self._in("free", "busy")} - {device}
        if others:
            self._say_once(f"the cluster has {device} beside {', '.join(sorted(others))}: last bits may differ.")

    def _refuse(self, member: _Member, error: BaseException) -> None:
        if isinstance(error, NotJoined):
            error = BenchmarkError("it did not stay")
        known = isinstance(error, BenchmarkError)
        member.reason = str(error) if known else f"it has no mlrc-harness that works ({one_line(error)})"
        member.state = "refused"
        if self._thread.is_alive():
            say_error(f"{_name(member)} takes no part: {member.reason}")

    def _hear_of_job(self, member: _Member, error: BaseException | None) -> None:
        if isinstance(error, NotJoined | KilledWorker):
            self._begin_again(member)
            return
        task, member.task, member.state = member.task, None, "free"
        assert task is not None
        if error is not None:
            task.future.set_exception(error)
        else:
            self._read(task, member)

    def _read(self, task: _Task, member: _Member) -> None:
        """The record of a job that is done, out of the store."""
        try:
            record = self._store.get(task.work.id)
        except ResultsError as error:
            task.future.set_exception(error)
            return
        if record is None:
            lacking = f"{_name(member)} says that job {task.work.id} is done; its record is not in {self._store.name}."
            task.future.set_exception(BenchmarkError(lacking))
            return
        if isinstance(record, FoldRecord):
            self.peak_memory[member.address] = max(self.peak_memory.get(member.address, 0), record.peak_memory_bytes)
        task.future.set_result(record)

    def _hand_out(self) -> None:
        for member in self._in("free"):
            if not self._tasks or self._connection is None:
                return
            task = self._tasks.popleft()
            member.task = task
            self._ask(member, "busy", perform_here, self._offer.token, task.fn, task.work, key=f"job-{task.work.id}")

    # --- what is lost

    def _lose(self, member: _Member) -> None:
        """A worker that is gone: its job goes to another."""
        if member.reply is not None:
            member.reply.release()
        if member.task is not None:
            self._again(member.task, member)
            member.task = None

    def _again(self, task: _Task, member: _Member) -> None:
        task.lost.append(_name(member))
        if len(task.lost) < LOST_AT_MOST:
            say_error(f"{_name(member)} was lost; its job begins again on another worker.")
            self._tasks.appendleft(task)
            return
        task.future.set_exception(
            WorkerDied(
                f"its worker was lost {len(task.lost)} times, usually for want of memory: {', '.join(task.lost)}"
            )
        )

    def _lose_scheduler(self, error: Exception) -> None:
        why = one_line(error)
        say_error(f"the scheduler {self._scheduler} is away ({why}); waiting up to {SCHEDULER_AWAY_S:.0f} s for it.")
        self._away_since = time.monotonic()
        self._tasks.extendleft(member.task for member in self._members.values() if member.task is not None)
        self._members.clear()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _is_back(self) -> bool:
        assert self._away_since is not None
        away_s = time.monotonic() - self._away_since
        try:
            self._connection = Connection(self._scheduler, self._wake)
        except BenchmarkError as error:
            if away_s > SCHEDULER_AWAY_S:
                raise ClusterAway(str(error)) from None
            return False
        say_error(f"the scheduler is back after {away_s:.0f} s.")
        return True

    def _fail_all(self, error: BaseException) -> None:
        self._end = error
        for task in self._open_tasks():
            task.future.set_exception(error)
        self._tasks.clear()

    # ---

    def _open_tasks(self) -> list[_Task]:
        return [*self._tasks, *(member.task for member in self._members.values() if member.task is not None)]

    def _in(self, *states: str) -> Iterator[_Member]:
        return (member for member in list(self._members.values()) if member.state in states)

    def _say_once(self, text: str, name: str | None = None) -> None:
        if (name or text) not in self._said:
            self._said.add(name or text)
            say_error(text)


def _name(member: _Member) -> str:
    return f"worker {member.address}" + (f" ({member.host})" if member.host else "")
