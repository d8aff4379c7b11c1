"""The store: append-only records and the states of searches, also with several processes at once, on both databases."""

import multiprocessing
import os
import random
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from postgres import DATABASES, new_address

from results.errors import ResultsError
from results.record import FoldRecord, Identity, Provenance, Record, RunRecord, Validation
from results.store import Store
from results.study import Study

SPAWN = multiprocessing.get_context("spawn")


def fold_record(method: str = "contrastive", run: int = 1, fold: int = 0, digest: str = "aaaa") -> FoldRecord:
    return FoldRecord(
        id=f"{digest}-{method}-{run}-{fold}",
        identity=Identity(
            protocol={"title": "mini@1", "digest": digest, "values": {}},
            dataset={"name": "shapes", "content_hash": "dddd", "n_classes": 36, "n_images": 360},
            split={"kind": "wrapped", "digest": "ssss"},
            method=method,
            method_code="",
            hyperparameters={"pos_margin": 0.25},
            purpose="search" if run == 0 else "final",
            run=run,
        ),
        fold=fold,
        seed=run * 10 + fold,
        outcome="done",
        curve=tuple(Validation(step=50 * step, map_at_r=0.3, loss=1.25) for step in range(20)),
        validation={"map_at_r": 0.3},
        test=None if run == 0 else {"map_at_r": 0.25},
        seconds={"train": 12.5},
        peak_memory_bytes=10**9,
        provenance=Provenance(
            created_at="2020-08-23T12:00:00+00:00",
            versions={"python": "3.11.7"},
            device="cpu",
            threads=1,
            code_revision="0.1.0",
            trunk_weights="random",
        ),
    )


def run_record(method: str, run: int) -> RunRecord:
    fold = fold_record(method, run)
    return RunRecord(
        id=f"run-{method}-{run}",
        identity=fold.identity,
        members=tuple(fold_record(method, run, index).id for index in range(4)),
        test={"map_at_r": 0.35},
        embedding_dim=512,
        evaluation_audit={},
        seconds={},
        provenance=fold.provenance,
    )


def failed(record: FoldRecord, created_at: str) -> FoldRecord:
    provenance = replace(record.provenance, created_at=created_at)
    return replace(record, outcome="failed", reason="collapsed", message="constant", test=None, provenance=provenance)


@pytest.fixture(params=DATABASES)
def address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return new_address(request.param, tmp_path)


@pytest.fixture
def store(address: str) -> Iterator[Store]:
    with Store.open(address) as opened:
        yield opened


# --- records


def test_a_record_is_there_after_the_store_is_opened_again(address: str) -> None:
    records: list[Record] = [fold_record(), run_record("ms", 1)]
    with Store.open(address) as store:
        assert all(store.add(record) for record in records)
        url = store.url
    with Store.open(url) as store:
        assert [store.get(record.id) for record in records] == records
        assert store.get("nobody") is None


def test_a_record_that_is_done_is_never_changed(store: Store) -> None:
    record = fold_record()
    later = replace(record.provenance, created_at="2030-01-01T00:00:00+00:00")
    assert store.add(record)
    assert not store.add(record)
    assert not store.add(replace(record, test={"map_at_r": 0.9}, provenance=later))
    assert not store.add(failed(record, "2030-01-01T00:00:00+00:00"))
    assert store.get(record.id) == record


def test_a_failed_record_gives_way_to_a_later_outcome_only(store: Store) -> None:
    record = fold_record()
    noon, hour_before_noon = failed(record, "2020-08-23T12:00:00Z"), failed(record, "2020-08-23T11:00:00+00:00")
    after_noon = failed(record, "2020-08-23T12:00:00.5+00:00")
    assert store.add(noon)
    assert not store.add(noon)
    assert not store.add(hour_before_noon)
    assert store.get(record.id) == noon
    assert store.add(after_noon)
    assert store.get(record.id) == after_noon
    assert store.add(record)  # done, though its clock says that it came first
    assert store.records() == [record]


def test_records_come_in_a_stable_order_whatever_the_order_of_writing(store: Store) -> None:
    wanted: list[Record] = []
    for method in ("ArcFace", "contrastive", "ms"):
        for run in (1, 2, 10):
            wanted += [*(fold_record(method, run, fold) for fold in range(4)), run_record(method, run)]
    for record in random.Random(0).sample(wanted, len(wanted)):
        store.add(record)
    assert store.records() == wanted


def test_records_are_chosen_by_what_they_are_of(store: Store) -> None:
    records = [fold_record("ms", 0), fold_record("ms", 1), fold_record("triplet", 1), fold_record("ms", 1, digest="bb")]
    run = run_record("ms", 1)
    for record in [*records, run]:
        store.add(record)
    search, ms, triplet, other = records
    assert store.records(purpose="search") == [search]
    assert store.records(kind="run") == [run]
    assert store.records(kind="fold", method="triplet") == [triplet]
    assert store.records(protocol_digest="bb") == [other]
    assert store.records(protocol_digest="aaaa", purpose="final", method="ms", kind="fold") == [ms]
    assert store.records(dataset_hash="other") == store.records(split_digest="other") == []


