"""How near to the optimum a search of one method ends: Gaussian process, TPE and random draws on five known surfaces.

The surfaces have the axes and the shapes of real ones, and their optimum is known: a ridge in margin x scale; a narrow
optimum on logarithmic axes; a flat plateau whose other half collapses, so that its trials fail; a hill that is hardly
higher than the noise; five axes at once. Every trial goes the project's own way (`benchmark.search.search`): the same
proposals, the same seeds by trial, four folds with noise, a failed trial for a collapsed one, and the best measured
trial wins. Its regret is the optimum minus its true value, in points of MAP@R, so a lucky measurement does not help.

The noise of one fold, 1 point, is that of Omniglot under `mini` and of CUB in the reality check: 10 runs have intervals
of 0.3 to 0.4 points on the mean of four folds.

Run `python tests/benchmarks/search_quality.py`: one JSON line, exit code 1 if the protocols' default sampler is not
better than random draws on the average of the surfaces. Minutes on one core; `--seeds 2` for a look,
`--docs` to write docs/search_quality.md and its picture.
"""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from math import exp, log10, sqrt
from pathlib import Path
from statistics import fmean, stdev
from typing import Literal

import numpy as np
import optuna
from matplotlib.figure import Figure
from optuna.distributions import FloatDistribution
from optuna.trial import TrialState
from scipy.stats import t as student

from benchmark.methods.entry import Space, Value, own_weights_lr
from benchmark.search.course import plain_course
from benchmark.search.proposals import open_round
from benchmark.seeding import derived_seed
from protocols.catalogue import MLRC_V1
from protocols.spec import SearchBudget
from reports import style

DOCS = Path(__file__).parents[2] / "docs"
SAMPLERS: tuple[Literal["gp", "tpe", "random"], ...] = ("gp", "tpe", "random")
NAMES = {"gp": "Gaussian process", "tpe": "TPE", "random": "random"}
BUDGETS = (10, 25, 50)
N_FOLDS = MLRC_V1.folds.n_folds
FOLD_NOISE = 0.01  # standard deviation of one fold's best validation MAP@R over seeds, as a fraction
FLOOR = 0.05  # MAP@R of what learns nothing

Point = dict[str, Value]


@dataclass(frozen=True)
class Surface:
    """A search space with a known truth; `truth` returns None where training collapses."""

    title: str
    space: Space
    truth: Callable[[Point], float | None]
    optimum: float


def _bump(distance: float, width: float) -> float:
    return exp(-0.5 * (distance / width) ** 2)


def ridge(point: Point) -> float:
    """A larger margin wants a smaller scale; along the ridge the height changes little."""
    margin, scale = float(point["margin"]), float(point["scale"])
    across = log10(scale) - (1.9 - 0.9 * margin)
    return FLOOR + 0.25 * _bump(across, 0.25) * (1 - 0.5 * (margin - 0.35) ** 2)


def narrow(point: Point) -> float:
    """A fifth of a decade of temperature, most of a decade of learning rate."""
    temperature, w_lr = log10(float(point["temperature"])), log10(float(point["w_lr"]))
    return FLOOR + 0.25 * _bump(temperature + 1.2, 0.2) * _bump(w_lr + 2.5, 0.8)


def plateau(point: Point) -> float | None:
    """Same-class pairs that may lie farther apart than others teach nothing; elsewhere the margins hardly matter."""
    positive, negative = float(point["pos_margin"]), float(point["neg_margin"])
    if positive >= negative:
        return None
    return FLOOR + 0.20 + 0.03 * _bump(positive - 0.25, 0.3) * _bump(negative - 0.9, 0.3)


def faint(point: Point) -> float:
    """Two points of MAP@R from the best corner to the worst: four times the noise of a trial."""
    alpha, beta, base = (float(point[name]) / high for name, high in (("alpha", 100), ("beta", 100), ("base", 1)))
    return FLOOR + 0.20 - 0.02 * ((alpha - 0.2) ** 2 + (beta - 0.6) ** 2 + (base - 0.5) ** 2) / 1.25


