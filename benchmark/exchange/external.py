"""External records: scores of embeddings of unknown origin, in the form of a final run and marked for what they are.

Their protocol `external@1` holds only what is known: how many fold models, how wide, scored how. Its fingerprint is
that of no protocol that anybody could run, so no table or rank puts these results beside audited ones. With the split
file that `mlrc data split` writes, they are at least about the right classes, and as many images.
"""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any

import torch

from benchmark.errors import BenchmarkError
from benchmark.exchange.score import Given, Scores
from benchmark.memory import peak_memory_bytes
from benchmark.provenance import code_revision, device_name, versions
from protocols.errors import ProtocolError
from protocols.metrics import METRICS_VERSION
from protocols.spec import METRICS
from protocols.splits import Split
from results.errors import ResultsError
from results.exchange.fingerprints import ensemble_id, fold_seed, job_id, protocol_digest
from results.exchange.untrusted import read_untrusted
from results.external import NAME, NOTE, TITLE, VERSION
from results.record import FoldRecord, Identity, Provenance, Record, RunRecord
from results.store import Store
from results.strict import has, read

UNSTATED = "unstated"
Dataset = Annotated[dict[str, Any], has(name=str, content_hash=str, n_classes=int, n_images=int)]


@dataclass(frozen=True, kw_only=True)
class About:
    """What the embeddings are of: the data set and split, as far as they are stated."""

    dataset: dict[str, Any]
    split: dict[str, str]


def about(given: Given, split_path: Path | None) -> About:
    """From the file of a split, which the labels must fit, or from the labels alone.

    Raises:
        BenchmarkError: if the file holds no split, or the labels are not those of its test classes.
    """
    if split_path is None:
        return About(dataset=_of_labels(given), split={"kind": UNSTATED, "digest": UNSTATED})
    value = read_untrusted(split_path)
    try:
        split = Split.from_json(json.dumps(value))
        dataset = read(Dataset, value["dataset"], "dataset") if "dataset" in value else _of_labels(given)
        images = read(dict[str, int], value["test_images"], "test_images") if "test_images" in value else {}
    except (ProtocolError, ResultsError) as error:
        raise BenchmarkError(f"{split_path}: {error}") from None
    _refuse_other_images(Counter(given.labels), split.test, images, split_path)
    return About(dataset=dataset, split={"kind": split.kind, "digest": split.digest})


def check_name(name: str | None, run: int, n_runs: int) -> None:
    """Refuse a name that tables could not show, and a run beyond the last.

    Raises:
        BenchmarkError: for either.
    """
    if name is not None and not (name.isprintable() and 0 < len(name.strip()) <= 100):
        raise BenchmarkError(f"--name {name!r:.60}: wanted 1 to 100 printable characters.")
    if run > n_runs:
        raise BenchmarkError(f"--run {run} of {n_runs}: say with --n-runs how many there will be.")


def check_ranks(recall_at: Sequence[int]) -> None:
    """Refuse a K of recall@K that is none.

    Raises:
        BenchmarkError: with the first of them.
    """
    if bad := [k for k in recall_at if k < 1]:
        raise BenchmarkError(f"--recall-at is {bad[0]}; it must be at least 1.")


def identity(given: Given, of: About, method: str, run: int, n_runs: int, recall_at: Sequence[int]) -> Identity:
    """The identity of the records; a method's name says that it is external."""
    evaluation = {"primary_metric": "map_at_r", "metrics": list(METRICS), "metrics_version": METRICS_VERSION}
    values = {
        "name": NAME,
        "version": VERSION,
        "purpose": NOTE,
        "source": "",
        "derived": False,
        "embedding": {"dim": given.width, "normalisation": "l2"},
        "batch": {"size": 0},
        "folds": {"n_folds": len(given.queries.folds), "kind": of.split["kind"]},
        "evaluation": evaluation | ({"recall_at": list(recall_at)} if recall_at else {}),
        "finals": {"n_runs": n_runs},
    }
    return Identity(
        protocol={"title": TITLE, "digest": protocol_digest(values), "values": values},
        dataset=of.dataset,
        split=of.split,
        method=f"{NAME}:{method}",
        method_code="",
        hyperparameters={},
        purpose="final",
        run=run,
    )


def external_records(given: Given, scores: Scores, of: Identity, files: Sequence[Path], device: str) -> list[Record]:
    """A record for each fold model and, where there are several, one for their concatenation."""
    made_by = Provenance(
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        versions=versions(),
        device=device_name(device),
        threads=torch.get_num_threads(),
        code_revision=code_revision(),
        trunk_weights="unknown",
    )
    folds = []
    for fold, found in enumerate(scores.separated):
        record = FoldRecord(
            id="",
            identity=of,
            fold=fold,
            seed=fold_seed(of.run, fold),  # of its place in the run; what made the embeddings had its own, or none
            outcome="done",
            test=found.metrics,
            evaluation_audit=asdict(found.audit),
            seconds={"evaluation": scores.seconds[fold]},
            peak_memory_bytes=peak_memory_bytes(device),
            provenance=made_by,
            method_state={NAME: {"file": files[fold].name, "sha256": given.fold_hash(fold)}},
        )
        folds.append(replace(record, id=job_id(record)))
    if scores.concatenated is None:
        return list(folds)
    members = tuple(fold.id for fold in folds)
    together = RunRecord(
        id=ensemble_id(members),
        identity=of,
        members=members,
        test=scores.concatenated.metrics,
        embedding_dim=given.width * len(folds),
        evaluation_audit=asdict(scores.concatenated.audit),
        seconds={"evaluation": scores.seconds[-1]},
        provenance=made_by,
    )
    return [*folds, together]


def keep(records: Sequence[Record], store: Store) -> bool:
    """Put the records into a store; returns whether they are new there.

    Raises:
        BenchmarkError: if other embeddings are there under the same name and run.
    """
    for record in records:
        known = store.get(record.id)
        if (
            isinstance(record, FoldRecord)
            and isinstance(known, FoldRecord)
            and known.method_state != record.method_state
        ):
            raise BenchmarkError(
                f"{store.name}: run {record.identity.run} of {record.identity.method!r} is there with other "
                "embeddings; give these another --name or --run."
            )
    return store.merge(records, []).n_new > 0


def _of_labels(given: Given) -> dict[str, Any]:
    labels = given.labels
    digest = sha256(json.dumps([len(given.queries.labels), *labels]).encode()).hexdigest()[:12]
    counts = {"n_classes": len(set(labels)), "n_images": len(labels)}
    return {"name": UNSTATED, "content_hash": f"labels-{digest}", **counts}


def _refuse_other_images(found: Counter[str], test: Sequence[str], images: Mapping[str, int], path: Path) -> None:
    """Labels must be the test classes, and as many of each as the data set has images, where the file says."""
    lacking, odd = [name for name in test if name not in found], [name for name in found if name not in set(test)]
    if lacking or odd:
        kind, name, n = ("no", lacking[0], len(lacking)) if lacking else ("a", odd[0], len(odd))
        raise BenchmarkError(
            f"{path}: wants {len(test):,} test classes and the labels name {len(found):,}: there is {kind} {name!r:.60}"
            f"{f' (and {n - 1:,} more)' if n > 1 else ''}. Labels are the class names of the split file."
        )
    for name, count in images.items():
        if found[name] != count:
            raise BenchmarkError(
                f"{path}: class {name!r:.60} has {count:,} test images and the labels name {found[name]:,} of them; "
                "every test image belongs there once."
            )
