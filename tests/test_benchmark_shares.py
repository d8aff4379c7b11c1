"""Numbers that may be at most half of another: every proposal is one, is stored as used, and teaches what was drawn."""

from collections import Counter
from pathlib import Path

import optuna
import pytest
import torch
from optuna.distributions import FloatDistribution, IntDistribution
from optuna.storages import RDBStorage
from optuna.trial import TrialState
from rounds import new_study, tell, walk
from tiny import tiny_bench

from benchmark.executors.inline import InlineExecutor
from benchmark.methods.registry import METHODS, method_entry, space_hash
from benchmark.search.course import Course, course_of
from benchmark.search.importances import importances
from benchmark.search.proposals import _propose, counted_trials, open_round
from benchmark.search.shares import drawn_values, used_values
from benchmark.search.trials import SHARES
from benchmark.suite import Driver
from reports.analyses.coarse_proxies import coarse_proxies
from results.store import Store

HPL3 = method_entry("hpl3(proxy-nca)")
SPACE = {**HPL3.space(75), "omega_1": FloatDistribution(0.0, 1.0)}


class Silent:
    def work_done(self, *said: object, **more: object) -> None: ...

    def waiting(self, *said: object) -> None: ...

    def method_done(self, *said: object) -> None: ...


@pytest.fixture(autouse=True)
def quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)


def course(sampler: str, n_trials: int, parallel_trials: int = 1) -> Course:
    return Course(
        method="hpl3",
        space=SPACE,
        sampler=sampler,
        n_startup_trials=5,
        n_trials=n_trials,
        parallel_trials=parallel_trials,
        halves=HPL3.halves,
    )


def height(values: dict) -> float | None:
    """Where omega_1 is large, training collapses."""
    if values["omega_1"] > 0.9:
        return None
    return -abs(values["n_coarse_2"] - 9) - abs(values["omega_1"] - 0.3)


def test_two_hundred_random_proposals_all_build() -> None:
    for values in walk(new_study(), course("random", 200), height):
        values.pop("w_lr")
        with torch.random.fork_rng(devices=[]):
            assert HPL3.build(n_classes=75, embedding_dim=8, **values).levels[1].proxies.shape[0] >= 2


def test_even_shares_have_the_chances_that_optuna_gives_whole_numbers_of_their_own_range() -> None:
    sampler, study, trial = optuna.samplers.RandomSampler(0), new_study(), optuna.create_trial(value=0.0)
    axis = IntDistribution(2, 6, log=True)
    wanted = Counter(sampler.sample_independent(study, trial, "k", axis) for _ in range(4000))
    space = {name: SPACE[name] for name in ("n_coarse_1", "n_coarse_2")}
    shares = [place / 999 for place in range(1000)]
    drawn = [used_values({"n_coarse_1": 13, "n_coarse_2": share}, space, HPL3.halves) for share in shares]
    got = Counter(values["n_coarse_2"] for values in drawn)
    assert got.keys() == wanted.keys() == {2, 3, 4, 5, 6}
    assert [got[number] / 1000 for number in got] == pytest.approx([wanted[number] / 4000 for number in got], abs=0.03)


