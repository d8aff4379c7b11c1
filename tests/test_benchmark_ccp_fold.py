"""CCP's projection term in a real fold: none in the first problem, and in the next what the chain says it is."""

import pytest
from tiny import tiny_bench

from benchmark.methods.registry import METHODS
from benchmark.training.training import run_fold
from results.record import FoldRecord

# A rate so small that validations bring no gain: problems are short, and the network hardly moves.
SETTINGS = ("max_steps=10", "cadence.evaluate_every_steps=1", "cadence.patience=10", "lr=1e-6")
VALUES = {"n_proxies": 3, "pool_size": 5, "pos_margin": 0.2, "neg_margin": 0.9}


@pytest.fixture(scope="module")
def folds(tmp_path_factory: pytest.TempPathFactory) -> list[FoldRecord]:
    """One fold without attraction, with a large one, and with twice as much."""
    bench = tiny_bench(tmp_path_factory.mktemp("fold"), *SETTINGS)
    entry, attractions = METHODS["ccp-contrastive"], (0.0, 1e6, 2e6)
    return [run_fold(bench.job(entry, {**VALUES, "lambda": value}, 0, 0), bench) for value in attractions]


def first_switch(folds: list[FoldRecord]) -> int:
    (step,) = {fold.method_state["problems"][1]["after_step"] for fold in folds}
    assert all(len(fold.curve) >= step + 2 for fold in folds)
    return step


def test_lambda_changes_no_loss_of_the_first_problem(folds: list[FoldRecord]) -> None:
    switch = first_switch(folds)
    without, *attracted = folds
    for fold in attracted:
        assert fold.curve[:switch] == without.curve[:switch]


def test_the_first_loss_of_the_second_problem_grows_by_lambda_times_one_distance(folds: list[FoldRecord]) -> None:
    without, once, twice = (fold.curve[first_switch(folds)].loss for fold in folds)
    assert once > without + 0.01
    assert twice - without == pytest.approx(2 * (once - without), rel=1e-3)


def test_the_network_turns_back_to_the_last_solution(folds: list[FoldRecord]) -> None:
    switch = first_switch(folds)
    without, *attracted = [[point.loss for point in fold.curve[switch : switch + 2]] for fold in folds]
    for losses in attracted:
        terms = [loss - base for loss, base in zip(losses, without, strict=True)]
        assert terms[1] < 0.8 * terms[0]
