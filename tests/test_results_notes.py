"""Notes: what was put last under a name is there, whoever comes at the same time."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from postgres import DATABASES, new_address

from results.store import Store


@pytest.fixture(params=DATABASES)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return new_address(request.param, tmp_path)


@pytest.fixture
def store(address: str) -> Iterator[Store]:
    with Store.open(address) as opened:
        yield opened


def test_the_last_note_of_a_name_and_kind_stands(store: Store, address: str) -> None:
    assert store.note("suite", "a") is None
    store.put_note("suite", "a", {"methods": ["größe 距離"]})
    assert store.note("suite", "a") == {"methods": ["größe 距離"]}
    store.put_note("suite", "a", "another")
    with Store.open(address) as again:
        assert again.note("suite", "a") == "another"
        assert again.note("data", "a") is None


def test_a_name_may_be_a_long_path_of_any_script(store: Store) -> None:
    names = ["/" + "größe 距離/" * 100 + end for end in "ab"]
    for name in names:
        store.put_note("data", name, name)
    assert [store.note("data", name) for name in names] == names


def test_of_eight_that_write_a_note_at_once_each_succeeds_and_one_stands(address: str) -> None:
    Store.open(address).close()
    all_ready = threading.Barrier(8)

    def put(number: int) -> None:
        with Store.open(address) as store:
            all_ready.wait()
            store.put_note("suite", "a", number)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(put, range(8)))
    with Store.open(address) as store:
        assert store.note("suite", "a") in range(8)
