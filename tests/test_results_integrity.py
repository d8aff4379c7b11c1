"""Records held to their own words: what does not follow from the rest of a record is found."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from genuine import VALUES, final_run, fold, identity, metrics, study

from results.errors import ResultsError
from results.exchange.fingerprints import ensemble_id, fold_seed, job_id, protocol_digest
from results.exchange.integrity import check_records, incomplete_runs
from results.record import Check, FoldRecord, Record, RunRecord, Validation

RUN = final_run(identity("ms", 1, margin=0.1), [0.2, 0.25, 0.3, 0.35], 0.4)
FOLD, TOGETHER = RUN[0], RUN[-1]
assert isinstance(FOLD, FoldRecord)
assert isinstance(TOGETHER, RunRecord)


def test_genuine_records_pass() -> None:
    failed = final_run(identity("ms", 2, margin=0.1), [0.2, None, 0.3, 0.35], None)
    searched = [fold(identity("ms", 0, margin=0.1), number, 0.3) for number in range(4)]
    check_records([*RUN, *failed, *searched], [study()])


def renamed(record: FoldRecord, **changes: Any) -> FoldRecord:
    """The record with changes, under the id that then follows."""
    changed = replace(record, **changes)
    return replace(changed, id=job_id(changed))


def with_values(**values: Any) -> FoldRecord:
    """A fold under a protocol of other values, its digest their own."""
    changed = VALUES | values
    who = replace(FOLD.identity, protocol={"title": "small@1", "digest": protocol_digest(changed), "values": changed})
    return renamed(FOLD, identity=who)


DISTORTED: dict[str, tuple[Callable[[], Record], str]] = {
    "a metric": (lambda: replace(FOLD, test=metrics(0.9) | {"r_precision": 0.1}), "above R-precision"),
    "the seed": (lambda: renamed(FOLD, seed=7), "its seed is 7"),
    "the id": (lambda: replace(FOLD, id="0" * 16), "its id does not follow from its job"),
    "a hyper-parameter": (
        lambda: replace(FOLD, identity=replace(FOLD.identity, hyperparameters={"margin": 0.2})),
        "its id does not follow from its job",
    ),
    "the fold": (lambda: renamed(FOLD, fold=4, seed=fold_seed(1, 4)), "its fold is 4"),
    "the run": (
        lambda: renamed(FOLD, identity=replace(FOLD.identity, run=3), seed=fold_seed(3, 0)), "its run is 3; its"
    ),
    "the digest": (
        lambda: replace(
            FOLD, identity=replace(FOLD.identity, protocol=FOLD.identity.protocol | {"digest": "0123456789ab"})
        ),
        "its digest is '0123456789ab'",
    ),
    "a value of the protocol": (
        lambda: replace(
            FOLD, identity=replace(FOLD.identity, protocol=FOLD.identity.protocol | {"values": VALUES | {"x": 1}})
        ),
        "but that of its values is",
    ),
    "the title": (
        lambda: replace(FOLD, identity=replace(FOLD.identity, protocol=FOLD.identity.protocol | {"title": "mlrc@1"})),
        "its values are those of 'small@1'",
    ),
    "endless runs": (lambda: with_values(finals={"n_runs": 10**9}), "finals.n_runs is 1000000000; wanted 1 to 1000"),
    "endless folds": (lambda: with_values(folds={"n_folds": 10**9, "kind": "balanced"}), "folds.n_folds"),
    "no section": (lambda: with_values(finals=[]), "finals.n_runs is None"),
    "a metric that is no name": (
        lambda: with_values(evaluation={"primary_metric": "map_at_r", "metrics": [1]}), "found evaluation"
    ),
    "more queries than images": (
        lambda: replace(FOLD, evaluation_audit={"queries": 100, "left_out": 21}), "are more than 120 images"
    ),
    "an audit that is none": (lambda: replace(FOLD, evaluation_audit={"queries": "all"}), "wanted a count"),
    "R the wrong way round": (
        lambda: replace(FOLD, evaluation_audit={"smallest_r": 9, "largest_r": 4}), "its smallest R is 9"
    ),
    "a check that failed": (
        lambda: replace(FOLD, audit=(Check(name="batch norm", passed=False, detail=""),)), "'batch norm' failed"
    ),
    "steps without images": (lambda: replace(FOLD, n_steps=3), "3 steps of 32 images are not 0 images"),
    "a best step that is not the best": (
        lambda: replace(
            FOLD, n_steps=2, n_images_seen=64, best_step=2,
            curve=(Validation(step=1, map_at_r=0.2, loss=1.0), Validation(step=2, map_at_r=0.1, loss=1.0)),
        ),
        "its best step is 2; in its curve it is 1",
    ),
    "a validation that is not that of the curve": (
        lambda: replace(
            FOLD, n_steps=1, n_images_seen=32, best_step=1, curve=(Validation(step=1, map_at_r=0.5, loss=1.0),)
        ),
        "its validation MAP@R is 0.2; its curve has 0.5",
    ),
    "a curve out of order": (
        lambda: replace(FOLD, curve=(Validation(step=1, map_at_r=0.5, loss=1.0),)), "do not ascend from 0 to 0"
    ),
    "recall that falls": (
        lambda: replace(FOLD, test=metrics(0.1) | {"recall_at_1": 0.775, "recall_at_2": 0.5}), "recall@K falls"
    ),
    "recall@1 that is not P@1": (lambda: replace(FOLD, test=metrics(0.1) | {"recall_at_1": 0.1}), "is not P@1"),
    "memory": (lambda: replace(FOLD, peak_memory_bytes=-1), "a count in it is negative"),
    "time": (lambda: replace(FOLD, seconds={"train": -1.0}), "less than no time"),
}  # fmt: skip


@pytest.mark.parametrize("what", DISTORTED)
def test_a_record_that_was_changed_by_hand_is_found(what: str) -> None:
    distorted, said = DISTORTED[what]
    with pytest.raises(ResultsError) as refused:
        check_records([distorted(), *RUN[1:-1]])
    assert said in str(refused.value)


def test_a_search_that_opened_the_test_classes_is_found() -> None:
    searched = fold(identity("ms", 0, margin=0.1), 0, 0.3)
    with pytest.raises(ResultsError, match="never opens the test classes"):
        check_records([replace(searched, test=metrics(0.3))])


def test_a_failed_fold_with_metrics_is_found() -> None:
    failed = fold(FOLD.identity, 0, None)
    with pytest.raises(ResultsError, match="failed and has metrics"):
        check_records([replace(failed, test=metrics(0.3)), *RUN[1:-1]])


@pytest.mark.parametrize("gone", range(5))
def test_a_run_that_lacks_one_record_is_found_and_named(gone: int) -> None:
    left = [record for place, record in enumerate(RUN) if place != gone]
    said = "its folds' concatenation" if gone == 4 else f"fold {gone}"
    assert list(incomplete_runs(left).values()) == [f"run 1 of 'ms' lacks the record of {said}"]
    with pytest.raises(ResultsError):
        check_records(left)


def test_members_of_another_run_in_another_order_or_failed_are_found() -> None:
    other = final_run(identity("ms", 2, margin=0.1), [0.2, 0.25, 0.3, None], None)
    members = TOGETHER.members

    def together(*names: str) -> RunRecord:
        return replace(TOGETHER, members=names, id=ensemble_id(names))

    cases = {
        "its members are of another run": together(*(one.id for one in other[:4])),
        "its members are not folds 0 to 3": together(*reversed(members)),
        "its id does not follow": replace(TOGETHER, members=members[::-1]),
    }
    for said, record in cases.items():
        with pytest.raises(ResultsError, match=said):
            check_records([*RUN[:4], *other[:4], record])


def test_a_record_that_is_there_twice_is_found() -> None:
    with pytest.raises(ResultsError, match="is there 2 times"):
        check_records([*RUN, FOLD])


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"best_value": 0.9}, "its best value is 0.9; the folds of that trial have the mean 0.3"),
        ({"space_hash": "0" * 12}, "its space_hash is not that of its space"),
        ({"n_failed": -1}, "a count in it is negative"),
        ({"best_trial": None}, "do not go together"),
        ({"n_finished": 0}, "do not go together"),
    ],
)
def test_a_search_that_was_changed_by_hand_is_found(changed: dict[str, Any], said: str) -> None:
    searched = [fold(identity("ms", 0, margin=0.1), number, 0.3) for number in range(4)]
    with pytest.raises(ResultsError) as refused:
        check_records([*RUN, *searched], [study(**changed)])
    assert said in str(refused.value)
