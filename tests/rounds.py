"""Rounds of a search that train nothing: a formula of the values stands for what training would find."""

from collections.abc import Callable
from typing import Any

import optuna
from optuna.trial import FrozenTrial, TrialState

from benchmark.search.course import Course
from benchmark.search.proposals import counted_trials, open_round

Formula = Callable[[dict[str, Any]], float | None]  # None: the trial fails


def new_study() -> optuna.Study:
    """An empty one, in memory."""
    return optuna.create_study(direction="maximize")


def tell(study: optuna.Study, trial: FrozenTrial, formula: Formula) -> None:
    """End a trial with its value."""
    value = formula(trial.params)
    study.tell(trial.number, value, state=TrialState.FAIL if value is None else TrialState.COMPLETE)


def walk(study: optuna.Study, wanted: Course, formula: Formula) -> list[dict[str, Any]]:
    """All rounds to the end of the budget; the values of its trials."""
    while found := open_round(study, wanted):
        for trial in found.trials:
            tell(study, trial, formula)
    return [trial.params for trial in counted_trials(study, wanted)]
