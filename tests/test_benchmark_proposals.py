"""What a search proposes: rounds of trials, grids, warm starts, and what a sampler is shown. Nothing is trained."""

import itertools
import json

import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.samplers import RandomSampler
from optuna.trial import TrialState
from rounds import new_study, tell, walk

from benchmark.errors import BenchmarkError
from benchmark.methods.entry import MethodEntry
from benchmark.methods.registry import METHODS
from benchmark.search.course import Course
from benchmark.search.grid import grid_points
from benchmark.search.proposals import _propose, counted_trials, open_round
from benchmark.search.pruning import FIRST_LOOK, P_THRESHOLD, fold_rounds, is_pruned, predicted
from benchmark.search.samplers import shown_all
from benchmark.search.trials import PREDICTED
from benchmark.search.warm_start import published_start

SPACE = {"x": FloatDistribution(0.0, 1.0), "y": FloatDistribution(0.0, 1.0)}


@pytest.fixture(autouse=True)
def quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def course(sampler: str = "tpe", n_trials: int = 10, parallel_trials: int = 3, **more) -> Course:
    found = {"method": "a method", "space": SPACE, "sampler": sampler, "n_startup_trials": 4, "n_trials": n_trials}
    return Course(**found, parallel_trials=parallel_trials, **more)


def height(point: dict) -> float | None:
    """Where x is large, training collapses."""
    return None if point["x"] > 0.8 else 0.5 - (point["x"] - 0.2) ** 2 - (point["y"] - 0.7) ** 2


# --- rounds


@pytest.mark.parametrize("sampler", ["gp", "tpe"])
def test_a_kill_within_a_round_changes_no_proposal(sampler: str) -> None:
    wanted = course(sampler)
    undisturbed = walk(new_study(), wanted, height)
    study = new_study()
    for _ in range(2):
        for trial in open_round(study, wanted).trials:
            tell(study, trial, height)
    for _ in range(2):  # killed when it had proposed two of the three of the third round,
        _propose(study, wanted, counted_trials(study, wanted))
    found = open_round(study, wanted)
    assert len(found.trials) == 3
    tell(study, found.trials[0], height)  # and when it had told the first of them
    rest = open_round(study, wanted)
    assert [trial.number for trial in rest.trials] == [trial.number for trial in found.trials[1:]]
    assert [trial.number for trial in rest.earlier] == list(range(6))
    assert walk(study, wanted, height) == undisturbed


def test_rounds_are_as_long_as_the_rules_say_and_the_last_one_ends_with_the_budget() -> None:
    study, sizes = new_study(), []
    while found := open_round(study, course("random", n_trials=10, parallel_trials=4)):
        sizes.append(len(found.trials))
        for trial in found.trials:
            tell(study, trial, height)
    assert sizes == [4, 4, 2]


def test_random_draws_are_the_same_however_many_run_at_once() -> None:
    found = [walk(new_study(), course("random", parallel_trials=size), height) for size in (1, 3, 10)]
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("sampler", ["gp", "tpe"])
def test_how_many_run_at_once_changes_what_a_model_proposes_and_is_repeatable(sampler: str) -> None:
    one, three, again = (walk(new_study(), course(sampler, 7, size), height) for size in (1, 3, 3))
    assert one[:4] == three[:4]  # start-up draws
    assert one != three == again


def test_the_gaussian_process_keeps_away_from_the_open_trials_of_its_round() -> None:
    study, wanted = new_study(), course("gp", n_trials=12, parallel_trials=4)
    for _ in range(2):
        for trial in open_round(study, wanted).trials:
            tell(study, trial, height)
    points = [trial.params for trial in open_round(study, wanted).trials]
    nearest = min(
        abs(one["x"] - other["x"]) + abs(one["y"] - other["y"]) for one, other in itertools.combinations(points, 2)
    )
    assert nearest > 0.01


def test_a_sampler_is_shown_failed_trials_with_the_worst_value_and_pruned_ones_with_the_predicted() -> None:
    seen = []

    class Looking(RandomSampler):
        def sample_relative(self, study, trial, search_space):
            seen.extend((other.state.name, other.value) for other in study.trials[:-1])
            return {}

    def trial(state: TrialState, value: float | None = None, **attributes) -> optuna.trial.FrozenTrial:
        return optuna.create_trial(
            state=state, value=value, params={"x": 0.5, "y": 0.5}, distributions=SPACE, user_attrs=attributes
        )

    trials = [
        trial(TrialState.COMPLETE, 0.4),
        trial(TrialState.COMPLETE, 0.3),
        trial(TrialState.FAIL),
        trial(TrialState.PRUNED, 0.9, **{PREDICTED: 0.35}),
        trial(TrialState.RUNNING),
    ]
    shown_all(Looking(seed=0), trials, course())
    assert seen == [
        *(("COMPLETE", value) for value in (0.4, 0.3, 0.3, 0.35)),
        ("RUNNING", None),
    ]


# --- pruning


