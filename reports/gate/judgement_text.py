"""A judgement for people and programs: lines for a terminal, plain JSON values, a case of a JUnit file.

Percent and points are for people; JSON holds fractions.
"""

from collections.abc import Iterator
from typing import Any

from reports.gate.judgement import Judgement
from reports.gate.sides import Runs, Side
from reports.gate.verdict import Requirement
from reports.grid import percent_text
from reports.headings import metric_heading, numbered, printable, short
from reports.statistics.intervals import mean_interval
from reports.statistics.ranks import probability_of_improvement
from results.repeats import ONE_RUN

MOST_FIELDS = 12  # that differ, on a terminal


def to_lines(found: Judgement, requirement: Requirement | None = None) -> list[str]:
    """What differs first, then both sides, their difference and the verdict."""
    return [f"{head:9}{printable(text)}" for head, text in _lines(found, requirement)]


def _lines(found: Judgement, requirement: Requirement | None) -> Iterator[tuple[str, str]]:
    for one in found.differing[:MOST_FIELDS]:
        yield "differs", f"{one.field}: {one.new} against {one.old}"
    if len(found.differing) > MOST_FIELDS:
        yield "", f"and {len(found.differing) - MOST_FIELDS} more fields; --json has all"
    for head, side, runs in zip(("new", "against"), (found.new, found.old), found.runs, strict=True):
        yield head, f"{_name(side)}: {_mean(side, runs)}"
    identity = found.old.identity
    yield (
        "in",
        f"{metric_heading(found.metric)}, {found.setting}, on {identity.dataset['name']} under "
        f"{identity.protocol['title']} ({identity.protocol['digest']})",
    )
    if found.max_runs is not None:
        yield "looks", "; ".join(_look(look.n_runs, look.p_value, look.level) for look in found.looks)
    if difference := _difference(found):
        yield "found", difference
    for note in found.notes:
        yield "note", note
    yield "verdict", verdict_line(found, requirement)


def verdict_line(found: Judgement, requirement: Requirement | None = None) -> str:
    """`worse`, with the reason where the difference does not say it, and whether what is required holds."""
    ruling = found.ruling
    margin = f" of {100 * ruling.margin:g} points" if ruling.margin is not None and "margin" in ruling.verdict else ""
    reason = f": {ruling.reason}" if ruling.reason else ""
    required = ""
    if requirement is not None:
        required = f"; {requirement}, as required" if ruling.meets(requirement) else f"; required: {requirement}"
    return f"{ruling.verdict}{margin}{reason}{required}"


def as_dict(found: Judgement, requirement: Requirement | None = None) -> dict[str, Any]:
    """Plain JSON values."""
    ruling, difference = found.ruling, found.ruling.difference
    identity = found.old.identity
    new, old = found.runs
    return {
        "verdict": str(ruling.verdict),
        "reason": ruling.reason or None,
        "required": requirement,
        "passed": ruling.meets(requirement),
        "metric": found.metric,
        "setting": found.setting,
        "difference": None
        if difference is None
        else {
            "mean": difference.mean,
            "half_width": difference.half_width,
            "effect_size": difference.effect_size,
            "p_value": difference.p_value,
            "n_runs": difference.n,
        },
        "probability_of_improvement": probability_of_improvement(new, old) if new and old else None,
        "level": ruling.level,
        "margin": ruling.margin,
        "is_non_inferior": ruling.is_non_inferior,
        "max_runs": found.max_runs,
        "looks": [{"n_runs": one.n_runs, "level": one.level, "p_value": one.p_value} for one in found.looks],
        "differing": [
            {"field": one.field, "new": one.new, "old": one.old, "decisive": one.is_decisive} for one in found.differing
        ],
        "notes": list(found.notes),
        "protocol": {"title": identity.protocol["title"], "digest": identity.protocol["digest"]},
        "dataset": {"name": identity.dataset["name"], "content_hash": identity.dataset["content_hash"]},
        "split": {"kind": identity.split["kind"], "digest": identity.split["digest"]},
        "new": _side(found.new, new),
        "old": _side(found.old, old),
    }


def _side(side: Side, runs: Runs) -> dict[str, Any]:
    return {
        "label": side.label,
        "method": side.identity.method,
        "method_code": side.identity.method_code,
        "hyperparameters": side.identity.hyperparameters,
        "runs": {str(run): value for run, value in sorted(runs.items())},
        "failed": {str(run): reason for run, reason in sorted(side.failed.items())},
        "origins": {thing: list(values) for thing, values in side.origins.items()},
    }


def _name(side: Side) -> str:
    values = ", ".join(f"{name} {short(value)}" for name, value in sorted(side.identity.hyperparameters.items()))
    return f"{side.label} ({values})" if values else side.label


def _mean(side: Side, runs: Runs) -> str:
    if not runs:
        return "no value"
    found = mean_interval(runs[run] for run in sorted(runs))
    if side.identity.method in ONE_RUN:
        return f"{percent_text(found.mean, None)} (one run)"
    return f"{percent_text(found.mean, found.half_width)} ({numbered('run', sorted(runs))})"


def _difference(found: Judgement) -> str:
    difference, level = found.ruling.difference, found.ruling.level
    if difference is None:
        return ""
    effect = (
        f", mean / standard deviation of the pairs' differences {difference.effect_size:.2f}"
        if difference.effect_size is not None
        else ""
    )
    return (
        f"{percent_text(difference.mean, difference.half_width, '+')} points over {difference.n} pairs of runs "
        f"({100 * (1 - level):.4g} % interval){effect}, p {_p(difference.p_value)}"
    )


def _look(n_runs: int, p_value: float | None, level: float) -> str:
    return f"{n_runs} runs: p {_p(p_value)} ({level:.2g} decides)"


def _p(p_value: float | None) -> str:
    if p_value is None:
        return "-"
    return f"{p_value:.3f}" if p_value >= 0.001 else f"{p_value:.1g}"
