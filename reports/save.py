"""A report as files: one Markdown and one CSV for all tables, one bar plot (PNG, SVG) for each. Whole or not at all."""

import os
import re
from collections.abc import Sequence
from pathlib import Path

from reports.errors import ReportError
from reports.plots import png_bytes, svg_bytes
from reports.render import to_csv, to_markdown
from reports.tables import Table


def save_tables(tables: Sequence[Table], folder: Path) -> list[Path]:
    """Write the report; returns the paths of its files.

    Raises:
        ReportError: if the folder or a file in it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        written = [
            _write(folder / "results.md", ("\n\n".join(map(to_markdown, tables)) + "\n").encode()),
            _write(folder / "results.csv", to_csv(tables).encode()),
        ]
        for table in tables:
            written.append(_write(folder / f"{_stem(table)}.png", png_bytes(table)))
            written.append(_write(folder / f"{_stem(table)}.svg", svg_bytes(table)))
    except OSError as error:
        raise ReportError(f"{folder}: cannot be written ({error.strerror or error}); choose another --out.") from None
    return written


def _write(path: Path, content: bytes) -> Path:
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)  # there only if something went wrong
    return path


def _stem(table: Table) -> str:
    """A file name that tells comparisons apart: title and data set for people, fingerprints for the rest."""
    prints = f"{table.protocol_digest[:6]}-{table.dataset_hash[:6]}-{table.split_digest[:6]}"
    return re.sub(r"[^\w@+.-]+", "_", f"{table.protocol_title}-{table.dataset_name}-{prints}")
