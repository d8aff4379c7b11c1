"""The command `mlrc report`: tables of what is recorded, on the terminal and as files."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from benchmark.console import console, print_json, say, say_error
from benchmark.options import DATA_HELP, DEFAULT_STORE, AsJson, Out, StoreUrl
from benchmark.stores import open_store
from reports.errors import ReportError
from results.errors import ResultsError
from results.whole_file import check_folder

if TYPE_CHECKING:
    from reports.tables import Table
    from results.comparison import Comparison
    from results.record import Record
    from results.store import Store
    from results.study import Study

report_app = typer.Typer(rich_markup_mode=None)


@report_app.command("report")
def report(
    method: Annotated[
        str | None, typer.Argument(metavar="METHOD", help="With --hierarchy: of this method alone.")
    ] = None,
    store: StoreUrl = DEFAULT_STORE,
    out: Out = None,
    hierarchy: Annotated[
        bool, typer.Option("--hierarchy", help="Instead: the classes that hierarchical proxies put together.")
    ] = False,
    with_published: Annotated[
        bool, typer.Option("--with-published", help="Below ours the papers' numbers on the same data, marked as such.")
    ] = False,
    reproduction: Annotated[
        bool, typer.Option("--reproduction", help="Instead: each published figure against ours, with a verdict.")
    ] = False,
    exports: Annotated[
        list[Path], typer.Option("--from", help="Of an export or a folder of them instead of a store; may be repeated.")
    ] = [],  # noqa: B006
    site: Annotated[
        Path | None, typer.Option("--site", help="Instead: a leaderboard of pages that open from this folder.")
    ] = None,
    data: Annotated[
        list[str],
        typer.Option("--data", "-d", help=f"With --site, for its galleries; may be repeated: {DATA_HELP}"),
    ] = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Print the tables of all finished runs; one table for each protocol, data set and split."""
    if site is not None and (reproduction or hierarchy or with_published or out is not None):
        raise ReportError("--site holds all of it already and writes into its own folder; leave the others out.")
    if data and site is None:
        raise ReportError("--data goes with --site, for its galleries; tables need no images. Leave it out.")
    if reproduction and (hierarchy or with_published):
        raise ReportError("--reproduction goes alone: it holds the papers' numbers already. Leave the other out.")
    if hierarchy and with_published:
        raise ReportError("--with-published goes with tables; leave it or --hierarchy out.")
    if method is not None and not hierarchy:
        raise ReportError(f"a METHOD ({method!r}) goes with --hierarchy; tables hold all methods. Leave it out.")
    if out is not None and hierarchy:
        raise ReportError("--hierarchy writes no files; send --json into a file instead.")
    records, studies, where = _recorded(store, exports)
    if hierarchy:
        _show_hierarchies(records, method, as_json)
        return
    tables = tables_from(records, _failures(records, studies))
    if not tables:
        raise ResultsError(f"{where}: nothing is recorded there yet; mlrc run fills it.")
    if out is not None:
        check_folder(out)
    if site is not None:
        _write_site(tables, records, studies, site, data, None if exports else store, as_json)
        return
    if reproduction:
        _show_reproductions(tables, out, as_json)
        return
    show_tables(_with_published(tables) if with_published else tables, out, as_json)


def _recorded(store: str, exports: Sequence[Path]) -> "tuple[Sequence[Record], Sequence[Study], str]":
    """All records and searches of a store, or of exports; and where they are from."""
    if exports:
        if store != DEFAULT_STORE:
            raise ReportError("--from takes the place of --store; leave one of them out.")
        from benchmark.exchange.files import read_checked

        found = read_checked(exports)
        return found.records, found.studies, str(exports[0])
    with open_store(store, must_exist=True) as opened:
        return opened.records(), opened.studies(), opened.name


def tables_of(store: "Store", comparison: "Comparison") -> "list[Table]":
    """The table of one comparison of a store."""
    records = store.records(**comparison._asdict())
    return tables_from(records, _failures(records, store.studies(**comparison._asdict())))


