"""What a worker does: it holds the bench of its suite and performs one piece of work at a time."""

import os

import torch

from benchmark.bench import Bench
from benchmark.jobs import EnsembleJob, Work
from benchmark.memory import retain_heap
from benchmark.training.ensemble import concatenate
from benchmark.training.training import run_fold
from results.record import Record

_bench: Bench | None = None


def hold(bench: Bench) -> None:
    """Make this process a worker of `bench`: heap, threads, float32, deterministic kernels where torch has them."""
    global _bench
    _bench = bench
    retain_heap()
    if torch.device(bench.device).index is not None:
        torch.cuda.set_device(bench.device)  # graphs, streams and pinned memory go to the current one
    torch.set_num_threads(bench.threads)
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS reads it once, when it is first used
    torch.use_deterministic_algorithms(True, warn_only=True)
    # A protocol says float32; torch lets cuDNN's convolutions round to tf32 unless told otherwise.
    torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.benchmark = False  # it would choose kernels, and so the last bits, by their speed of the day
    # A debugging aid that comes with the mode and writes every new tensor.
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]


def held() -> Bench:
    """The bench of this worker."""
    assert _bench is not None, "hold() comes first"
    return _bench


def perform(work: Work) -> Record:
    """Run one piece of work on the bench that this process holds."""
    return concatenate(work, held()) if isinstance(work, EnsembleJob) else run_fold(work, held())
