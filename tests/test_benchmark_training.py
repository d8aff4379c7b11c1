"""One job: the same bits each time, the best weights kept, failures named, test images opened in final runs only."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import MARGINS, tiny_bench, without_timings
from torch import Tensor, nn

from benchmark.bench import Bench
from benchmark.methods import registry
from benchmark.methods.entry import MethodEntry
from benchmark.methods.registry import method_entry
from benchmark.seeding import stream
from benchmark.training.embeddings import load_embeddings
from benchmark.training.learner import in_batches
from benchmark.training.training import FoldTraining, run_fold
from protocols.fold import FoldImages, Indices
from protocols.metrics import evaluate
from protocols.model import build_model
from results.record import FoldRecord, from_json, to_json

CONTRASTIVE = method_entry("contrastive")


class Scripted(nn.Module):
    """A loss that does what a test tells it at a step."""

    def __init__(self, script: dict[int, str]) -> None:
        super().__init__()
        self.script, self.step = script, 0
        self.heard: list[tuple[str, object]] = []

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        self.step += 1
        action = self.script.get(self.step, self.script.get(0, "idle"))
        if action == "nan":
            return embeddings.sum() * torch.nan
        if action == "raise":
            raise ZeroDivisionError("of all\nthings")
        if action == "constant":
            return torch.tensor(1.0)
        if action == "vector":
            return embeddings.sum(dim=1)
        if action == "memory":
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate; not enough memory")
        return 0.0 * embeddings.sum()  # nothing is learnt

    def begin(self, context: object) -> None:
        self.heard.append(("begin", context))

    def after_step(self, step: int, context: object) -> None:
        self.heard.append(("step", step))

    def after_validation(self, map_at_r: float, context: object) -> None:
        self.heard.append(("validation", map_at_r))

    def summary(self) -> dict[str, object]:
        return {"heard": [name for name, _ in self.heard]}


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch):
    """Registers a scripted loss for one test."""

    def register(**steps: str) -> MethodEntry:
        script = {int(step.removeprefix("at_")): action for step, action in steps.items()}
        entry = MethodEntry(
            name="scripted",
            family="pair",
            build=lambda *, n_classes, embedding_dim: Scripted(script),
            space=lambda n_classes: {},
            source="a test",
            formula="whatever the test says",
        )
        monkeypatch.setitem(registry.METHODS, "scripted", entry)
        return entry

    return register


LONGER = ("max_steps=12", "cadence.evaluate_every_steps=4")
CCP = {**MARGINS, "lambda": 0.01, "n_proxies": 2, "pool_size": 3, "batch_weight": 0.1}  # looks at a pool of images
RANDOM_CROPS = ("train_crop=random-resized", "crop_area=[0.3, 1.0]", "flip_probability=0.5")


def run(bench: Bench, entry: MethodEntry = CONTRASTIVE, run: int = 0, fold: int = 0) -> FoldRecord:
    hyperparameters = MARGINS if entry.name == "contrastive" else {}
    record = run_fold(bench.job(entry, hyperparameters, run, fold), bench)
    assert from_json(to_json(record)) == record  # every record can be stored
    return record


def test_the_same_job_gives_the_same_bits(tmp_path: Path) -> None:
    first, again = tiny_bench(tmp_path / "a"), tiny_bench(tmp_path / "b")
    one, two = run(first, run=1), run(again, run=1)
    assert one.outcome == "done"
    assert without_timings(one) == without_timings(two)
    assert np.array_equal(load_embeddings(first.artifacts, one.id), load_embeddings(again.artifacts, two.id))


def test_what_ran_before_in_the_process_changes_nothing(tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path)
    alone = run(bench)
    torch.manual_seed(1)
    torch.rand(3)
    run(bench, run=1, fold=2)
    assert without_timings(run(bench)) == without_timings(alone)


def test_a_job_leaves_the_global_generator_as_it_was(tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path)
    torch.manual_seed(5)
    wanted = torch.rand(1)
    torch.manual_seed(5)
    run(bench)
    assert torch.equal(torch.rand(1), wanted)


def test_no_seed_of_an_augmentation_is_used_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither in another fold nor for the further images that a method looks at."""
    used: list[tuple[int, int]] = []
    train_batch = FoldImages.train_batch

    def watched(self: FoldImages, indices: Indices, seeds: Sequence[int]) -> Tensor:
        used.extend(zip(indices.tolist(), seeds, strict=True))
        return train_batch(self, indices, seeds)

    monkeypatch.setattr(FoldImages, "train_batch", watched)
    bench = tiny_bench(tmp_path, *LONGER, *RANDOM_CROPS)

    def drawn(fold: int) -> tuple[FoldRecord, list[tuple[int, int]]]:
        used.clear()
        record = run_fold(bench.job(method_entry("ccp-contrastive"), CCP, 0, fold), bench)
        assert record.outcome == "done", record.message
        return without_timings(record), used.copy()

    first, again, (_, other) = drawn(0), drawn(0), drawn(1)
    assert first == again
    _, one = first
    assert len({image for image, _ in one}) < len(one)  # images come back, with other crops
    everywhere = [seed for _, seed in (*one, *other)]
    assert len(set(everywhere)) == len(everywhere)