@pytest.mark.parametrize("sampler", ["gp", "tpe"])
def test_a_model_proposes_pyramids_alone_and_learns_the_number_of_the_upper_level(sampler: str) -> None:
    study = new_study()
    found = walk(study, course(sampler, 30), height)
    assert all(2 <= values["n_coarse_2"] <= values["n_coarse_1"] // 2 for values in found)
    missed = [abs(values["n_coarse_2"] - 9) for values in found]
    assert sum(missed[20:]) / 10 < sum(missed[:5]) / 5  # nearer to the best than at random


@pytest.mark.parametrize("sampler", ["gp", "tpe"])
def test_a_kill_within_a_round_changes_no_proposal(sampler: str) -> None:
    wanted = course(sampler, 9, parallel_trials=3)
    undisturbed = walk(new_study(), wanted, height)
    study = new_study()
    for _ in range(2):
        for trial in open_round(study, wanted).trials:
            tell(study, trial, height)
    _propose(study, wanted, counted_trials(study, wanted))
    assert walk(study, wanted, height) == undisturbed


def test_a_sampler_is_shown_what_was_drawn_and_of_an_older_trial_the_middle_of_the_numbers_cell() -> None:
    study = new_study()
    (trial,) = open_round(study, course("random", 1)).trials
    share = trial.user_attrs[SHARES]["n_coarse_2"]
    assert drawn_values(trial, SPACE, HPL3.halves) == {**trial.params, "n_coarse_2": share}

    def older(n_coarse_1: int, n_coarse_2: int) -> dict | None:
        values = {**trial.params, "n_coarse_1": n_coarse_1, "n_coarse_2": n_coarse_2}
        return drawn_values(optuna.create_trial(params=values, distributions=SPACE, value=0.0), SPACE, HPL3.halves)

    assert [0 < older(20, number)["n_coarse_2"] < 1 for number in (2, 10)] == [True, True]
    assert older(20, 2)["n_coarse_2"] < older(20, 5)["n_coarse_2"] < older(20, 10)["n_coarse_2"]
    assert older(20, 11) is None  # no pyramid: no release draws it now


def test_a_study_that_an_older_release_began_goes_on() -> None:
    study = new_study()
    fixed = {name: axis.low if hasattr(axis, "low") else axis.choices[0] for name, axis in SPACE.items()}
    for number in (2, 3, 9):  # with n_coarse_1 = 4, the last two failed
        study.enqueue_trial({**fixed, "n_coarse_2": number})
        trial = study.ask(fixed_distributions=SPACE)
        if number == 2:
            study.tell(trial, -7.0)
        else:
            study.tell(trial, state=TrialState.FAIL)
    found = walk(study, course("gp", 12), height)
    assert len(found) == 12
    assert all(values["n_coarse_2"] <= values["n_coarse_1"] // 2 for values in found[3:])


def test_no_other_method_is_proposed_otherwise(tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path)
    searched = [entry for entry in METHODS.values() if bench.space(entry)]
    assert {entry.name for entry in searched if course_of(entry, bench).halves} == set()
    assert course_of(HPL3, bench).halves == {"n_coarse_2": "n_coarse_1"}


def test_the_space_is_that_of_the_release_before() -> None:
    assert space_hash(HPL3.space(75)) == "69f08f4ede7c"


def test_a_search_of_three_levels_has_no_failed_trial_and_its_records_hold_the_numbers(tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path, "n_trials=12", "n_startup_trials=9", "max_steps=1", "cadence.evaluate_every_steps=1")
    with Store.open(str(tmp_path / "mlrc.db")) as store:
        driver = Driver(bench, store, InlineExecutor(bench), Silent())
        assert not driver.run((HPL3,), RDBStorage(store.url), ("search",))
        study = bench.study(HPL3, store)
        records = list(store.records(kind="fold", purpose="search"))
        assert (study.n_finished, study.n_failed) == (12, 0)
        assert study.space_hash == space_hash(bench.space(HPL3))
        assert importances(study, records).keys() == bench.space(HPL3).keys()
        pairs = {
            (values["n_coarse_1"], values["n_coarse_2"]) for values in (r.identity.hyperparameters for r in records)
        }
        assert all(isinstance(second, int) and 2 <= second <= first // 2 for first, second in pairs)
        assert {"n_coarse_1", "n_coarse_2", "shares"} & study.best_hyperparameters.keys() == {
            "n_coarse_1",
            "n_coarse_2",
        }
        (drawing,) = coarse_proxies(records).drawings
        assert set(zip(drawing.data["n_coarse_1"], drawing.data["n_coarse_2"], strict=True)) == pairs
