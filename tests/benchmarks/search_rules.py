"""What trials at once and pruning do to a search: regret and folds run, on the surfaces of `search_quality.py`.

Each search goes the project's own way, by `benchmark.search.proposals` and `benchmark.search.pruning`, with the noise
of real folds. Run `python tests/benchmarks/search_rules.py`: one JSON line; minutes on one core. `--sampler gp` takes
much longer.
"""

import argparse
import json
import sys
from dataclasses import replace
from statistics import fmean

import numpy as np
import optuna
from optuna.trial import TrialState
from search_quality import FLOOR, FOLD_NOISE, N_FOLDS, SURFACES, mean_and_interval

from benchmark.search.course import Course, plain_course
from benchmark.search.proposals import open_round
from benchmark.search.pruning import fold_rounds, is_pruned, predicted
from benchmark.search.trials import PREDICTED, best_trial, note, report
from benchmark.seeding import derived_seed
from protocols.catalogue import MLRC_V1

RULES: dict[str, dict[str, int | bool]] = {
    "one at a time": {},
    "4 at once": {"parallel_trials": 4},
    "8 at once": {"parallel_trials": 8},
    "pruning": {"pruning": True},
}


def search(name: str, course: Course, seed: int) -> tuple[float, int, int]:
    """The regret at the end of one search in points of MAP@R, how many folds it ran, how many trials it pruned."""
    surface, study = SURFACES[name], optuna.create_study(direction="maximize")
    noise = np.random.default_rng(derived_seed(seed, f"{name} noise"))
    n_folds = n_pruned = 0
    while found := open_round(study, course):
        best_before = best_trial(found.earlier)
        best = best_before.intermediate_values if best_before else {}
        for trial in found.trials:
            drawn = noise.normal(0.0, FOLD_NOISE, N_FOLDS)
            truth = surface.truth(trial.params)
            folds: dict[int, float] = {}
            for some in fold_rounds(N_FOLDS, course.pruning):
                folds |= {fold: (truth or 0.0) + float(drawn[fold]) for fold in some}
                if truth is None or (len(folds) < N_FOLDS and best and is_pruned(folds, best)):
                    break
            n_folds += len(folds)
            if truth is None:
                study.tell(trial.number, state=TrialState.FAIL)
                continue
            for fold, value in folds.items():
                report(study, trial, fold, value)
            if len(folds) < N_FOLDS:
                n_pruned += 1
                note(study, trial, PREDICTED, predicted(folds, best))
                study.tell(trial.number, state=TrialState.PRUNED)
            else:
                study.tell(trial.number, fmean(folds.values()))
    winner = best_trial(study.trials)
    truth = surface.truth(winner.params) if winner else FLOOR
    assert truth is not None
    return 100 * (surface.optimum - truth), n_folds, n_pruned


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--sampler", default="tpe", choices=("gp", "tpe", "random"))
    given = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    budget = replace(MLRC_V1.search, sampler=given.sampler, n_trials=given.trials)
    found: dict[str, dict[str, object]] = {}
    for rule, values in RULES.items():
        ends = [
            search(name, replace(plain_course(f"{name} seed {seed}", SURFACES[name].space, budget), **values), seed)
            for name in SURFACES
            for seed in range(given.seeds)
        ]
        regret, half = mean_and_interval([end[0] for end in ends])
        found[rule] = {
            "regret_points": round(regret, 2),
            "half_width": round(half, 2),
            "share_of_folds_run": round(sum(end[1] for end in ends) / (len(ends) * given.trials * N_FOLDS), 3),
            "share_of_trials_pruned": round(sum(end[2] for end in ends) / (len(ends) * given.trials), 3),
        }
        print(f"{rule}: done", file=sys.stderr)
    print(json.dumps({"benchmark": "search_rules", **vars(given), "found": found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
