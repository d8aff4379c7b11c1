"""What `mlrc plan` tells: the work is that of the run, hours follow from given seconds, and nothing is begun."""

from pathlib import Path

import pytest
from conftest import Command, folds_in
from test_benchmark_search import CONTRASTIVE, drive
from tiny import tiny_bench

from benchmark.campaign import expected_work
from benchmark.methods.registry import method_entry
from benchmark.oversight.calibration import measured_costs
from benchmark.oversight.costs import given_costs, images_of_side
from benchmark.oversight.plan import job_steps, plan
from benchmark.oversight.workload import left_of
from results.store import Store

GIVEN = ("--seconds-per-step", "0.5")
BOTH = ("search", "finals")


def plan_of(mlrc: Command, *arguments: object):
    outcome = mlrc("plan", *arguments, *GIVEN, "--json")
    assert outcome.code == 0, outcome.err
    return outcome.json


# --- what there is to do


def test_a_machine_that_is_not_there_may_have_the_weights_that_are_not_here(mlrc: Command) -> None:
    plan = (
        "plan",
        "contrastive",
        "--data",
        "shapes:shifted",
        "--protocol",
        "mlrc",
        "--set",
        "trunk.weights=imagenet:0123abcd",
    )
    assert "the weights 'imagenet:0123abcd' cannot be read" in mlrc(*plan).refusal()
    assert mlrc(*plan, *GIVEN).code == 0


@pytest.mark.parametrize("name", ["pixels", "untrained", "contrastive", "norm-softmax", "n-pairs"])
def test_an_empty_store_leaves_all_the_work_that_the_run_expects(name: str, tmp_path: Path) -> None:
    bench, entry = tiny_bench(tmp_path), method_entry(name)
    assert left_of(entry, bench, None, None).n_jobs == expected_work(entry, bench, BOTH)


def test_what_is_planned_is_what_is_run_and_then_nothing_is_left(mlrc: Command, suite: list[str], store: Path) -> None:
    methods = ("contrastive", "untrained", "pixels")
    before = plan_of(mlrc, *methods, *suite)
    mlrc("run", *methods, *suite)
    with Store.open(str(store)) as opened:
        records = opened.records()
    assert before["total"]["jobs"] == len(records)
    assert before["total"]["models"] == sum(bool(record.n_steps) for record in folds_in(store))
    after = plan_of(mlrc, *methods, *suite)
    assert {name: after["total"][name] for name in ("jobs", "models", "steps", "images")} == dict.fromkeys(
        ("jobs", "models", "steps", "images"), 0
    )
    assert [line["hours"] for line in after["by_workers"]] == [0.0] * len(after["by_workers"])
    assert "Nothing is left to run." in mlrc("plan", *methods, *suite).out  # no calibration either


def test_after_a_search_the_final_runs_are_left(mlrc: Command, suite: list[str]) -> None:
    mlrc("search", "contrastive", *suite)
    (line,) = plan_of(mlrc, "contrastive", *suite)["methods"]
    assert line["trials"] == {"done": 2, "failed": 0, "of": 2}
    assert (line["models"], line["jobs"]) == (2, 3)


@pytest.mark.parametrize("stop_after", [1, 3, 4, 6, 13, 17])
def test_folds_of_a_stopped_trial_are_not_planned_again(tmp_path: Path, store: Path, stop_after: int) -> None:
    bench = tiny_bench(tmp_path, "max_steps=1", "cadence.evaluate_every_steps=1")
    with Store.open(str(store)) as opened:
        heard, _ = drive(bench, opened, stop_after=stop_after)
        left = left_of(CONTRASTIVE, bench, opened, None)
        assert left.n_jobs == expected_work(CONTRASTIVE, bench, BOTH) - len(heard.fresh)


def test_published_hyperparameters_leave_the_search_out(mlrc: Command, suite: list[str]) -> None:
    (line,) = plan_of(mlrc, "contrastive", *suite, "--published", "mlrc:cub200")["methods"]
    assert line["trials"] is None
    assert line["models"] == 2


# --- hours, steps, images, disk


