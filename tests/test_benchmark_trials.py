"""Optuna's trials in the store, on both databases: several processes and a reader at once, a server that comes back."""

import multiprocessing
import time
from collections.abc import Iterator
from pathlib import Path

import optuna
import pytest
from optuna.distributions import FloatDistribution
from postgres import DATABASES, PASSWORD, PostgreSQL, new_address, postgresql

from benchmark.search.trials import database_errors, open_trials
from results import database
from results.errors import StoreUnavailable
from results.store import Store

SPACE = {"margin": FloatDistribution(0.0, 1.0)}


@pytest.fixture(autouse=True)
def quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.WARNING)


@pytest.fixture
def server() -> Iterator[PostgreSQL]:
    running = postgresql()
    yield running
    running.start()


def new_study(store: Store, name: str = "contrastive") -> optuna.Study:
    return optuna.create_study(storage=open_trials(store), study_name=name, direction="maximize", load_if_exists=True)


def tell_trials(address: str, name: str, n_trials: int) -> None:
    with Store.open(address) as store:
        study = new_study(store, name)
        for _ in range(n_trials):
            trial = study.ask(fixed_distributions=SPACE)
            study.tell(trial, trial.params["margin"])


@pytest.mark.parametrize("kind", DATABASES)
def test_four_processes_tell_their_trials_while_another_reads(kind: str, tmp_path: Path) -> None:
    address = new_address(kind, tmp_path)
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=tell_trials, args=(address, f"study {index}", 5)) for index in range(4)]
    for writer in writers:
        writer.start()
    with Store.open(address) as store:
        storage = open_trials(store)
        while any(writer.is_alive() for writer in writers):
            for found in storage.get_all_studies():
                storage.get_all_trials(found._study_id, deepcopy=False)
            time.sleep(0.02)
        for writer in writers:
            writer.join()
        assert [writer.exitcode for writer in writers] == [0, 0, 0, 0]
        for index in range(4):
            trials = optuna.load_study(storage=storage, study_name=f"study {index}").get_trials()
            assert [(trial.number, trial.value == trial.params["margin"]) for trial in trials] == [
                (number, True) for number in range(5)
            ]


def test_a_proposal_and_an_answer_wait_for_a_server_that_is_away(
    server: PostgreSQL, caplog: pytest.LogCaptureFixture
) -> None:
    with Store.open(server.url()) as store:
        study = new_study(store)
        with server.away(0.5):
            trial = study.ask(fixed_distributions=SPACE)
        with server.away(0.5, "immediate"):
            study.tell(trial, 0.5)
        assert [trial.value for trial in study.get_trials()] == [0.5]
        assert [message.startswith(store.name) for message in caplog.messages] == [True] * 4


def test_a_server_that_stays_away_ends_a_proposal_in_one_line(
    server: PostgreSQL, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "SERVER_AWAY_S", 0.5)
    with Store.open(server.url()) as store:
        study = new_study(store)
        server.stop()
        with pytest.raises(StoreUnavailable, match="check that the server runs") as caught, database_errors(store):
            study.ask(fixed_distributions=SPACE)
    assert PASSWORD not in str(caught.value)


def test_a_trial_that_another_process_told_meanwhile_is_left_as_it_is(tmp_path: Path) -> None:
    from tiny import tiny_bench  # here, with torch, as the processes of the test above import this file

    from benchmark.methods.registry import method_entry
    from benchmark.search.search import search

    bench = tiny_bench(tmp_path)
    with Store.open(str(tmp_path / "store.db")) as store:
        storage = open_trials(store)
        steps = search(method_entry("contrastive"), bench, store, storage)
        next(steps)
        (name,) = (found.study_name for found in storage.get_all_studies())
        other = optuna.load_study(storage=storage, study_name=name)
        other.tell(0, 0.5)
        steps.send([])
        assert [trial.value for trial in other.get_trials()] == [0.5, None]


def test_a_server_that_is_lost_in_the_midst_of_a_step_ends_it_in_one_line(server: PostgreSQL) -> None:
    with Store.open(server.url()) as store:
        study = new_study(store)
        study._storage._backend.scoped_session().connection()  # a transaction of Optuna's that is under way
        server.stop()
        with pytest.raises(StoreUnavailable, match="then run the same command again") as caught, database_errors(store):
            study.ask(fixed_distributions=SPACE)
    assert "\n" not in str(caught.value)
