"""What the listing commands print: protocols and data sets as lines of plain JSON values, and how any line is shown.

`table()` and `details()` show lines on a terminal, those of `benchmark.methods.listing` and
`benchmark.oversight.status` too.
"""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table

from benchmark.console import harmless
from protocols.datasets import image_kinds, scan
from protocols.datasets.files import few
from protocols.datasets.index import ImageIndex
from protocols.datasets.standard import STANDARD, counts, expected_counts
from protocols.spec import Protocol
from protocols.splits import Split

Line = dict[str, Any]
MOST_LINES = 20  # of one list on a terminal


def protocol_line(protocol: Protocol) -> Line:
    """A protocol: name, version, digest, purpose, source, all values."""
    return {
        "name": protocol.name,
        "version": protocol.version,
        "digest": protocol.digest(),
        "purpose": protocol.purpose,
        "source": protocol.source,
        "values": protocol.values(),
    }


def dataset_line(index: ImageIndex) -> Line:
    """A data set and everything in it that its user should know: damaged, doubled, lone, left out.

    `counts` tells a data set of the papers by side, queries and gallery too; `differs_from_published` what is unlike.
    """
    is_standard = index.standard_name in STANDARD
    found = defaultdict(list)
    for problem in scan(index):
        found[problem.kind].append({"files": list(problem.files), "reason": problem.reason})
    sizes = Counter(index.targets.tolist())
    kinds = image_kinds(index) or {}
    return {
        "name": index.name,
        "location": index.location,
        "content_hash": index.content_hash,
        "caution": (STANDARD[index.standard_name].caution or None) if is_standard else None,
        "n_images": index.n_images,
        "n_classes": index.n_classes,
        "n_super_classes": len(set(index.super_classes)) if index.super_classes else None,
        "n_test_classes": len(index.test_classes) if index.test_classes is not None else None,
        "counts": counts(index) if is_standard else None,
        "differs_from_published": expected_counts(index) if is_standard else None,
        "images_per_class": [min(sizes.values()), max(sizes.values())],
        "image_kinds": {kind: len(files) for kind, files in kinds.items()},
        "lone_classes": list(index.lone_classes),
        "unreadable": found["unreadable"],
        "duplicates_across_sides": found["duplicate-across-sides"],
        "duplicates": found["duplicate"],
        "unusual": [
            {"files": files, "reason": f"{kind}, read as 8-bit RGB"}
            for kind, files in kinds.items()
            if not kind.endswith((" RGB", " L"))
        ],
        "skipped": list(index.skipped),
    }


def shown_dataset(line: Line) -> Line:
    """What a data set has, for people: numbers with commas, ranges and kinds of images in words."""
    kinds, (fewest, most) = line["image_kinds"], line["images_per_class"]
    whole = [f"{kind}, read as 8-bit RGB" for kind, number in kinds.items() if number == line["n_images"]]
    return {
        name: f"{value:,}" if isinstance(value, int) else value
        for name, value in line.items()
        if value not in (None, [], {})
    } | {
        "images_per_class": f"{fewest:,} to {most:,}",
        **(
            {"image_kinds": "; ".join(f"{_kind_text(kind)}: {number:,}" for kind, number in kinds.items())}
            if kinds
            else {}
        ),
        **({"unusual": f"every image: {_kind_text(whole[0])}"} if line["unusual"] and whole else {}),
    }


def _kind_text(kind: str) -> str:
    """`PNG, 1 bit` for Pillow's `PNG 1`."""
    return re.sub(r"^(\w+) 1\b(?!\d)", r"\1, 1 bit", kind)


def split_line(split: Split, index: ImageIndex) -> Line:
    """A split with what others need to hold their test images to it: the data set, and the images of each class."""
    sizes = Counter(index.targets.tolist())
    return {
        **json.loads(split.to_json()),
        "dataset": {
            "name": index.name,
            "standard_name": index.standard_name,
            "content_hash": index.content_hash,
            "n_classes": index.n_classes,
            "n_images": index.n_images,
        },
        "test_images": {name: sizes[place] for place, name in enumerate(index.classes) if name in set(split.test)},
    }


def flat(values: Line, prefix: str = "") -> Line:
    """Nested values by dotted path, as `--set` takes them."""
    found: Line = {}
    for name, value in values.items():
        found.update(flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value})
    return found


def table(
    lines: Sequence[Line],
    columns: Sequence[str],
    titles: Mapping[str, str] = MappingProxyType({}),
    *,
    unbroken: bool = False,
) -> RenderableType:
    """Some columns of some lines for the terminal; `unbroken`: no word is broken, should it reach beyond the right."""
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        title = titles.get(column, column.replace("_", " "))
        words = " ".join([title, *(_text(line[column]) for line in lines)]).split() if unbroken else []
        shown.add_column(title, overflow="fold", min_width=max(map(cell_len, words), default=None))
    for line in lines:
        shown.add_row(*(escape(harmless(_text(line[column]))) for column in columns))
    return _Unbroken(shown) if unbroken else shown


class _Unbroken:
    """A table that is as wide as its longest words are, if need be beyond the terminal: print it without `crop`."""

    def __init__(self, table: Table) -> None:
        self._table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        needed = Measurement.get(console, options.update(max_width=1000), self._table).minimum
        yield from console.render(self._table, options.update(width=max(needed, options.max_width)))


def details(line: Line) -> RenderableType:
    """All of one line, a row for each field."""
    shown = Table(box=None, pad_edge=False, show_header=False)
    shown.add_column(style="bold")
    shown.add_column(overflow="fold")
    for name, value in line.items():
        shown.add_row(escape(name), escape(harmless(_text(value))))
    return shown


def _text(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict) and value.keys() >= {"type", "low", "high"}:
        kinds = [*(["int"] if value["type"] == "int" else []), *(["log"] if value["log"] else [])]
        return " ".join((*kinds, f"[{value['low']:g}, {value['high']:g}]"))
    if isinstance(value, dict) and value.keys() == {"type", "choices"}:
        return f"{{{_text(value['choices'])}}}"
    if isinstance(value, dict) and value.keys() == {"files", "reason"}:
        return value["reason"] if value["files"][0] in value["reason"] else f"{few(value['files'])}: {value['reason']}"
    if isinstance(value, dict) and value.keys() >= {"done", "failed", "of"}:
        others = [f", {value[name]} {name}" for name in ("failed", "pruned") if value.get(name)]
        return f"{value['done']} of {_text(value['of'])}{''.join(others)}"
    if isinstance(value, dict):
        between = "\n" if any(isinstance(item, dict) and "type" not in item for item in value.values()) else "; "
        return between.join(f"{name} {_text(item)}" for name, item in value.items()) or "-"
    if isinstance(value, list):
        between = ", " if all(isinstance(item, float | int) for item in value) else "\n"
        more = [f"and {len(value) - MOST_LINES:,} more; --json has all"] if len(value) > MOST_LINES else []
        return between.join([*map(_text, value[:MOST_LINES]), *more]) or "-"
    return str(value)