def test_hours_images_and_disk_are_those_of_a_sum_by_hand(tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path)  # 3 trials x 4 folds, 2 runs x 4 folds, each of 4 steps with 2 validations
    costs = given_costs([CONTRASTIVE], bench, 0.5)
    left = [left_of(CONTRASTIVE, bench, None, None)]
    found = plan(bench, left, costs, job_steps(bench, None, 4), workers=2)
    (line,) = found["methods"]
    n_validation, n_test = (len(images_of_side(bench, side)) for side in ("validation", "test"))
    image_s = 0.5 / bench.protocol.batch.size / 3
    search_s = 4 * 0.5 + 2 * n_validation * image_s
    total_s = 20 * search_s + 8 * n_test * image_s
    assert line["job_hours"] == pytest.approx(total_s / 3600)
    assert (line["steps"], line["models"]) == (20 * 4, 20)
    assert line["images"] == 80 * bench.protocol.batch.size + 40 * n_validation + 8 * n_test
    hours = {one["workers"]: one["hours"] for one in found["by_workers"]}
    assert hours.keys() == {1, 2, 4, 16, 64}
    assert hours[1] == pytest.approx(total_s / 3600)
    assert hours[2] == pytest.approx(total_s / 2 / 3600)
    assert hours[64] == pytest.approx((3 * search_s + search_s + n_test * image_s) / 3600)
    assert found["disk"]["embeddings_bytes"] == 8 * n_test * bench.protocol.embedding.dim * 4


def test_a_planned_embedding_file_has_its_size_on_the_disk(mlrc: Command, suite: list[str], store: Path) -> None:
    planned = plan_of(mlrc, "contrastive", *suite)["disk"]["embeddings_bytes"]
    mlrc("run", "contrastive", *suite)
    sizes = [path.stat().st_size for path in Path(f"{store}.embeddings").iterdir()]
    assert sum(sizes) == planned + 128 * len(sizes)  # NumPy's header


def test_steps_are_given_or_recorded_or_assumed_and_it_is_said(mlrc: Command, suite: list[str]) -> None:
    asked = ("contrastive", *suite, "--set", "max_steps=40", "--set", "evaluate_every_steps=2", "--set", "patience=3")
    steps = plan_of(mlrc, *asked)["steps_per_job"]
    assert (steps["expected"], steps["shortest"], steps["longest"]) == (12, 8, 40)
    assert "assumed" in steps["source"]
    assert plan_of(mlrc, *asked, "--steps-per-job", "30")["steps_per_job"]["expected"] == 30
    assert plan_of(mlrc, *asked, "--steps-per-job", "90")["steps_per_job"]["expected"] == 40  # no job is longer
    mlrc("search", "contrastive", *suite)
    recorded = plan_of(mlrc, "contrastive", *suite)["steps_per_job"]
    assert recorded["expected"] == 2
    assert recorded["source"] == "mean of 4 recorded jobs"


@pytest.mark.parametrize(("patience", "shortest"), [("4", 8), ("3", 6)])
def test_the_shortest_job_is_that_of_a_patience_in_steps(tmp_path: Path, patience: str, shortest: int) -> None:
    unit = ("cadence.patience_unit=steps", f"cadence.patience={patience}", "max_steps=99")
    assert job_steps(tiny_bench(tmp_path, *unit), None, None).shortest == shortest  # goes on while <= patience


# --- measured here


def test_a_calibration_measures_every_part_of_a_job_and_keeps_nothing(tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path)
    entries = [method_entry(name) for name in ("contrastive", "pixels")]
    costs = measured_costs(entries, bench, workers=1)
    trained, fixed = costs.jobs["contrastive"], costs.jobs["pixels"]
    assert min(trained.fixed_s, trained.step_s, trained.validation_s, trained.test_s) > 0
    assert fixed.step_s == 0 < fixed.test_s
    assert min(costs.concatenation_s, costs.proposal_s, costs.start_s) > 0
    assert list(tmp_path.iterdir()) == []


# --- the command


def test_a_plan_makes_no_store_and_no_file(mlrc: Command, suite: list[str], store: Path, tmp_path: Path) -> None:
    text = mlrc("plan", "contrastive", "untrained", *suite, *GIVEN)
    assert text.code == 0
    assert list(tmp_path.iterdir()) == []
    for word in ("contrastive", "untrained", "all", "speed up", "Steps of a job", "0.5 s a step as given", "are free"):
        assert word in text.out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["contrastiv"], "Did you mean 'contrastive'"),
        (["contrastive", "--set", "max_step=3"], "max_steps"),
        (["contrastive", "--threads", "0"], "--threads is 0"),
        (["contrastive", "--seconds-per-step", "0"], "--seconds-per-step is 0.0; it must be positive, and"),
        (["contrastive", "--seconds-per-step", "nan"], "it must be positive, and at most"),
        (["contrastive", "--steps-per-job", "0"], "--steps-per-job is 0; it must be at least 1, and at most"),
        (["contrastive", "--steps-per-job", "99999999999"], "at most 1,000,000,000."),
        (["contrastive", "--seconds-per-step", "inf"], "--seconds-per-step is inf; it must be positive, and at most"),
    ],
)
def test_a_plan_refuses_what_a_run_refuses(mlrc: Command, suite: list[str], arguments: list[str], said: str) -> None:
    assert said in mlrc("plan", *suite, *arguments).refusal()
