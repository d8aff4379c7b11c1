"""How long a suite takes with a number of workers: the rules of `benchmark.suite.Driver`, played with known durations.

A campaign's batches follow one another, the jobs of a batch run side by side, and the next batch is known when the last
job of the one before is done. So many campaigns are open at once that one of them fills the gap in which others wait.
The driver thinks between two batches (the sampler's proposal), and hands out nothing while it does.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush

from benchmark.campaign import campaigns_at_once


@dataclass(frozen=True)
class Batch:
    """Jobs that may run side by side."""

    seconds: tuple[float, ...]  # of each job
    thought_s: float = 0.0  # of the driver, before it knows them


@dataclass(frozen=True)
class Played:
    """What a number of workers makes of it."""

    seconds: float  # from the first thought to the last job
    busy: float  # share of the workers' time that goes into jobs; 1 where there is no job


@dataclass(eq=False)
class _Held:
    batches: Iterator[Batch]
    todo: deque[float] = field(default_factory=deque)
    n_open: int = 0  # jobs of the batch that are not done


def play(campaigns: Sequence[Sequence[Batch]], workers: int, n_folds: int) -> Played:
    """Run campaigns in the order given, each a sequence of batches."""
    return _Game(workers).play(campaigns, campaigns_at_once(workers, n_folds))


class _Game:
    """The clock of the driver, what it works on, and which job ends when."""

    def __init__(self, workers: int) -> None:
        self._workers = workers
        self._now, self._in_jobs = 0.0, 0.0
        self._active: list[_Held] = []
        self._in_flight: list[tuple[float, int, _Held]] = []  # a heap of ends; the number tells equal ends apart
        self._n_begun = 0

    def play(self, campaigns: Sequence[Sequence[Batch]], at_once: int) -> Played:
        waiting = deque(_Held(iter(batches)) for batches in campaigns)
        while waiting or self._active:
            while waiting and len(self._active) < at_once:
                self._active.append(waiting.popleft())
                self._advance(self._active[-1])
            self._submit()
            self._collect()
        return Played(self._now, self._in_jobs / (self._workers * self._now) if self._in_jobs else 1.0)

    def _advance(self, held: _Held) -> None:
        """Think until there is a batch with a job in it; a campaign without one has ended."""
        for batch in held.batches:
            self._now += batch.thought_s
            if batch.seconds:
                held.todo, held.n_open = deque(batch.seconds), len(batch.seconds)
                return
        self._active.remove(held)

    def _submit(self) -> None:
        for held in self._active:
            while held.todo and len(self._in_flight) < self._workers:
                seconds = held.todo.popleft()
                self._in_jobs += seconds
                self._n_begun += 1
                heappush(self._in_flight, (self._now + seconds, self._n_begun, held))

    def _collect(self) -> None:
        """Wait for the next job to end, or take all that ended while the driver thought."""
        if not self._in_flight:
            return
        self._now = max(self._now, self._in_flight[0][0])
        complete = []
        while self._in_flight and self._in_flight[0][0] <= self._now:
            held = heappop(self._in_flight)[2]
            held.n_open -= 1
            if not held.n_open:
                complete.append(held)
        self._submit()  # the workers go on with another campaign while the sampler thinks
        for held in complete:
            self._advance(held)
