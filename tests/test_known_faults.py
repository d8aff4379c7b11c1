"""Kinds of faults that users of other tools report, where no module of ours is the one place to look for them.

Each test goes over everything in which its fault could occur, so that what is added later is looked at too.
"""

import ast
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path

import optuna
import pytest
from optuna.distributions import FloatDistribution
from tiny import MARGINS, tiny_bench

from benchmark.methods.entry import Value
from benchmark.methods.registry import method_entry
from benchmark.search.course import plain_course
from benchmark.search.samplers import make_sampler
from benchmark.training.training import run_fold
from protocols.catalogue import DEMO_V1
from protocols.derive import settable_fields

ROOT = Path(__file__).parents[1]
ROOMS = ("protocols", "benchmark", "results", "reports")


def text_without_encoding(tree: ast.AST) -> Iterator[int]:
    """The lines on which text is read or written in whatever encoding the place has."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
        named = {keyword.arg for keyword in node.keywords}
        modes = node.args if isinstance(node.func, ast.Attribute) else node.args[1:]
        is_text = all(isinstance(mode, ast.Constant) and "b" not in str(mode.value) for mode in modes)
        is_archive = "fileobj" in named or getattr(getattr(node.func, "value", None), "id", "") == "member"  # bytes
        is_file = called in ("read_text", "write_text") or (called == "open" and is_text and not is_archive)
        is_process = called in ("run", "Popen", "check_output") and named & {"text", "universal_newlines"}
        if (is_file or is_process) and "encoding" not in named:
            yield node.lineno


def test_no_text_is_read_or_written_in_the_encoding_of_the_place() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for room in ROOMS
        for path in sorted((ROOT / room).rglob("*.py"))
        for line in text_without_encoding(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []


@pytest.mark.parametrize(
    ("code", "n_found"),
    [
        ("path.read_text()", 1),
        ("open(path)", 1),
        ("path.open()", 1),
        ("path.open('w')", 1),
        ("subprocess.run(command, text=True)", 1),
        ("path.open('rb')", 0),
        ("open(path, 'rb')", 0),
        ("path.write_text(text, encoding='utf-8')", 0),
        ("subprocess.run(command, encoding='utf-8')", 0),
        ("Image.open(path)", 0),  # a path, not a mode: no file of text
    ],
)
def test_text_without_an_encoding_is_seen(code: str, n_found: int) -> None:
    assert len(list(text_without_encoding(ast.parse(code)))) == n_found


CROPS = ("train_crop=random-resized", "crop_area=[0.16,1.0]", "crop_px=24")
NEVER_BETTER = ("lr=1e-30", "max_steps=10", "evaluate_every_steps=2", "patience=3")
# A field that may be set: what is set before, its other value, and the family in whose training it counts.
CHANGED: dict[str, tuple[tuple[str, ...], str, str]] = {
    "embedding.dim": ((), "64", "pair"),
    "embedding.normalisation": ((), "lipschitz", "pair"),
    "transforms.resize_px": (("crop_px=24",), "28", "pair"),
    "transforms.crop_px": ((), "24", "pair"),
    "transforms.train_crop": (CROPS[1:], "random-resized", "pair"),
    "transforms.crop_area": (CROPS, "[0.9,1.0]", "pair"),
    "transforms.crop_aspect": (CROPS, "[0.3,0.4]", "pair"),
    "transforms.flip_probability": ((), "1.0", "pair"),
    "batch.size": ((), "16", "pair"),
    "batch.pair_samples_per_class": ((), "16", "pair"),
    "batch.class_samples_per_class": ((), "16", "class"),
    "optimiser.name": ((), "rmsprop", "pair"),
    "optimiser.lr": ((), "0.1", "pair"),
    "optimiser.weight_decay": ((), "0.5", "pair"),
    "optimiser.momentum": (("optimiser.name=rmsprop",), "0.1", "pair"),
    "optimiser.betas": ((), "[0.1,0.2]", "pair"),
    "optimiser.proxy_warmup_steps": ((), "2", "class"),
    "optimiser.proxy_lr_factor": ((), "1000", "class"),
    "schedule.max_steps": ((), "2", "pair"),
    "schedule.cadence.evaluate_every_steps": ((), "1", "pair"),
    "schedule.cadence.patience": (NEVER_BETTER, "1", "pair"),
    "schedule.cadence.patience_unit": (NEVER_BETTER, "steps", "pair"),
    "folds.n_folds": ((), "2", "pair"),
    "folds.kind": ((), "balanced", "pair"),
    "evaluation.recall_at": ((), "[1]", "pair"),
}
ELSEWHERE = {  # what this protocol cannot show, and where it is shown
    "test_protocols_trunks": ("trunk.name", "trunk.weights", "trunk.pooling", "trunk.batchnorm"),
    "test_protocols_trunks, refused unless the trunk's": (
        *(f"trunk.input.{name}" for name in ("channels", "scale", "mean", "std", "per_image")),
    ),
    "test_benchmark_in_force": ("schedule.by_dataset",),
    "test_protocols_splits": ("folds.holdout_parts",),
    "test_benchmark_bench": ("evaluation.metrics_version", "evaluation.recall_at_by_dataset"),
    "test_benchmark_search": ("search.n_trials", "search.sampler", "finals.n_runs"),
    "below": ("search.n_startup_trials",),
    "has one value only": ("evaluation.primary_metric", "evaluation.metrics", "precision"),
}
METHODS: dict[str, tuple[str, dict[str, Value]]] = {
    "pair": ("contrastive", MARGINS),
    "class": ("norm-softmax", {"temperature": 0.1, "w_lr": 0.01}),
}


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., object]:
    """What a job of a family does on a fold under some settings, run once for each."""

    @cache
    def found(family: str, fold: int, *settings: str) -> object:
        bench = tiny_bench(tmp_path_factory.mktemp("job"), *settings)
        name, hyperparameters = METHODS[family]
        entry = method_entry(name)
        asked = {key: hyperparameters[key] for key in bench.space(entry)}
        record = run_fold(bench.job(entry, asked, 1, fold), bench)
        assert record.outcome == "done", record.message
        return record.curve, record.n_steps, record.test

    return found


def test_every_field_that_may_be_set_is_looked_at() -> None:
    looked_at = [*CHANGED, *(field for fields in ELSEWHERE.values() for field in fields)]
    assert sorted(looked_at) == sorted(settable_fields(DEMO_V1))


@pytest.mark.parametrize("field", CHANGED)
def test_a_field_that_is_set_changes_what_a_job_does(field: str, outcome: Callable[..., object]) -> None:
    before, value, family = CHANGED[field]
    fold = 1 if field.startswith("folds.") else 0  # the first fold of some splits is the same
    assert outcome(family, fold, *before, f"{field}={value}") != outcome(family, fold, *before)


@pytest.mark.parametrize("sampler", ["gp", "tpe"])
def test_the_start_up_trials_of_a_search_are_as_many_as_are_set(sampler: str) -> None:
    def proposed(n_startup_trials: int) -> list[float]:
        budget = replace(DEMO_V1.search, sampler=sampler, n_startup_trials=n_startup_trials)
        study = optuna.create_study(sampler=make_sampler(plain_course("a method", {}, budget), seed=0))
        for _ in range(4):
            trial = study.ask({"x": FloatDistribution(0.0, 1.0)})
            study.tell(trial, trial.params["x"])
        return [trial.params["x"] for trial in study.trials]

    few, all_random = proposed(2), proposed(4)
    assert few[:2] == all_random[:2]
    assert few[2] != all_random[2]
