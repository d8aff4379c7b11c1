"""Searches that are run otherwise than usual, and such as are stopped: forks, rounds, pruning, warm starts, stops.

The generator of `benchmark.search.search` is driven by hand; its jobs are answered by a known surface, with real
records whose value is replaced, so that nothing but one fold is trained.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from io import StringIO
from pathlib import Path
from statistics import fmean

import optuna
import pytest
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import FrozenTrial, TrialState
from rich.console import Console
from tiny import MARGINS, tiny_bench

from benchmark.bench import Bench
from benchmark.errors import BenchmarkError
from benchmark.jobs import Job
from benchmark.methods.entry import MethodEntry
from benchmark.methods.registry import method_entry
from benchmark.oversight.status import remarks, status_lines
from benchmark.oversight.workload import left_of
from benchmark.progress import SuiteProgress
from benchmark.search.course import course_notes
from benchmark.search.rules import SearchRules
from benchmark.search.search import no_winner, search, winner
from benchmark.search.trials import open_trials
from benchmark.training.training import run_fold
from results.record import FoldRecord
from results.store import Store
from results.study import Study

EASE = (0.1, 0.0, -0.05, 0.02)  # what each fold adds to every trial
UNIT = FloatDistribution(0.0, 1.0)
Value = Callable[[dict], float | str]  # MAP@R of a trial, or the reason of its failure


def entry_over(space: dict[str, BaseDistribution], **published: dict) -> MethodEntry:
    keys = {name.replace("_", ":", 1): values for name, values in published.items()}
    return MethodEntry(
        name="probe",
        family="pair",
        build=lambda **_: None,
        space=lambda _: space,
        source="a test",
        formula="none",
        published=keys,
    )


PROBE = entry_over({"x": UNIT})


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return tiny_bench(
        tmp_path_factory.mktemp("bench"), "max_steps=1", "sampler=tpe", "n_trials=8", "n_startup_trials=3"
    )


@pytest.fixture(scope="module")
def trained(bench: Bench) -> FoldRecord:
    return run_fold(bench.job(method_entry("contrastive"), MARGINS, run=0, fold=0), bench)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(str(tmp_path / "mlrc.db")) as opened:
        yield opened


class Played(list[Job]):
    """The jobs that were answered, in order; `batches` has how many came at once."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[int] = []


class Player:
    """Answers the jobs of searches as the driver does: what is in the store is not run again."""

    def __init__(self, store: Store | None, trained: FoldRecord) -> None:
        self._store, self._trained = store, trained

    def play(self, bench: Bench, entry: MethodEntry, value: Value, stop_after: int | None = None) -> Played:
        steps = search(entry, bench, self._store, open_trials(self._store))
        played = Played()
        try:
            batch = next(steps)
            while True:
                played.batches.append(len(batch))
                records = []
                for job in batch:
                    record = self._store.get(job.id)
                    if not isinstance(record, FoldRecord) or record.reason == "out-of-memory":
                        if len(played) == stop_after:
                            return played
                        record = self._record(bench, job, value)
                        played.append(job)
                        self._store.add(record)
                    records.append(record)
                if any(record.reason == "out-of-memory" for record in records):
                    return played  # the driver ends a campaign that the machine stops
                batch = steps.send(records)
        except StopIteration:
            return played
        finally:
            steps.close()

    def _record(self, bench: Bench, job: Job, value: Value) -> FoldRecord:
        found = value(dict(job.hyperparameters))
        record = replace(self._trained, id=job.id, identity=bench.identity(job), fold=job.fold, seed=job.seed)
        if isinstance(found, str):
            return replace(record, outcome="failed", reason=found, message="as the test says", validation=None)
        assert record.validation is not None
        return replace(record, validation={**record.validation, "map_at_r": found + EASE[job.fold]})


@pytest.fixture
def player(store: Store, trained: FoldRecord) -> Player:
    return Player(store, trained)


def hill(point: dict) -> float:
    return 0.6 - (point["x"] - 0.3) ** 2


