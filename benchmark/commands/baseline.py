"""The commands `mlrc baseline save` and `check`: what methods reached, in a file beside their code, and held to it.

A check runs the same jobs again with the hyper-parameters of the file: no search, so it takes minutes. Its store is its
own and thrown away, because a method that ships with the package has the same jobs whatever its code.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from inspect import signature
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated

import typer

from benchmark.commands.gate import (
    JUnit,
    Margin,
    Metric,
    Question,
    Require,
    Setting,
    check_junit,
    conclude,
    planned_side,
    question,
    side_in_store,
)
from benchmark.console import errors, print_json, say
from benchmark.errors import BenchmarkError, Interrupted
from benchmark.interruption import interruptible
from benchmark.options import (
    DATA_HELP,
    AsJson,
    CudaGraphs,
    NoCache,
    Published,
    SuiteOptions,
    Threads,
    Weights,
    Workers,
    with_parameters,
    with_suite_options,
)
from benchmark.stores import open_store
from protocols.errors import did_you_mean

if TYPE_CHECKING:
    from benchmark.workshop import Suite
    from reports.gate.judgement import Judgement
    from reports.gate.sides import Side
    from results.baseline import Baseline, BaselineMethod
    from results.store import Store

File = Annotated[Path, typer.Argument(metavar="FILE.json", help="The baseline file.")]

baseline_app = typer.Typer(
    help="Keep what methods reached in a file, and check that they still reach it.",
    no_args_is_help=True,
    rich_markup_mode=None,
)


def _file_first(command: Callable[..., None]) -> Callable[..., None]:
    """The command of a suite with the file before its methods, which may be left out."""
    parameters = dict(signature(command).parameters)
    methods = parameters.pop("methods").replace(default=[])
    ordered = [parameters.pop("file"), methods, *parameters.values()]
    return with_parameters(command, ordered)


@baseline_app.command("save")
@_file_first
@with_suite_options
def save(options: SuiteOptions, file: File, published: Published = None, as_json: AsJson = False) -> None:
    """Run methods, or take all that the store has whole, and write what each of their runs reached."""
    from results.baseline import write_baseline
    from results.whole_file import check_writable

    check_writable(file)
    with interruptible():
        baseline = _saved(options, published)
    write_baseline(baseline, file)
    names, n_runs = [method.method for method in baseline.methods], len(baseline.methods[0].runs)
    if as_json:
        print_json({"file": str(file), "methods": names, "n_runs": n_runs})
    else:
        text = f"written: {file}: {n_runs} run{'s' if n_runs != 1 else ''} of {', '.join(names)}"
        say(text)


@baseline_app.command("check")
def check(
    file: File,
    methods: Annotated[list[str], typer.Argument(metavar="METHOD", help="Of the file; default: all.")] = [],  # noqa: B006
    data: Annotated[str | None, typer.Option("--data", "-d", help=f"Default: as saved. {DATA_HELP}")] = None,
    metric: Metric = None,
    setting: Setting = None,
    margin: Margin = None,
    require: Require = None,
    search_again: Annotated[
        bool, typer.Option("--search-again", help="Search the hyper-parameters again, under the protocol's budget.")
    ] = False,
    store: Annotated[
        str | None, typer.Option("--store", help="Keep the records there; what it has is not run again.")
    ] = None,
    executor: Annotated[str, typer.Option("--executor", help="processes or inline.")] = "processes",
    workers: Workers = None,
    threads: Threads = 1,
    cuda_graphs: CudaGraphs = False,
    weights: Weights = None,
    no_cache: NoCache = False,
    junit: JUnit = None,
    as_json: AsJson = False,
) -> None:
    """Run the methods of a baseline again and judge each against it. Exit code 1: one is worse, or not as required."""
    from results.baseline import read_baseline

    asked = question(metric, setting, margin, require)
    check_junit(junit)
    baseline = read_baseline(file)
    chosen = _chosen(baseline, methods, file)
    options = _options(baseline, [method.method for method in chosen])
    options = replace(options, executor=executor, workers=workers, threads=threads, weights=weights, no_cache=no_cache)
    options = replace(options, data=baseline.data if data is None else data, cuda_graphs=cuda_graphs)
    with _store_of(store) as address, interruptible():
        found = _checked(baseline, chosen, replace(options, store=address), asked, file, search_again)
    raise typer.Exit(conclude(found, asked, junit, as_json))


def _saved(options: SuiteOptions, published: str | None) -> "Baseline":
    from benchmark.remembered import settle
    from benchmark.workshop import assemble, run_suite
    from reports.gate.sides import baseline_method
    from results.baseline import Baseline

    suite = assemble(options, published)
    runs, phases = bool(options.methods), ("search", "finals") if published is None else ("finals",)
    _refuse_unjudgeable([entry.name for entry in suite.entries], suite)
    with open_store(options.store, must_exist=not runs) as store:
        problems: dict[str, str] = {}
        if runs:
            bench = settle(suite.bench, store, options, published, phases)
            suite = replace(suite, bench=bench)
            problems = run_suite(suite, store, phases, errors)
        else:
            names = _recorded_methods(suite, store)
            suite = assemble(replace(options, methods=names), published, decode=False)
            _refuse_unjudgeable(names, suite)
        sides = _sides(suite, store, problems if runs else None)
    first = next(iter(sides.values())).identity
    return Baseline(
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        data=options.data,
        protocol=first.protocol,
        dataset=first.dataset,
        split=first.split,
        methods=tuple(baseline_method(side) for side in sides.values()),
    )


def _checked(
    baseline: "Baseline",
    chosen: "Sequence[BaselineMethod]",
    options: SuiteOptions,
    asked: Question,
    file: Path,
    search_again: bool,
) -> "list[Judgement]":
    """A judgement for each method; none is run if one could not be compared."""
    from benchmark.methods.registry import check_hyperparameters
    from benchmark.workshop import assemble, run_suite
    from reports.gate.judgement import compare, foretold, measure
    from reports.gate.sides import side_of_baseline
    from reports.gate.verdict import LEVEL

    suite = assemble(options)
    old = {one.method: side_of_baseline(baseline, one, f"{one.method} in {file.name}") for one in chosen}
    setting, metric = measure(next(iter(old.values())).identity, asked.setting, asked.metric)
    if not search_again:
        suite = replace(suite, given={one.method: dict(one.hyperparameters) for one in chosen})
        for entry in suite.entries:
            check_hyperparameters(entry, suite.bench.fewest_classes, suite.given[entry.name])
    planned = {entry.name: planned_side(entry.name, entry, suite.bench) for entry in suite.entries}
    told = [foretold(planned[name], side, setting, metric, asked.margin) for name, side in old.items()]
    if known := [one for one in told if one is not None]:
        return known
    with open_store(options.store) as store:
        problems = run_suite(suite, store, ("search", "finals") if search_again else ("finals",), errors)
        new = _sides(suite, store, problems)
    level = LEVEL / len(old)  # Bonferroni's, so that a check of many methods gives no more false alarms than of one
    return [compare(new[name], side, setting, metric, asked.margin, level) for name, side in old.items()]


def _sides(suite: "Suite", store: "Store", problems: "Mapping[str, str] | None") -> "dict[str, Side]":
    return {entry.name: side_in_store(entry.name, entry, suite, store, problems) for entry in suite.entries}


def _recorded_methods(suite: "Suite", store: "Store") -> list[str]:
    records = store.records(**suite.bench.comparison._asdict(), purpose="final")
    names = list(dict.fromkeys(record.identity.method for record in records))
    if not names:
        raise BenchmarkError(
            f"{store.name} has no final runs under {suite.bench.protocol.title} ({suite.bench.protocol.digest()}) on "
            f"{suite.bench.index.name}. Name METHODS to run them."
        )
    return names


def _refuse_unjudgeable(names: Sequence[str], suite: "Suite") -> None:
    """Refuse what no check could ever judge, before it is run."""
    from reports.gate.verdict import FEWEST_RUNS
    from results.repeats import n_final_runs

    for name in names:
        planned = n_final_runs(name, suite.bench.protocol.values())
        if planned < FEWEST_RUNS:
            out = f"give --set n_runs={FEWEST_RUNS} or more" if suite.bench.protocol.finals.n_runs == planned else ""
            raise BenchmarkError(
                f"{name}: {planned} final runs; a check needs {FEWEST_RUNS} at least: "
                f"{out or 'nothing is random in it, so leave it out'}."
            )


def _options(baseline: "Baseline", methods: list[str]) -> SuiteOptions:
    """The suite that made a baseline, as far as its protocol says."""
    from benchmark.oversight.recorded import recorded_protocol, recorded_settings

    recorded_protocol(baseline.protocol)  # refuses one that this code does not have
    name, settings = recorded_settings(baseline.protocol["values"])
    return SuiteOptions(methods, protocol=name, settings=settings)


def _chosen(baseline: "Baseline", names: Sequence[str], file: Path) -> "list[BaselineMethod]":
    known = {method.method: method for method in baseline.methods}
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known)
            raise BenchmarkError(f"{file}: no method {name!r} is in it.{hint} It has {', '.join(known)}.")
    return [known[name] for name in dict.fromkeys(names or known)]


@contextmanager
def _store_of(address: str | None) -> Iterator[str]:
    """The store that was named, or one that is thrown away."""
    if address is not None:
        yield address
        return
    try:
        with TemporaryDirectory(prefix="mlrc-check-") as folder:
            yield str(Path(folder) / "check.db")
    except (Interrupted, KeyboardInterrupt):
        raise Interrupted("Nothing was kept; --store keeps the records.") from None
