"""What the listing commands print: methods, protocols, data sets, the state of a store. Each as plain JSON values.

`table()` turns any list of flat values into a terminal table, so each listing is written once.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from inspect import getmodule
from typing import Any

from optuna.distributions import BaseDistribution, CategoricalDistribution
from rich.console import RenderableType
from rich.markup import escape
from rich.table import Table

from benchmark.methods.entry import MethodEntry, Space
from protocols.datasets import scan
from protocols.datasets.index import ImageIndex
from protocols.spec import Protocol
from results.record import FoldRecord
from results.store import Store

A_TYPICAL_FOLD = 75  # classes; a space may depend on the number, as CUB's folds have it

Line = dict[str, Any]


def method_line(entry: MethodEntry) -> Line:
    """A method: name, family, formula, search space, source, published values."""
    return {
        "name": entry.name,
        "family": entry.family,
        "formula": entry.formula,
        "space": {name: _bounds(item) for name, item in entry.space(A_TYPICAL_FOLD).items()},
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


def status_lines(store: Store) -> list[Line]:
    """What is done, failed and left for each method of each comparison in a store."""
    folds: dict[tuple[str, str, str, str, str], list[FoldRecord]] = defaultdict(list)
    for record in store.records(kind="fold"):
        assert isinstance(record, FoldRecord)
        identity = record.identity
        prints = (identity.protocol["digest"], identity.dataset["content_hash"], identity.split["digest"])
        folds[(*prints, identity.method, identity.method_code)].append(record)
    studies = {
        (study.protocol_digest, study.dataset_hash, study.split_digest, study.method, study.method_code): study
        for study in store.studies()
    }
    lines = []
    for key in dict.fromkeys([*studies, *folds]):
        study, finals = studies.get(key), [record for record in folds[key] if record.identity.purpose == "final"]
        values = (
            folds[key][0].identity.protocol["values"]
            if folds[key]
            else {"finals": {"n_runs": 0}, "folds": {"n_folds": 0}}
        )
        expected = 1 if key[3] == "pixels" else values["finals"]["n_runs"] * values["folds"]["n_folds"]
        lines.append(
            {
                "protocol": study.protocol_title if study else folds[key][0].identity.protocol["title"],
                "dataset": study.dataset_name if study else folds[key][0].identity.dataset["name"],
                "method": key[3],
                "trials_done": study.n_finished if study else 0,
                "trials_failed": study.n_failed if study else 0,
                "trials": study.n_trials if study else 0,
                "final_folds_done": sum(record.outcome == "done" for record in finals),
                "final_folds_failed": sum(record.outcome == "failed" for record in finals),
                "final_folds": expected,
                "best_validation_map_at_r": study.best_value if study else None,
                "best_standard_error": study.best_standard_error if study else None,
                "best_hyperparameters": study.best_hyperparameters if study else None,
            }
        )
    return lines


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
        shown.add_row(name.replace("_", " "), escape(_text(value)))
    return shown


def _text(value: Any) -> str:  # noqa: ANN401 - any JSON value
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return "; ".join(f"{name} {_text(item)}" for name, item in value.items()) or "-"
    if isinstance(value, list):
        return "\n".join(map(_text, value)) or "-"
    return str(value)


def _bounds(distribution: BaseDistribution) -> str:
    if isinstance(distribution, CategoricalDistribution):
        return "one of " + ", ".join(map(str, distribution.choices))
    low, high = (getattr(distribution, end) for end in ("low", "high"))
    kind = type(distribution).__name__.removesuffix("Distribution").lower()
    kinds = ["int"] if kind == "int" else []
    kinds += ["log"] if getattr(distribution, "log", False) else []
    return " ".join((*kinds, f"[{low:g}, {high:g}]"))


def space_text(space: Space) -> str:
    """A search space in one line."""
    return _text({name: _bounds(item) for name, item in space.items()})
