"""A job that was stopped goes on to the same bits; a file that cannot be taken up costs a start from zero, no more."""

import random
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from tiny import MARGINS, tiny_bench, without_timings
from torch import Tensor, nn

from benchmark.bench import Bench
from benchmark.jobs import Job
from benchmark.methods import hpl, registry, xbm
from benchmark.methods.entry import MethodEntry, Value
from benchmark.methods.registry import method_entry
from benchmark.training import checkpoint
from benchmark.training.checkpoint import Checkpoint, checkpointed_jobs, checkpoints_folder, remove_checkpoints
from benchmark.training.embeddings import embeddings_folder, load_embeddings
from benchmark.training.training import FoldTraining, run_fold
from protocols.model import build_model

SETTINGS = ("max_steps=6", "cadence.evaluate_every_steps=2", "cadence.patience=100", "optimiser.lr=0.01")
LONGER = "max_steps=16"
RANDOM_CROPS = ("train_crop=random-resized", "crop_area=[0.3, 1.0]", "flip_probability=0.5")
CCP: dict[str, Value] = {**MARGINS, "lambda": 0.01, "n_proxies": 2, "pool_size": 3, "batch_weight": 0.1}
HPL: dict[str, Value] = {"temperature": 0.1, "w_lr": 0.1, "n_coarse_1": 3, "omega_1": 0.5, "update_every": 5}


class Stop(BaseException):
    """What a test stops a job with; nothing in the job takes it for a failure."""


class Remembering(nn.Module):
    """A loss that depends on all that it has seen, in plain attributes and by all three global generators."""

    def __init__(self) -> None:
        super().__init__()
        self.seen, self.last, self.sizes = 0, None, {"batch": []}
        self.register_buffer("mean", torch.zeros(128), persistent=False)
        self.scale = np.float64(0.5)  # not plain, but it never changes

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        self.seen += 1
        self.sizes["batch"].append(len(labels))
        wanted = embeddings.detach().roll(1, 0) if self.last is None else self.last
        drawn = torch.rand(()) + np.random.random() + random.random()
        loss = ((embeddings - wanted - self.mean) ** 2).mean() * float(self.scale) * drawn * self.seen
        self.last = embeddings.detach()
        self.mean = 0.9 * self.mean + 0.1 * self.last.mean(dim=0)
        return loss

    def summary(self) -> dict[str, object]:
        return {"seen": self.seen, "sizes": self.sizes["batch"], "mean": self.mean.tolist()}


class Drawing(nn.Module):
    """A loss with a generator of its own, which no checkpoint can keep."""

    def __init__(self) -> None:
        super().__init__()
        self.random = np.random.default_rng(0)

    def forward(self, embeddings: Tensor, labels: Tensor) -> Tensor:
        return embeddings.square().mean() * self.random.random()


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Callable[[type[nn.Module]], MethodEntry]:
    """Registers a loss for one test."""

    def register(loss: type[nn.Module]) -> MethodEntry:
        entry = MethodEntry(
            name=loss.__name__,
            family="pair",
            build=lambda *, n_classes, embedding_dim: loss(),
            space=lambda n_classes: {},
            source="a test",
            formula="its code",
        )
        monkeypatch.setitem(registry.METHODS, entry.name, entry)
        return entry

    return register


def bench_with_checkpoints(folder: Path, *settings: str) -> Bench:
    return replace(tiny_bench(folder, *SETTINGS, *settings), checkpoints=folder / "checkpoints")


def a_job(bench: Bench, method: str, values: dict[str, Value], run: int = 0) -> Job:
    return bench.job(method_entry(method), values, run, 0)


def stopped_after(validations: int, job: Job, bench: Bench) -> int:
    """Run the job until it has written so many checkpoints, and stop it there; returns the steps that it had taken."""
    written = []
    with pytest.MonkeyPatch.context() as patch:
        write = Checkpoint.write

        def then_stop(self: Checkpoint, state: Callable[[], checkpoint.State]) -> None:
            self._wait_until_s = 0.0
            write(self, state)
            written.append(state()["learner"]["n_steps"])
            if len(written) == validations:
                raise Stop

        patch.setattr(Checkpoint, "write", then_stop)
        with pytest.raises(Stop):
            run_fold(job, bench)
    return int(written[-1])


def file_of(job: Job, bench: Bench) -> Path:
    assert bench.checkpoints is not None
    return bench.checkpoints / f"{job.id}.pt"