def five(point: Point) -> float:
    """One axis decides, two matter, two hardly do."""
    w_lr, margin, la = log10(float(point["w_lr"])), float(point["margin"]), float(point["la"])
    decisive = _bump(w_lr + 3, 1.0) * _bump(log10(la) - 1.3, 0.5) * _bump(margin - 0.2, 0.5)
    gamma, weight = float(point["gamma"]), float(point["reg_weight"])
    return FLOOR + 0.25 * decisive * (1 - 0.1 * (gamma / 100 - 0.3) ** 2 - 0.1 * (weight - 0.5) ** 2)


MARGIN = FloatDistribution(-0.2, 2.0)
SURFACES = {
    "ridge": Surface(
        "ridge: margin x scale",
        {"margin": FloatDistribution(0.0, 1.0), "scale": FloatDistribution(0.01, 200.0)},
        ridge,
        FLOOR + 0.25,
    ),
    "narrow": Surface(
        "narrow optimum, log axes",
        {"temperature": FloatDistribution(0.01, 100.0, log=True), "w_lr": own_weights_lr()},
        narrow,
        FLOOR + 0.25,
    ),
    "plateau": Surface(
        "plateau, other half collapses", {"pos_margin": MARGIN, "neg_margin": MARGIN}, plateau, FLOOR + 0.23
    ),
    "faint": Surface(
        "hill of the height of the noise",
        {
            "alpha": FloatDistribution(0.01, 100.0),
            "beta": FloatDistribution(0.01, 100.0),
            "base": FloatDistribution(0.0, 1.0),
        },
        faint,
        FLOOR + 0.20,
    ),
    "five": Surface(
        "five axes",
        {
            "w_lr": own_weights_lr(),
            "la": FloatDistribution(0.01, 200.0),
            "gamma": FloatDistribution(0.0001, 100.0),
            "reg_weight": FloatDistribution(0.0, 1.0),
            "margin": FloatDistribution(0.0, 1.0),
        },
        five,
        FLOOR + 0.25,
    ),
}


def regrets(name: str, sampler: Literal["gp", "tpe", "random"], seed: int) -> list[float]:
    """The regret after each trial of one search, in points of MAP@R; that of the floor until a trial has finished."""
    surface = SURFACES[name]
    budget = SearchBudget(n_trials=max(BUDGETS), sampler=sampler, n_startup_trials=MLRC_V1.search.n_startup_trials)
    study = optuna.create_study(direction="maximize")
    # The same seed gives the three samplers the same start-up trials, as far as they draw alike, and the same noise.
    noise = np.random.default_rng(derived_seed(seed, f"{name} noise"))
    best_measured, best_true, found = -1.0, FLOOR, []
    course = plain_course(f"{name} seed {seed}", surface.space, budget)
    while found_round := open_round(study, course):
        (trial,) = found_round.trials
        number, point = trial.number, trial.params
        folds = noise.normal(0.0, FOLD_NOISE, N_FOLDS)
        truth = surface.truth(point)
        if truth is None:
            study.tell(number, state=TrialState.FAIL)
        else:
            measured = fmean(truth + folds)
            study.tell(number, measured)
            if measured > best_measured:
                best_measured, best_true = measured, truth
        found.append(100 * (surface.optimum - best_true))
    return found


def mean_and_interval(values: list[float]) -> tuple[float, float]:
    """Mean and half of its 95 % interval over seeds."""
    if len(values) < 2:
        return fmean(values), 0.0
    return fmean(values), float(student.ppf(0.975, len(values) - 1)) * stdev(values) / sqrt(len(values))


Curves = dict[str, dict[str, list[list[float]]]]  # by surface and sampler: a regret for each trial of each seed


