"""What a CUDA device computes and how fast: correctness first, then ratios within this one run.

Checks: crops, embeddings, gradients and metrics agree with the CPU's; a fold job run twice is equal bit for bit, and so
is one with CUDA graphs, after it was stopped half way too; a training step of a loss without mining never waits for the
device, with graphs or without. Ratios: BN-Inception's training step (32 x 227 px, float32, tf32 off) against the
network of `pretrainedmodels`, eager and NCHW, with the same loss and optimiser; the same step with graphs against
without; batches cut on the device against batches cut by the CPU; metrics at the size of SOP against the CPU.

Run `python tests/benchmarks/on_cuda.py`: one JSON line, exit code 1 if a check fails, 2 without a CUDA device. It needs
no weight file and no data set. (Not `cuda.py`: torch imports a package of that name.)
"""

import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import perf_counter

import torch
from bn_inception import PlainTrunk  # the script beside this one
from torch import Tensor
from torch.nn.functional import cross_entropy, normalize

from benchmark.bench import Bench
from benchmark.executors.worker import hold
from benchmark.jobs import Job
from benchmark.methods.registry import method_entry
from benchmark.training.checkpoint import State
from benchmark.training.graphs import graphed
from benchmark.training.learner import Learner
from benchmark.training.training import FoldTraining, run_fold
from protocols.catalogue import LITE_V1, MINI_V1, MLRC_V1
from protocols.datasets import load_dataset
from protocols.datasets.tensors import ImageTensors
from protocols.derive import derive
from protocols.metrics import evaluate
from protocols.model import EmbeddingModel, build_model
from protocols.spec import Protocol
from protocols.splits import make_split
from results.record import FoldRecord

MLRC = replace(MLRC_V1, trunk=replace(MLRC_V1.trunk, weights="random"))
LITE = replace(LITE_V1, trunk=replace(LITE_V1.trunk, weights="random"))
WARM_UP, REPEATS, ROUNDS = 5, 20, 5
SOP = (60_502, 11_316, 128)  # images, classes, width
DATA = "shapes:shifted?train=20&test=10"
CONV1 = "trunk.conv1_7x7_s2.weight"
MARGINS, PROXIES = {"pos_margin": 0.2, "neg_margin": 0.9}, {"temperature": 0.1, "w_lr": 1e-3}


def the_bench(protocol: Protocol, folder: Path) -> Bench:
    """A bench on the device, which this process then holds: deterministic kernels, float32 throughout."""
    index = load_dataset(DATA)
    split = make_split(index.classes, protocol.folds, index.test_classes)
    bench = Bench(protocol=protocol, index=index, split=split, artifacts=folder, threads=1, device="cuda")
    hold(bench)
    return bench


def crops_agree() -> bool:
    """Crops of a train transform to a gray level, evaluation images exactly."""
    some = list(range(64))
    cpu, cuda = (
        ImageTensors(load_dataset(DATA), LITE.transforms, LITE.trunk.input, device=name) for name in ("cpu", "cuda")
    )
    apart = float((cuda.train(some, some).cpu() - cpu.train(some, some)).abs().max())
    return apart < 1.01 / LITE.trunk.input.std[0] and torch.equal(cuda.eval(some).cpu(), cpu.eval(some))


def network_agrees() -> bool:
    """Embeddings and the gradients of the first and the last layer, to a thousandth of the largest value."""
    images, labels = torch.rand(8, 3, 227, 227) * 255 - 117, torch.arange(8)
    found = []
    for device in ("cpu", "cuda"):
        model = build_model(MLRC, torch.Generator().manual_seed(0)).to(device)
        embeddings = model(images.to(device))
        cross_entropy(embeddings, labels.to(device)).backward()
        found.append((embeddings.detach(), model.embedder.weight.grad, model.get_parameter(CONV1).grad))
    return all(float((b.cpu() - a).abs().max()) < 1e-3 * float(a.abs().max()) for a, b in zip(*found, strict=True))