def test_three_folds_that_are_all_worse_prune_and_nothing_else_does() -> None:
    best = {0: 0.50, 1: 0.30, 2: 0.40, 3: 0.45}
    for signs in itertools.product((-1, 1), repeat=3):
        found = {fold: best[fold] + sign * 0.01 * (fold + 1) for fold, sign in enumerate(signs)}
        assert is_pruned(found, best) == (signs == (-1, -1, -1)), signs
    assert not is_pruned({0: 0.1, 1: 0.1}, best)
    assert not is_pruned({fold: best[fold] for fold in range(3)}, best)  # a trial that repeats the best one


def test_the_first_look_is_the_first_that_can_prune() -> None:
    assert 0.5**FIRST_LOOK < P_THRESHOLD < 0.5 ** (FIRST_LOOK - 1)
    assert [list(folds) for folds in fold_rounds(4, True)] == [[0, 1, 2], [3]]
    assert [list(folds) for folds in fold_rounds(5, True)] == [[0, 1, 2], [3], [4]]
    assert [list(folds) for folds in fold_rounds(4, False)] == [[0, 1, 2, 3]]


def test_what_a_pruned_trial_would_have_reached_does_not_depend_on_how_easy_its_folds_are() -> None:
    best = {0: 0.9, 1: 0.9, 2: 0.9, 3: 0.1}
    assert predicted({0: 0.8, 1: 0.8, 2: 0.8}, best) == pytest.approx(0.7 - 0.1)


# --- grids


def test_the_grid_of_fastap_is_each_of_its_31_numbers_of_bins_once() -> None:
    space = METHODS["fastap"].space(4)
    points = [point["num_bins"] for point in grid_points("fastap", space)]
    assert sorted(points) == list(range(2, 33))
    assert points == [point["num_bins"] for point in grid_points("fastap", space)]
    assert min(points[:5]) < 12 < 22 < max(points[:5])  # an early end has seen small and large ones


def test_a_grid_has_every_combination_of_steps_choices_and_whole_numbers() -> None:
    space = {
        "scale": FloatDistribution(0.1, 0.3, step=0.1),
        "n_proxies": CategoricalDistribution([1, 4, 8]),
        "rounds": IntDistribution(1, 5, step=2),
    }
    points = grid_points("a method", space)
    assert len({json.dumps(point) for point in points}) == len(points) == 27
    assert all(axis._contains(axis.to_internal_repr(point[name])) for point in points for name, axis in space.items())


def test_a_grid_over_what_is_continuous_or_huge_is_refused() -> None:
    with pytest.raises(BenchmarkError, match=r"ms: --sampler grid wants a finite .*; alpha, beta, base is continuous"):
        grid_points("ms", METHODS["ms"].space(4))
    with pytest.raises(BenchmarkError, match=r"has 1,000,000 points; at most 10,000 can be a grid"):
        grid_points("a method", {"n": IntDistribution(1, 1_000_000)})


# --- warm starts


def entry_with(published: dict) -> MethodEntry:
    return MethodEntry(
        name="probe",
        family="pair",
        build=lambda **_: None,
        space=lambda _: {},
        source="",
        formula="",
        published=published,
    )


def test_published_values_that_fit_come_first_in_the_order_of_the_papers() -> None:
    space = {"bins": IntDistribution(2, 32), "scale": FloatDistribution(0.1, 10.0, log=True)}
    found = published_start(
        entry_with(
            {
                "mlrc:cub200": {"bins": 17.0, "scale": 1, "w_lr": 0.1},
                "mlrc:cars196": {"bins": 86, "scale": 20.0},
                "mlrc:sop": {"bins": 2.5, "scale": 1.0},
                "ccp:sop": {"bins": 3},
                "ccp:cub200": {"bins": 17, "scale": 1.0},
                "ccp:cars196": {"bins": 32, "scale": 0.1},
            }
        ),
        space,
    )
    assert found.points == {"mlrc:cub200": {"bins": 17, "scale": 1.0}, "ccp:cars196": {"bins": 32, "scale": 0.1}}
    assert [type(value) for value in found.points["mlrc:cub200"].values()] == [int, float]
    assert found.skipped == {
        "mlrc:cars196": "bins = 86, scale = 20.0 outside of the search space",
        "mlrc:sop": "bins = 2.5 outside of the search space",
        "ccp:sop": "no scale",
        "ccp:cub200": "the same as mlrc:cub200",
    }


def test_given_trials_come_before_the_samplers_and_count() -> None:
    given = ({"x": 0.25, "y": 0.5}, {"x": 0.75, "y": 0.5})
    wanted = course("random", n_trials=4, parallel_trials=1, given=given, sources=("mlrc:cub200",))
    study = new_study()
    found = walk(study, wanted, height)
    assert tuple(found[:2]) == given
    assert len(found) == 4
    assert found[2:] == walk(new_study(), course("random", n_trials=4, parallel_trials=1), height)[2:]
    assert [trial.user_attrs.get("source") for trial in study.trials] == ["mlrc:cub200", None, None, None]
