"""A store on a PostgreSQL server: the server goes away and comes back, or does not; no password is shown."""

import threading
import time
from collections.abc import Iterator

import pytest
from postgres import MAX_CONNECTIONS, PASSWORD, PostgreSQL, postgresql
from sqlalchemy import Connection, insert, inspect, select
from test_results_store import fold_record

from results import database
from results.claims import new_owner
from results.database import Database
from results.errors import ResultsError, StoreUnavailable
from results.schema import META
from results.store import Store

psycopg = pytest.importorskip("psycopg", reason="the driver is missing: pip install 'mlrc-harness[postgres]'")


@pytest.fixture
def server() -> Iterator[PostgreSQL]:
    running = postgresql()
    yield running
    running.start()  # the next test finds it running


@pytest.fixture
def store(server: PostgreSQL) -> Iterator[Store]:
    with Store.open(server.url()) as opened:
        yield opened


@pytest.mark.parametrize("mode", ["fast", "immediate"])
def test_a_write_waits_for_a_server_that_is_away_and_says_so_once(
    server: PostgreSQL, store: Store, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert store.add(fold_record(run=1))
    with server.away(1.0, mode):
        assert store.add(fold_record(run=2))
    assert store.records() == [fold_record(run=1), fold_record(run=2)]
    waiting, back = caplog.messages
    assert waiting.startswith(f"{store.name}: ")
    assert waiting.endswith("; waiting up to 600 s for the server.")
    assert back.startswith(f"{store.name}: the server is back after ")
    assert PASSWORD not in caplog.text


def test_a_read_waits_too(server: PostgreSQL, store: Store) -> None:
    store.add(fold_record())
    with server.away(0.5):
        assert store.records() == [fold_record()]


def test_a_transaction_that_the_server_lost_is_done_again_and_once(server: PostgreSQL) -> None:
    opened, n_calls = Database(server.url()), 0

    def work(connection: Connection) -> None:
        nonlocal n_calls
        n_calls += 1
        connection.execute(insert(META).values(key=f"call {n_calls}", value="x"))
        if n_calls == 1:
            server.stop("immediate")
            server.start()

    opened.write(work)
    keys = opened.read(lambda connection: connection.scalars(select(META.c.key)).all())
    assert sorted(keys) == ["call 2", "schema"]


def test_of_two_that_make_a_table_at_once_the_later_finds_it(server: PostgreSQL) -> None:
    url = server.url()
    slow, quick = Database(url), Database(url)

    def work(connection: Connection) -> bool:
        if inspect(connection).has_table("notes"):
            return False
        quick.write(lambda other: other.exec_driver_sql("CREATE TABLE notes (note TEXT)"))
        connection.exec_driver_sql("CREATE TABLE notes (note TEXT)")
        return True

    assert slow.write(work) is False


def test_a_server_that_stays_away_ends_the_wait_and_what_was_stored_is_there(
    server: PostgreSQL, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "SERVER_AWAY_S", 1.0)
    store.add(fold_record(run=1))
    server.stop()
    began = time.monotonic()
    with pytest.raises(StoreUnavailable, match="check that the server runs and can be reached, then run the same") as e:
        store.add(fold_record(run=2))
    assert 1.0 <= time.monotonic() - began < 10.0
    assert "\n" not in str(e.value)
    assert PASSWORD not in str(e.value)
    server.start()
    assert store.records() == [fold_record(run=1)]
    assert store.add(fold_record(run=2))


def test_a_server_that_never_answered_is_not_waited_for(
    server: PostgreSQL, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    server.stop()
    with pytest.raises(ResultsError, match="Connection refused; check that the server runs") as refused:
        Store.open(store.url)
    assert not isinstance(refused.value, StoreUnavailable)
    assert caplog.messages == []


def test_a_heart_beat_waits_for_no_server_and_a_claim_is_left_to_go_stale(
    server: PostgreSQL, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    owner = new_owner()
    assert store.claim("job", owner)
    server.stop()
    with pytest.raises(StoreUnavailable):
        store.beat(owner)
    store.release("job", owner)
    assert caplog.messages == []
    server.start()
    assert store.holder("job") == owner
    assert store.beat(owner) == 1


def test_a_server_that_takes_no_more_clients_is_waited_for(server: PostgreSQL, store: Store) -> None:
    url = store.url.replace("+psycopg", "")
    held = [psycopg.connect(url) for _ in range(MAX_CONNECTIONS - 1)]  # and one that `store` keeps
    with pytest.raises(psycopg.OperationalError, match="too many clients"):
        psycopg.connect(url)
    timer = threading.Timer(1.0, lambda: [connection.close() for connection in held])
    timer.start()
    with Store.open(store.url) as other:
        assert not timer.is_alive()
        assert other.records() == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ((f":{PASSWORD}@", ":wr0ng@"), 'authentication failed for user "mlrc"; check user and password; PGPASSWORD or'),
        ((f":{PASSWORD}@", "@"), "no password supplied; PGPASSWORD or ~/.pgpass may hold the password."),
        (("/store_", "/nosuch_"), "does not exist; check the name of the database; createdb makes one."),
        (("127.0.0.1", "nosuch.invalid"), "check the name of the server."),
        (("127.0.0.1", "a..b"), "the store's URL cannot be parsed"),
        (("@127.0.0.1", "@ss@127.0.0.1"), "the store's URL has an @ too many; in a user or password, write it as %40."),
    ],
)
def test_an_address_that_is_wrong_says_what_to_look_at(
    server: PostgreSQL, change: tuple[str, str], message: str
) -> None:
    url = server.url().replace(*change)
    with pytest.raises(ResultsError) as refused:
        Store.open(url)
    said = str(refused.value)
    assert message in said
    assert "\n" not in said
    assert not any(secret in said for secret in (PASSWORD, "wr0ng", "ss@"))


def test_text_of_any_language_is_kept_whatever_the_encoding_of_the_database(server: PostgreSQL) -> None:
    for encoding in ("UTF8", "SQL_ASCII"):
        with Store.open(server.url(encoding)) as store:
            store.add(fold_record("méthode 方法"))
            assert store.records(method="méthode 方法") == [fold_record("méthode 方法")]


def test_a_claim_may_be_named_by_a_long_path(store: Store) -> None:
    assert store.claim("/".join(["folder"] * 300), new_owner())


def test_a_read_of_several_queries_sees_one_state_of_the_database(store: Store) -> None:
    reader, writer = Database(store.url), Database(store.url)

    def work(connection: Connection) -> list[int]:
        counts = []
        for key in ("a", "b"):
            counts.append(len(connection.execute(select(META)).all()))
            writer.write(lambda other, key=key: other.execute(insert(META).values(key=key, value="x")))
        return counts

    assert reader.read(work) == [1, 1]
    assert len(reader.read(lambda connection: connection.execute(select(META)).all())) == 3
