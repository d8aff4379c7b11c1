"""The command `mlrc`. A command parses, calls one function, prints.

Rooms and torch are imported inside the commands that need them, so that `mlrc --help` answers at once. Exit codes: 0
done; 2 usage or data error, in one line with the way out; 3 interrupted, the same command goes on; 4 some jobs failed.
"""

import io
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.exceptions import TyperException

from benchmark.console import DONE, INTERRUPTED, JOBS_FAILED, USAGE, console, errors, print_json, say_error
from benchmark.data_commands import data_app
from benchmark.errors import BenchmarkError, Interrupted
from benchmark.options import DEFAULT_STORE, AsJson, Out, StoreUrl, SuiteOptions, with_suite_options
from protocols.errors import ProtocolError
from reports.errors import ReportError
from results.errors import ResultsError

if TYPE_CHECKING:
    from reports.tables import Table
    from results.comparison import Comparison
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


@app.command()
def demo(store: StoreUrl = DEMO_STORE, out: Out = Path("runs/demo"), as_json: AsJson = False) -> None:
    """Search and run eight methods on generated images, in minutes; ends with the table and the plot."""
    failed = _run(SuiteOptions(list(DEMO_METHODS), "demo", store=store), ("search", "finals"), out, as_json)
    if not as_json:
        console.print(
            "This was a demonstration: too few steps, trials and runs for a verdict. The real thing, on your images:\n"
            "  mlrc run contrastive ms norm-softmax --protocol mini --data path/to/images\n"
            f"What the demonstration found is in its own store: mlrc status --store {store.removeprefix('sqlite:///')}",
            soft_wrap=True,
            highlight=False,
        )
    raise typer.Exit(failed)


@app.command()
@with_suite_options
def run(options: SuiteOptions, out: Out = None, as_json: AsJson = False) -> None:
    """Search each method, run the final runs with its best hyper-parameters, print the table."""
    raise typer.Exit(_run(options, ("search", "finals"), out, as_json))


@app.command()
@with_suite_options
def search(options: SuiteOptions, as_json: AsJson = False) -> None:
    """Search each method under one protocol; every trial goes to the store, and one that repeats another counts."""
    raise typer.Exit(_run(options, ("search",), None, as_json))


@app.command()
@with_suite_options
def finals(options: SuiteOptions, out: Out = None, as_json: AsJson = False) -> None:
    """Run the final runs of methods whose search is done, print the table."""
    raise typer.Exit(_run(options, ("finals",), out, as_json))


@app.command()
def report(store: StoreUrl = DEFAULT_STORE, out: Out = None, as_json: AsJson = False) -> None:
    """Print the tables of all finished runs; one table for each protocol, data set and split."""
    with _open_store(store, must_exist=True) as opened:
        tables = _tables(opened)
        if not tables:
            raise ResultsError(f"{opened.name}: nothing is recorded there yet; mlrc run fills it.")
        _show_tables(tables, out, as_json)


@app.command()
def status(store: StoreUrl = DEFAULT_STORE, as_json: AsJson = False) -> None:
    """What is done, failed and left, by method."""
    with _open_store(store, must_exist=True) as opened:
        _show_status(opened, as_json)


@app.command("methods")
def list_methods(
    name: Annotated[str | None, typer.Argument(help="One method, in full.")] = None, as_json: AsJson = False
) -> None:
    """List the methods, installed plug-ins too, with their search spaces and sources."""
    from benchmark.listings import details, table
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
    from benchmark.listings import details, flat, protocol_line, table
    from protocols.catalogue import PUBLISHED, protocol_named

    lines = [protocol_line(protocol) for protocol in ([protocol_named(name)] if name else PUBLISHED)]
    if as_json:
        print_json(lines)
    else:
        found = table(lines, ("name", "version", "digest", "purpose"))
        console.print(details({"digest": lines[0]["digest"], **flat(lines[0]["values"])}) if name else found)


def _run(options: SuiteOptions, phases: Sequence[str], out: Path | None, as_json: bool) -> int:
    from protocols.catalogue import protocol_named
    from protocols.derive import derive

    derive(protocol_named(options.protocol), options.settings)  # a typo is answered before torch is imported

    from benchmark.checks import check_folder
    from benchmark.workshop import assemble, run_suite
    from reports.rehearsal import rehearse

    if out is not None:
        check_folder(out)
    suite = assemble(options)
    rehearse()  # a report that cannot be made is found now, not after the last run
    with _open_store(options.store) as store:
        problems = run_suite(suite, store, phases, errors)
        if "finals" in phases:
            _show_tables(_tables(store, [suite.bench.comparison]), out, as_json)
        else:
            _show_status(store, as_json)
    return JOBS_FAILED if problems else DONE


def _open_store(address: str, must_exist: bool = False) -> "Store":
    from results.database import database_url
    from results.store import Store

    url = database_url(address)
    if must_exist and url.get_backend_name() == "sqlite" and not Path(url.database or "").exists():
        raise ResultsError(f"{url.database}: no store there yet; mlrc run makes one, or name yours with --store.")
    return Store.open(address)


def _tables(store: "Store", comparisons: "Iterable[Comparison] | None" = None) -> "list[Table]":
    """One table for each comparison in a store, or for those asked for."""
    from benchmark.search import unfinished
    from protocols.derive import derivation
    from reports.frame import runs_frame
    from reports.tables import result_tables

    tables = []
    for comparison in store.comparisons() if comparisons is None else comparisons:
        records = store.records(**comparison._asdict())
        if not records:
            continue  # a search that has only just begun
        derivations = {comparison.protocol_digest: derivation(records[0].identity.protocol["values"])}
        tables += result_tables(runs_frame(records, unfinished(store, comparison)), derivations)
    return tables


def _show_tables(tables: "Sequence[Table]", out: Path | None, as_json: bool) -> None:
    from reports.render import as_dict, to_terminal
    from reports.save import save_tables

    if as_json:
        print_json([as_dict(table) for table in tables])
    else:
        for table in tables:
            console.print(to_terminal(table))
    if out is not None:
        for path in save_tables(tables, out):
            errors.print(f"written: {path}", markup=False, highlight=False, soft_wrap=True)


def _show_status(store: "Store", as_json: bool) -> None:
    from benchmark.listings import table
    from benchmark.status import columns, status_lines

    lines = status_lines(store)
    if as_json:
        print_json(lines)
    else:
        console.print(table(lines, columns(lines)))


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
    except (BenchmarkError, ProtocolError, ReportError, ResultsError) as error:
        say_error(f"error: {error}")
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