def with_rules(bench: Bench, **rules) -> Bench:
    return replace(bench, rules=SearchRules(**rules))


def trials_of(store: Store, study: Study | None) -> list[FrozenTrial]:
    assert study is not None
    return optuna.load_study(study_name=study.optuna_name, storage=open_trials(store)).get_trials()


def states(trials: list[FrozenTrial]) -> list[tuple]:
    return [(trial.params, trial.state.name, trial.value, trial.intermediate_values) for trial in trials]


# --- a plain search


def test_every_trial_shows_its_folds_and_every_study_what_it_is(bench: Bench, store: Store, player: Player) -> None:
    player.play(bench, PROBE, lambda point: "collapsed" if point["x"] > 0.6 else hill(point))
    study = bench.study(PROBE, store)
    opened = optuna.load_study(study_name=study.optuna_name, storage=open_trials(store))
    assert study.optuna_name == f"demo@1+/{bench.index.name}/probe/{study.id[:8]}"
    assert opened.user_attrs["protocol"] == "demo@1+"
    assert opened.user_attrs["data set"] == bench.index.name
    assert opened.user_attrs["method"] == "probe"
    for trial in opened.trials:
        if trial.state == TrialState.FAIL:
            assert trial.user_attrs["reason"] == "fold 0: collapsed: as the test says"
        else:
            assert trial.intermediate_values == {fold: hill(trial.params) + ease for fold, ease in enumerate(EASE)}
            assert trial.value == pytest.approx(fmean(trial.intermediate_values.values()))
    assert {trial.state for trial in opened.trials} == {TrialState.COMPLETE, TrialState.FAIL}


def test_an_objective_that_is_never_a_number_leaves_failed_trials_and_says_so(
    bench: Bench, store: Store, player: Player
) -> None:
    player.play(bench, PROBE, lambda point: "non-finite")
    study = bench.study(PROBE, store)
    assert (study.n_finished, study.n_failed, study.best_trial) == (0, 8, None)
    assert no_winner(study, store) == "0 of 8 trials finished: 32 folds non-finite; the first: as the test says"


# --- stopped searches


@pytest.mark.parametrize("rules", [{}, {"parallel_trials": 3}, {"parallel_trials": 2, "pruning": True}], ids=str)
def test_a_search_that_is_killed_after_every_few_folds_equals_an_undisturbed_one(
    bench: Bench, store: Store, trained: FoldRecord, tmp_path: Path, rules: dict
) -> None:
    bench = with_rules(bench, **rules)
    with Store.open(str(tmp_path / "whole.db")) as whole:
        undisturbed = Player(whole, trained).play(bench, PROBE, hill)
        wanted = states(trials_of(whole, bench.study(PROBE, whole)))
    player, jobs = Player(store, trained), []
    while played := player.play(bench, PROBE, hill, stop_after=7):
        jobs += played
    assert {job.id for job in jobs} == {job.id for job in undisturbed}
    assert len(jobs) == len(undisturbed)  # no fold was run twice
    assert states(trials_of(store, bench.study(PROBE, store))) == wanted


def test_a_trial_that_a_kill_left_open_goes_on_with_a_note(bench: Bench, store: Store, player: Player) -> None:
    player.play(bench, PROBE, hill, stop_after=6)
    (_, before) = trials_of(store, bench.study(PROBE, store))
    assert before.state == TrialState.RUNNING
    assert len(player.play(bench, PROBE, hill)) == 8 * 4 - 6
    found = trials_of(store, bench.study(PROBE, store))
    assert (found[1].params, found[1].state) == (before.params, TrialState.COMPLETE)
    assert [len(trial.user_attrs.get("resumed at", [])) for trial in found] == [0, 1, *[0] * 6]
    assert player.play(bench, PROBE, hill) == []  # the budget is a total