def markdown(curves: Curves, n_seeds: int) -> str:
    """The page of the docs."""
    rows = []
    for name, by_sampler in curves.items():
        for sampler, found in by_sampler.items():
            cells = []
            for budget in BUDGETS:
                mean, half = mean_and_interval([curve[budget - 1] for curve in found])
                cells.append(f"{mean:.2f} ± {half:.2f}")
            rows.append(f"| {SURFACES[name].title} | {NAMES[sampler]} | {' | '.join(cells)} |")
    for sampler, means in averages(curves).items():
        rows.append(f"| **average** | {NAMES[sampler]} | {' | '.join(f'**{mean:.2f}**' for mean in means)} |")
    head = "".join(f" after {budget} |" for budget in BUDGETS)
    return (
        f"Regret in points of MAP@R, mean and 95 % interval over {n_seeds} seeds; less is better.\n\n"
        f"| surface | sampler |{head}\n| --- | --- |{' --- |' * len(BUDGETS)}\n" + "\n".join(rows) + "\n"
    )


def averages(curves: Curves) -> dict[str, list[float]]:
    """By sampler, the mean regret over surfaces and seeds after each budget."""
    return {
        sampler: [
            fmean(fmean(curve[budget - 1] for curve in by_sampler[sampler]) for by_sampler in curves.values())
            for budget in BUDGETS
        ]
        for sampler in SAMPLERS
    }


def figure(curves: Curves) -> Figure:
    """A panel for each surface: the mean regret after each trial."""
    drawn = Figure(figsize=(10.0, 2.9), layout="constrained")
    for axes, (name, by_sampler) in zip(drawn.subplots(1, len(curves)), curves.items(), strict=True):
        for sampler, colour in zip(SAMPLERS, style.COLOURS, strict=False):
            means = np.mean(by_sampler[sampler], axis=0)
            axes.plot(range(1, len(means) + 1), means, color=colour, label=NAMES[sampler], linewidth=1.5)
        axes.set_title(SURFACES[name].title, fontsize=8)
        axes.set_ylim(bottom=0)
        axes.set_xlabel("trials")
        axes.grid(color=style.GRID, linewidth=0.6)
    drawn.axes[0].set_ylabel("regret, points of MAP@R")
    drawn.legend(*drawn.axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return drawn


def write_docs(curves: Curves, n_seeds: int) -> None:
    """Put table and picture into the docs; the words around the table stay."""
    page = DOCS / "search_quality.md"
    before, _, rest = page.read_text(encoding="utf-8").partition("<!-- table -->\n")
    _, _, after = rest.partition("<!-- end of table -->\n")
    table = f"<!-- table -->\n{markdown(curves, n_seeds)}<!-- end of table -->\n"
    page.write_text(before + table + after, encoding="utf-8")
    (DOCS / "search_quality.png").write_bytes(style.png(lambda: figure(curves)))


def main() -> int:
    """Measure, print, and say whether the default is better than chance."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--docs", action="store_true")
    given = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    curves: Curves = {}
    for name in SURFACES:
        curves[name] = {sampler: [regrets(name, sampler, seed) for seed in range(given.seeds)] for sampler in SAMPLERS}
        print(f"{name}: done", file=sys.stderr)
    if given.docs:
        write_docs(curves, given.seeds)
    found = averages(curves)
    report = {
        "benchmark": "search_quality",
        "seeds": given.seeds,
        "default": MLRC_V1.search.sampler,
        "best": {str(budget): min(SAMPLERS, key=lambda s: found[s][place]) for place, budget in enumerate(BUDGETS)},
        "regret_points": {
            sampler: dict(zip(map(str, BUDGETS), (round(mean, 3) for mean in means), strict=True))
            for sampler, means in found.items()
        },
    }
    print(json.dumps(report))
    return int(found[MLRC_V1.search.sampler][-1] >= found["random"][-1])


if __name__ == "__main__":
    sys.exit(main())
