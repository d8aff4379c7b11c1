"""From a record back to the protocol, the bench and the job that made it, with what is installed here.

Only what may change a number has to be the same: the images, the split, the method's code, the kind of device and the
versions of the packages that compute. Where one is not, its job is not run again: a difference would say nothing.
"""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmark.bench import Bench, default_device
from benchmark.errors import BenchmarkError
from benchmark.jobs import EnsembleJob, Job
from benchmark.methods import hpl
from benchmark.methods.registry import method_entry
from benchmark.provenance import device_name, versions
from protocols.catalogue import protocol_named
from protocols.datasets import load_dataset
from protocols.derive import derive, settable_fields
from protocols.errors import ProtocolError
from protocols.spec import Protocol
from protocols.splits import make_split
from results import external
from results.record import FoldRecord, Record, RunRecord
from results.store import Store

COMPUTING = ("torch", "torchvision", "pytorch-metric-learning", "numpy", "pillow")  # packages
ON_CUDA = ("cuda", "cudnn")
FITTING = ("scipy", "scikit-learn")  # where nothing is trained, and for the clusters of a hierarchy


def recorded_bench(record: Record, protocol: Protocol, data: str | None, artifacts: Path) -> Bench:
    """The bench that made the record, out of what is here; test embeddings are to go to `artifacts`.

    Raises:
        BenchmarkError: if something that may change a number is not as it was.
    """
    identity, made = record.identity, record.provenance
    entry = method_entry(identity.method)
    _refuse_other(record, "method code", identity.method_code, entry.code)
    here = versions()
    fits = not entry.is_trained or entry.name.startswith(tuple(hpl.COMPOSERS))
    for package in (*COMPUTING, *FITTING * fits, *(() if made.device.startswith("cpu ") else ON_CUDA)):
        if package in made.versions:
            _refuse_other(record, package, made.versions[package], here.get(package, ""))
    device = default_device()
    if device_name(device) != made.device and made.device == device_name("cpu"):
        device = "cpu"
    _refuse_other(record, "device", made.device, device_name(device))
    index = load_dataset(_data_of(record, data))
    _refuse_other(record, f"data set {index.location}", identity.dataset["content_hash"], index.content_hash)
    split = make_split(index.classes, protocol.folds, index.test_classes)
    _refuse_other(record, "split", identity.split["digest"], split.digest)
    return Bench(protocol=protocol, index=index, split=split, artifacts=artifacts, threads=made.threads, device=device)


def _refuse_other(record: Record, what: str, recorded: str, found: str) -> None:
    if recorded != found:
        raise BenchmarkError(
            f"record {record.id} cannot be verified here: {what} is {found or 'none'}; it was made with "
            f"{recorded or 'none'}."
        )


def _data_of(record: Record, data: str | None) -> str:
    if data is not None:
        return data
    name = record.identity.dataset["name"]
    if name.startswith("shapes-"):  # generated; its options are not recorded, so its hash decides
        return f"shapes:{name.removeprefix('shapes-')}"
    raise BenchmarkError(f"record {record.id} is on {name}; name that data set with --data.")


def recorded_protocol(recorded: dict[str, Any]) -> Protocol:
    """The protocol of a record: a published one, with what the record's values say otherwise.

    Raises:
        BenchmarkError: if this code has no protocol of that fingerprint.
    """
    if recorded["title"] == external.TITLE:
        raise BenchmarkError("an external record cannot be run again: its embeddings were brought, no job made them.")
    with suppress(ProtocolError, KeyError):
        name, settings = recorded_settings(recorded["values"])
        protocol = derive(protocol_named(name), settings)
        if protocol.digest() == recorded["digest"]:
            return protocol
    raise BenchmarkError(
        f"this code has no protocol {recorded['title']} with the fingerprint {recorded['digest']}. "
        "Use the release of the package that made the record."
    )


def recorded_settings(values: dict[str, Any]) -> tuple[str, list[str]]:
    """The published protocol that a protocol's values were derived from, and the settings that make them of it.

    Raises:
        ProtocolError: if this code has no such protocol.
    """
    name = f"{values['name']}@{values['version']}"
    base = protocol_named(name)
    published = base.values()
    return name, [
        f"{path}={json.dumps(_at(values, path))}"
        for path in settable_fields(base)
        if _at(values, path) != _at(published, path)
    ]


def _at(values: dict[str, Any], path: str) -> Any:
    found: Any = values
    for name in path.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found


def recorded_job(record: FoldRecord) -> Job:
    """The job that a fold record is the outcome of."""
    identity = record.identity
    return Job(
        **dict(zip(("protocol", "dataset", "split"), identity.comparison, strict=True)),
        method=identity.method,
        method_code=identity.method_code,
        hyperparameters=tuple(sorted(identity.hyperparameters.items())),
        purpose=identity.purpose,
        run=identity.run,
        fold=record.fold,
        seed=record.seed,
    )


def recorded_ensemble(record: RunRecord, store: Store) -> EnsembleJob:
    """The concatenation that a run record is the outcome of.

    Raises:
        BenchmarkError: if the records of its members are not there.
    """
    members = store.get_many(record.members)
    lacking = [member for member in record.members if not isinstance(members.get(member), FoldRecord)]
    if lacking:
        raise BenchmarkError(f"record {record.id}: its fold records {', '.join(lacking)} are not in {store.name}.")
    return EnsembleJob(members=tuple(recorded_job(one) for one in members.values() if isinstance(one, FoldRecord)))
