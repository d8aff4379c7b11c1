"""What a CUDA device computes and how fast: correctness first, then ratios within this one run.

Checks: crops, embeddings, gradients and metrics agree with the CPU's; a fold job run twice is equal bit for bit; a
training step of a loss without mining never waits for the device. Ratios: BN-Inception's training step (32 x 227 px,
float32, tf32 off) against the network of `pretrainedmodels`, eager and NCHW, with the same loss and optimiser; the same
forward and backward replayed as a captured graph; batches cut on the device against batches cut by the CPU; metrics at
the size of SOP against the CPU.

Run `python tests/benchmarks/on_cuda.py`: one JSON line, exit code 1 if a check fails, 2 without a CUDA device. It needs
no weight file and no data set. (Not `cuda.py`: torch imports a package of that name.)
"""

import json
import sys
import tempfile
from collections.abc import Callable
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
from benchmark.methods.registry import method_entry
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

MLRC = replace(MLRC_V1, trunk=replace(MLRC_V1.trunk, weights="random"))
LITE = replace(LITE_V1, trunk=replace(LITE_V1.trunk, weights="random"))
WARM_UP, REPEATS, ROUNDS = 5, 20, 5
SOP = (60_502, 11_316, 128)  # images, classes, width
DATA = "shapes:shifted?train=20&test=10"
CONV1 = "trunk.conv1_7x7_s2.weight"


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


def job_repeats(folder: Path) -> bool:
    """A final fold of `mini` and of a small `lite`, each run twice."""
    small = ["crop_px=96", "resize_px=128", "max_steps=6", "cadence.evaluate_every_steps=3"]
    for protocol in (derive(MINI_V1, ["max_steps=100"]), derive(LITE, small)):
        bench = the_bench(protocol, folder)
        job = bench.job(method_entry("contrastive"), {"pos_margin": 0.2, "neg_margin": 0.9}, run=1, fold=0)
        first, second = run_fold(job, bench), run_fold(job, bench)
        if first.outcome != "done" or (first.curve, first.test) != (second.curve, second.test):
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
    job = bench.job(method_entry("norm-softmax"), {"temperature": 0.1, "w_lr": 1e-3}, run=0, fold=0)
    try:
        Watched(job, bench).run()
    except RuntimeError as error:
        print(str(error).splitlines()[0], file=sys.stderr)
        return False
    return True


def training_step(plain: bool) -> tuple[Callable[[], None], Callable[[], None]]:
    """A whole step of one of the two networks, and its forward and backward alone."""
    model = build_model(MLRC, torch.Generator().manual_seed(0))
    if plain:
        model = EmbeddingModel(PlainTrunk(model.trunk.state_dict()), model.embedder, model.normalisation)
    model.to("cuda")
    images, labels = torch.rand(32, 3, 227, 227, device="cuda") * 255 - 117, torch.arange(32, device="cuda")
    optimiser = torch.optim.RMSprop(model.trainable_parameters(), lr=1e-6, weight_decay=1e-4, momentum=0.9)

    def gradients() -> None:
        optimiser.zero_grad(set_to_none=False)
        cross_entropy(10 * model(images), labels).backward()

    def step() -> None:
        gradients()
        optimiser.step()

    return step, gradients


def captured(work: Callable[[], None]) -> Callable[[], None]:
    """`work` as a graph that is launched at once."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UP):
            work()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        work()
    return graph.replay


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
    (plain_step, _), (step, gradients) = training_step(plain=True), training_step(plain=False)
    some = list(range(32))
    cpu, cuda = (
        ImageTensors(load_dataset(DATA), MLRC.transforms, MLRC.trunk.input, device=name) for name in ("cpu", "cuda")
    )
    embeddings, labels = clustered(*SOP)
    on_device = embeddings.cuda(), labels.cuda()
    return {
        "training_step": ratio(plain_step, step),
        "captured_gradients": ratio(gradients, captured(gradients)),
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
            "step_never_waits": step_never_waits(Path(folder)),
        }
    torch.use_deterministic_algorithms(False)
    report = {"benchmark": "cuda", "device": torch.cuda.get_device_name(), "checks": checks, "ratios": ratios()}
    print(json.dumps(report))
    return int(not all(checks.values()))


if __name__ == "__main__":
    sys.exit(main())
