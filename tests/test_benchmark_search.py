"""Search, finals and the driver: budgets are totals, what was stopped goes on, failures stay failures."""

from collections.abc import Iterator
from concurrent.futures import Executor
from pathlib import Path
from statistics import fmean

import optuna
import pytest
import torch
from optuna.distributions import FloatDistribution, IntDistribution
from optuna.storages import RDBStorage
from optuna.trial import TrialState
from tiny import tiny_bench, without_timings
from torch import Tensor, nn

from benchmark.bench import Bench
from benchmark.campaign import expected_work
from benchmark.errors import BenchmarkError, Interrupted
from benchmark.executors.inline import InlineExecutor
from benchmark.jobs import Work
from benchmark.methods import registry
from benchmark.methods.entry import MethodEntry
from benchmark.methods.registry import method_entry
from benchmark.search.course import plain_course
from benchmark.search.proposals import open_round
from benchmark.search.search import no_winner, winner
from benchmark.suite import Driver
from protocols.spec import SearchBudget
from results.record import FoldRecord, Record
from results.store import Store

CONTRASTIVE = method_entry("contrastive")
BOTH = ("search", "finals")


class Heard:
    """A listener that keeps what it hears and may stop the driver after so many fresh records."""

    def __init__(self, stop_after: int | None = None) -> None:
        self.fresh: list[Record] = []
        self.reused = 0
        self.stop_after = stop_after
        self.driver: Driver | None = None

    def work_done(self, method: str, work: Work, record: Record, fresh: bool) -> None:
        self.reused += not fresh
        if fresh:
            self.fresh.append(record)
            if len(self.fresh) == self.stop_after:
                self.driver.stop()

    def waiting(self, method: str, holder: str) -> None: ...

    def method_done(self, method: str, problem: str | None) -> None: ...


def drive(
    bench: Bench,
    store: Store,
    *entries: MethodEntry,
    phases=BOTH,
    stop_after: int | None = None,
    executor: Executor | None = None,
) -> tuple[Heard, dict[str, str]]:
    heard = Heard(stop_after)
    driver = Driver(bench, store, executor or InlineExecutor(bench), heard)
    heard.driver = driver
    problems: dict[str, str] = {}
    try:
        problems = driver.run(entries or (CONTRASTIVE,), RDBStorage(store.url), phases)
    except Interrupted:
        assert stop_after is not None
    return heard, problems


def trials(bench: Bench, store: Store, entry: MethodEntry = CONTRASTIVE) -> list[optuna.trial.FrozenTrial]:
    study = optuna.load_study(study_name=bench.study(entry, store).optuna_name, storage=store.url)
    return study.get_trials()


def everything(store: Store) -> list[Record]:
    return [without_timings(record) if isinstance(record, FoldRecord) else record.test for record in store.records()]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with Store.open(str(tmp_path / "a" / "mlrc.db")) as opened:
        yield opened


@pytest.fixture
def method(monkeypatch: pytest.MonkeyPatch):
    """Registers a loss for one test."""

    def register(forward, space) -> MethodEntry:
        class Loss(nn.Module):
            def __init__(self, value: float) -> None:
                super().__init__()
                self.value = value

            def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
                return forward(self.value, embeddings)

        entry = MethodEntry(
            name="probe",
            family="pair",
            build=lambda *, n_classes, embedding_dim, value: Loss(value),
            space=lambda n_classes: {"value": space},
            source="a test",
            formula="whatever the test says",
        )
        monkeypatch.setitem(registry.METHODS, "probe", entry)
        return entry

    return register


def test_a_suite_does_its_whole_budget_once_and_then_nothing(tmp_path: Path, store: Store) -> None:
    bench = tiny_bench(tmp_path)
    first, problems = drive(bench, store)
    assert not problems
    assert len(first.fresh) == expected_work(CONTRASTIVE, bench, BOTH) == 3 * 4 + 2 * 4 + 2
    again, _ = drive(bench, store)
    assert (len(again.fresh), again.reused) == (0, 2 * 4 + 2)
    assert len(trials(bench, store)) == 3


def test_the_objective_is_the_mean_of_the_folds_and_the_best_trial_wins(tmp_path: Path, store: Store) -> None:
    bench = tiny_bench(tmp_path)
    drive(bench, store, phases=("search",))
    finished = trials(bench, store)
    for trial in finished:
        records = store.get_many(bench.job(CONTRASTIVE, trial.params, 0, fold).id for fold in range(4)).values()
        assert trial.value == fmean(record.validation["map_at_r"] for record in records)
    best = max(finished, key=lambda trial: trial.value)
    study = bench.study(CONTRASTIVE, store)
    assert winner(CONTRASTIVE, bench, store) == study.best_hyperparameters == best.params
    assert (study.best_trial, study.best_value, study.n_finished) == (best.number, best.value, 3)
    assert study.best_standard_error > 0


