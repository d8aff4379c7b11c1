"""CUDA graphs as an option, as far as it shows without a GPU: who refuses it, what is told, what a graph is made of.

That a graph computes what the model does is for `tests/benchmarks/on_cuda.py`, which needs one.
"""

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from conftest import Command, options
from tiny import MARGINS, tiny_bench
from torch import Tensor
from torch.nn.functional import cross_entropy

from benchmark.bench import Bench
from benchmark.jobs import Job
from benchmark.methods.registry import method_entry
from benchmark.options import SuiteOptions
from benchmark.provenance import device_name, provenance
from benchmark.training.checkpoint import Checkpoint, UnusableCheckpoint
from benchmark.training.failure import RESULT_REASONS, FoldFailure
from benchmark.training.graphs import OneWayBack, of_weights
from benchmark.workshop import assemble
from protocols.catalogue import LITE_V1, MINI_V1
from protocols.model import EmbeddingModel, build_model
from protocols.spec import Protocol
from results.baseline import Baseline, BaselineMethod, BaselineRun, write_baseline

without_a_gpu = pytest.mark.skipif(torch.cuda.is_available(), reason="it is refused where there is no CUDA device")
LITE = replace(LITE_V1, trunk=replace(LITE_V1.trunk, weights="random"))
SHAPE = (4, 3, 64, 64)


def model_of(protocol: Protocol) -> EmbeddingModel:
    return build_model(protocol, torch.Generator().manual_seed(0)).train()


def not_captured(model: EmbeddingModel, shape: tuple[int, ...] = SHAPE) -> OneWayBack:
    """What a learner would call, with the function itself in the place of its graph."""
    return OneWayBack(*of_weights(model), shape)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return replace(tiny_bench(tmp_path), checkpoints=tmp_path / "checkpoints")


@pytest.fixture
def job(bench: Bench) -> Job:
    return bench.job(method_entry("contrastive"), MARGINS, run=0, fold=0)


# --- the option


@without_a_gpu
@pytest.mark.parametrize(
    "command",
    [
        ["run", "contrastive"],
        ["search", "contrastive"],
        ["finals", "contrastive"],
        ["plan", "contrastive"],
        ["compare", "ms", "--against", "contrastive"],
        ["baseline", "save", "kept.json", "contrastive"],
    ],
    ids=lambda command: command[0],
)
def test_without_a_cuda_device_it_is_refused_before_anything_is_looked_at(mlrc: Command, command: list[str]) -> None:
    line = mlrc(*command, "--cuda-graphs", *options("nowhere", "store.db")).refusal()
    assert line.startswith("--cuda-graphs: jobs would run on the cpu here, and only a CUDA device has graphs.")
    assert "Leave it out, or see with mlrc doctor" in line
    assert list(Path.cwd().iterdir()) == []


@without_a_gpu
def test_a_suite_file_that_asks_for_it_is_refused_too(mlrc: Command, tmp_path: Path) -> None:
    (tmp_path / "suite.toml").write_text('methods = ["contrastive"]\ncuda-graphs = true\n')
    assert mlrc("run", "suite.toml", *options("nowhere", "store.db")).refusal().startswith("--cuda-graphs: ")


@without_a_gpu
def test_a_plan_for_a_cluster_is_reckoned_without_the_device_and_refused_only_where_it_would_measure(
    mlrc: Command,
) -> None:
    plan = ["plan", "contrastive", "--cuda-graphs", "--executor", "dask", "--scheduler", "tcp://node7:8786"]
    assert mlrc(*plan, "--seconds-per-step", "1").code == 0
    assert "error: --cuda-graphs: jobs would run on the cpu here" in mlrc(*plan).err


@without_a_gpu
def test_a_check_of_a_baseline_is_refused_too(mlrc: Command, bench: Bench, job: Job) -> None:
    identity = bench.identity(job)
    settings = {setting: dict.fromkeys(identity.metrics, 0.5) for setting in ("separated", "concatenated")}
    runs = tuple(BaselineRun(run=number, test=settings) for number in (1, 2))
    method = BaselineMethod(
        method=job.method, method_code="", hyperparameters=dict(job.hyperparameters), origins={}, runs=runs
    )
    parts = {"protocol": identity.protocol, "dataset": identity.dataset, "split": identity.split}
    kept = Baseline(created_at="2024-01-01T12:00:00+00:00", data="nowhere", methods=(method,), **parts)
    write_baseline(kept, Path("kept.json"))
    assert mlrc("baseline", "check", "kept.json", "--cuda-graphs").refusal().startswith("--cuda-graphs: ")


@pytest.mark.parametrize("asked", [False, True])
def test_it_reaches_the_bench_that_workers_of_a_cluster_are_given(asked: bool) -> None:
    suite = SuiteOptions(
        ["contrastive"], executor="dask", scheduler="tcp://node7:8786", no_cache=True, cuda_graphs=asked
    )
    assert assemble(suite, decode=False).bench.cuda_graphs is asked


# --- what is told


def test_a_record_tells_of_it_with_the_device(bench: Bench) -> None:
    assert provenance(bench, "").device == device_name("cpu")
    told = provenance(replace(bench, cuda_graphs=True), "").device
    assert told == f"{device_name('cpu')}, training as CUDA graphs"


