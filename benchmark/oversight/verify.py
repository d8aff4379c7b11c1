"""Runs the job of a record again and compares: identical but for timings, or which field differs and by how much."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmark.bench import Bench, check_graphs
from benchmark.commands.listings import MOST_LINES
from benchmark.errors import BenchmarkError
from benchmark.executors.worker import hold, perform
from benchmark.jobs import Work
from benchmark.oversight.recorded import recorded_bench, recorded_ensemble, recorded_job, recorded_protocol
from benchmark.provenance import AS_GRAPHS, code_revision, versions
from benchmark.training.embeddings import EmbeddingsUnavailable, Place, load_embeddings, stored_place
from protocols.spec import Protocol
from protocols.trunks import use_weight_file
from results.record import FoldRecord, Record
from results.store import Store

DONE_TOGETHER = "its folds were not trained again: their stored test embeddings were put together and scored again"
ASIDE = ("seconds", "peak_memory_bytes", "provenance")  # of a record: what two runs of one job need not share
SEARCHED = ("chunk_rows", "buffer_bytes", "search", "searched_again")  # how an evaluation did: it changes no number
NO_LONGER_IN_FORCE = ("transforms", "schedule")  # told up to 0.2.0 as the protocol had them; 0.3.0 tells what was done


@dataclass(frozen=True)
class Difference:
    """A field that is not the same; `by` is the distance of two numbers."""

    field: str
    recorded: Any
    found: Any
    by: float | None = None


@dataclass(frozen=True)
class Verified:
    """What came out; no difference means identical."""

    record: Record
    differences: tuple[Difference, ...]
    embeddings: str  # "identical", how they differ, or why they were not compared
    notes: tuple[str, ...]  # what is not as it was, and should change no bit

    @property
    def differs(self) -> bool:
        """Whether a field or the embeddings are not the same."""
        return bool(self.differences) or self.embeddings.startswith("differ")


def verify(record: Record, store: Store, address: str, data: str | None, weights: Path | None) -> Verified:
    """Run the job of a record of this store again, in this process.

    `weights` is the file of the trunk's weights, where it is not in its usual place.

    Raises:
        BenchmarkError: if what it was made with is not here; the message says what.
    """
    protocol = recorded_protocol(record.identity.protocol)
    if weights is not None:
        use_weight_file(protocol.trunk, weights)
    with TemporaryDirectory() as folder:
        bench = _bench_of(record, protocol, data, Path(folder) / "embeddings")
        stored = stored_place(store, address)
        if isinstance(record, FoldRecord):
            work: Work = recorded_job(record)
        else:
            work = recorded_ensemble(record, store)
            bench = replace(bench, shared=stored)  # it is made of its members' embeddings
        if work.id != record.id:
            raise BenchmarkError(f"record {record.id}: its job has the id {work.id}; the record was changed by hand.")
        hold(bench)
        found = perform(work)
        differences = tuple(differing(*_compared(record, found)))
        embeddings = _compare_embeddings(record, stored, bench.artifacts)
    return Verified(record, differences, embeddings, tuple(_notes(record)))


def differing(recorded: Any, found: Any, path: str = "") -> Iterator[Difference]:
    """The fields of two JSON values that are not the same, by their path."""
    if isinstance(recorded, dict) and isinstance(found, dict):
        for name in dict.fromkeys([*recorded, *found]):
            yield from differing(recorded.get(name), found.get(name), f"{path}.{name}" if path else name)
    elif isinstance(recorded, list) and isinstance(found, list):
        if len(recorded) != len(found):
            yield Difference(f"{path} (length)", len(recorded), len(found), abs(len(recorded) - len(found)))
        for place, (one, other) in enumerate(zip(recorded, found, strict=False)):
            yield from differing(one, other, f"{path}[{place}]")
    elif recorded != found:
        numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (recorded, found))
        yield Difference(path, recorded, found, abs(recorded - found) if numbers else None)


def verified_line(verified: Verified) -> dict[str, Any]:
    """As plain JSON values."""
    return {
        "id": verified.record.id,
        "method": verified.record.identity.method,
        "identical": not verified.differs,
        "differences": [asdict(one) for one in verified.differences],
        "embeddings": verified.embeddings,
        "notes": list(verified.notes),
    }


def verified_text(verified: Verified) -> str:
    """For the terminal."""
    identity, record = verified.record.identity, verified.record
    which = f"run {identity.run}" + (f" fold {record.fold}" if isinstance(record, FoldRecord) else "")
    head = f"{record.id}, {identity.method}, {identity.purpose} {which}: "
    done = "its fold was trained again" if isinstance(record, FoldRecord) else DONE_TOGETHER
    end = f"; test embeddings: {verified.embeddings}" if isinstance(record, FoldRecord) else ""
    lines = [f"{head}{'differs' if verified.differs else 'identical'}; {done}{end}."]
    for one in verified.differences[:MOST_LINES]:
        size = "" if one.by is None else f", off by {one.by:.3g}"
        lines.append(f"  {one.field}: recorded {_short(one.recorded)}, found {_short(one.found)}{size}")
    if len(verified.differences) > MOST_LINES:
        lines.append(f"  and {len(verified.differences) - MOST_LINES:,} more; --json has all")
    return "\n".join([*lines, *(f"note: {note}" for note in verified.notes)])


def _short(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:60]}..."


def _bench_of(record: Record, protocol: Protocol, data: str | None, artifacts: Path) -> Bench:
    """The bench that made the record, with CUDA graphs if it had them."""
    made = record.provenance
    on_device = replace(record, provenance=replace(made, device=made.device.removesuffix(AS_GRAPHS)))
    bench = recorded_bench(on_device, protocol, data, artifacts)
    graphs = made.device.endswith(AS_GRAPHS)
    check_graphs(graphs, bench.device)
    return replace(bench, cuda_graphs=graphs)


def _notes(record: Record) -> Iterator[str]:
    """What differs from then and is said, not refused: it is what verifying is about."""
    recorded, here = record.provenance.versions, versions()
    for package in ("mlrc-harness", "python"):
        if recorded.get(package) != here.get(package):
            yield f"{package} was {recorded.get(package, 'unknown')}, is {here.get(package, 'unknown')}"
    if record.provenance.code_revision != code_revision():
        yield f"the code was {record.provenance.code_revision}, is {code_revision()}"


def _compared(recorded: Record, found: Record) -> tuple[dict[str, Any], dict[str, Any]]:
    """All that must be the same, as JSON has it. A record from before a part of `in_force` says nothing of it."""
    one, other = _plain(recorded), _plain(found)
    if "in_force" in one:
        said = {name: value for name, value in (one["in_force"] or {}).items() if name not in NO_LONGER_IN_FORCE}
        one["in_force"] = said
        other["in_force"] = {name: value for name, value in other["in_force"].items() if name in said}
    return one, other


def _plain(record: Record) -> dict[str, Any]:
    kept = {name: value for name, value in asdict(record).items() if name not in ASIDE}
    audit = kept["evaluation_audit"] or {}
    kept["evaluation_audit"] = {name: value for name, value in audit.items() if name not in SEARCHED}
    if isinstance(record, FoldRecord):
        kept["trunk_weights"] = record.provenance.trunk_weights
    plain: dict[str, Any] = json.loads(json.dumps(kept))
    return plain


def _compare_embeddings(record: Record, stored: Place, made: Place) -> str:
    """Whether the test embeddings of a final fold are the same to the last bit, where both are there."""
    if not isinstance(record, FoldRecord) or record.test is None:
        return "none to compare"
    try:
        one = load_embeddings(stored, record.id)
    except EmbeddingsUnavailable:
        return "the recorded ones are lost or damaged"
    other = load_embeddings(made, record.id)
    if one.shape == other.shape and np.array_equal(one, other):
        return "identical"
    return f"differ by up to {np.abs(one - other).max():.3g}" if one.shape == other.shape else "differ in shape"
