"""The command `mlrc`. A command parses, calls one function, prints.

Rooms and torch are imported inside the commands that need them, so that `mlrc --help` answers at once. The exit codes
are those of `benchmark.console`.
"""

import io
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.exceptions import TyperException

from benchmark.commands.baseline import baseline_app
from benchmark.commands.compare import compare_app
from benchmark.commands.data import data_app
from benchmark.commands.exchange import exchange_app
from benchmark.commands.figure import figure_app
from benchmark.commands.gate import JobsFailed
from benchmark.commands.oversight import oversight_app
from benchmark.commands.record import record_app
from benchmark.commands.report import report_app, show_tables, tables_of
from benchmark.commands.scaffold import scaffold_app
from benchmark.commands.score import score_app
from benchmark.console import (
    DONE,
    INTERRUPTED,
    JOBS_FAILED,
    USAGE,
    console,
    errors,
    print_json,
    say,
    say_error,
)
from benchmark.errors import BenchmarkError, Interrupted
from benchmark.interruption import interruptible
from benchmark.options import (
    DEFAULT_STORE,
    AsJson,
    Out,
    Published,
    StoreUrl,
    SuiteOptions,
    refuse_empty,
    with_suite_options,
)
from benchmark.stores import open_store
from protocols.errors import ProtocolError
from reports.errors import ReportError
from results.errors import ResultsError, StoreUnavailable

if TYPE_CHECKING:
    from results.store import Store

UNREAD = 141  # what a shell says of a program that SIGPIPE ended, as `| head -1` does
TYPERS_INTERRUPT = 130  # its exit code for a Ctrl-C that no command caught
INTERRUPTED_TEXT = "Interrupted. Everything finished is stored; the same command goes on from here."
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
app.add_typer(figure_app)
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
def status(store: StoreUrl = DEFAULT_STORE, as_json: AsJson = False) -> None:
    """What is done, running, failed and left, by method, how fast it goes and when it should end."""
    with open_store(store, must_exist=True) as opened:
        _show_status(opened, as_json)


@app.command("methods")
def list_methods(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="One method, in full.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the methods, installed plug-ins too, with their search spaces and sources."""
    from benchmark.commands.listings import details, table
    from benchmark.methods.listing import composers_text, method_line, method_lines, method_notes
    from benchmark.methods.registry import method_entry

    lines, problems = ([method_line(method_entry(name))], []) if name else method_lines()
    if as_json:
        print_json(lines)
    elif name:
        console.print(details(lines[0]))
        say(method_notes(method_entry(name)))
    else:
        console.print(table(lines, ("name", "family", "space")))
        say(f"\n{composers_text()}")
    for problem in problems:
        say_error(f"left out: {problem}")


@app.command("protocols")
def list_protocols(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="One protocol, in full.")] = None,
    as_json: AsJson = False,
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
def weights(protocol: Annotated[str, typer.Argument(metavar="PROTOCOL", help="A name from `mlrc protocols`.")]) -> None:
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
    with interruptible():
        return _run_listening(options, phases, out, as_json, published)


def _run_listening(
    options: SuiteOptions, phases: Sequence[str], out: Path | None, as_json: bool, published: str | None
) -> int:
    from benchmark.remembered import settle
    from benchmark.search.course import course_notes
    from benchmark.workshop import assemble, run_suite
    from reports.rehearsal import rehearse
    from results.whole_file import check_folder

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


def _show_status(store: "Store", as_json: bool) -> None:
    from benchmark.commands.listings import table
    from benchmark.oversight.status import TITLES, boards, columns, remarks, shown, status_lines

    lines = status_lines(store)
    if as_json:
        print_json(lines)
    else:
        for heading, some in boards(lines).items():
            say(f"{heading}:")
            found = table([shown(line) for line in some], columns(some), TITLES, unbroken=True)
            console.print(found, crop=False)
            say("")
        for remark in remarks(lines):
            say(remark)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code; a user's mistake is one line on standard error."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(encoding="utf-8", errors="replace")  # under the C locale too
    sys.exit(_exit_code(arguments))


def _exit_code(arguments: Sequence[str] | None) -> int:
    try:
        refuse_empty(sys.argv[1:] if arguments is None else arguments)
        code = int(app(arguments, prog_name="mlrc", standalone_mode=False) or DONE)
    except TyperException as error:
        say_error(_usage_error(error))
        return USAGE
    except SystemExit:  # of Typer and Rich alone: whoever read what is printed has closed the pipe
        return UNREAD
    except Interrupted as error:
        say_error(f"Interrupted. {error}" if str(error) else INTERRUPTED_TEXT)
        return INTERRUPTED
    except StoreUnavailable as error:
        say_error(f"error: {error}")
        return INTERRUPTED
    except (BenchmarkError, ProtocolError, ReportError, ResultsError) as error:
        say_error(f"error: {error}")
        return USAGE
    except JobsFailed as error:
        say_error(f"error: {error}")
        return JOBS_FAILED
    except MemoryError as error:
        say_error(f"error: memory ran out ({error or 'no more is known'}); lower what was asked for.")
        return USAGE
    if code == TYPERS_INTERRUPT:
        say_error(INTERRUPTED_TEXT)
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
