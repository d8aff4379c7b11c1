"""Whether a trial is given up before all of its folds have run: Optuna's WilcoxonPruner over folds.

The trial's folds are compared, fold by fold, with those of the best trial of earlier rounds. Of n folds that are all
worse, the one-sided signed-rank test says p = 1 / 2^n, and that is the smallest p there is: with 4 folds only the look
after 3 can spare anything, at p = 1/8, and only where all 3 are worse. Optuna's usual threshold, 0.1, would never
prune here; 0.2 lets that one look decide, and lies below the 1/4 of two folds. The first 3 folds therefore run side by
side, and each further one alone.
"""

import warnings
from collections.abc import Mapping
from statistics import fmean

import optuna
from optuna.exceptions import ExperimentalWarning
from optuna.pruners import WilcoxonPruner
from optuna.trial import TrialState

P_THRESHOLD = 0.2
FIRST_LOOK = 3  # folds: the fewest for which p can be below the threshold

FoldValues = Mapping[int, float]  # validation MAP@R by fold


def fold_rounds(n_folds: int, pruning: bool) -> list[range]:
    """The folds of a trial in the order they run; those of one round run side by side."""
    if not pruning:
        return [range(n_folds)]
    return [range(FIRST_LOOK), *(range(fold, fold + 1) for fold in range(FIRST_LOOK, n_folds))]


def is_pruned(found: FoldValues, best: FoldValues) -> bool:
    """Whether a trial with these folds is worse than the best one, as sure as the threshold asks for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)  # it is experimental since 2024
        pruner = WilcoxonPruner(p_threshold=P_THRESHOLD, n_startup_steps=FIRST_LOOK)
    shown = optuna.create_study(direction="maximize", pruner=pruner)
    shown.add_trial(optuna.create_trial(value=fmean(best.values()), intermediate_values=dict(best)))
    return pruner.prune(shown, optuna.create_trial(state=TrialState.RUNNING, intermediate_values=dict(found)))


def predicted(found: FoldValues, best: FoldValues) -> float:
    """What a pruned trial would have reached: the best trial's mean, moved by what its own folds differ from it.

    A mean of its own folds alone would not do: the ones that ran may be the easy ones.
    """
    return fmean(best.values()) + fmean(value - best[fold] for fold, value in found.items())
