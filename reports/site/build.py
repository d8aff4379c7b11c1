"""Builds the site: every page as bytes, by its path in the folder.

A pure function of tables, the records behind them and plain material: the same give the same bytes.
"""

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, Template

from reports.errors import ReportError
from reports.frame import Column
from reports.notes import bold_note
from reports.render import to_csv
from reports.site.boards import Board, boards
from reports.site.folder import check_place, write_site
from reports.site.gallery import Thumbnails
from reports.site.material import Material
from reports.site.names import file_stem
from reports.site.overview import overviews
from reports.site.pages import MethodPage, method_pages
from reports.site.provenance import RecordFacts, flat, record_facts
from reports.site.writing import environment
from reports.site.years import SHAPES, years
from reports.tables import QuotedRow, Row, Table
from results import external
from results.comparison import Comparison
from results.record import Identity, Record, RunRecord
from results.reference.published import PublishedValue

STATIC = ("site.css", "site.js", "icon.svg")


@dataclass(frozen=True, kw_only=True)
class SitePaths:
    """Where the site is, and how large."""

    index: Path
    n_files: int
    n_bytes: int


@dataclass(frozen=True, kw_only=True)
class _Site:
    """What every page may say."""

    boards: Sequence[Board]
    n_methods: int
    n_records: int
    newest: str


def build_site(
    tables: Iterable[Table], records: Iterable[Record], folder: Path, material: Material | None = None
) -> SitePaths:
    """Write the site of some tables, made of these records, into a folder of its own.

    Raises:
        ReportError: if there is no table, or the folder holds something else or cannot be written.
    """
    check_place(folder)
    found = boards(tables, records)
    if not found:
        raise ReportError("nothing is recorded there yet, so there is no site to make; mlrc run fills the store.")
    pages = dict(site_files(found, material or Material()))
    n_bytes = write_site(pages.items(), folder)
    return SitePaths(index=folder / "index.html", n_files=len(pages), n_bytes=n_bytes)


def site_files(found: Sequence[Board], material: Material) -> Iterator[tuple[str, bytes]]:
    """Each file of the site with its path."""
    templates = environment()
    thumbnails = Thumbnails()
    methods = method_pages(found, material, thumbnails)
    records = [record for board in found for record in board.records]
    site = _Site(
        boards=found,
        n_methods=len(methods),
        n_records=len(records),
        newest=max(record.provenance.created_at for record in records)[:10],
    )
    templates.globals["site"] = site
    for name in STATIC:
        yield name, files(__package__).joinpath("static", name).read_bytes()
    yield "data.csv", to_csv(replace(board.table, quoted=()) for board in found).encode()
    yield "index.html", _text(templates.get_template("index.html"), root="", overviews=overviews(found))
    for board in found:
        yield f"boards/{board.stem}.html", _board_page(templates, board, methods)
    page = templates.get_template("method.html")
    for method in methods:
        yield f"methods/{file_stem(method.name)}.html", _text(page, root="../", page=method)
    yield from ((f"images/{name}", content) for name, content in thumbnails.files.items())
    yield from _record_pages(templates, found)


def _text(template: Template, **values: object) -> bytes:
    return template.render(values).encode("utf-8", "replace")


def _board_page(templates: Environment, board: Board, methods: Sequence[MethodPage]) -> bytes:
    families = {method.name: method.text.family if method.text else "" for method in methods}
    fewest = {row.method: min(cell.n_runs for cell in row.cells.values()) for row in board.table.rows}
    expected = {row.method: max(cell.expected_runs for cell in row.cells.values()) for row in board.table.rows}
    return _text(
        templates.get_template("board.html"),
        root="../",
        board=board,
        codes={
            (setting, metric): f"{board.table.settings.index(setting)}{board.table.metrics.index(metric)}"
            for setting, metric in board.columns
        },
        first=board.columns.index(board.primary),
        years=years(board),
        shapes=SHAPES,
        views=partial(_views, board),
        families=families,
        stems={method.name: file_stem(method.name) for method in methods},
        runs_text={label: f"{n}/{expected[label]}" for label, n in fewest.items()},
        bold=bold_note(board.table),
        has_intervals=_has_intervals(board.table),
        notes=[line for line in board.table.footer() if not line.startswith("Order: ")],  # which is another here
        protocol=[(path, str(value)) for path, value in flat(board.identity.protocol["values"]) if value is not None],
    )


def _has_intervals(table: Table) -> bool:
    """Whether some number stands beside its interval, so that one without must be moved to line up."""
    ours = any(cell.half_width is not None for row in table.rows for cell in row.cells.values())
    return ours or any(cell.ci95_half_width is not None for row in table.quoted for cell in row.cells.values())


def _views(board: Board, row: Row | QuotedRow, quoted: bool) -> list[str]:
    """For each column, what a row shows where that is chosen: rank, letters, and the paths of its mark."""
    return [_view(board, row, column, quoted) for column in board.columns]


def _view(board: Board, row: Row | QuotedRow, column: Column, quoted: bool) -> str:
    cell = row.cells.get(column)
    half_width = cell.ci95_half_width if isinstance(cell, PublishedValue) else cell.half_width if cell else None
    mark = board.scales[column].mark(cell.mean if cell else None, half_width)
    rank = None if quoted else board.ranks[column].get(row.method)
    known = "" if rank is None else f"{rank.rank} ({rank.low}–{rank.high})" if rank.high > rank.low else f"{rank.rank}"
    letters = "" if quoted else board.letters.get(column, {}).get(row.method, "")
    return "|".join((known, letters, mark.mean, mark.interval, mark.beyond))


def _record_pages(templates: Environment, found: Sequence[Board]) -> Iterator[tuple[str, bytes]]:
    page, conditions = templates.get_template("record.html"), templates.get_template("conditions.html")
    stems: dict[Comparison, str] = {board.comparison: board.stem for board in found}
    groups: dict[str, list[RecordFacts]] = {}
    for facts in record_facts(record for board in found for record in board.records):
        groups.setdefault(facts.conditions.stem, []).append(facts)
        identity = facts.record.identity
        yield (
            f"records/{file_stem(facts.record.id)}.html",
            _text(
                page,
                facts=facts,
                method_stem=file_stem(identity.method),
                board_stem=stems[identity.comparison],
                members=[file_stem(one) for one in facts.record.members] if isinstance(facts.record, RunRecord) else [],
                command=_command(facts.record.id, identity),
            ),
        )
    for stem, some in groups.items():
        text = _text(conditions, root="../", conditions=some[0].conditions, n_records=len(some))
        yield f"conditions/{stem}.html", text


def _command(record_id: str, identity: Identity) -> str:
    """What runs the record's job again and compares."""
    if identity.protocol["title"] == external.TITLE:
        return f"{external.NOTE}; there is no job to run again"
    name = str(identity.dataset["name"])
    standard = identity.dataset.get("standard_name")
    data = "" if name.startswith("shapes-") else f" --data {standard}:PATH" if standard else " --data PATH"
    return f"mlrc verify {shlex.quote(record_id)} --store STORE{data}"
