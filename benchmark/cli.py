"""The command `mlrc`. A command parses, calls one function, prints.

Rooms and torch are imported inside the commands that need them, so that `mlrc --help` answers at once. Exit codes: 0
done; 2 usage or data error, in one line with the way out; 3 interrupted, the same command goes on; 4 some jobs failed.
"""

import io
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.exceptions import TyperException

from benchmark.commands.baseline import baseline_app
from benchmark.commands.compare import compare_app
from benchmark.commands.console import DONE, INTERRUPTED, JOBS_FAILED, USAGE, console, errors, print_json, say_error
from benchmark.commands.data import data_app
from benchmark.commands.exchange import exchange_app
from benchmark.commands.options import (
    DATA_HELP,
    DEFAULT_STORE,
    AsJson,
    Out,
    Published,
    StoreUrl,
    SuiteOptions,
    with_suite_options,
)
from benchmark.commands.oversight import oversight_app
from benchmark.commands.record import record_app
from benchmark.commands.report import report_app, show_tables, tables_of
from benchmark.commands.scaffold import scaffold_app
from benchmark.commands.score import score_app
from benchmark.errors import BenchmarkError, Interrupted
from benchmark.stores import open_store
from protocols.errors import ProtocolError
from reports.errors import ReportError
from results.errors import ResultsError, StoreUnavailable

if TYPE_CHECKING:
    from reports.analyses.drawing import Gallery
    from results.store import Store

TYPERS_INTERRUPT = 130  # its exit code for a Ctrl-C that no command caught
DEMO_STORE = "sqlite:///runs/demo.db"
DEMO_METHODS = (
    "pixels", "untrained", "contrastive", "triplet", "ms", "norm-softmax", "proxy-nca", "arcface",
)  # fmt: skip

