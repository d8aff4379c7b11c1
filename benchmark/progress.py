"""Shows a suite at work: bars with the time left on a terminal, one plain line a trial or run elsewhere.

Everything goes to standard error, so that standard output carries results only.
"""

import time
from collections import Counter
from collections.abc import Mapping
from statistics import fmean
from types import TracebackType
from typing import NamedTuple, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from benchmark.console import say
from benchmark.jobs import Job, Work
from benchmark.methods.entry import Value
from benchmark.oversight.plan_text import hours_text
from benchmark.remarks import short_classes
from results.record import FoldRecord, Record
from results.repeats import ONE_MODEL


class _Step(NamedTuple):
    """A trial (run 0) or a final run."""

    method: str
    run: int
    hyperparameters: tuple[tuple[str, Value], ...]


class SuiteProgress:
    """A listener of `benchmark.suite.Driver`.

    `expected` is the work of each method in which nothing fails; `trials_told` counts the trials that earlier commands
    have finished, of which the driver will not speak again. `said` is what one command says once, though it may run its
    suite several times.
    """

    def __init__(
        self,
        expected: Mapping[str, int],
        n_folds: int,
        console: Console,
        trials_told: Mapping[str, int] | None = None,
        said: set[str] | None = None,
    ) -> None:
        self._expected, self._n_folds, self._console = dict(expected), n_folds, console
        self._done = Counter({method: n_folds * trials for method, trials in (trials_told or {}).items()})
        self._fresh: Counter[str] = Counter()
        self._began = time.monotonic()
        self._open: dict[_Step, list[float | None]] = {}
        self._steps = Counter({(method, "search"): trials for method, trials in (trials_told or {}).items()})
        self._numbers: dict[_Step, int] = {}  # of trials and runs that have begun
        self._said_waiting: set[str] = set()
        self._said = set() if said is None else said
        self._bars = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("{task.fields[note]}", markup=False),
            console=console,
            disable=not console.is_terminal,
        )
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Self:
        """Begin to show."""
        self._bars.start()
        for method, total in self._expected.items():
            self._tasks[method] = self._bars.add_task(_short(method), total=total, note="", start=False)
        if len(self._expected) > 1:
            self._tasks[""] = self._bars.add_task("all", total=sum(self._expected.values()), note="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Leave the bars as they stand."""
        self._bars.stop()

    def work_done(self, method: str, work: Work, record: Record, fresh: bool) -> None:
        """Count it; tell each whole trial and each whole run."""
        self._done[method] += 1
        self._fresh[method] += fresh
        if isinstance(work, Job) and isinstance(record, FoldRecord):
            found = record.validation if work.purpose == "search" else record.test
            step = _Step(method, work.run, work.hyperparameters)  # trials may run at once
            if step not in self._open:
                self._steps[method, work.purpose] += 1
                self._numbers[step], self._open[step] = self._steps[method, work.purpose], []
            folds = self._open[step]
            folds.append(found["map_at_r"] if found and record.outcome == "done" else None)
            if record.outcome == "failed":
                self._say(f"{method}: {work.purpose} fold {work.fold} failed, {record.reason}: {record.message}")
            if fresh and "short classes" not in self._said and (remark := short_classes(record)):
                self._said.add("short classes")
                self._say(remark)
            if len(folds) == (1 if work.method in ONE_MODEL else self._n_folds):
                self._step_done(method, work, self._numbers.pop(step), self._open.pop(step), fresh)
        self._move(method)

    def waiting(self, method: str, holder: str) -> None:
        """Say once that somebody else works on a method."""
        if method not in self._said_waiting:
            self._said_waiting.add(method)
            self._say(f"{method}: {holder} works on it; waiting for its results.")

    def method_done(self, method: str, problem: str | None) -> None:
        """Close the method's bar; work that was given up is not waited for."""
        self._expected[method] = self._done[method]
        self._move(method, note="stopped" if problem else "done")
        if problem:
            self._say(f"{method}: {problem.removeprefix(f'{method}: ')}")
        elif not self._fresh[method]:
            self._say(f"{method}: nothing left to run.")

    def _step_done(self, method: str, work: Job, number: int, values: list[float | None], fresh: bool) -> None:
        name = "trial" if work.purpose == "search" else "run"
        done = [value for value in values if value is not None]  # a mean of three folds would be no trial's value
        side = "validation" if name == "trial" else "test"
        found = f"{side} MAP@R {100 * fmean(done):.2f}" if len(done) == len(values) else "failed"
        note = f"{name} {number}: {found}"
        self._move(method, note=note)
        if fresh and not self._console.is_terminal:
            self._say(f"{method}: {note} ({self._share()})")

    def _move(self, method: str, note: str | None = None) -> None:
        task = self._tasks[method]
        self._bars.start_task(task)
        self._bars.update(task, completed=self._done[method], total=self._expected[method])
        if note is not None:
            self._bars.update(task, note=note)
        if "" in self._tasks:
            total = sum(self._expected.values())
            self._bars.update(self._tasks[""], completed=self._done.total(), total=total, note=self._time_left())

    def _share(self) -> str:
        total = sum(self._expected.values())
        return f"{100 * self._done.total() // max(total, 1)} % of all, {self._time_left()}"

    def _time_left(self) -> str:
        if not self._fresh.total():
            return ""
        if self._done.total() == sum(self._expected.values()):
            return "done"
        left = sum(self._expected.values()) - self._done.total()
        hours = (time.monotonic() - self._began) / 3600 / self._fresh.total() * left
        return f"about {hours_text(hours)} left"

    def _say(self, text: str) -> None:
        say(text, self._console)


def _short(method: str) -> str:
    """The method's name in at most 24 characters, its end kept: it tells one file's losses apart."""
    return method if len(method) <= 24 else f"…{method[-23:]}"