@pytest.mark.parametrize(
    ("method", "values"),
    [
        ("ccp-contrastive", CCP),
        ("hpl-proxy-nca++", HPL),
        ("xbm-contrastive", {**MARGINS, "memory_batches": 3}),
        ("margin-dw", {"margin": 0.2, "init_beta": 1.2}),
        ("Remembering", {}),
    ],
)
def test_a_job_stopped_after_each_of_its_validations_has_the_bits_of_one_that_was_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, registered, method: str, values: dict[str, Value]
) -> None:
    if method == "Remembering":
        registered(Remembering)
    monkeypatch.setattr(xbm, "START_STEP", 4)
    monkeypatch.setattr(hpl, "UPDATE_EVERY", (5,))
    plain = tiny_bench(tmp_path / "plain", *SETTINGS, LONGER, *RANDOM_CROPS)
    bench = bench_with_checkpoints(tmp_path, LONGER, *RANDOM_CROPS)
    job = a_job(bench, method, values, run=1)
    wanted = run_fold(job, plain)
    assert wanted.outcome == "done", wanted.message
    steps = [stopped_after(1, job, bench) for _ in range(8)]
    found = run_fold(job, bench)
    assert steps == list(range(2, 17, 2))
    assert without_timings(found) == without_timings(wanted)
    assert np.array_equal(load_embeddings(bench.artifacts, job.id), load_embeddings(plain.artifacts, job.id))
    if method == "ccp-contrastive":
        assert wanted.method_state["n_problems"] > 1
    if method == "xbm-contrastive":
        assert wanted.method_state["steps_with_memory"] > 0


def test_a_checkpoint_is_a_file_of_plain_values_that_torch_loads_with_weights_only(tmp_path: Path) -> None:
    bench = bench_with_checkpoints(tmp_path)
    job = a_job(bench, "ccp-contrastive", CCP)
    stopped_after(2, job, bench)
    assert [path.name for path in (tmp_path / "checkpoints").iterdir()] == [f"{job.id}.pt"]
    found = torch.load(file_of(job, bench), weights_only=True)
    assert found["kind"] | {"version": 2, "job": job.id, "threads": 1} == found["kind"]
    assert found["state"]["learner"]["n_steps"] == 4


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1000])


def one_bit(path: Path) -> None:
    """In the middle of the largest tensor, where torch itself looks for nothing."""
    with zipfile.ZipFile(path) as file:
        largest = max(file.infolist(), key=lambda item: item.file_size)
    damaged = bytearray(path.read_bytes())
    damaged[largest.header_offset + largest.file_size // 2] ^= 1
    path.write_bytes(damaged)
    torch.load(path, weights_only=True)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def another_kind(path: Path) -> None:
    found = torch.load(path, weights_only=True)
    found["kind"]["threads"] = 2
    torch.save(found, path)


def without_a_weight(path: Path) -> None:
    found = torch.load(path, weights_only=True)
    del found["state"]["learner"]["network"]["embedder.bias"]
    torch.save(found, path)


@pytest.mark.parametrize(
    ("harm", "words"),
    [
        (cut, "is damaged (BadZipFile: "),
        (one_bit, "is damaged (BadZipFile: the check sum of "),
        (empty, "is damaged (BadZipFile: "),
        (another_kind, "has threads 2, and this is 1"),
        (without_a_weight, "does not fit (RuntimeError: "),
    ],
)
def test_a_checkpoint_that_cannot_be_taken_up_is_said_and_its_job_starts_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], harm: Callable[[Path], None], words: str
) -> None:
    bench = bench_with_checkpoints(tmp_path)
    job, other = a_job(bench, "contrastive", MARGINS), a_job(bench, "contrastive", MARGINS, run=1)
    wanted = run_fold(job, replace(bench, checkpoints=None))
    for one in (job, other):
        stopped_after(2, one, bench)
    untouched = file_of(other, bench).read_bytes()
    harm(file_of(job, bench))
    capsys.readouterr()
    assert without_timings(run_fold(job, bench)) == without_timings(wanted)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"{file_of(job, bench)}: this checkpoint {words}")
    assert line.endswith("; its job starts over.")
    assert file_of(other, bench).read_bytes() == untouched


