"""Records to draw figures of, and what a figure shows, for the tests of the figures."""

import csv
import io
from typing import Any
from xml.etree import ElementTree

from reports import style
from reports.analyses.drawing import Drawing
from results.record import FoldRecord, Identity, Provenance

PROVENANCE = Provenance(
    created_at="2024-01-01T12:00:00+00:00", versions={}, device="cpu", threads=1, code_revision="0", trunk_weights=""
)
VALUES = {
    "name": "mini",
    "version": 1,
    "derived": False,
    "batch": {"size": 32, "pair_samples_per_class": 4},
    "optimiser": {"lr": 0.1},
    "folds": {"n_folds": 2, "kind": "balanced"},
    "finals": {"n_runs": 2},
    "embedding": {"dim": 3},
    "evaluation": {"primary_metric": "map_at_r", "metrics": ["map_at_r"]},
}


def identity(purpose: str, run: int = 0, method: str = "ccp-contrastive", digest: str = "d1", **given: Any) -> Identity:
    return Identity(
        protocol={"title": "mini@1", "digest": digest, "values": given.pop("values", VALUES)},
        dataset={"name": "things", "content_hash": "ab", "n_classes": 4, "n_images": 12},
        split={"kind": "balanced", "digest": "cd"},
        method=method,
        method_code="",
        hyperparameters=given,
        purpose=purpose,
        run=run,
    )


def fold(of: Identity, number: int, value: float | None, state: dict[str, Any] | None = None) -> FoldRecord:
    """The record of one fold; a value of None is a fold that collapsed."""
    metrics = None if value is None else {"map_at_r": value}
    return FoldRecord(
        id=f"{of.protocol['digest']} {of.method} {sorted(of.hyperparameters.items())} {of.run} {number}",
        identity=of,
        fold=number,
        seed=0,
        outcome="failed" if value is None else "done",
        reason="collapsed" if value is None else None,
        validation=metrics,
        test=metrics if of.purpose == "final" else None,
        seconds={},
        peak_memory_bytes=0,
        provenance=PROVENANCE,
        method_state=state,
    )


def lines(drawing: Drawing) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(drawing.csv())))


def drawn(drawing: Drawing) -> ElementTree.Element:
    """The picture as SVG; both kinds are made."""
    assert style.png(drawing.figure).startswith(b"\x89PNG")
    return ElementTree.fromstring(style.svg(drawing.figure))


def texts(svg: ElementTree.Element) -> list[str]:
    return ["".join(item.itertext()) for item in svg.iter() if item.tag.endswith("}text")]
