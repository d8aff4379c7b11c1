"""False alarms and power of `mlrc compare --until-decided`, by simulation of paired differences.

Equal methods must be told apart in 5 % of the comparisons: over all repeats, and within 1 % over another 2,000, which
go through the functions of the command itself. So do 2,000 that differ by exactly the margin, of which 5 % at most may
be called equivalent. Differences of other shapes than the normal are counted too: the t-test is not exact for them at
any number of runs. Power is that against a true difference in standard deviations of the paired differences; for a
fixed number of runs it is also known exactly, which checks the simulation.

Run `python tests/benchmarks/sequential.py`: one JSON line, exit code 1 if a rate of false alarms is off. Half a minute
on one core; `--docs` writes the tables and the picture of docs/compare_power.md.
"""

import argparse
import json
import sys
from collections.abc import Callable, Collection, Mapping
from math import e, log, sqrt
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri, stdtr
from scipy.stats import nct
from scipy.stats import t as student

from reports import style
from reports.gate.judgement import until_decided
from reports.gate.sides import Side
from reports.gate.verdict import Verdict
from reports.statistics.sequential import Spending, boundaries, cubic, schedule

sys.path.insert(0, str(Path(__file__).parents[1]))  # the tests' records

from figure_records import identity

DOCS = Path(__file__).parents[2] / "docs"
ALPHA = 0.05
FIXED, MAX_RUNS = (5, 10), (10, 20, 30)
EFFECTS = tuple(step / 8 for step in range(25))
IN_TABLE = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0)
RUN_DEVIATION = 0.01  # of the values that go through the command's functions
MARGIN = 0.02  # of a comparison that asks for equivalence: sqrt(2) standard deviations of the differences
CHUNK = 50_000  # repeats at once, to bound memory

Array = NDArray[np.float64]
SHAPES: dict[str, Callable[[np.random.Generator, tuple[int, int]], Array]] = {
    "normal": lambda random, size: random.normal(size=size),
    "uniform": lambda random, size: random.uniform(-1, 1, size),
    "Laplace (long tails)": lambda random, size: random.laplace(size=size),
    "exponential (skewed)": lambda random, size: random.exponential(size=size) - 1,
}
SPENDINGS: dict[str, Spending] = {
    "O'Brien-Fleming": lambda share, alpha: 4 * float(ndtr(ndtri(alpha / 4) / sqrt(share))),
    "cubic (ours)": cubic,
    "Pocock": lambda share, alpha: alpha * log(1 + (e - 1) * share),
}