def test_the_searched_trial_is_none_of_the_final_runs(tmp_path: Path, store: Store) -> None:
    drive(tiny_bench(tmp_path), store)
    searched = {record.seed for record in store.records(kind="fold", purpose="search")}
    final = [record.seed for record in store.records(kind="fold", purpose="final")]
    assert len(set(final)) == len(final) == 8
    assert not searched & set(final)


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> tuple[list[Record], list[dict]]:
    folder = tmp_path_factory.mktemp("whole")
    bench = tiny_bench(folder)
    with Store.open(str(folder / "mlrc.db")) as whole:
        drive(bench, whole)
        return everything(whole), [trial.params for trial in trials(bench, whole)]


@pytest.mark.parametrize("stop_after", [1, 6, 12, 15, 21])
def test_stopped_anywhere_and_run_again_equals_uninterrupted(
    tmp_path: Path, store: Store, uninterrupted, stop_after: int
) -> None:
    bench = tiny_bench(tmp_path)
    stopped, _ = drive(bench, store, stop_after=stop_after)
    resumed, _ = drive(bench, store)
    assert len(stopped.fresh) == stop_after
    assert stop_after + len(resumed.fresh) == 22
    assert (everything(store), [trial.params for trial in trials(bench, store)]) == uninterrupted


def test_the_open_trial_goes_on_with_its_parameters_and_finished_folds(tmp_path: Path, store: Store) -> None:
    bench = tiny_bench(tmp_path)
    drive(bench, store, phases=("search",), stop_after=6)  # trial 1 with two of its folds
    opened = trials(bench, store)
    assert [trial.state for trial in opened] == [TrialState.COMPLETE, TrialState.RUNNING]
    resumed, _ = drive(bench, store, phases=("search",))
    assert resumed.reused == 2
    assert trials(bench, store)[1].params == opened[1].params
    assert [trial.state for trial in trials(bench, store)] == [TrialState.COMPLETE] * 3


def test_a_trial_cut_off_before_its_parameters_were_stored_uses_no_budget(
    tmp_path: Path, store: Store, uninterrupted
) -> None:
    bench = tiny_bench(tmp_path)
    drive(bench, store, phases=("search",), stop_after=1)
    study = optuna.load_study(study_name=bench.study(CONTRASTIVE, store).optuna_name, storage=store.url)
    study.ask()  # the process died before it had suggested anything
    drive(bench, store)
    assert len(trials(bench, store)) == 4
    assert bench.study(CONTRASTIVE, store).n_finished == 3
    assert everything(store) == uninterrupted[0]


def test_a_resumed_search_repeats_no_parameters(tmp_path: Path, store: Store) -> None:
    bench = tiny_bench(tmp_path, "n_trials=6", "n_startup_trials=6", "max_steps=1")
    for stop_after in (5, 9, None):
        drive(bench, store, phases=("search",), stop_after=stop_after)
    drawn = [tuple(sorted(trial.params.items())) for trial in trials(bench, store)]
    assert len(set(drawn)) == len(drawn) == 6


@pytest.mark.parametrize("sampler", ["gp", "tpe", "random"])
def test_every_sampler_is_seeded(tmp_path: Path, store: Store, sampler: str) -> None:
    bench = tiny_bench(tmp_path, f"sampler={sampler}", "max_steps=1", "n_trials=4")
    drive(bench, store, phases=("search",))
    with Store.open(str(tmp_path / "b" / "mlrc.db")) as other:
        drive(bench, other, phases=("search",))
        assert [trial.params for trial in trials(bench, store)] == [trial.params for trial in trials(bench, other)]


def test_a_failed_fold_fails_its_trial_and_the_rest_goes_on(tmp_path: Path, store: Store, method) -> None:
    def forward(value: float, embeddings: Tensor) -> Tensor:
        return embeddings.sum() * (torch.nan if value > 0.5 else 1.0)

    probe = method(forward, FloatDistribution(0.0, 1.0))
    bench = tiny_bench(tmp_path, "n_trials=6", "n_startup_trials=6", "max_steps=2", "cadence.evaluate_every_steps=1")
    _, problems = drive(bench, store, probe)
    found = trials(bench, store, probe)
    assert len(found) == 6
    assert {trial.state for trial in found} == {TrialState.COMPLETE, TrialState.FAIL}
    assert all((trial.state == TrialState.FAIL) == (trial.params["value"] > 0.5) for trial in found)
    study = bench.study(probe, store)
    assert (study.n_finished + study.n_failed, study.best_hyperparameters["value"] <= 0.5) == (6, True)
    assert not problems