def test_a_trial_that_the_machine_stops_three_times_has_failed_and_the_search_goes_on(
    bench: Bench, store: Store, trained: FoldRecord
) -> None:
    clock = iter(range(60))

    class Aging(Player):
        def _record(self, bench: Bench, job: Job, value: Value) -> FoldRecord:
            record = super()._record(bench, job, value)
            made = f"2024-05-17T12:00:{next(clock):02d}+00:00"
            return replace(record, provenance=replace(record.provenance, created_at=made))

    player, first = Aging(store, trained), {}

    def value(point: dict) -> float | str:
        first.setdefault("x", point["x"])
        return "out-of-memory" if point["x"] == first["x"] else hill(point)

    for attempt in range(3):
        assert len(player.play(bench, PROBE, value)) == 4  # side by side, and one attempt
        assert trials_of(store, bench.study(PROBE, store))[0].state == TrialState.RUNNING, attempt
        assert len(player.play(bench, PROBE, value, stop_after=0)) == 0  # a stop by the user is no attempt
    player.play(bench, PROBE, value)
    found = trials_of(store, bench.study(PROBE, store))
    assert [trial.state for trial in found] == [TrialState.FAIL, *[TrialState.COMPLETE] * 7]
    assert found[0].user_attrs["reason"] == "fold 0: out-of-memory: as the test says; the 3 attempts ended so"


# --- trials at once


def test_trials_that_run_at_once_are_one_batch_and_equal_ones_share_their_folds(
    bench: Bench, store: Store, player: Player
) -> None:
    played = player.play(with_rules(bench, parallel_trials=3), entry_over({"x": FloatDistribution(0, 1)}), hill)
    assert played.batches == [12, 12, 8]
    one = entry_over({"x": IntDistribution(1, 1)})
    played = player.play(with_rules(bench, parallel_trials=3, fork=True), one, lambda point: 0.5)
    assert played.batches == [4, 4, 4]
    assert len(played) == 4
    assert bench.study(one, store).n_finished == 8


def test_what_is_left_is_planned_by_rounds(bench: Bench, store: Store, player: Player) -> None:
    bench = with_rules(bench, parallel_trials=3)
    player.play(bench, PROBE, hill, stop_after=12 + 1)
    left = left_of(PROBE, bench, store, None)
    assert left.trials == (3, 8)
    assert left.search_folds == (11, 8)


def test_the_folds_of_trials_that_run_at_once_are_told_apart(bench: Bench, trained: FoldRecord) -> None:
    console = Console(file=StringIO(), width=120)
    player = Player(None, trained)
    points = [{"x": 0.3}, {"x": 0.8}]
    with SuiteProgress({"probe": 8}, 4, console, {"probe": 0}) as progress:
        for fold in range(4):
            for point in points:
                job = bench.job(PROBE, point, run=0, fold=fold)
                progress.work_done("probe", job, player._record(bench, job, hill), fresh=True)
    said = console.file.getvalue().splitlines()
    means = [100 * (hill(point) + fmean(EASE)) for point in points]
    assert [line.partition(" (")[0] for line in said] == [
        f"probe: trial {number}: validation MAP@R {mean:.2f}" for number, mean in enumerate(means, start=1)
    ]


# --- pruning


def test_a_pruned_trial_spares_its_last_fold_counts_and_cannot_win(bench: Bench, store: Store, player: Player) -> None:
    bench = with_rules(bench, pruning=True)
    played = player.play(bench, PROBE, hill)
    study = bench.study(PROBE, store)
    trials = trials_of(store, study)
    pruned = [trial for trial in trials if trial.state == TrialState.PRUNED]
    assert pruned
    assert (study.n_pruned, study.n_finished, study.n_told) == (len(pruned), 8 - len(pruned), 8)
    assert len(played) == 4 * 8 - len(pruned)
    assert set(played.batches) == {3, 1}
    for trial in pruned:
        assert len(trial.intermediate_values) == 3
        assert trial.user_attrs["note"] == "pruned after 3 of 4 folds"
        assert trial.user_attrs["predicted"] == pytest.approx(hill(trial.params) + fmean(EASE))
    # The mean of the first three folds is above that of all four: it must not make a pruned trial the best.
    assert study.best_value == max(trial.value for trial in trials if trial.state == TrialState.COMPLETE)
    assert study.best_hyperparameters == max(trials, key=lambda trial: hill(trial.params)).params
    (line,) = status_lines(store)
    assert line["trials"] == {"done": 8 - len(pruned), "failed": 0, "pruned": len(pruned), "of": 8}
    assert line["rules"] == "pruning"


