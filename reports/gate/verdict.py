"""The verdict on a new method against an old one: a value from a pure function over the runs that both have.

Run i of both shares its seeds, so runs are compared in pairs (`reports.statistics.paired`). Values are fractions; more
is better. "No evidence" is no proof of equality: what is equivalent must be shown to be, within a margin, by two
one-sided tests (Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15, 1987): the interval of confidence 1 -
2 level lies within -margin .. margin. A margin says which differences do not matter, so inside it nothing is better or
worse.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from reports.errors import ReportError
from reports.headings import numbered
from reports.statistics.paired import Difference, paired_difference

FEWEST_RUNS = 3  # two leave one degree of freedom: a difference must be 13 standard errors large to be seen
LEVEL = 0.05

Requirement = Literal["better", "non-inferior"]


class Verdict(StrEnum):
    """What may be said of a new method against an old one."""

    BETTER = "better"
    WORSE = "worse"
    NO_EVIDENCE = "no evidence of a difference"
    EQUIVALENT = "equivalent within the margin"
    NOT_COMPARABLE = "not comparable"  # other protocol, data set or split
    TOO_FEW_RUNS = "too few runs"


UNJUDGED = (Verdict.NOT_COMPARABLE, Verdict.TOO_FEW_RUNS)
SETTLED = (Verdict.BETTER, Verdict.WORSE, Verdict.EQUIVALENT)  # more runs are not asked for


@dataclass(frozen=True, kw_only=True)
class Ruling:
    """A verdict with what it rests on. The interval of `difference` has the confidence 1 - `level`."""

    verdict: Verdict
    reason: str = ""  # where the difference alone does not say it
    difference: Difference | None = None
    level: float = LEVEL
    margin: float | None = None
    is_non_inferior: bool | None = None  # None without a margin, and where nothing could be judged

    def meets(self, requirement: Requirement | None) -> bool:
        """Whether a gate opens: the new method is not worse, or it is what is required of it."""
        if requirement == "better":
            return self.verdict is Verdict.BETTER
        if requirement == "non-inferior":
            return self.is_non_inferior is True
        return self.verdict not in (Verdict.WORSE, *UNJUDGED)


def judge(
    new: Mapping[int, float],
    old: Mapping[int, float],
    *,
    failed: Mapping[int, str] | None = None,
    margin: float | None = None,
    level: float = LEVEL,
) -> Ruling:
    """Compare the runs that both have.

    Args:
        new: run number -> value, a missing run left out.
        old: the same of the method it is compared with.
        failed: runs of the new method that its own doing ended, with the reason. One that the old method came through
            makes the new one worse: a mean of the others would hide it.
        margin: differences up to it do not matter; a fraction.
        level: chance of a difference where there is none, both directions together.

    Raises:
        ReportError: for a margin or level that can be none, and as `paired_difference`.
    """
    if margin is not None and not 0 < margin < 1:
        raise ReportError(f"a margin of {margin} was asked for; it lies between 0 and 1, as 0.01.")
    if not 0 < level < 0.5:
        raise ReportError(f"a level of {level} was asked for; it lies between 0 and 0.5, as 0.05.")
    if lost := {run: reason for run, reason in (failed or {}).items() if run in old}:
        reason = f"{numbered('run', sorted(lost))} of the new one failed: {'; '.join(dict.fromkeys(lost.values()))}"
        non_inferior = None if margin is None else False
        return Ruling(verdict=Verdict.WORSE, reason=reason, level=level, margin=margin, is_non_inferior=non_inferior)
    n_shared = len(new.keys() & old.keys())
    if n_shared < FEWEST_RUNS:
        return Ruling(
            verdict=Verdict.TOO_FEW_RUNS,
            reason=f"{n_shared} shared; {FEWEST_RUNS} are the fewest that can tell anything",
            level=level,
            margin=margin,
        )
    difference = paired_difference(new, old, 1 - level)
    verdict = _told(difference, level)
    low, high = _interval(paired_difference(new, old, 1 - 2 * level))
    if margin is not None and -margin < low and high < margin:
        verdict = Verdict.EQUIVALENT
    non_inferior = None if margin is None else low > -margin
    return Ruling(verdict=verdict, difference=difference, level=level, margin=margin, is_non_inferior=non_inferior)


def _told(difference: Difference, level: float) -> Verdict:
    if difference.p_value is None or difference.p_value > level or difference.mean == 0:
        return Verdict.NO_EVIDENCE
    return Verdict.BETTER if difference.mean > 0 else Verdict.WORSE


def _interval(difference: Difference) -> tuple[float, float]:
    half_width = difference.half_width or 0.0
    return difference.mean - half_width, difference.mean + half_width
