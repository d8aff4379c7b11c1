"""Reports and figures as files. Each file is written whole or not at all.

A report is one Markdown, CSV, LaTeX and HTML for all tables, and one bar plot (PNG, SVG) for each, with
published rows also one over their years; a figure is PNG, SVG and CSV.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from reports import reproduction_forms, style
from reports.analyses.drawing import Drawing
from reports.errors import ReportError
from reports.latex import to_latex
from reports.page import to_html
from reports.plots import png_bytes, svg_bytes
from reports.render import to_csv, to_markdown
from reports.reproduction import Reproduction
from reports.tables import Table
from reports.years import years_png, years_svg
from results.whole_file import replace_whole


def save_tables(tables: Sequence[Table], folder: Path) -> list[Path]:
    """Write the report; returns the paths of its files.

    Raises:
        ReportError: if the folder or a file in it cannot be written.
    """
    return _save(_report_files(tables), folder)


def save_reproductions(found: Sequence[Reproduction], folder: Path) -> list[Path]:
    """Write what was held against published figures as Markdown and CSV; returns the paths of the files.

    Raises:
        ReportError: if the folder or a file in it cannot be written.
    """
    forms = reproduction_forms
    files = {"reproduction.md": forms.to_markdown(found), "reproduction.csv": forms.to_csv(found)}
    return _save(((name, text.encode()) for name, text in files.items()), folder)


def save_drawings(name: str, drawings: Sequence[Drawing], folder: Path) -> list[Path]:
    """Write the pictures of one figure as `<name>.png`, `.svg` and `.csv`; returns the paths.

    Where there are several, the name of each goes on with what tells it from the others.

    Raises:
        ReportError: if the folder or a file in it cannot be written.
    """
    return _save(_drawing_files(name, drawings), folder)


def _report_files(tables: Sequence[Table]) -> Iterator[tuple[str, bytes]]:
    yield "results.md", ("\n\n".join(map(to_markdown, tables)) + "\n").encode()
    yield "results.csv", to_csv(tables).encode()
    yield "results.tex", to_latex(tables).encode()
    yield "results.html", to_html(tables).encode()
    for table in tables:
        yield f"{_stem(table)}.png", png_bytes(table)
        yield f"{_stem(table)}.svg", svg_bytes(table)
        if table.quoted:
            yield f"{_stem(table)}-years.png", years_png(table)
            yield f"{_stem(table)}-years.svg", years_svg(table)


def _drawing_files(name: str, drawings: Sequence[Drawing]) -> Iterator[tuple[str, bytes]]:
    for drawing in drawings:
        stem = name if len(drawings) == 1 else _file_name(f"{name}-{drawing.subject.stem()}")
        yield f"{stem}.png", style.png(drawing.figure)
        yield f"{stem}.svg", style.svg(drawing.figure)
        yield f"{stem}.csv", drawing.csv().encode()


def _save(files: Iterable[tuple[str, bytes]], folder: Path) -> list[Path]:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return [_write(folder / name, content) for name, content in files]
    except OSError as error:
        raise ReportError(f"{folder}: cannot be written ({error.strerror or error}); choose another --out.") from None


def _write(path: Path, content: bytes) -> Path:
    replace_whole(path, content)
    return path


def _stem(table: Table) -> str:
    """A file name that tells comparisons apart: title and data set for people, fingerprints for the rest."""
    prints = f"{table.protocol_digest[:6]}-{table.dataset_hash[:6]}-{table.split_digest[:6]}"
    return _file_name(f"{table.protocol_title}-{table.dataset_name}-{prints}")


def _file_name(text: str) -> str:
    return re.sub(r"[^\w@+.-]+", "_", text)
