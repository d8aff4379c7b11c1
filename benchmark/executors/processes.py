"""Worker processes on this machine, each with as many torch threads as its bench says; with GPUs, dealt round to these.

A process that dies takes nothing with it but the time since its job's last checkpoint: another takes its place and
does the job once more. A job whose process dies twice is a `WorkerDied`; all other jobs go on.
"""

import atexit
import multiprocessing
import pickle
import signal
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import CancelledError, Executor, Future
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from typing import Any

import torch

from benchmark.bench import Bench
from benchmark.console import say_error
from benchmark.executors.contract import P, T, WorkerDied
from benchmark.executors.life import live
from benchmark.memory import prefer_huge_pages, resident_peak_bytes
from protocols.datasets.files import size_text

ATTEMPTS = 2  # of a job whose process dies
LOOK_EVERY_S = 1.0  # at the memory of a process that is at work
_DYING_S = 5.0  # a process whose pipe is closed is given to end by itself, so that its ending is known
_CAN_BLOCK = hasattr(signal, "pthread_sigmask")  # not on Windows
_SPAWN = multiprocessing.get_context("spawn")  # no inherited locks, CUDA works, the same on every system
_STARTING = threading.RLock()  # multiprocessing may start, end and count processes in one thread at a time


@dataclass(frozen=True, eq=False)
class _Task:
    future: "Future[Any]"
    call: Callable[[], Any]


