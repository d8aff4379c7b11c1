"""The trials of a search, proposed round by round. A round is as many trials as run at once; usually it is one.

Each proposal is seeded by its place in the search, and sees the answers of earlier rounds and the open trials of its
own. So it depends on the rules and on what was found, never on the number of workers, nor on a kill: what a killed
search had proposed stays open, the rest of its round is proposed as it would have been.
"""

from dataclasses import dataclass

import optuna
import torch
from optuna.trial import FrozenTrial, TrialState

from benchmark.jobs import BASE_SEED
from benchmark.search.course import Course
from benchmark.search.samplers import Given, make_sampler, shown_all
from benchmark.search.trials import NOTE, note
from benchmark.seeding import derived_seed


def counted_trials(study: optuna.Study, course: Course) -> list[FrozenTrial]:
    """The trials that use up the budget, in order; one whose proposal was cut off by a kill does not, and is closed."""
    return [trial for trial in study.get_trials(deepcopy=False) if _is_whole(study, trial, course)]


@dataclass(frozen=True)
class Round:
    """Trials that run at once."""

    trials: list[FrozenTrial]  # open
    earlier: list[FrozenTrial]  # of the rounds before; not those of this one that a kill left told


def open_round(study: optuna.Study, course: Course) -> Round | None:
    """The round that the search has come to, its trials proposed where they are not yet; None at its end."""
    trials = counted_trials(study, course)
    places = [place for place, trial in enumerate(trials) if trial.state == TrialState.RUNNING]
    first = min(places, default=len(trials)) // course.parallel_trials * course.parallel_trials
    end = min(first + course.parallel_trials, course.n_trials)
    while len(trials) < end:
        _propose(study, course, trials)
        trials = counted_trials(study, course)
    running = [trial for trial in trials[first:end] if trial.state == TrialState.RUNNING]
    return Round(running, trials[:first]) if running else None


def _propose(study: optuna.Study, course: Course, trials: list[FrozenTrial]) -> None:
    place = len(trials)
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)  # the sampler computes in torch: a proposal must not depend on this machine's cores
    try:
        if place < len(course.given):
            study.sampler = Given(course.given[place])
        else:
            sampler = make_sampler(course, derived_seed(BASE_SEED, f"{course.method} trial {place}"))
            study.sampler = shown_all(sampler, trials, course)
        proposed = study.ask(fixed_distributions=course.space)
    finally:
        torch.set_num_threads(n_threads)
    if place < len(course.sources):
        proposed.set_user_attr("source", course.sources[place])


def _is_whole(study: optuna.Study, trial: FrozenTrial, course: Course) -> bool:
    if trial.params.keys() == course.space.keys():
        return True
    if trial.state == TrialState.RUNNING:
        note(study, trial, NOTE, "cut off while it was proposed; not counted")
        study.tell(trial.number, state=TrialState.FAIL)
    return False