def test_a_failed_fold_of_a_search_with_pruning_spares_the_rest(bench: Bench, store: Store, player: Player) -> None:
    assert len(player.play(with_rules(bench, pruning=True), PROBE, lambda point: "collapsed")) == 8 * 3
    assert bench.study(PROBE, store).n_failed == 8


def test_pruning_with_too_few_folds_is_refused(tmp_path: Path, store: Store) -> None:
    bench = with_rules(tiny_bench(tmp_path, "n_folds=3"), pruning=True)
    with pytest.raises(BenchmarkError, match=r"--pruning compares 3 folds before it spares one, and demo@1\+ has 3"):
        next(search(PROBE, bench, store, open_trials(store)))


# --- forks


PROXIES = tuple(entry_over({"n_proxies": CategoricalDistribution(choices)}) for choices in ([1, 4, 8], [1, 4, 8, 12]))


def test_a_changed_space_is_searched_in_a_fork_and_the_old_trials_stay(
    bench: Bench, store: Store, player: Player
) -> None:
    few, more = PROXIES
    player.play(bench, few, lambda point: 0.1 + point["n_proxies"] / 100, stop_after=9)
    before = bench.study(few, store)
    with pytest.raises(BenchmarkError, match="or begin a new study beside it with --fork") as refused:
        player.play(bench, more, lambda point: 0.5)
    assert before.optuna_name in str(refused.value)
    assert bench.study(more, store) == before
    forking = with_rules(bench, fork=True)
    player.play(forking, more, lambda point: 0.1 + point["n_proxies"] / 100)
    after = bench.study(more, store)
    assert after.optuna_name == f"{before.optuna_name}/fork-1-{after.space_hash[:8]}"
    assert len(trials_of(store, after)) == 8
    old = trials_of(store, before)
    assert len(old) == 3
    assert old[0].value is not None
    assert [trial.state for trial in old[:2]] == [TrialState.COMPLETE] * 2
    assert (old[2].state, old[2].user_attrs["note"]) == (TrialState.FAIL, f"superseded by {after.optuna_name}")
    assert winner(more, bench, store) == {"n_proxies": 12}  # which the old space lacks
    assert player.play(forking, more, lambda point: 0.5) == []  # the same command again does nothing
    (line,) = status_lines(store)
    assert (line["study"], line["trials"]["of"]) == (after.optuna_name, 8)
    assert line["superseded"] == [f"{before.optuna_name} (2 of 8 trials, best 15.75)"]
    assert f"probe: the search in force is {after.optuna_name}; before it, {before.optuna_name}" in remarks([line])[0]


def test_finals_wait_for_a_fork_that_has_begun(bench: Bench, store: Store, player: Player) -> None:
    few, more = PROXIES
    player.play(bench, few, lambda point: 0.5)
    assert winner(few, bench, store) == winner(more, bench, store)
    assert player.play(with_rules(bench, fork=True), more, lambda point: 0.5, stop_after=0) == []
    with pytest.raises(BenchmarkError, match=r"probe: \d of 8 trials are done; search it first"):
        winner(more, bench, store)


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ({"parallel_trials": 2}, "2 trials at once"),
        ({"sampler": "random"}, "random"),
        ({"pruning": True}, "pruning"),
        ({"enqueue": "published"}, "1 published first"),
    ],
    ids=str,
)
def test_a_study_is_not_gone_on_with_by_other_rules(
    bench: Bench, store: Store, player: Player, rules: dict, said: str
) -> None:
    entry = entry_over({"x": UNIT}, mlrc_sop={"x": 0.5})
    player.play(bench, entry, hill, stop_after=4)
    with pytest.raises(BenchmarkError, match=rf"began with other rules \(none then, {said} now\).*--fork"):
        player.play(with_rules(bench, **rules), entry, hill)
    assert player.play(with_rules(bench, **rules, fork=True), entry, hill, stop_after=1)
    assert bench.study(entry, store).rules_in_words == said
    with pytest.raises(BenchmarkError, match=rf"\({said} then, none now\)"):
        player.play(bench, entry, hill)