app = typer.Typer(
    help="A fair, provable benchmark for deep metric learning: same folds, same trunk, same search for every loss.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
app.add_typer(data_app, name="data")
app.add_typer(oversight_app)  # its commands stand beside the others
app.add_typer(record_app)
app.add_typer(exchange_app)
app.add_typer(score_app)
app.add_typer(report_app)
app.add_typer(compare_app)
app.add_typer(baseline_app, name="baseline")
app.add_typer(scaffold_app)


@app.command()
def demo(store: StoreUrl = DEMO_STORE, out: Out = Path("runs/demo"), as_json: AsJson = False) -> None:
    """Search and run eight methods on generated images, in minutes; ends with the table and the plot."""
    from results.database import database_url, place

    failed = _run(SuiteOptions(list(DEMO_METHODS), "demo", store=store), ("search", "finals"), out, as_json)
    if not as_json:
        console.print(
            "This was a demonstration: too few steps, trials and runs for a verdict. The real thing, on your images:\n"
            "  mlrc run contrastive ms norm-softmax --protocol mini --data path/to/images\n"
            f"What the demonstration found is in its own store: mlrc status --store {place(database_url(store))}",
            soft_wrap=True,
            highlight=False,
        )
    raise typer.Exit(failed)


@app.command()
@with_suite_options
def run(options: SuiteOptions, published: Published = None, out: Out = None, as_json: AsJson = False) -> None:
    """Search each method, run the final runs with its best hyper-parameters, print the table."""
    raise typer.Exit(_run(options, ("search", "finals") if published is None else ("finals",), out, as_json, published))


@app.command()
@with_suite_options
def search(options: SuiteOptions, as_json: AsJson = False) -> None:
    """Search each method under one protocol; every trial goes to the store, and one that repeats another counts."""
    raise typer.Exit(_run(options, ("search",), None, as_json))


@app.command()
@with_suite_options
def finals(options: SuiteOptions, published: Published = None, out: Out = None, as_json: AsJson = False) -> None:
    """Run the final runs of methods whose search is done, print the table."""
    raise typer.Exit(_run(options, ("finals",), out, as_json, published))


@app.command()
def figure(
    name: Annotated[str | None, typer.Argument(help="One of the figures; without it they are listed.")] = None,
    store: StoreUrl = DEFAULT_STORE,
    method: Annotated[str | None, typer.Option("--method", "-m", help="Of this method alone.")] = None,
    data: Annotated[str | None, typer.Option("--data", "-d", help=f"For test embeddings: {DATA_HELP}")] = None,
    tsne: Annotated[bool, typer.Option("--tsne", help="embedding-map: t-SNE instead of principal components.")] = False,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for PNG, SVG and CSV.")] = Path("runs/figures"),
    as_json: AsJson = False,
) -> None:
    """Draw an analysis of what a store holds, with the numbers behind it; without a NAME, list the figures."""
    from reports.analyses.catalogue import FIGURES
    from reports.save import save_drawings

    if name is None:
        _show_figures({key: found.shows for key, found in FIGURES.items()}, as_json)
        return
    drawn = _gallery(name, store, method, data, tsne)
    for reason in drawn.left_out:
        say_error(f"left out: {reason}")
    paths = [str(path) for path in save_drawings(name, drawn.drawings, out)]
    if as_json:
        print_json(paths)
    else:
        console.print("\n".join(paths), markup=False, highlight=False, soft_wrap=True)


@app.command()
def status(store: StoreUrl = DEFAULT_STORE, as_json: AsJson = False) -> None:
    """What is done, running, failed and left, by method, how fast it goes and when it should end."""
    with open_store(store, must_exist=True) as opened:
        _show_status(opened, as_json)


@app.command("methods")
def list_methods(
    name: Annotated[str | None, typer.Argument(help="One method, in full.")] = None, as_json: AsJson = False
) -> None:
    """List the methods, installed plug-ins too, with their search spaces and sources."""
    from benchmark.commands.listings import details, table
    from benchmark.methods.listing import method_line, method_lines, method_notes
    from benchmark.methods.registry import method_entry

    lines, problems = ([method_line(method_entry(name))], []) if name else method_lines()
    if as_json:
        print_json(lines)
    elif name:
        console.print(details(lines[0]))
        console.print(method_notes(method_entry(name)), markup=False, highlight=False, soft_wrap=True)
    else:
        console.print(table(lines, ("name", "family", "space")))
    for problem in problems:
        say_error(f"left out: {problem}")


@app.command("protocols")
def list_protocols(
    name: Annotated[str | None, typer.Argument(help="One protocol, in full.")] = None, as_json: AsJson = False
) -> None:
    """List the published protocols with their fingerprints."""
    from benchmark.commands.listings import details, flat, protocol_line, table
    from protocols.catalogue import PUBLISHED, protocol_named

    lines = [protocol_line(protocol) for protocol in ([protocol_named(name)] if name else PUBLISHED)]
    if as_json:
        print_json(lines)
    else:
        found = table(lines, ("name", "version", "digest", "purpose"))
        console.print(details({"digest": lines[0]["digest"], **flat(lines[0]["values"])}) if name else found)


@app.command()
def weights(protocol: Annotated[str, typer.Argument(help="A name from `mlrc protocols`.")]) -> None:
    """Fetch the trunk weights that a protocol wants from their published address; their hash is checked."""
    from benchmark.commands.fetching import FetchProgress
    from protocols.catalogue import protocol_named
    from protocols.trunks.fetch import fetch_weights

    with FetchProgress(errors) as progress:
        path, is_new = fetch_weights(protocol_named(protocol).trunk, progress)
    console.print(f"{'Fetched' if is_new else 'Already there'}: {path}", highlight=False, soft_wrap=True)


def _run(
    options: SuiteOptions, phases: Sequence[str], out: Path | None, as_json: bool, published: str | None = None
) -> int:
    from protocols.catalogue import protocol_named
    from protocols.derive import derive

    derive(protocol_named(options.protocol), options.settings)  # a typo is answered before torch is imported

    from benchmark.checks import check_folder
    from benchmark.remembered import settle
    from benchmark.search.course import course_notes
    from benchmark.workshop import assemble, run_suite
    from reports.rehearsal import rehearse

    if out is not None:
        check_folder(out)
    suite = assemble(options, published)
    for remark in course_notes(suite.entries, suite.bench) if "search" in phases else ():
        say_error(remark)
    rehearse()  # a report that cannot be made is found now, not after the last run
    with open_store(options.store) as store:
        suite = replace(suite, bench=settle(suite.bench, store, options, published, phases))
        problems = run_suite(suite, store, phases, errors)
        if "finals" in phases:
            show_tables(tables_of(store, suite.bench.comparison), out, as_json)
        else:
            _show_status(store, as_json)
    return JOBS_FAILED if problems else DONE


def _gallery(name: str, store: str, method: str | None, data: str | None, tsne: bool) -> "Gallery":
    """The pictures of a figure from a store; all that can be refused at once is refused first."""
    from benchmark.training.embeddings import load_embeddings, stored_place
    from reports.analyses.catalogue import FromRecords, figure_named

    found = figure_named(name)
    if tsne and name != "embedding-map":
        raise ReportError(f"--tsne goes with embedding-map; leave it out for {name}.")
    if data is not None and isinstance(found, FromRecords):
        raise ReportError(f"{name} is drawn from records alone; leave --data out.")
    with open_store(store, must_exist=True) as opened:
        if method is not None and not (records := opened.records(method=method)):
            known = ", ".join(sorted({record.identity.method for record in opened.records()})) or "none"
            raise ResultsError(f"{opened.name}: nothing of {method!r} is recorded there. Methods there: {known}.")
        if isinstance(found, FromRecords):
            return found.draw(opened.records(method=method, purpose=found.purpose))
        records, place = opened.records(kind="fold", method=method, purpose="final"), stored_place(opened, store)

    from benchmark.commands.figure import dataset_of, fold_models, held_out_images
    from reports.analyses.embedded import Embedded

    index = dataset_of(name, data)
    models = fold_models(records, index)
    embedded = Embedded(models, held_out_images(models, index), partial(load_embeddings, place))
    return found.draw(embedded, tsne=True) if tsne else found.draw(embedded)


def _show_figures(lines: "Mapping[str, str]", as_json: bool) -> None:
    from benchmark.commands.listings import table

    found = [{"name": name, "shows": shows} for name, shows in lines.items()]
    if as_json:
        print_json(found)
    else:
        console.print(table(found, ("name", "shows")))


def _show_status(store: "Store", as_json: bool) -> None:
    from benchmark.commands.listings import table
    from benchmark.oversight.status import columns, remarks, shown, status_lines

    lines = status_lines(store)
    if as_json:
        print_json(lines)
    else:
        console.print(table([shown(line) for line in lines], columns(lines)))
        for remark in remarks(lines):
            console.print(remark, markup=False, highlight=False, soft_wrap=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code; a user's mistake is one line on standard error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")  # under the C locale too
    sys.exit(_exit_code(arguments))


def _exit_code(arguments: Sequence[str] | None) -> int:
    try:
        code = int(app(arguments, prog_name="mlrc", standalone_mode=False) or DONE)
    except TyperException as error:
        say_error(_usage_error(error))
        return USAGE
    except Interrupted:
        code = TYPERS_INTERRUPT
    except StoreUnavailable as error:
        say_error(f"error: {error}")
        return INTERRUPTED
    except (BenchmarkError, ProtocolError, ReportError, ResultsError) as error:
        say_error(f"error: {error}")
        return USAGE
    except MemoryError as error:
        say_error(f"error: memory ran out ({error or 'no more is known'}); lower what was asked for.")
        return USAGE
    if code == TYPERS_INTERRUPT:
        say_error("Interrupted. Everything finished is stored; the same command goes on from here.")
        return INTERRUPTED
    return code


def _usage_error(error: TyperException) -> str:
    """One line with the way out; the whole help where a command was given nothing at all."""
    context, said = getattr(error, "ctx", None), error.format_message()
    if context is None:
        return f"error: {said} See mlrc --help."
    ended = said if said.endswith(("?", ".")) else f"{said}."
    return (
        said if said == context.get_help() else f"error: {ended.replace('?.', '?')} See {context.command_path} --help."
    )
