"""What runs need, looked at one by one: packages, devices, memory, equal bits, weights, data set, store.

Each check is a line: `what`, `state` (fine, note, wrong) and `found` with the way out. Nothing is downloaded and no
store is made.
"""

import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from benchmark.bench import Bench, default_device
from benchmark.executors import usable_cores
from benchmark.executors.worker import hold, perform
from benchmark.methods.registry import method_entry
from benchmark.oversight.verify import ASIDE
from benchmark.provenance import code_revision, device_name, versions
from benchmark.stores import missing_file
from protocols.catalogue import DEMO_V1, PUBLISHED
from protocols.datasets import load_dataset
from protocols.datasets.cache import cache_folder
from protocols.datasets.completeness import remark_on
from protocols.datasets.files import size_text
from protocols.datasets.index import ImageIndex
from protocols.derive import derive
from protocols.disk import free_bytes
from protocols.errors import DataError, ProtocolError
from protocols.spec import Protocol
from protocols.splits import make_split
from protocols.trunks import build_trunk
from results.errors import ResultsError
from results.record import Record
from results.store import Store

PROBE = "shapes:shifted?train=8&test=6"  # the data set of the job that is run twice
Line = dict[str, str]


def diagnose(data: str | None, store: str) -> list[Line]:
    """All checks, in the order in which a run would meet them."""
    checks: list[Callable[[], Iterator[Line]]] = [_packages, _devices, _determinism, _weights, _cache]
    lines = [line for check in checks for line in check()]
    return [*lines, *([_data(data)] if data is not None else []), _store(store)]


def shown(line: Line) -> Line:
    """The line for a table on a terminal."""
    return {**line, "": {"fine": "ok", "note": "--", "wrong": "!!"}[line["state"]]}


def _line(what: str, found: str, state: str = "fine") -> Line:
    return {"what": what, "state": state, "found": found}


def _packages() -> Iterator[Line]:
    here = versions()
    yield _line("packages", ", ".join(f"{name} {version}" for name, version in here.items()))
    yield _line("code", code_revision(), "note" if code_revision().endswith("+dirty") else "fine")


def _devices() -> Iterator[Line]:
    yield _line("processor", f"{device_name('cpu')}, {usable_cores()} cores, so --workers {usable_cores()}")
    for number in range(torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(number)
        yield _line(f"cuda:{number}", f"{device_name(f'cuda:{number}')}, {size_text(free)} of {size_text(total)} free")
    if not torch.cuda.is_available():
        why = "this torch is built without CUDA" if torch.version.cuda is None else "torch finds no device"
        yield _line("cuda", f"none: {why}; runs use the processor", "note")


def _determinism() -> Iterator[Line]:
    """A job of two steps, run twice as a worker runs it."""
    with tempfile.TemporaryDirectory() as folder:
        bench = _probe_bench(Path(folder))
        hold(bench)
        job = bench.job(method_entry("contrastive"), {"pos_margin": 0.2, "neg_margin": 0.9}, run=1, fold=0)
        first, second = (_results(perform(job)) for _ in range(2))
    flags = {
        "deterministic kernels": torch.are_deterministic_algorithms_enabled(),
        "tf32": torch.backends.cudnn.allow_tf32 or torch.backends.cuda.matmul.allow_tf32,
        "kernels chosen by speed": torch.backends.cudnn.benchmark,
    }
    as_wanted = list(flags.values()) == [True, False, False]
    said = ", ".join(f"{name} {'on' if value else 'off'}" for name, value in flags.items())
    yield _line("flags of a worker", said, "fine" if as_wanted else "wrong")
    if first["outcome"] != "done":
        yield _line("a short job", f"failed, {first['reason']}: {first['message']}", "wrong")
        return
    said = "gives equal bits" if first == second else "gives other bits: results cannot be verified on this machine"
    yield _line("a job run twice", f"{said} ({device_name(bench.device)})", "fine" if first == second else "wrong")


def _probe_bench(folder: Path) -> Bench:
    protocol, index = derive(DEMO_V1, ["max_steps=2", "cadence.evaluate_every_steps=1"]), load_dataset(PROBE)
    return Bench(
        protocol=protocol,
        index=index,
        split=make_split(index.classes, protocol.folds, index.test_classes),
        artifacts=folder / "embeddings",
        threads=1,
        device=default_device(),
    )


def _results(record: Record) -> dict[str, Any]:
    return {name: value for name, value in asdict(record).items() if name not in ASIDE}


def _weights() -> Iterator[Line]:
    """The weight file of each trunk that a published protocol wants; one that is missing stops only its protocols."""
    users: dict[tuple[str, str], list[Protocol]] = {}
    for protocol in PUBLISHED:
        if protocol.trunk.weights != "random":
            users.setdefault((protocol.trunk.name, protocol.trunk.weights), []).append(protocol)
    for (trunk, _), protocols in users.items():
        titles = ", ".join(protocol.title for protocol in protocols)
        try:
            build_trunk(protocols[0].trunk, torch.Generator())
            yield _line(f"weights of {trunk}", f"there, for {titles}")
        except ProtocolError as error:
            yield _line(f"weights of {trunk}", f"{titles} cannot run: {error}", "note")


def _cache() -> Iterator[Line]:
    try:
        folder = cache_folder()
    except DataError as error:
        yield _line("cache", str(error), "wrong")
        return
    caches = [path for path in folder.glob("*.pixels") if path.is_file()] if folder.is_dir() else []
    held = f"{len(caches)} data sets prepared" if caches else "no data set prepared"
    yield _place("cache", folder, held)


def _data(data: str) -> Line:
    try:
        index: ImageIndex = load_dataset(data)
    except DataError as error:
        return _line("data", str(error), "wrong")
    found = f"{index.name} ({index.content_hash}): {index.n_images:,} images of {index.n_classes:,} classes"
    if remark := remark_on(index):
        return _line("data", f"{found}. {remark}", "note")
    return _line("data", f"{found}; mlrc data check reads every one of them")


def _store(address: str) -> Line:
    try:
        if file := missing_file(address):
            return _place("store", file.absolute().parent, "none yet; mlrc run makes it")
        with Store.open(address) as store:
            return _line("store", f"{store.name}: {(n := len(store.comparisons()))} comparison{'s' if n != 1 else ''}")
    except ResultsError as error:
        return _line("store", str(error), "wrong")


def _place(what: str, folder: Path, held: str) -> Line:
    """A folder that is written to, or will be made."""
    there = next(path for path in (folder, *folder.parents) if path.exists())
    if not (there.is_dir() and os.access(there, os.W_OK)):
        return _line(what, f"{there}: cannot be written; choose another place", "wrong")
    return _line(what, f"{folder}: {held}, {size_text(free_bytes(there))} free")