def comparisons(
    differences: Array, looks: list[int], levels: list[float]
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Of each row of differences, whether the test found one, and after how many runs it ended."""
    sums, squares = differences.cumsum(axis=1), (differences**2).cumsum(axis=1)
    open_, n_runs = np.ones(len(differences), bool), np.full(len(differences), looks[-1])
    for look, level in zip(looks, levels, strict=True):
        means = sums[:, look - 1] / look
        deviations = np.sqrt((squares[:, look - 1] - look * means**2) / (look - 1))
        stops = open_ & (2 * stdtr(look - 1, -np.abs(means) * sqrt(look) / deviations) <= level)
        n_runs[stops] = look
        open_ &= ~stops
    return ~open_, n_runs


def false_alarms(draw: Callable[..., Array], looks: list[int], levels: list[float], repeats: int) -> float:
    """The share of comparisons of equal methods that end with a difference."""
    random, found = np.random.default_rng(1), 0
    for start in range(0, repeats, CHUNK):
        size = (min(CHUNK, repeats - start), looks[-1])
        found += int(comparisons(draw(random, size), looks, levels)[0].sum())
    return found / repeats


def by_the_command(
    max_runs: int, repeats: int, verdicts: Collection[Verdict], difference: float = 0.0, margin: float | None = None
) -> float:
    """The share of comparisons that end with one of these verdicts, through the command's own functions."""
    random, looks, found = np.random.default_rng(0), schedule(max_runs), 0
    levels = boundaries(looks, ALPHA)
    for _ in range(repeats):
        new, old = random.normal(0.3, RUN_DEVIATION, (2, max_runs))
        sides = _side("new", new + difference), _side("old", old)
        judged = until_decided(lambda _, sides=sides: sides, looks, levels, "separated", "map_at_r", margin)
        found += judged.ruling.verdict in verdicts
    return found / repeats


def _side(label: str, values: Array) -> Side:
    runs = dict(enumerate(map(float, values), start=1))
    return Side(label=label, identity=identity("final"), values={("separated", "map_at_r"): runs})


def designs(spending: Spending = cubic) -> dict[str, tuple[list[int], list[float]]]:
    """By name, after how many runs each design looks, and at which level."""
    fixed = {f"{n} runs": ([n], [ALPHA]) for n in FIXED}
    looks = {until(most): schedule(most) for most in MAX_RUNS}
    return fixed | {name: (found, boundaries(found, ALPHA, spending)) for name, found in looks.items()}


def until(max_runs: int) -> str:
    """The name of a design."""
    return f"until decided, at most {max_runs}"


Power = dict[float, tuple[float, float]]  # by effect: power, and mean number of runs


def power(looks: list[int], levels: list[float], repeats: int) -> Power:
    """Of one design; the differences are the same for all of them."""
    differences = np.random.default_rng(2).normal(size=(repeats, max(*FIXED, *MAX_RUNS)))[:, : looks[-1]]
    found = {}
    for effect in EFFECTS:
        ends, n_runs = comparisons(differences + effect, looks, levels)
        found[effect] = float(ends.mean()), float(n_runs.mean())
    return found


def exact_power(n: int, effect: float) -> float:
    """Power of the paired t-test on n runs, from the noncentral t distribution."""
    critical = student.ppf(1 - ALPHA / 2, n - 1)
    return float(nct.sf(critical, n - 1, effect * sqrt(n)) + nct.cdf(-critical, n - 1, effect * sqrt(n)))


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def alarm_table(alarms: Mapping[str, Mapping[str, float]]) -> str:
    head = ["false alarms, percent", *designs()]
    return table(head, [[name, *(f"{100 * rate:.2f}" for rate in by.values())] for name, by in alarms.items()])


def level_table() -> str:
    rows = []
    for most in MAX_RUNS:
        looks = schedule(most)
        cells = [f"{look}: {level:.2g}" for look, level in zip(looks, boundaries(looks, ALPHA), strict=True)]
        rows.append([str(most), ", ".join(cells)])
    return table(["at most", "look after this many runs: stop where p is at most"], rows)


def power_table(found: Mapping[str, Power]) -> str:
    head = ["power, percent (mean number of runs)", *(f"{effect:g}" for effect in IN_TABLE)]
    rows = []
    for name, by_effect in found.items():
        cells = [by_effect[effect] for effect in IN_TABLE]
        rows.append([name, *(f"{100 * share:.0f} ({runs:.1f})" for share, runs in cells)])
    return table(head, rows)


def figure(found: Mapping[str, Power]) -> Figure:
    """Power, and the number of runs that it takes, against the true difference."""
    drawn = Figure(figsize=(9.0, 3.8), layout="constrained")
    left, right = drawn.subplots(1, 2)
    for (name, by_effect), colour in zip(found.items(), style.COLOURS, strict=False):
        look = {"color": colour, "label": name, "linewidth": 1.5, "linestyle": "-" if "until" in name else "--"}
        left.plot(EFFECTS, [100 * by_effect[effect][0] for effect in EFFECTS], **look)
        right.plot(EFFECTS, [by_effect[effect][1] for effect in EFFECTS], **look)
    left.axhline(100 * ALPHA, color="#888888", linewidth=0.8, linestyle=":")
    left.set_ylabel("a difference is found (percent)")
    right.set_ylabel("mean number of runs")
    for axes in (left, right):
        axes.set_xlim(0, EFFECTS[-1])
        axes.set_ylim(bottom=0)
        axes.set_xlabel("true difference, in standard deviations of the paired differences")
        axes.grid(color=style.GRID, linewidth=0.6)
    drawn.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return drawn


def write_docs(tables: Mapping[str, str], found: Mapping[str, Power]) -> None:
    """Put tables and picture into the docs; the words around them stay."""
    page = DOCS / "compare_power.md"
    text = page.read_text(encoding="utf-8")
    for name, content in tables.items():
        before, _, rest = text.partition(f"<!-- {name} -->\n")
        _, _, after = rest.partition(f"<!-- end of {name} -->")
        text = f"{before}<!-- {name} -->\n{content}<!-- end of {name} -->{after}"
    page.write_text(text, encoding="utf-8")
    (DOCS / "compare_power.png").write_bytes(style.png(lambda: figure(found)))
    (DOCS / "compare_power.svg").write_bytes(style.svg(lambda: figure(found)))


def main() -> int:
    """Measure, print, and say whether the rates of false alarms are what they claim to be."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--repeats", type=int, default=200_000)
    parser.add_argument("--docs", action="store_true")
    given = parser.parse_args()
    chosen = designs()
    alarms = {
        f"{shape} differences": {name: false_alarms(draw, *design, given.repeats) for name, design in chosen.items()}
        for shape, draw in SHAPES.items()
    }
    alarms["normal, a plain test at each look"] = {
        name: false_alarms(SHAPES["normal"], looks, [ALPHA] * len(looks), given.repeats)
        for name, (looks, _) in chosen.items()
    }
    told_apart = {until(most): by_the_command(most, 2000, (Verdict.BETTER, Verdict.WORSE)) for most in MAX_RUNS}
    equivalent = {until(most): by_the_command(most, 2000, (Verdict.EQUIVALENT,), -MARGIN, MARGIN) for most in MAX_RUNS}
    found = {name: power(*design, given.repeats // 5) for name, design in chosen.items()}
    off_exact = max(abs(found[f"{n} runs"][effect][0] - exact_power(n, effect)) for n in FIXED for effect in EFFECTS)
    if given.docs:
        spent = {
            f"{name}, at most {most}": power(*designs(spending)[until(most)], given.repeats // 5)
            for most in MAX_RUNS
            for name, spending in SPENDINGS.items()
        }
        tables = {"levels": level_table(), "alarms": alarm_table(alarms), "power": power_table(found)}
        write_docs({**tables, "spending": power_table(spent)}, found)
    report = {
        "benchmark": "sequential",
        "repeats": given.repeats,
        "false_alarms": alarms,
        "false_alarms_of_2000_by_the_command": told_apart,
        "equivalent_of_2000_that_differ_by_the_margin": equivalent,
        "largest_error_of_simulated_power": round(off_exact, 4),
    }
    print(json.dumps(report))
    noise = 4 * sqrt(ALPHA * (1 - ALPHA) / given.repeats)
    exact = all(abs(rate - ALPHA) <= noise for rate in alarms["normal differences"].values())
    near = all(abs(rate - ALPHA) <= 0.01 for rate in told_apart.values())
    return int(not (exact and near and all(rate <= ALPHA + 0.01 for rate in equivalent.values())))


if __name__ == "__main__":
    sys.exit(main())
