"""The importance of hyper-parameters, from the trials that records hold."""

import json
import random
from collections.abc import Callable
from dataclasses import replace

import pytest
from optuna.distributions import FloatDistribution
from site_records import site_records, study_of

from benchmark.methods.registry import space_json
from benchmark.search.importances import importances
from results.record import FoldRecord, Record

SPACE = {
    "margin": FloatDistribution(0.0, 1.0),
    "scale": FloatDistribution(1.0, 100.0, log=True),
    "fixed": FloatDistribution(0.0, 0.0),
}


def searched(n_trials: int, worth: Callable[[float, float], float]) -> list[Record]:
    """The records of a search in which a function of two hyper-parameters decides."""
    drawn, found = random.Random(1), []
    records = site_records(("ms",), ("other",), "folds.n_folds=2", "finals.n_runs=1", n_trials=n_trials)
    for record in records:
        if isinstance(record, FoldRecord) and record.identity.purpose == "search":
            trial = random.Random(str(record.identity.hyperparameters))
            margin, scale = trial.random(), 10 ** trial.uniform(0, 2)
            values = {"margin": margin, "scale": scale, "fixed": 0.0}
            value = worth(margin, scale) + 0.001 * drawn.random()
            found.append(
                replace(
                    record,
                    identity=replace(record.identity, hyperparameters=values),
                    validation={"map_at_r": value},
                )
            )
    return found


def test_the_parameter_that_decides_has_nearly_all_the_share() -> None:
    for which, worth in {
        "margin": lambda margin, scale: 0.5 - 0.4 * abs(margin - 0.3),
        "scale": lambda margin, scale: 0.2 + 0.001 * scale,
    }.items():
        records = searched(40, worth)
        found = importances(study_of(records[0], space_json(SPACE)), records)
        assert set(found) == {"margin", "scale"}
        assert sum(found.values()) == pytest.approx(1.0)
        assert found[which] > 0.8


def test_few_trials_or_other_searches_give_no_importance() -> None:
    records = searched(9, lambda margin, scale: margin)
    study = study_of(records[0], space_json(SPACE))
    assert importances(study, records) == {}
    many = searched(20, lambda margin, scale: margin)
    assert importances(replace(study, method="triplet"), many) == {}
    assert importances(replace(study, space=json.dumps({})), many) == {}
    half = [record for record in many if isinstance(record, FoldRecord) and record.fold == 0]
    assert importances(study, half) == {}  # trials that lack a fold have no value