def test_runs_and_folds_differ_and_methods_share_their_seeds(tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path)
    jobs = [bench.job(CONTRASTIVE, MARGINS, number, fold) for number in range(3) for fold in range(4)]
    assert len({job.seed for job in jobs}) == len({job.id for job in jobs}) == 12
    others = [bench.job(method_entry("ms"), {}, number, fold) for number in range(3) for fold in range(4)]
    assert [job.seed for job in others] == [job.seed for job in jobs]
    assert not {job.id for job in others} & {job.id for job in jobs}


def test_a_final_run_tests_and_a_search_does_not(tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path)
    searched, final = run(bench), run(bench, run=1)
    assert searched.test is None
    assert final.test is not None
    opened = {
        record.id: next(check for check in record.audit if check.name == "test images opened")
        for record in (searched, final)
    }
    assert opened[searched.id].detail == "0 before the final evaluation, 0 in it; expected 0 and 0"
    n_test = len(bench.index.indices_of(bench.split.test))
    assert (
        opened[final.id].detail == f"0 before the final evaluation, {n_test} in it; expected 0 and {n_test}, each once"
    )


def test_the_stored_embeddings_give_the_recorded_test_metrics(tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path)
    record = run(bench, run=1)
    embeddings = torch.from_numpy(load_embeddings(bench.artifacts, record.id))
    labels = torch.from_numpy(bench.index.targets[bench.index.indices_of(bench.split.test)])
    assert embeddings.shape == (len(labels), 128)
    assert evaluate(embeddings, labels).metrics == record.test


def test_every_check_of_the_audit_is_in_the_record(tmp_path: Path) -> None:
    record = run(tiny_bench(tmp_path), run=1)
    assert {check.name for check in record.audit} == {
        *("trunk input", "classes disjoint", "embedding width", "batch norm", "batch shape", "images seen"),
        *("random crops", "test images opened"),
    }
    assert all(check.passed for check in record.audit)
    assert record.n_images_seen == record.n_steps * 32


def test_the_best_validation_is_recorded_and_its_weights_are_restored(tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path, *LONGER, "max_steps=40", "cadence.patience=100", "optimiser.lr=0.03")
    training = FoldTraining(bench.job(CONTRASTIVE, MARGINS, 0, 0), bench)
    training.run()
    values = [point.map_at_r for point in training.curve]
    best = values.index(max(values))
    assert best < len(values) - 1, "the setting no longer tests anything: the last validation is the best"
    assert training.best_step == training.curve[best].step == 4 * (best + 1)
    found = training._evaluate(training.images.validation)
    assert found.metrics["map_at_r"] == max(values)


def test_training_stops_after_so_many_evaluations_without_gain(tmp_path: Path, scripted) -> None:
    record = run(
        tiny_bench(tmp_path, *LONGER, "max_steps=400", "cadence.patience=3", "weight_decay=0"), scripted(at_0="idle")
    )
    assert record.best_step == 4  # nothing is learnt, so the first evaluation stays the best
    assert record.n_steps == 4 + 3 * 4