def test_many_records_are_found_by_id_in_the_order_asked(store: Store) -> None:
    records = [fold_record(run=run) for run in range(3)]
    for record in records:
        store.add(record)
    absent = [f"absent {index}" for index in range(1500)]
    ids = [records[2].id, *absent, records[0].id, records[2].id]
    found = store.get_many(ids)
    assert list(found.items()) == [(records[2].id, records[2]), (records[0].id, records[0])]


def test_a_record_with_a_hole_is_refused_when_it_is_written(store: Store) -> None:
    with pytest.raises(ResultsError, match="test: map_at_r missing"):
        store.add(replace(fold_record(), test=None))
    assert store.records() == []


# --- several processes at once


def write_records(address: str, worker: int, n_records: int) -> None:
    with Store.open(address) as store:
        for fold in range(n_records):
            assert store.add(fold_record(f"method-{worker}", fold=fold))
            store.add(fold_record("everybody's", fold=fold))


def test_four_writers_and_a_reader_lose_nothing_and_double_nothing(address: str) -> None:
    writers = [SPAWN.Process(target=write_records, args=(address, worker, 40)) for worker in range(4)]
    for writer in writers:
        writer.start()
    n_seen = [0]
    while any(writer.is_alive() for writer in writers):
        with Store.open(address) as store:  # opened each time, as a viewer that comes and goes
            n_seen.append(len(store.records()))
        time.sleep(0.02)
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0, 0, 0, 0]
    assert n_seen == sorted(n_seen)
    with Store.open(address) as store:
        ids = [record.id for record in store.records()]
    wanted = {fold_record(f"method-{worker}", fold=fold).id for worker in range(4) for fold in range(40)}
    wanted |= {fold_record("everybody's", fold=fold).id for fold in range(40)}
    assert len(ids) == 200
    assert set(ids) == wanted


def test_a_writer_that_is_killed_leaves_whole_records_only(address: str) -> None:
    with Store.open(address) as store:
        writer = SPAWN.Process(target=write_records, args=(address, 0, 100_000))
        writer.start()
        while len(store.records(method="method-0")) < 10:
            assert writer.is_alive()
        assert writer.pid is not None
        os.kill(writer.pid, signal.SIGKILL)
        writer.join()
    with Store.open(address) as store:
        folds = [record.fold for record in store.records(method="method-0") if isinstance(record, FoldRecord)]
        assert folds == list(range(len(folds)))
        assert store.add(fold_record("afterwards"))


def test_a_store_is_of_use_in_a_forked_child_and_after_it_in_the_parent(store: Store) -> None:
    store.add(fold_record(run=1))
    child = multiprocessing.get_context("fork").Process(target=store.add, args=(fold_record(run=2),))
    child.start()
    child.join()
    assert child.exitcode == 0
    assert store.add(fold_record(run=3))
    assert len(store.records()) == 3


def test_optuna_keeps_its_studies_in_the_same_database(store: Store) -> None:
    import optuna  # here, as the writers of the other tests import this file

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(storage=store.url, study_name="contrastive")
    study.optimize(lambda trial: trial.suggest_float("margin", 0, 1), n_trials=2)
    assert store.add(fold_record())
    assert len(optuna.load_study(storage=store.url, study_name="contrastive").trials) == 2
    assert len(store.records()) == 1


# --- studies

STUDY = Study(
    protocol_title="mini@1",
    protocol_digest="aaaa",
    dataset_name="shapes",
    dataset_hash="dddd",
    split_digest="ssss",
    method="contrastive",
    method_code="",
    optuna_name="mini@1 shapes contrastive",
    space='{"pos_margin": "..."}',
    space_hash="1234",
    n_trials=10,
    n_finished=0,
    n_failed=0,
    best_trial=None,
    best_hyperparameters=None,
    best_value=None,
    best_standard_error=None,
    updated_at="2020-08-23T12:00:00+00:00",
)


def test_a_study_is_kept_in_its_last_state(store: Store) -> None:
    ended = replace(
        STUDY,
        n_finished=9,
        n_failed=1,
        best_trial=4,
        best_hyperparameters={"pos_margin": 0.25, "n": 3, "flag": True, "mode": "hard"},
        best_value=0.31,
        best_standard_error=0.01,
    )
    other = replace(STUDY, method="ms")
    for study in (STUDY, other, ended):
        store.put_study(study)
    key = {"protocol_digest": "aaaa", "dataset_hash": "dddd", "split_digest": "ssss", "method_code": ""}
    assert store.study(method="contrastive", **key) == ended
    assert store.study(method="triplet", **key) is None
    assert store.studies() == [ended, other]
    assert store.studies(protocol_digest="bbbb") == []


def test_a_comparison_counts_once_whether_it_has_records_a_search_or_both(store: Store) -> None:
    for record in (fold_record("ms"), fold_record("triplet"), fold_record("ms", digest="bbbb")):
        store.add(record)
    store.put_study(STUDY)
    store.put_study(replace(STUDY, protocol_digest="cccc"))
    assert store.comparisons() == [(digest, "dddd", "ssss") for digest in ("aaaa", "bbbb", "cccc")]


@pytest.mark.parametrize("change", [{"best_value": float("nan")}, {"best_value": 31.0}, {"n_trials": "ten"}])
def test_a_study_with_a_wrong_value_is_refused(store: Store, change: dict[str, object]) -> None:
    with pytest.raises(ResultsError, match="study of contrastive on shapes: "):
        store.put_study(replace(STUDY, **change))
    assert store.studies() == []