class WorkerPool(Executor):
    """At most `workers` processes; one is started when there is work and none is idle."""

    def __init__(self, bench: Bench, workers: int) -> None:
        self.workers = workers
        self._benches = benches_by_device(bench, torch.cuda.device_count())
        self._lock = threading.Lock()  # of all that follows
        self._waiting: deque[_Task] = deque()
        self._all: list[_Worker] = []
        self._idle: list[_Worker] = []
        self._threads: list[threading.Thread] = []
        self._is_over = False
        prefer_huge_pages()
        if _CAN_BLOCK:
            resource_tracker.ensure_running()  # else the first process would start it, which unblocks Ctrl-C
        atexit.register(self.stop)  # else a command that fails would wait for its workers, and they for it

    @property
    def peak_memory(self) -> dict[str, int]:
        """The most bytes that each worker's processes have held."""
        return {worker.name: worker.peak_bytes for worker in self._all if worker.peak_bytes}

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "Future[T]":
        """Hand over work: to the worker that was idle last, to a new one, or to whichever is done first."""
        future: Future[T] = Future()
        task = _Task(future, partial(fn, *args, **kwargs))
        with self._lock:
            if self._is_over:
                raise RuntimeError("the pool was stopped")
            if not self._idle and len(self._all) == self.workers:
                self._waiting.append(task)
                return future
            worker = self._idle.pop() if self._idle else self._new_worker()
            thread = threading.Thread(target=self._serve, args=(worker, task), daemon=True)
            self._threads = [one for one in self._threads if one.is_alive()] + [thread]
            thread.start()
        return future

    def stop(self) -> None:
        """End the workers now; work in progress is lost, finished work is not."""
        with self._lock:
            self._is_over = True
            for task in self._waiting:
                task.future.cancel()
            self._waiting.clear()
            for worker in self._all:
                worker.kill()
        self.shutdown()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End each worker when it has nothing left to do."""
        with self._lock:
            self._is_over = True
            while cancel_futures and self._waiting:
                self._waiting.popleft().future.cancel()
        atexit.unregister(self.stop)
        if wait:
            for thread in self._threads:
                thread.join()
            for worker in self._all:
                worker.close()

    def _new_worker(self) -> "_Worker":
        number = len(self._all)
        self._all.append(_Worker(f"worker {number + 1}", self._benches[number % len(self._benches)]))
        return self._all[-1]

    def _serve(self, worker: "_Worker", task: _Task | None) -> None:
        """In a thread: give the worker this work, then what waits, until nothing does."""
        if _CAN_BLOCK:
            # A process that Ctrl-C ended among its imports would be missed; those started here inherit the block.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        while task is not None:
            if task.future.set_running_or_notify_cancel():
                answer, done = worker.answer(task.call), task.future
            else:
                answer, done = None, None
            with self._lock:  # before the answer is out: who hears it finds the worker idle
                task = self._waiting.popleft() if self._waiting else None
                if task is None:
                    self._idle.append(worker)
            if done is not None and answer is not None:
                value, error = answer
                done.set_result(value) if error is None else done.set_exception(error)


def benches_by_device(bench: Bench, n_devices: int) -> list[Bench]:
    """The bench of each CUDA device, to which workers are dealt in turn; on a CPU, the bench itself."""
    if bench.device != "cuda" or n_devices == 0:
        return [bench]
    return [replace(bench, device=f"cuda:{number}") for number in range(n_devices)]


class _Worker:
    """One process after the other: the next is started when there is work and the last one has died."""

    def __init__(self, name: str, bench: Bench) -> None:
        self.name, self.peak_bytes = name, 0
        self._bench = bench
        self._process: SpawnProcess | None = None
        self._pipe: Connection | None = None
        self._is_over = False

    def answer(self, call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
        """What the call returns in a process, or the exception that it raises there."""
        try:
            sent = pickle.dumps(call)
        except Exception as error:  # pickle has many words for it
            return None, error
        deaths: list[str] = []
        while len(deaths) < ATTEMPTS:
            try:
                found: tuple[Any, BaseException | None] = self._exchange(sent)
                return found
            except (EOFError, OSError):  # the pipe of a process that died
                deaths.append(self._bury())
            if self._is_over:
                return None, CancelledError()
            if len(deaths) < ATTEMPTS:
                say_error(f"{self.name} ended by {deaths[-1]}; its job begins again.")
        return None, WorkerDied(
            f"its worker ended by {' and, once more, by '.join(deaths)}; with fewer --workers each has more memory",
            self.peak_bytes,
        )

    def kill(self) -> None:
        """End the process now, and start no other."""
        with _STARTING:
            self._is_over = True
            if self._process is not None:
                self._process.kill()

    def close(self) -> None:
        """Let a process that waits for work end."""
        if self._pipe is not None:
            self._pipe.close()
        if self._process is not None:
            self._process.join()

    def _exchange(self, sent: bytes) -> Any:
        process, pipe = self._started()
        pipe.send_bytes(sent)
        ready: list[Any] = []
        while not ready:
            ready = wait([pipe, process.sentinel], timeout=LOOK_EVERY_S)
            self.peak_bytes = max(self.peak_bytes, resident_peak_bytes(process.pid or 0))
        if pipe not in ready:
            raise EOFError
        return pickle.loads(pipe.recv_bytes())

    def _started(self) -> tuple[SpawnProcess, Connection]:
        with _STARTING:
            if self._is_over:
                raise EOFError
            if self._process is not None and self._pipe is not None:
                return self._process, self._pipe
            self._pipe, theirs = _SPAWN.Pipe()
            self._process = _SPAWN.Process(target=live, args=(theirs,), name=f"mlrc {self.name}")
            self._process.start()
            theirs.close()
        self._pipe.send(self._bench)  # not as an argument: who writes those waits for a process that may have died
        return self._process, self._pipe

    def _bury(self) -> str:
        """Forget the process; how it ended, and what it held."""
        process, pipe, self._process, self._pipe = self._process, self._pipe, None, None
        if process is None or pipe is None:
            return "a stop"
        pipe.close()
        with _STARTING:
            process.join(timeout=_DYING_S)
            if process.is_alive():  # its own code closed the pipe
                process.kill()
                process.join()
        held = f", which held {size_text(self.peak_bytes)}" if self.peak_bytes else ""
        return f"{ending(process.exitcode)}{held}"


def ending(exit_code: int | None) -> str:
    """How a process ended, by its exit code: "SIGKILL (usually memory)", "exit code 1"."""
    if exit_code is None or exit_code >= 0:
        return f"exit code {exit_code}"
    name = signal.Signals(-exit_code).name if -exit_code in set(signal.Signals) else f"signal {-exit_code}"
    return f"{name} (usually memory)" if name == "SIGKILL" else name
