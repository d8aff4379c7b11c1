"""The search of one method as a page shows it: each trial, the best so far, and where the winner lies in its ranges."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from reports.headings import short
from reports.site.charts import Chart, Path, Plane
from reports.site.material import Searched, Space
from reports.statistics.search_budget import SEARCH, best_so_far
from results.comparison import Comparison
from results.record import Record
from results.study import Study

AT_THE_EDGE = 0.02  # of a range: a winner this near its end may lie beyond it


@dataclass(frozen=True, kw_only=True)
class Knob:
    """One hyper-parameter of a winner; `place` is where it lies in its range, 0 to 1, None where it has no range."""

    name: str
    value: str
    low: str = ""
    high: str = ""
    is_log: bool = False
    place: float | None = None
    may_be_at_the_edge: bool = True  # where a search has gone to the place, and did not only draw it

    @property
    def is_at_the_edge(self) -> bool:
        """Whether a wider range might have a better value."""
        return self.may_be_at_the_edge and self.place is not None and not AT_THE_EDGE <= self.place <= 1 - AT_THE_EDGE


def histories(records: Iterable[Record]) -> dict[Searched, Chart]:
    """A chart of each search in some records that has a finished trial."""
    return {
        Searched(Comparison(*key[:3]), key[3], key[4]): _history(trials)
        for key, trials in ((tuple(map(str, key)), part) for key, part in best_so_far(records).groupby(SEARCH))
        if trials["map_at_r"].notna().any()
    }


def space_of(study: Study) -> Space:
    """The space of a search: what Optuna keeps of its distributions, by name."""
    return {
        name: {"type": item["name"].removesuffix("Distribution").lower(), **item["attributes"]}
        for name, item in json.loads(study.space).items()
    }


def knobs(values: Mapping[str, Any], space: Space, *, is_random: bool = False) -> list[Knob]:
    """The hyper-parameters of a winner within their ranges; `is_random` if all trials were drawn at random."""
    found = (_knob(name, value, space.get(name, {})) for name, value in values.items())
    return [replace(knob, may_be_at_the_edge=not is_random) for knob in found]


def _history(trials: pd.DataFrame) -> Chart:
    """Each trial as a dot, a failed one as a cross, and the best so far as a line."""
    done, failed = trials[trials["map_at_r"].notna()], trials[trials["map_at_r"].isna()]
    numbers = [int(number) for number in done["trial"]]
    values = [100 * float(value) for value in done["map_at_r"]]
    best = [(number, 100 * float(value)) for number, value in zip(done["trial"], done["best_so_far"], strict=True)]
    plane = Plane([0.5, len(trials) + 0.5], values)
    lost = f"; {len(failed)} failed" if len(failed) else ""
    return plane.chart(
        f"Validation MAP@R of {len(done)} trials, the best {max(values):.2f} percent{lost}",
        "trial",
        "validation MAP@R (%)",
        [
            Path(d=plane.crosses(int(number) for number in failed["trial"]), look="failed"),
            Path(d=plane.steps([*best, (len(trials), best[-1][1])]), look="best"),
            Path(d=plane.dots(list(zip(numbers, values, strict=True))), look="dots"),
        ],
        counts=True,
    )


def _knob(name: str, value: Any, range_: Mapping[str, Any]) -> Knob:
    low, high = range_.get("low"), range_.get("high")
    if low is None or high is None or not low < high or isinstance(value, str | bool):
        return Knob(name=name, value=short(value))
    is_log = bool(range_.get("log")) and low > 0 and value > 0
    at, start, end = (math.log(part) if is_log else part for part in (value, low, high))
    place = min(max((at - start) / (end - start), 0.0), 1.0)
    text = short(value)
    if value not in (low, high) and text in (short(low), short(high)):
        text = f"{value:.5g}"  # it is not the end itself
    return Knob(name=name, value=text, low=short(low), high=short(high), is_log=is_log, place=place)
