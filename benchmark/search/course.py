"""The course of one method's search: protocol, rules and search space put together, checked, and named by content."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from benchmark.bench import Bench
from benchmark.errors import BenchmarkError
from benchmark.methods.entry import MethodEntry, Space, Value
from benchmark.search.grid import grid_points
from benchmark.search.pruning import FIRST_LOOK, P_THRESHOLD
from benchmark.search.rules import Sampler
from benchmark.search.warm_start import WarmStart, published_start
from protocols.spec import SearchBudget


@dataclass(frozen=True, kw_only=True)
class Course:
    """What a search does, from its first trial to its last."""

    method: str
    space: Space
    sampler: Sampler
    n_startup_trials: int
    n_trials: int  # the budget
    parallel_trials: int = 1
    pruning: bool = False
    halves: Mapping[str, str] = field(default_factory=dict)  # a whole number -> the other, of which it is at most half
    given: tuple[dict[str, Value], ...] = ()  # the first trials; those of a grid are all given
    sources: tuple[str, ...] = ()  # where the first of these come from, for as many as are published
    rules: str = "{}"  # canonical JSON of what is not as usual


def plain_course(method: str, space: Space, budget: SearchBudget) -> Course:
    """The course that a protocol alone asks for."""
    return Course(
        method=method,
        space=space,
        sampler=budget.sampler,
        n_startup_trials=budget.n_startup_trials,
        n_trials=budget.n_trials,
    )


def course_of(entry: MethodEntry, bench: Bench) -> Course:
    """The course of a method's search on this bench.

    Raises:
        BenchmarkError: if a rule cannot be kept: a grid over a continuous space, pruning with too few folds.
    """
    rules, budget, space = bench.rules, bench.protocol.search, bench.space(entry)
    check_rules(bench)
    sampler = rules.sampler or budget.sampler
    start = _start(entry, bench, space)
    given = list(start.points.values())
    if sampler == "grid":
        given += [point for point in grid_points(entry.name, space) if point not in given]
    return replace(
        plain_course(entry.name, space, budget),
        sampler=sampler,
        n_trials=min(budget.n_trials, len(given)) if sampler == "grid" else budget.n_trials,
        parallel_trials=rules.parallel_trials,
        pruning=rules.pruning,
        halves=entry.halves,
        given=tuple(given[: budget.n_trials]),
        sources=tuple(start.points),
        rules=_rules_json(bench, start),
    )


def check_rules(bench: Bench) -> None:
    """Refuse rules that no search here could keep.

    Raises:
        BenchmarkError: in one line, with the way out.
    """
    rules, n_folds = bench.rules, bench.n_folds
    if rules.parallel_trials < 1:
        raise BenchmarkError(f"--parallel-trials is {rules.parallel_trials}; it must be at least 1.")
    if rules.pruning and n_folds <= FIRST_LOOK:
        raise BenchmarkError(
            f"--pruning compares {FIRST_LOOK} folds before it spares one, and {bench.protocol.title} has {n_folds}. "
            "Leave it out."
        )


def n_trials_of(entry: MethodEntry, bench: Bench) -> int:
    """The budget of a method's search: the protocol's, or the size of its grid where that is smaller."""
    return course_of(entry, bench).n_trials if bench.space(entry) else 0


def course_notes(entries: Sequence[MethodEntry], bench: Bench) -> list[str]:
    """What a user should know of the searches to come, one line each."""
    searched = [entry for entry in entries if bench.space(entry)]
    notes = [note for entry in searched for note in _notes(entry, bench)]
    budget, rules = bench.protocol.search, bench.rules
    if (rules.sampler or budget.sampler) not in ("gp", "tpe") or not searched:
        return notes
    if budget.n_trials <= budget.n_startup_trials:
        than = "no more than" if budget.n_trials == budget.n_startup_trials else "fewer than"
        trials = "1 trial is" if budget.n_trials == 1 else f"{budget.n_trials} trials are"
        notes.append(
            f"{trials} {than} the {budget.n_startup_trials} random ones that a search begins with: "
            "this is a random search."
        )
    elif rules.parallel_trials >= budget.n_trials:
        notes.append(
            f"All {budget.n_trials} trials of a search are drawn at random: --parallel-trials "
            f"{rules.parallel_trials} proposes all of them before one has an answer."
        )
    return notes


def _notes(entry: MethodEntry, bench: Bench) -> list[str]:
    course, start = course_of(entry, bench), _start(entry, bench, bench.space(entry))
    budget, notes = bench.protocol.search.n_trials, []
    if bench.rules.enqueue and not start.points:
        notes.append(f"{entry.name}: no published values to begin with.")
    notes += [f"{entry.name}: {key} is not tried first: {reason}." for key, reason in start.skipped.items()]
    if len(start.points) > budget:
        left_out = ", ".join(list(start.points)[budget:])
        notes.append(f"{entry.name}: the budget of {budget} trials ends before {left_out}.")
    if course.sampler == "grid":
        size = len(grid_points(entry.name, course.space))
        tried = f"{budget} of them are tried, spread over all" if size > budget else "all are tried"
        notes.append(f"{entry.name}: its grid has {size} points; {tried}.")
    return notes


def _start(entry: MethodEntry, bench: Bench, space: Space) -> WarmStart:
    return published_start(entry, space) if bench.rules.enqueue else WarmStart()


def _rules_json(bench: Bench, start: WarmStart) -> str:
    """The rules that are not as usual; "{}" where all are, so that a study without rules is of the same fingerprint."""
    rules = bench.rules
    held: dict[str, Any] = {}
    if rules.sampler not in (None, bench.protocol.search.sampler):
        held["sampler"] = rules.sampler
    if rules.parallel_trials > 1:
        held["parallel_trials"] = rules.parallel_trials
    if start.points:
        held["enqueue"] = [{"key": key, "values": point} for key, point in start.points.items()]  # the order counts
    if rules.pruning:
        held["pruning"] = {"pruner": "wilcoxon", "p_threshold": P_THRESHOLD}
    return json.dumps(held, sort_keys=True, separators=(",", ":"), allow_nan=False)