def test_rules_that_are_as_usual_leave_the_study_as_it_was(bench: Bench, store: Store, player: Player) -> None:
    player.play(bench, PROBE, hill, stop_after=4)
    known = bench.study(PROBE, store)
    assert (known.rules, known.fingerprint, known.fork) == ("{}", known.space_hash, 0)
    player.play(with_rules(bench, sampler="tpe", enqueue="published"), PROBE, hill)  # the protocol's; none is published
    assert bench.study(PROBE, store).optuna_name == known.optuna_name


# --- warm starts and grids


def test_published_values_are_the_first_trials_and_are_told_of(bench: Bench, store: Store, player: Player) -> None:
    entry = entry_over({"x": UNIT}, mlrc_cub200={"x": 0.3}, mlrc_sop={"x": 7.0}, ccp_sop={"x": 0.9})
    bench = with_rules(bench, enqueue="published")
    player.play(bench, entry, hill)
    trials = trials_of(store, bench.study(entry, store))
    assert len(trials) == 8
    assert [(trial.params["x"], trial.user_attrs["source"]) for trial in trials[:2]] == [
        (0.3, "mlrc:cub200"),
        (0.9, "ccp:sop"),
    ]
    assert winner(entry, bench, store) == {"x": 0.3}
    assert course_notes([entry], bench) == ["probe: mlrc:sop is not tried first: x = 7.0 outside of the search space."]
    assert course_notes([PROBE], bench) == ["probe: no published values to begin with."]


def test_a_grid_ends_when_every_point_was_tried_and_its_search_is_done(
    bench: Bench, store: Store, player: Player
) -> None:
    entry = entry_over({"n": IntDistribution(1, 5)}, mlrc_sop={"n": 4})
    bench = with_rules(bench, sampler="grid", enqueue="published", parallel_trials=2)
    assert course_notes([entry], bench) == ["probe: its grid has 5 points; all are tried."]
    player.play(bench, entry, lambda point: 0.1 * point["n"])
    study = bench.study(entry, store)
    assert (study.n_finished, study.n_trials) == (5, 5)
    found = [trial.params["n"] for trial in trials_of(store, study)]
    assert found[0] == 4
    assert sorted(found) == [1, 2, 3, 4, 5]
    assert winner(entry, bench, store) == {"n": 5}
    wide = entry_over({"n": IntDistribution(1, 100)})
    assert course_notes([wide], bench)[-1] == ("probe: its grid has 100 points; 8 of them are tried, spread over all.")


def test_a_search_that_models_nothing_is_told_of(bench: Bench, tmp_path: Path) -> None:
    assert course_notes([PROBE], bench) == []
    few = tiny_bench(tmp_path, "n_trials=2", "n_startup_trials=2")
    (note,) = course_notes([PROBE], few)
    assert note == "2 trials are no more than the 2 random ones that a search begins with: this is a random search."
    (note,) = course_notes([PROBE], tiny_bench(tmp_path, "n_trials=1", "n_startup_trials=2"))
    assert note.startswith("1 trial is fewer than the 2 random ones")
    assert course_notes([PROBE], with_rules(few, sampler="random")) == []
    assert course_notes([method_entry("pixels")], few) == []
    (note,) = course_notes([PROBE], with_rules(bench, parallel_trials=8))
    assert "--parallel-trials 8 proposes all of them before one has an answer" in note