def clustered(n_images: int, n_classes: int, width: int) -> tuple[Tensor, Tensor]:
    """Unit vectors around the centre of their class, and the classes."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.arange(n_images) % n_classes
    centres = torch.randn(n_classes, width, generator=generator)
    return normalize(centres[labels] + 1.5 * torch.randn(n_images, width, generator=generator)), labels


def metrics_agree() -> bool:
    """Products may round otherwise, which can turn two neighbours that are nearly equally far."""
    embeddings, labels = clustered(5_000, 100, 128)
    on_cpu, on_cuda = (evaluate(embeddings.to(name), labels.to(name)).metrics for name in ("cpu", "cuda"))
    return all(abs(on_cpu[name] - on_cuda[name]) < 1e-4 for name in on_cpu)


def same(first: FoldRecord, second: FoldRecord) -> bool:
    """Whether two runs of a final fold came to the same end by the same way; what they found is shown if not."""
    one, other = ((record.outcome, record.message, record.curve, record.test) for record in (first, second))
    if one != other or first.outcome != "done":
        print(f"{first.identity.protocol['title']}, {first.identity.method}: {one}; {other}", file=sys.stderr)
        return False
    return True


def small_jobs(folder: Path) -> Iterator[tuple[Bench, Job]]:
    """Final folds of `mini`, of a small `lite`, and of one whose network rests while the proxies warm up."""
    small = ["crop_px=96", "resize_px=128", "max_steps=6", "cadence.evaluate_every_steps=3"]
    for settings, name, values in (
        (["max_steps=100"], "contrastive", MARGINS),
        (small, "contrastive", MARGINS),
        ([*small, "proxy_warmup_steps=2"], "norm-softmax", PROXIES),
    ):
        bench = the_bench(derive(LITE if "crop_px=96" in settings else MINI_V1, settings), folder)
        yield bench, bench.job(method_entry(name), values, run=1, fold=0)


def job_repeats(folder: Path) -> bool:
    """Each of the jobs, run twice."""
    return all(same(run_fold(job, bench), run_fold(job, bench)) for bench, job in small_jobs(folder))


class Stopped(Exception):
    """A job was ended between two validations."""


class StoppedHalfWay(FoldTraining):
    """A job whose only checkpoint is that of its first validation."""

    def _state(self, learner: Learner) -> State:
        if self.curve[1:]:
            raise Stopped
        return super()._state(learner)


def graphs_change_no_bit(folder: Path) -> bool:
    """Each of the jobs without graphs, with them, and with them from its first validation on."""
    for bench, job in small_jobs(folder):
        plain, graphs = run_fold(job, bench), replace(bench, cuda_graphs=True)
        resumed = replace(graphs, checkpoints=folder / "checkpoints")
        with suppress(Stopped):
            StoppedHalfWay(job, resumed).run()
        if not (same(plain, run_fold(job, graphs)) and same(plain, run_fold(job, resumed))):
            return False
    return True


class Watched(FoldTraining):
    """A job of a few steps, in which torch refuses to wait for the device after the first two."""

    def _train(self) -> None:
        learner = Learner(self.job, self.bench, self.entry, self.images, self.model, self.audit)
        learner.train(2)
        torch.cuda.set_sync_debug_mode("error")
        try:
            learner.train(3)
        finally:
            torch.cuda.set_sync_debug_mode("default")


def step_never_waits(folder: Path) -> bool:
    """Image batches, network, loss and optimiser of a small `lite`."""
    bench = the_bench(derive(LITE, ["crop_px=96", "resize_px=128"]), folder)
    job = bench.job(method_entry("norm-softmax"), PROXIES, run=0, fold=0)
    try:
        for cuda_graphs in (False, True):
            Watched(job, replace(bench, cuda_graphs=cuda_graphs)).run()
    except RuntimeError as error:
        print(str(error).splitlines()[0], file=sys.stderr)
        return False
    return True


def training_step(plain: bool = False, graphs: bool = False) -> Callable[[], None]:
    """A whole step of one of the two networks."""
    model = build_model(MLRC, torch.Generator().manual_seed(0))
    if plain:
        model = EmbeddingModel(PlainTrunk(model.trunk.state_dict()), model.embedder, model.normalisation)
    model.to("cuda")
    images, labels = torch.rand(32, 3, 227, 227, device="cuda") * 255 - 117, torch.arange(32, device="cuda")
    optimiser = torch.optim.RMSprop(model.trainable_parameters(), lr=1e-6, weight_decay=1e-4, momentum=0.9)
    network = graphed(model, images.shape, images.device) if graphs else model

    def step() -> None:
        loss = cross_entropy(10 * network(images), labels)
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()

    return step


def seconds(work: Callable[[], object], repeats: int = REPEATS) -> float:
    """Seconds of one call, the device waited for at both ends."""
    torch.cuda.synchronize()
    began = perf_counter()
    for _ in range(repeats):
        work()
    torch.cuda.synchronize()
    return (perf_counter() - began) / repeats


def ratio(slow: Callable[[], object], fast: Callable[[], object], repeats: int = REPEATS) -> dict[str, float]:
    """Median over rounds in which both take turns."""
    for work in (slow, fast):
        seconds(work, min(WARM_UP, repeats))
    rounds = [(seconds(slow, repeats), seconds(fast, repeats)) for _ in range(ROUNDS)]
    found = {"ratio": median(a / b for a, b in rounds), "slow_s": median(a for a, _ in rounds)}
    return {name: round(value, 5) for name, value in (found | {"fast_s": median(b for _, b in rounds)}).items()}


def ratios() -> dict[str, dict[str, float]]:
    """All of them."""
    plain_step, step, graphed_step = training_step(plain=True), training_step(), training_step(graphs=True)
    some = list(range(32))
    cpu, cuda = (
        ImageTensors(load_dataset(DATA), MLRC.transforms, MLRC.trunk.input, device=name) for name in ("cpu", "cuda")
    )
    embeddings, labels = clustered(*SOP)
    on_device = embeddings.cuda(), labels.cuda()
    return {
        "training_step": ratio(plain_step, step),
        "graphed_step": ratio(step, graphed_step),
        "train_batch": ratio(lambda: cpu.train(some, some).cuda(), lambda: cuda.train(some, some)),
        "metrics_sop": ratio(lambda: evaluate(embeddings, labels), lambda: evaluate(*on_device), repeats=1),
    }


def main() -> int:
    """Check, measure, print, and say whether all checks held."""
    if not torch.cuda.is_available():
        print("no CUDA device here; nothing was measured.", file=sys.stderr)
        return 2
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    with tempfile.TemporaryDirectory() as folder:
        checks = {
            "crops_agree": crops_agree(),
            "network_agrees": network_agrees(),
            "metrics_agree": metrics_agree(),
            "job_repeats": job_repeats(Path(folder)),
            "graphs_change_no_bit": graphs_change_no_bit(Path(folder)),
            "step_never_waits": step_never_waits(Path(folder)),
        }
    torch.use_deterministic_algorithms(False)
    report = {"benchmark": "cuda", "device": torch.cuda.get_device_name(), "checks": checks, "ratios": ratios()}
    print(json.dumps(report))
    return int(not all(checks.values()))


if __name__ == "__main__":
    sys.exit(main())
