"""Clocks that are set, or differ between hosts: who lives keeps a claim, no record is lost, no pace is negative."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tiny import tiny_bench

from benchmark.executors.worker import perform
from benchmark.methods.registry import method_entry
from benchmark.oversight.status import remarks, status_lines
from results import claims
from results.claims import Watch, campaign_claim, new_owner
from results.record import FoldRecord
from results.store import Store

FIRST, SECOND = "far:1:a", "far:2:b"  # owners on another host, of which nothing but their beats is known


class Clock:
    """Both clocks of a host; `wall` may be set, `steady` only goes on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.wall, self.steady = 1_800_000_000.0, 500.0
        monkeypatch.setattr(claims.time, "time", lambda: self.wall)
        monkeypatch.setattr(claims.time, "monotonic", lambda: self.steady)

    def pass_s(self, seconds: float) -> None:
        self.wall, self.steady = self.wall + seconds, self.steady + seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store.open(str(tmp_path / "store.db"))


@pytest.mark.parametrize("set_by_s", [-86_400.0, -300.0, 300.0, 86_400.0])
def test_an_owner_that_beats_keeps_its_claim_when_the_clock_is_set(store: Store, clock: Clock, set_by_s: float) -> None:
    assert store.claim("job", FIRST)
    clock.pass_s(3)
    assert not store.claim("job", SECOND)
    clock.wall += set_by_s
    for _ in range(10):  # the next beat is up to ten seconds away; until then its last one seems long ago
        assert not store.claim("job", SECOND)
        clock.pass_s(1)
    assert store.beat(FIRST) == 1
    assert not store.claim("job", SECOND)
    assert store.holder("job") == FIRST


@pytest.mark.parametrize("ahead_s", [-600.0, 600.0])
def test_hosts_whose_clocks_differ_take_nothing_from_each_other(store: Store, clock: Clock, ahead_s: float) -> None:
    assert store.claim("job", FIRST)
    for _ in range(30):
        clock.wall += ahead_s  # the other host asks
        assert not store.claim("job", SECOND)
        clock.wall -= ahead_s
        clock.pass_s(10)
        assert store.beat(FIRST) == 1


@pytest.mark.parametrize("set_by_s", [-86_400.0, 0.0, 86_400.0])
def test_an_owner_that_is_silent_is_replaced_whatever_the_clock_says(
    store: Store, clock: Clock, set_by_s: float
) -> None:
    assert store.claim("job", FIRST)
    clock.wall += set_by_s
    waited_s = 0.0
    while not store.claim("job", SECOND):
        clock.pass_s(5)
        waited_s += 5
        assert waited_s < 100
    assert waited_s >= claims.WATCHED_S
    assert store.beat(FIRST) == 0


def test_a_beat_that_was_seen_before_counts_from_when_it_was_seen_first(clock: Clock) -> None:
    watch = Watch()
    assert watch.silent_s("job", FIRST, 7.0) == 0.0
    clock.pass_s(30)
    assert watch.silent_s("job", FIRST, 7.0) == 30.0
    assert watch.silent_s("job", FIRST, 8.0) == 0.0
    assert watch.silent_s("other", FIRST, 8.0) == 0.0


def test_a_record_that_is_done_replaces_a_failed_one_from_the_future(store: Store, tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path)
    done = perform(bench.job(method_entry("untrained"), {}, run=1, fold=0))
    assert isinstance(done, FoldRecord)
    assert done.outcome == "done"
    failed = replace(
        done, outcome="failed", reason="data-error", message="gone", test=None, validation=None, evaluation_audit=None
    )

    def at(record: FoldRecord, days: int) -> FoldRecord:
        told = (datetime.now(UTC) + timedelta(days=days)).isoformat(timespec="seconds")
        return replace(record, provenance=replace(record.provenance, created_at=told))

    today = at(done, 0)
    assert store.add(at(failed, +365))
    assert not store.add(at(failed, 0))  # failed too: it says nothing new, and its job runs again in any case
    assert store.add(today)
    assert not store.add(at(failed, +730))
    assert store.records() == [today]


@pytest.mark.parametrize("set_by_min", [-1440, -30, -1, 30, 1440])
def test_no_pace_is_negative_when_the_clock_was_set_in_mid_run(store: Store, tmp_path: Path, set_by_min: int) -> None:
    bench, entry = tiny_bench(tmp_path), method_entry("untrained")
    record = perform(bench.job(entry, {}, run=1, fold=0))
    assert isinstance(record, FoldRecord)
    store.claim(campaign_claim(bench.comparison, entry.name, entry.code), new_owner())
    noon = datetime(2024, 5, 17, 12, tzinfo=UTC)
    for number in range(6):
        minutes = number + (set_by_min if number >= 3 else 0)
        made = (noon + timedelta(minutes=minutes)).isoformat(timespec="seconds")
        provenance = replace(record.provenance, created_at=made)
        store.add(replace(record, id=f"{number:016x}", seconds={"train": 60.0}, provenance=provenance))
    (line,) = status_lines(store)
    assert line["folds_per_hour"] > 0
    assert line["left"] > 0
    newest = noon + timedelta(minutes=max(2, 5 + set_by_min))
    assert datetime.fromisoformat(line["expected_end"]) > newest
    assert ", -" not in remarks([line])[0]
