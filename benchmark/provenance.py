"""Where a record comes from: versions, device, threads, code revision."""

import platform
import subprocess
from datetime import UTC, datetime
from functools import cache
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import torch

from benchmark.bench import Bench
from results.record import Provenance

_PACKAGES = (
    "mlrc-harness",
    "torch",
    "torchvision",
    "pytorch-metric-learning",
    "optuna",
    "numpy",
    "scipy",
    "scikit-learn",
    "pillow",
    "faiss-cpu",
    "faiss-gpu",
)
AS_GRAPHS = ", training as CUDA graphs"  # after the name of a record's device, where they were asked for
_COMPUTING_ROOMS = ("benchmark", "protocols", "results")  # what a worker runs; it makes no report


def provenance(bench: Bench, trunk_weights: str) -> Provenance:
    """What a record made now, on this machine, says of its origin."""
    return Provenance(
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=versions(),
        device=device_name(bench.device) + AS_GRAPHS * bench.cuda_graphs,
        threads=bench.threads,
        code_revision=code_revision(),
        trunk_weights=trunk_weights,
    )


@cache
def versions() -> dict[str, str]:
    """Versions of what can change a number; a package that is not installed is absent."""
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    if torch.cuda.is_available():
        cudnn = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]
        found |= {"cuda": str(torch.version.cuda), "cudnn": str(cudnn)}
    return found


@cache
def package() -> str:
    """This package as a worker's must be: its version and its code, "0.2.0 (code 1f3a5c7e9b0d)"."""
    return f"{versions().get('mlrc-harness', 'unknown')} (code {code_digest(Path(__file__).resolve().parents[1])})"


def code_digest(root: Path) -> str:
    """12 hex digits over the sources of the rooms in a folder that compute, wherever the folder lies."""
    digest = sha256()
    for path in sorted(path for room in _COMPUTING_ROOMS for path in (root / room).rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:12]


@cache
def device_name(device: str) -> str:
    """The accelerator's name, or the processor's architecture and vector instructions."""
    if device.startswith("cuda"):
        return torch.cuda.get_device_name(device)
    return f"cpu {platform.machine()} {torch.backends.cpu.get_cpu_capability()}"


@cache
def code_revision() -> str:
    """The git revision of a checkout, with "+dirty" where files differ from it; the package version elsewhere."""
    root = Path(__file__).resolve().parents[1]
    if not (root / ".git").exists():
        return versions().get("mlrc-harness", "unknown")
    try:
        revision = _git(root, "rev-parse", "--short=12", "HEAD")
        return revision + ("+dirty" if _git(root, "status", "--porcelain", "--untracked-files=no") else "")
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, encoding="utf-8", check=True, timeout=10)
    return done.stdout.strip()