def _failures(records: "Sequence[Record]", studies: "Iterable[Study]") -> "dict[Comparison, dict[str, str]]":
    """Why methods have no winner, by comparison."""
    from results.searches import unfinished

    by_comparison: dict[Comparison, list[Study]] = {}
    for study in studies:
        by_comparison.setdefault(study.comparison, []).append(study)
    return {key: unfinished(found, records) for key, found in by_comparison.items()}


def tables_from(
    records: "Sequence[Record]", failures: "Mapping[Comparison, Mapping[str, str]] | None" = None
) -> "list[Table]":
    """One table for each comparison of some records; `failures`: why methods have no winner, by comparison."""
    import pandas as pd

    from protocols.derive import derivation
    from reports.frame import runs_frame
    from reports.tabulation import result_tables

    by_comparison: dict[Comparison, list[Record]] = {}
    for record in records:
        by_comparison.setdefault(record.identity.comparison, []).append(record)
    if not by_comparison:
        return []  # a search has only just begun
    frames = [runs_frame(found, (failures or {}).get(key)) for key, found in by_comparison.items()]
    derivations = {
        key.protocol_digest: derivation(found[0].identity.protocol["values"]) for key, found in by_comparison.items()
    }
    return result_tables(pd.concat(frames, ignore_index=True), derivations)


def show_tables(tables: "Sequence[Table]", out: Path | None, as_json: bool) -> None:
    from reports.render import as_dict, to_terminal
    from reports.save import save_tables

    if as_json:
        print_json([as_dict(table) for table in tables])
    else:
        for place, table in enumerate(tables):
            console.print(*([""] if place else []), to_terminal(table), sep="\n")
    if out is not None:
        _say_written(save_tables(tables, out))


def _say_written(paths: Iterable[Path]) -> None:
    for path in paths:
        say_error(f"written: {path}")


def _with_published(tables: "Sequence[Table]") -> "list[Table]":
    from reports.quoted import with_quoted

    found = with_quoted(tables, _digests())
    for what in dict.fromkeys(f"{one.dataset_name}, {one.heading('separated')}" for one in found if not one.quoted):
        say_error(f"{what}: no published number of this data set in this kind of table is at hand.")
    return found


def _digests() -> dict[str, str]:
    """The fingerprints of the published protocols, by title."""
    from protocols.catalogue import PUBLISHED

    return {protocol.title: protocol.digest() for protocol in PUBLISHED}


def _show_reproductions(tables: "Sequence[Table]", out: Path | None, as_json: bool) -> None:
    from reports.reproduction import reproductions
    from reports.reproduction_forms import as_dict, to_terminal
    from reports.save import save_reproductions

    found = reproductions(tables, _digests())
    if as_json:
        print_json(as_dict(found))
    else:
        console.print(to_terminal(found))
    if out is not None:
        _say_written(save_reproductions(found, out))


def _write_site(
    tables: "Sequence[Table]",
    records: "Sequence[Record]",
    studies: "Sequence[Study]",
    folder: Path,
    data: Sequence[str],
    store: str | None,
    as_json: bool,
) -> None:
    """The site of a store, or of exports, beside which no test embeddings lie."""
    from benchmark.commands.site import write_site
    from benchmark.training.embeddings import stored_place
    from protocols.datasets.files import size_text
    from reports.quoted import with_quoted

    place = None
    if store is not None and data:
        with open_store(store, must_exist=True) as opened:
            place = stored_place(opened, store)
    made = write_site(with_quoted(tables, _digests()), records, studies, folder, data, place)
    if as_json:
        print_json({"index": str(made.index), "n_files": made.n_files, "n_bytes": made.n_bytes})
    else:
        say(f"written: {made.index} ({made.n_files:,} files, {size_text(made.n_bytes)})")


def _show_hierarchies(records: "Iterable[Record]", method: str | None, as_json: bool) -> None:
    from reports.hierarchy import as_dict, hierarchies, to_lines

    found = hierarchies(records, method)
    if as_json:
        print_json([as_dict(one) for one in found])
    else:
        for line in (line for one in found for line in to_lines(one)):
            say(line)
