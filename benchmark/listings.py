"""What the listing commands print: methods, protocols, data sets. Each is a line of plain JSON values.

`table()` and `details()` show any lines on a terminal, so that each listing is written once.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from inspect import getmodule
from typing import Any

from optuna.distributions import BaseDistribution, distribution_to_json
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from benchmark.methods.entry import MethodEntry
from protocols.datasets import scan
from protocols.datasets.index import ImageIndex
from protocols.spec import Protocol

A_TYPICAL_FOLD = 75  # classes; a space may depend on the number, as CUB's folds have it

Line = dict[str, Any]


def method_line(entry: MethodEntry) -> Line:
    """A method: name, family, formula, search space, source, published values."""
    return {
        "name": entry.name,
        "family": entry.family,
        "formula": entry.formula,
        "space": {name: _distribution(item) for name, item in entry.space(A_TYPICAL_FOLD).items()},
        "source": entry.source,
        "published": {key: dict(values) for key, values in entry.published.items()},
    }


def method_notes(entry: MethodEntry) -> str:
    """What a method's own file says of it."""
    module = getmodule(entry.build)
    return (module.__doc__ or "").strip() if module else ""


def protocol_line(protocol: Protocol) -> Line:
    """A protocol: name, version, digest, purpose, source, all values."""
    return {
        "name": protocol.name,
        "version": protocol.version,
        "digest": protocol.digest(),
        "purpose": protocol.purpose,
        "source": protocol.source,
        "values": json.loads(json.dumps(protocol.values())),
    }


def dataset_line(index: ImageIndex) -> Line:
    """A data set and everything in it that its user should know: damaged, doubled, lone, left out."""
    found = defaultdict(list)
    for problem in scan(index):
        found[problem.kind].append({"files": list(problem.files), "reason": problem.reason})
    sizes = Counter(index.targets.tolist())
    return {
        "name": index.name,
        "location": index.location,
        "content_hash": index.content_hash,
        "n_images": index.n_images,
        "n_classes": index.n_classes,
        "n_super_classes": len(set(index.super_classes)) if index.super_classes else None,
        "n_test_classes": len(index.test_classes) if index.test_classes is not None else None,
        "images_per_class": [min(sizes.values()), max(sizes.values())],
        "lone_classes": list(index.lone_classes),
        "unreadable": found["unreadable"],
        "duplicates_across_sides": found["duplicate-across-sides"],
        "duplicates": found["duplicate"],
        "skipped": list(index.skipped),
    }


def flat(values: Line, prefix: str = "") -> Line:
    """Nested values by dotted path, as `--set` takes them."""
    found: Line = {}
    for name, value in values.items():
        found.update(flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value})
    return found


def table(lines: Sequence[Line], columns: Sequence[str]) -> RenderableType:
    """Some columns of some lines for the terminal."""
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        shown.add_column(column.replace("_", " "), overflow="fold")
    for line in lines:
        shown.add_row(*(escape(_text(line[column])) for column in columns))
    return shown


def details(line: Line) -> RenderableType:
    """All of one line, a row for each field."""
    shown = Table(box=None, pad_edge=False, show_header=False)
    shown.add_column(style="bold")
    shown.add_column(overflow="fold")
    for name, value in line.items():
        shown.add_row(escape(name), escape(_text(value)))
    return shown


def _text(value: Any) -> str:  # noqa: ANN401 - any JSON value
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict) and value.keys() >= {"type", "low", "high"}:
        kinds = [*(["int"] if value["type"] == "int" else []), *(["log"] if value["log"] else [])]
        return " ".join((*kinds, f"[{value['low']:g}, {value['high']:g}]"))
    if isinstance(value, dict) and value.keys() == {"done", "failed", "of"}:
        failed = f", {value['failed']} failed" if value["failed"] else ""
        return f"{value['done']} of {_text(value['of'])}{failed}"
    if isinstance(value, dict):
        between = "\n" if any(isinstance(item, dict) and "type" not in item for item in value.values()) else "; "
        return between.join(f"{name} {_text(item)}" for name, item in value.items()) or "-"
    if isinstance(value, list):
        between = ", " if all(isinstance(item, float | int) for item in value) else "\n"
        return between.join(map(_text, value)) or "-"
    return str(value)


def _distribution(distribution: BaseDistribution) -> Line:
    """A distribution as plain values: type, then low, high, log and step, or choices."""
    kind = type(distribution).__name__.removesuffix("Distribution").lower()
    return {"type": kind, **json.loads(distribution_to_json(distribution))["attributes"]}