def test_a_search_without_a_finished_trial_says_why_and_runs_no_finals(tmp_path: Path, store: Store, method) -> None:
    probe = method(lambda value, embeddings: embeddings.sum() * torch.nan, FloatDistribution(0.0, 1.0))
    bench = tiny_bench(tmp_path, "max_steps=2")
    _, problems = drive(bench, store, probe, CONTRASTIVE)
    assert problems.keys() == {"probe"}
    assert "0 of 3 trials finished: 12 folds non-finite; the first: the loss was nan at step 1" in problems["probe"]
    assert no_winner(bench.study(probe, store), store) in problems["probe"]
    assert not store.records(method="probe", purpose="final")
    assert len(store.records(method="contrastive", kind="run")) == 2  # the other method is not held up


def test_a_repeated_draw_of_an_integer_space_counts_and_costs_nothing(tmp_path: Path, store: Store, method) -> None:
    probe = method(lambda value, embeddings: value * embeddings.sum(), IntDistribution(1, 2))
    bench = tiny_bench(tmp_path, "n_trials=5", "max_steps=1", "sampler=random")
    heard, _ = drive(bench, store, probe, phases=("search",))
    assert len(trials(bench, store, probe)) == 5
    assert len(heard.fresh) == 4 * len({trial.params["value"] for trial in trials(bench, store, probe)}) < 20


def test_a_changed_space_is_refused_and_the_old_trials_stay(tmp_path: Path, store: Store, method) -> None:
    bench = tiny_bench(tmp_path, "max_steps=1")
    probe = method(lambda value, embeddings: embeddings.sum(), FloatDistribution(0.0, 1.0))
    drive(bench, store, probe, phases=("search",))
    wider = method(lambda value, embeddings: embeddings.sum(), FloatDistribution(0.0, 2.0))
    _, problems = drive(bench, store, wider, phases=("search",))
    assert "search space is not the one" in problems["probe"]
    assert len(trials(bench, store, probe)) == 3


def test_finals_before_the_search_is_done_are_refused(tmp_path: Path, store: Store) -> None:
    bench = tiny_bench(tmp_path)
    drive(bench, store, phases=("search",), stop_after=5)
    _, problems = drive(bench, store, phases=("finals",))
    assert problems == {"contrastive": "contrastive: 1 of 3 trials are done; search it first (mlrc search)."}
    with pytest.raises(BenchmarkError, match="1 of 3 trials"):
        winner(CONTRASTIVE, bench, store)


def test_a_failed_final_fold_leaves_its_run_out_and_is_a_problem(tmp_path: Path, store: Store, method) -> None:
    calls = iter(range(10**6))

    def forward(value: float, embeddings: Tensor) -> Tensor:
        return embeddings.sum() * (torch.nan if next(calls) == 13 else 1.0)

    probe = method(forward, FloatDistribution(0.0, 1.0))
    bench = tiny_bench(tmp_path, "max_steps=1")  # 3 trials x 4 folds x 1 step, so call 13 is in run 1 fold 1
    _, problems = drive(bench, store, probe)
    assert "1 final folds failed; the first: run 1 fold 1, non-finite" in problems["probe"]
    assert [record.identity.run for record in store.records(kind="run")] == [2]


def test_a_machine_problem_stops_the_method_keeps_the_trial_open_and_goes_on_later(
    tmp_path: Path, store: Store, method
) -> None:
    state = {"memory": 0}

    def forward(value: float, embeddings: Tensor) -> Tensor:
        if state["memory"] == 0:
            raise MemoryError("no room")
        return embeddings.sum()

    probe = method(forward, FloatDistribution(0.0, 1.0))
    bench = tiny_bench(tmp_path, "max_steps=1")
    _, problems = drive(bench, store, probe)
    assert "fold 0 stopped (out-of-memory): MemoryError: no room" in problems["probe"]
    assert [trial.state for trial in trials(bench, store, probe)] == [TrialState.RUNNING]
    state["memory"] = 1
    _, problems = drive(bench, store, probe)
    assert not problems
    assert [trial.state for trial in trials(bench, store, probe)] == [TrialState.COMPLETE] * 3


@pytest.mark.parametrize("sampler", ["gp", "tpe"])
def test_a_sampler_does_not_propose_again_what_has_failed(sampler: str) -> None:
    space = {"x": FloatDistribution(0.0, 1.0), "y": FloatDistribution(0.0, 1.0)}
    budget = SearchBudget(n_trials=25, sampler=sampler, n_startup_trials=5)
    study = optuna.create_study(direction="maximize")
    course = plain_course("a method", space, budget)
    while found_round := open_round(study, course):
        (trial,) = found_round.trials
        number, found = trial.number, trial.params
        if found["x"] > 0.4:  # the larger part collapses
            study.tell(number, state=TrialState.FAIL)
        else:
            study.tell(number, 0.5 - (found["x"] - 0.2) ** 2 - (found["y"] - 0.7) ** 2)
    modelled = study.trials[5:]
    failed = [trial for trial in study.trials if trial.state == TrialState.FAIL]
    assert sum(trial.state == TrialState.FAIL for trial in modelled) <= 8  # of 20; random draws fail in 12
    assert failed
    assert all(trial.value is None for trial in failed)