def test_a_checkpoint_is_taken_up_only_as_it_was_written(bench: Bench, job: Job) -> None:
    with_graphs = replace(bench, cuda_graphs=True)
    Checkpoint(with_graphs, job).write(lambda: {"n_steps": 2})
    assert Checkpoint(with_graphs, job).read() == {"n_steps": 2}
    with pytest.raises(UnusableCheckpoint, match=r"has device .*, training as CUDA graphs, and this is .*"):
        Checkpoint(bench, job).read()


# --- what a graph is made of


def a_step(network: OneWayBack | EmbeddingModel, images: Tensor, optimiser: torch.optim.Optimizer) -> Tensor:
    """As a learner makes one."""
    embeddings: Tensor = network(images)
    loss = cross_entropy(10 * embeddings, torch.arange(len(images)))
    optimiser.zero_grad(set_to_none=True)
    loss.backward()
    optimiser.step()
    return embeddings.detach()


@pytest.mark.parametrize(
    ("protocol", "shape"),
    [(MINI_V1, (4, 1, 32, 32)), (LITE, SHAPE), (replace(LITE, trunk=replace(LITE.trunk, batchnorm="eval")), SHAPE)],
    ids=["mini", "lite", "lite-eval"],
)
def test_the_function_of_the_weights_learns_the_bits_that_the_model_learns(
    protocol: Protocol, shape: tuple[int, ...]
) -> None:
    plain = model_of(protocol)
    other = copy.deepcopy(plain)
    before = copy.deepcopy(plain.state_dict())
    found = []
    for model, network in ((plain, plain), (other, not_captured(other, shape))):
        optimiser = torch.optim.RMSprop(model.trainable_parameters(), lr=1e-3, momentum=0.9, weight_decay=1e-4)
        draws = torch.Generator().manual_seed(1)
        found.append([a_step(network, torch.randn(shape, generator=draws), optimiser) for _ in range(3)])
    assert all(torch.equal(one, two) for one, two in zip(*found, strict=True))
    now = other.state_dict()
    assert all(torch.equal(now[name], weight) for name, weight in plain.state_dict().items())
    assert any(not torch.equal(now[name], weight) for name, weight in before.items())


def test_it_follows_weights_that_are_put_back_or_laid_elsewhere() -> None:
    model, images = model_of(MINI_V1), torch.randn(4, 1, 32, 32)
    network = not_captured(model, (4, 1, 32, 32))
    model.load_state_dict(build_model(MINI_V1, torch.Generator().manual_seed(2)).state_dict())
    assert torch.equal(network(images), model(images))
    model.embedder.weight.data = model.embedder.weight.data + 1
    assert torch.equal(network(images), model(images))


def test_a_method_is_given_embeddings_in_memory_of_their_own() -> None:
    model, handed = model_of(MINI_V1), []
    work, weights = of_weights(model)

    def replay(*inputs: Tensor) -> Tensor:
        handed.append(work(*inputs))
        return handed[-1]

    given = OneWayBack(replay, weights, (4, 1, 32, 32))(torch.randn(4, 1, 32, 32))
    assert torch.equal(given, handed[0])
    assert given.data_ptr() != handed[0].data_ptr()


def test_another_shape_is_refused() -> None:
    with pytest.raises(AssertionError, match=r"a batch of shape \(1, 3, 64, 64\); the graph's is \(4, 3, 64, 64\)"):
        not_captured(model_of(LITE))(torch.zeros(1, *SHAPE[1:]))


def test_one_way_back_a_step_is_given_after_any_look_at_the_embeddings_alone() -> None:
    network, images = not_captured(model_of(MINI_V1), (4, 1, 32, 32)), torch.randn(4, 1, 32, 32)
    for _ in range(2):
        embeddings = network(images)
        for _ in range(2):
            squares = embeddings.square().sum()
            (gradient,) = torch.autograd.grad(squares, embeddings, create_graph=True)
            assert torch.equal(gradient, 2 * embeddings)
        (embeddings.sum() + gradient.sum()).backward()


def second(network: OneWayBack, images: Tensor, weight: Tensor) -> None:
    embeddings = network(images)
    torch.autograd.grad(embeddings.sum(), weight, retain_graph=True)
    embeddings.sum().backward()


def through_an_earlier_step(network: OneWayBack, images: Tensor, weight: Tensor) -> None:
    earlier, now = network(images), network(images)
    (earlier.sum() + now.sum()).backward()


def of_second_order(network: OneWayBack, images: Tensor, weight: Tensor) -> None:
    torch.autograd.grad(network(images).sum(), weight, create_graph=True)


@pytest.mark.parametrize("ask", [second, through_an_earlier_step, of_second_order])
def test_a_gradient_that_a_graph_has_not_is_a_failure_that_says_nothing_of_the_method(
    ask: Callable[[OneWayBack, Tensor, Tensor], None],
) -> None:
    model = model_of(MINI_V1)
    with pytest.raises(FoldFailure, match="run it without --cuda-graphs") as raised:
        ask(not_captured(model, (4, 1, 32, 32)), torch.randn(4, 1, 32, 32), model.embedder.weight)
    assert raised.value.reason not in RESULT_REASONS