def test_patience_in_steps_is_exceeded_and_not_reached(tmp_path: Path, scripted) -> None:
    settings = (*LONGER, "max_steps=400", "cadence.patience=12", "cadence.patience_unit=steps", "weight_decay=0")
    record = run(tiny_bench(tmp_path, *settings), scripted(at_0="idle"))
    assert record.n_steps == 20  # step - best_step = 16 is the first above 12


def test_the_last_step_is_validated_wherever_it_falls(tmp_path: Path) -> None:
    record = run(tiny_bench(tmp_path, *LONGER, "max_steps=10"))
    assert [point.step for point in record.curve] == [4, 8, 10]


def test_the_hooks_of_a_method_are_called_in_order(tmp_path: Path, scripted) -> None:
    record = run(tiny_bench(tmp_path, *LONGER, "max_steps=5"), scripted(at_0="idle"))
    assert record.method_state == {
        "heard": ["begin", *["step"] * 4, "validation", "step", "validation"],
    }


@pytest.mark.parametrize(
    ("script", "reason", "words"),
    [
        ({"at_5": "nan"}, "non-finite", "the loss was nan at step 5"),
        ({"at_3": "raise"}, "method-error", "ZeroDivisionError: of all (test_benchmark_training.py, line"),
        ({"at_2": "nan", "at_3": "raise"}, "non-finite", "at step 2"),
        ({"at_1": "constant"}, "method-error", "depends neither on the embeddings"),
        ({"at_1": "vector"}, "method-error", "a tensor of shape (32,)"),
        ({"at_1": "memory"}, "out-of-memory", "not enough memory"),
    ],
)
def test_a_fold_that_cannot_go_on_is_a_record_that_names_its_state(
    tmp_path: Path, scripted, script: dict[str, str], reason: str, words: str
) -> None:
    record = run(tiny_bench(tmp_path, *LONGER), scripted(**script))
    assert record.outcome == "failed"
    assert record.reason == reason
    assert words in record.message
    assert "\n" not in record.message
    assert record.validation is None


def test_constant_embeddings_are_named_collapsed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = tiny_bench(tmp_path)
    training = FoldTraining(bench.job(CONTRASTIVE, MARGINS, 0, 0), bench)
    monkeypatch.setattr(training, "_embed", lambda indices: torch.ones(len(indices), 128) / 128**0.5)
    with pytest.raises(Exception, match="embeddings are the same") as caught:
        training.run()
    assert caught.value.reason == "collapsed"


def test_an_audit_that_does_not_hold_fails_the_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("protocols.sampler.BatchSampler.next", lambda self: np.arange(32))
    record = run(tiny_bench(tmp_path))
    assert record.outcome == "failed"
    assert record.reason == "audit"
    assert "batch shape" in record.message


def test_a_test_image_is_refused_before_the_final_evaluation(tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path)
    training = FoldTraining(bench.job(CONTRASTIVE, MARGINS, 0, 0), bench)
    training.run()
    with pytest.raises(ValueError, match="only a final run opens them"):
        training.images.eval_batch(training.images.test[:1])


def test_the_untrained_baseline_is_the_network_before_its_first_step(tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path)
    record = run(bench, method_entry("untrained"), run=1)
    assert (record.n_steps, record.curve) == (0, ())
    model = build_model(bench.protocol, stream(record.seed, "network")).eval()
    test = bench.index.indices_of(bench.split.test)
    with torch.inference_mode():
        embeddings = torch.cat([model(bench.images.eval(some)) for some in in_batches(test)])
    assert np.array_equal(load_embeddings(bench.artifacts, record.id), embeddings.numpy())


def test_pixels_are_the_input_tensors_and_know_no_seed(tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path)
    record = run(bench, method_entry("pixels"), run=1)
    test = bench.index.indices_of(bench.split.test)
    flat = torch.nn.functional.normalize(bench.images.eval(test).flatten(1))
    assert record.test == evaluate(flat, torch.from_numpy(bench.index.targets[test])).metrics


def test_own_weights_learn_at_their_searched_rate_and_are_part_of_the_bits(tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path)
    entry = method_entry("norm-softmax")
    slow, fast = (run_fold(bench.job(entry, {"temperature": 0.1, "w_lr": rate}, 0, 0), bench) for rate in (1e-6, 1e-1))
    assert slow.curve[0].loss != fast.curve[0].loss