def test_a_write_that_fails_leaves_the_last_checkpoint_and_the_job_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = bench_with_checkpoints(tmp_path)
    job = a_job(bench, "contrastive", MARGINS)
    stopped_after(1, job, bench)
    before = file_of(job, bench).read_bytes()

    def full_disk(value: object, path: Path) -> None:
        path.write_bytes(before[:1000])
        raise RuntimeError("PytorchStreamWriter failed writing file data/0: file write failed")

    monkeypatch.setattr(torch, "save", full_disk)
    monkeypatch.setattr(checkpoint, "SHARE", float("inf"))
    assert run_fold(job, bench).outcome == "done"
    (line,) = capsys.readouterr().err.splitlines()  # of two writes
    assert line.startswith(f"{bench.checkpoints}: no checkpoint can be written (RuntimeError: PytorchStreamWriter")
    assert [path.read_bytes() for path in (tmp_path / "checkpoints").iterdir()] == [before]


def test_a_method_whose_memory_cannot_be_kept_leaves_no_checkpoint_and_says_so_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], registered
) -> None:
    registered(Drawing)
    bench = bench_with_checkpoints(tmp_path)
    job = a_job(bench, "Drawing", {})
    assert without_timings(run_fold(job, bench)) == without_timings(run_fold(job, replace(bench, checkpoints=None)))
    assert capsys.readouterr().err.splitlines() == [
        "Drawing: its jobs leave no checkpoint, as its attribute random (Generator) is no plain value that could be "
        "kept."
    ]
    assert checkpointed_jobs(bench.checkpoints) == []


def test_checkpoints_take_a_small_share_of_the_time_of_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr(checkpoint.time, "perf_counter", lambda: clock[0])
    bench = bench_with_checkpoints(tmp_path)
    job = a_job(bench, "contrastive", MARGINS)
    written, file = list[float](), Checkpoint(bench, job)

    def a_second() -> checkpoint.State:
        clock[0] += 1
        written.append(clock[0])
        return {}

    while clock[0] < 2000:
        file.write(a_second)
        clock[0] += 1
    assert 1000 * checkpoint.SHARE - 1 <= len(written) <= 1000 * checkpoint.SHARE + 1


def test_what_a_job_did_before_it_was_stopped_counts(tmp_path: Path) -> None:
    bench = bench_with_checkpoints(tmp_path)
    job = a_job(bench, "contrastive", MARGINS)
    stopped_after(2, job, bench)
    state = Checkpoint(bench, job).read()
    state["seconds"]["train"] = 1000.0
    state["peak_memory_bytes"] = 2**60
    state["test_images_opened"] = 1
    Checkpoint(bench, job).write(lambda: state)
    record = run_fold(job, bench)
    assert record.seconds["train"] > 1000
    assert record.peak_memory_bytes == 2**60
    assert record.reason == "audit"
    assert "1 before the final evaluation" in record.message


def test_the_file_of_a_job_is_removed_and_with_it_what_a_kill_left_of_a_write(tmp_path: Path) -> None:
    folder = checkpoints_folder(embeddings_folder(str(tmp_path / "store.db")))
    assert folder == tmp_path / "store.db.checkpoints"
    assert checkpointed_jobs(folder) == []
    folder.mkdir()
    for name in ("a.pt", "a.pt.12.partial", "b.pt.12.partial", "c.best.pt", "c.best.pt.12.partial", "d.pt"):
        (folder / name).touch()
    assert checkpointed_jobs(folder) == ["a", "b", "c", "d"]
    remove_checkpoints(folder, ["a", "b", "c", "e"])
    assert sorted(path.name for path in folder.iterdir()) == ["c.best.pt", "d.pt"]


def test_the_best_weights_of_a_final_run_stay_where_they_are_wanted(tmp_path: Path) -> None:
    bench = replace(bench_with_checkpoints(tmp_path), keep_checkpoints=True)
    job, searched = a_job(bench, "contrastive", MARGINS, run=1), a_job(bench, "contrastive", MARGINS)
    for one in (job, searched):
        run_fold(one, bench)
        remove_checkpoints(bench.checkpoints, [one.id])
    (path,) = (tmp_path / "checkpoints").iterdir()
    assert path.name == f"{job.id}.best.pt"
    model = build_model(bench.protocol, torch.Generator())
    model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
    training = FoldTraining(job, bench)
    training.run()
    training.model = model.eval()
    found = training._embed(training.images.test).numpy()
    assert np.array_equal(found, load_embeddings(bench.artifacts, job.id))
