"""Claims: one holder at a time, and no claim outlives its owner for long."""

import multiprocessing
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from postgres import DATABASES, new_address

from results import claims
from results.claims import new_owner
from results.database import Database
from results.store import Store

SPAWN = multiprocessing.get_context("spawn")


@pytest.fixture(params=DATABASES)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return new_address(request.param, tmp_path)


@pytest.fixture
def store(address: str) -> Iterator[Store]:
    with Store.open(address) as opened:
        yield opened


@pytest.fixture
def database(address: str) -> Iterator[Database]:
    opened = Database(address)
    yield opened
    opened.close()


def take(database: Database, owner: str, now: float) -> bool:
    return database.write(lambda connection: claims.take(connection, "job", owner, 60, now))


def beat(database: Database, owner: str, now: float) -> int:
    return database.write(lambda connection: claims.beat(connection, owner, now))


def test_a_claim_is_held_until_it_is_released(store: Store) -> None:
    first, second = new_owner(), new_owner()
    assert store.claim("job", first)
    assert store.claim("job", first)
    assert not store.claim("job", second)
    store.release("job", second)  # not its own
    assert store.holder("job") == first
    store.release("job", first)
    assert store.holder("job") is None
    assert store.claim("job", second)


def test_a_claim_whose_owner_is_silent_is_taken_over_and_a_beat_keeps_it(database: Database) -> None:
    first, second = "far:1:a", "far:2:b"
    assert take(database, first, 1000.0)
    assert not take(database, second, 1060.0)
    assert beat(database, first, 1059.0) == 1
    assert not take(database, second, 1119.0)
    assert take(database, second, 1120.0)
    assert beat(database, first, 1121.0) == 0  # so the first learns of it
    assert not take(database, first, 1121.0)


def test_a_clock_that_was_set_back_does_not_keep_a_claim_for_ever(database: Database) -> None:
    assert take(database, "far:1:a", 1_000_000.0)
    assert not take(database, "far:2:b", 999_990.0)
    assert take(database, "far:2:b", 500_000.0)


def test_the_claim_of_a_process_that_is_gone_is_free_at_once(store: Store) -> None:
    host = new_owner().split(":")[0]
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        owner = f"{host}:{process.pid}:x"
        assert store.claim("job", owner)
        assert not store.claim("job", new_owner())
        assert store.holder("job") == owner
    assert store.holder("job") is None
    assert store.claim("job", new_owner())


def take_claims(address: str, names: list[str], won: "multiprocessing.Queue[str]") -> None:
    with Store.open(address) as store:
        owner = new_owner()
        for name in names:
            if store.claim(name, owner):
                won.put(name)
        time.sleep(1.0)  # the process must outlive the others' tries: a dead owner's claim is free


def test_of_three_processes_that_want_a_claim_one_gets_it(address: str) -> None:
    names = [f"job {index}" for index in range(20)]
    won = SPAWN.Queue()
    workers = [SPAWN.Process(target=take_claims, args=(address, names, won)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert sorted(won.get(timeout=1) for _ in names) == sorted(names)
    assert won.empty()
