"""What proposes the next trial: Optuna's samplers as this project sets them, and what they are shown.

Trials that are proposed together are not told before all of them have run; the sampler sees those that are open. TPE
takes an open trial for a bad one (its constant liar), the Gaussian process for one whose value is what it expects there
(Optuna's Kriging believer), so both keep away from what is being tried. A failed trial is shown with the worst value
found so far, a pruned one with the value predicted for it: Optuna's own samplers do not see the first, and take the
last fold of the other for its value. A number that may be at most half of another is shown as the share of its range
that was drawn (`benchmark.search.shares`).
"""

from collections.abc import Mapping, Sequence

import optuna
from optuna.distributions import BaseDistribution
from optuna.samplers import BaseSampler, GPSampler, RandomSampler, TPESampler
from optuna.trial import FrozenTrial, TrialState

from benchmark.methods.entry import Value
from benchmark.search.course import Course
from benchmark.search.shares import SHARE, drawn_space, drawn_values, used_values
from benchmark.search.trials import PREDICTED, SHARES, note


def make_sampler(course: Course, seed: int) -> BaseSampler:
    """The sampler of one proposal; for a grid, what follows the given points is never asked for."""
    if course.sampler == "gp":
        return GPSampler(seed=seed, n_startup_trials=course.n_startup_trials)
    if course.sampler == "tpe":
        # Both options are said outright because their defaults have changed between Optuna's releases.
        return TPESampler(
            seed=seed,
            n_startup_trials=course.n_startup_trials,
            multivariate=True,
            constant_liar=course.parallel_trials > 1,
        )
    return RandomSampler(seed=seed)


class Given(BaseSampler):
    """Proposes the parameters that it was given."""

    def __init__(self, parameters: dict[str, Value], shares: Mapping[str, Value] | None = None) -> None:
        """A sampler of this one point, and the shares that some of it stands for."""
        self._parameters = parameters
        self._shares = dict(shares or {})

    def before_trial(self, study: optuna.Study, trial: FrozenTrial) -> None:
        """Keep the shares before the parameters: a kill between the two leaves a trial that is proposed again."""
        if self._shares:
            note(study, trial, SHARES, self._shares)

    def infer_relative_search_space(self, study: optuna.Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """Nothing is drawn together."""
        return {}

    def sample_relative(
        self, study: optuna.Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Value]:
        """Nothing is drawn together."""
        return {}

    def sample_independent(
        self, study: optuna.Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Value:
        """The given value."""
        return self._parameters[param_name]


def shown_all(sampler: BaseSampler, trials: Sequence[FrozenTrial], course: Course) -> BaseSampler:
    """The sampler, or one fixed to what it proposes when failed and pruned trials are shown with a value.

    What is stored stays as it is. Where every trial has a value of its own or none has, and no number is drawn as a
    share, they are seen as they are.
    """
    values = [trial.value for trial in trials if trial.state == TrialState.COMPLETE and trial.value is not None]
    is_told = bool(values) and any(trial.state in (TrialState.FAIL, TrialState.PRUNED) for trial in trials)
    if not is_told and not course.halves:
        return sampler
    space = drawn_space(course.space, course.halves)
    shown = optuna.create_study(direction="maximize", sampler=sampler)
    for trial in trials:
        drawn = drawn_values(trial, course.space, course.halves)
        if drawn is None:
            continue
        if trial.state == TrialState.RUNNING or not values:
            state, value = trial.state, None
        else:
            state, value = TrialState.COMPLETE, _value_shown(trial, min(values))
        shown.add_trial(optuna.create_trial(state=state, params=drawn, distributions=space, value=value))
    proposed = shown.ask(fixed_distributions=space).params
    shares = {name: value for name, value in proposed.items() if space[name] is SHARE}
    return Given(used_values(proposed, course.space, course.halves), shares)


def _value_shown(trial: FrozenTrial, worst: float) -> float | None:
    if trial.state == TrialState.FAIL:
        return worst
    return trial.user_attrs.get(PREDICTED, worst) if trial.state == TrialState.PRUNED else trial.value
