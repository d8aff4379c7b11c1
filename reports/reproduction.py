"""Ours against the papers': for each published figure of a protocol that was run, the difference and a verdict.

Both numbers are means over runs with 95 % intervals m1 +- h1 and m2 +- h2. They agree if the difference lies within
sqrt(h1^2 + h2^2), the half width of its own interval where the two are independent; intervals that merely touch would
be too lenient, as both means would have to err at once. Equal means of ten normal runs each are called different 4
times in 100 (simulated). A paper without an interval counts as exact, so its chance is not accounted for: 14 times in
100. Where neither has one (nothing is random in the method), numbers agree up to the last printed digit. A mean that
lacks runs has no verdict, nor has one on a part of the published data set.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from reports.errors import ReportError
from reports.frame import Column, Setting
from reports.published_sizes import other_images
from reports.quoted import is_under, quotable
from reports.tables import Row, Table
from results.reference.published import PublishedValue, published_values

LAST_DIGIT = 0.0001  # a paper prints percent with two digits


class Verdict(StrEnum):
    """How ours stands to a published figure."""

    AGREES = "agrees"
    ABOVE = "above"
    BELOW = "below"
    NOT_RUN = "not run"  # or not all of it, or on other images


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One published figure and ours, in fractions; difference is ours minus theirs."""

    published: PublishedValue
    setting: Setting  # ours
    metric: str
    method: str  # the label of our row; the method's name where there is none
    mean: float | None
    half_width: float | None
    n_runs: int
    verdict: Verdict
    reason: str  # of NOT_RUN

    @property
    def difference(self) -> float | None:
        """Ours minus theirs."""
        return None if self.mean is None else self.mean - self.published.mean

    @property
    def in_half_widths(self) -> float | None:
        """The difference in units of the published interval's half width."""
        width = self.published.ci95_half_width
        return None if self.difference is None or not width else self.difference / width


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """All published figures of one protocol and data set, each with ours."""

    protocol_title: str
    protocol_digest: str
    dataset_name: str
    dataset_hash: str
    warning: str  # in what our records differ
    figures: tuple[Figure, ...]

    def count(self, verdict: Verdict) -> int:
        """How many figures have it."""
        return sum(figure.verdict is verdict for figure in self.figures)

    def summary(self) -> str:
        """`90 published figures: 40 agree, 3 above, 2 below, 45 not run.`"""
        return summary([self])


def summary(found: Sequence[Reproduction]) -> str:
    """One line for all of them."""
    total = {verdict: sum(one.count(verdict) for one in found) for verdict in Verdict}
    words = {Verdict.AGREES: "agree" if total[Verdict.AGREES] != 1 else "agrees"}
    counts = ", ".join(f"{count} {words.get(verdict, verdict)}" for verdict, count in total.items())
    n_figures = sum(total.values())
    return f"{n_figures} published figure{'s' if n_figures != 1 else ''}: {counts}."


def reproductions(tables: Iterable[Table], digests: Mapping[str, str]) -> list[Reproduction]:
    """One for each table under a protocol that a paper followed, on its data set.

    Args:
        tables: any tables; others are passed over.
        digests: title -> fingerprint of the protocols that papers follow.

    Raises:
        ReportError: if there is no such table.
    """
    all_tables = list(tables)
    found = [one for table in all_tables if (one := _reproduction(table, digests)).figures]
    if not found:
        known = {(value.protocol, value.dataset) for value in published_values() if value.protocol in digests}
        wanted = "; ".join(
            f"{title} on {', '.join(sorted(name for protocol, name in known if protocol == title))}"
            for title in sorted({protocol for protocol, _ in known})
        )
        here = ", ".join(sorted({f"{table.protocol_title} on {table.dataset_name}" for table in all_tables}))
        raise ReportError(
            f"nothing recorded can be held against a published figure: found {here or 'nothing'}; papers have {wanted}."
            " Run one of these; --with-published shows their numbers beside others."
        )
    return found


def _reproduction(table: Table, digests: Mapping[str, str]) -> Reproduction:
    return Reproduction(
        protocol_title=table.protocol_title,
        protocol_digest=table.protocol_digest,
        dataset_name=table.dataset_name,
        dataset_hash=table.dataset_hash,
        warning=table.warning(),
        figures=tuple(_figures(table, digests)),
    )


def _figures(table: Table, digests: Mapping[str, str]) -> Iterator[Figure]:
    """In the order of the paper; a method that was run with several hyper-parameters has one for each."""
    others = other_images(table)
    rows: dict[str, list[Row]] = {}
    for row in table.rows:
        rows.setdefault(row.name, []).append(row)
    for value, column in quotable(table).items():
        if not is_under(table, value.protocol, digests):
            continue
        found: list[Row | None] = [] if others else [*rows.get(value.method, [])]
        lacking = f"not the published data set: {others}" if others else "no record"
        yield from (_figure(value, column, row, lacking) for row in found or [None])


def _figure(value: PublishedValue, column: Column, row: Row | None, lacking: str) -> Figure:
    found = Figure(
        published=value,
        setting=column[0],
        metric=column[1],
        method=row.method if row else value.method,
        mean=None,
        half_width=None,
        n_runs=0,
        verdict=Verdict.NOT_RUN,
        reason=lacking,
    )
    cell = row.cells.get(column) if row else None
    if cell is None:
        return found
    if cell.mean is None or not cell.complete:
        reason = f"{cell.n_runs} of {cell.expected_runs} runs; {cell.missing}"
        return replace(found, n_runs=cell.n_runs, reason=reason)
    verdict = _verdict(value, cell.mean, cell.half_width)
    return replace(found, mean=cell.mean, half_width=cell.half_width, n_runs=cell.n_runs, verdict=verdict, reason="")


def _verdict(value: PublishedValue, mean: float, half_width: float | None) -> Verdict:
    """Rounding to the printed digit is never a difference."""
    difference = mean - value.mean
    if abs(difference) <= max(math.hypot(half_width or 0.0, value.ci95_half_width or 0.0), LAST_DIGIT):
        return Verdict.AGREES
    return Verdict.ABOVE if difference > 0 else Verdict.BELOW
