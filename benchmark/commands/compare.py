"""The command `mlrc compare`: the regression gate. It runs what is not recorded yet; its exit code is the verdict."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import wraps
from inspect import signature
from typing import TYPE_CHECKING, Annotated, Any

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
from benchmark.console import errors, say_error
from benchmark.errors import BenchmarkError
from benchmark.interruption import interruptible
from benchmark.options import AsJson, Published, SuiteOptions, with_parameters, with_suite_options
from benchmark.stores import open_store

if TYPE_CHECKING:
    from benchmark.methods.entry import MethodEntry
    from benchmark.workshop import Suite
    from reports.gate.judgement import Judgement
    from reports.gate.sides import Side
    from results.store import Store

compare_app = typer.Typer(rich_markup_mode=None)


def naming_one_method(command: Callable[..., None]) -> Callable[..., None]:
    """The command of a suite with one argument, NEW, in the place of its methods."""
    new = Annotated[
        str,
        typer.Argument(
            metavar="NEW", help="A name from `mlrc methods`, path/to/file.py:ClassName, or an exported file.json."
        ),
    ]
    parameters = [
        item.replace(name="new", annotation=new) if item.name == "methods" else item
        for item in signature(command).parameters.values()
    ]

    @wraps(command)
    def flat(new: str, **given: Any) -> None:
        command(methods=[new], **given)

    return with_parameters(flat, parameters)


@compare_app.command("compare")
@naming_one_method
@with_suite_options
def compare(
    options: SuiteOptions,
    against: Annotated[str, typer.Option("--against", metavar="OLD", help="A method or an exported file, like NEW.")],
    metric: Metric = None,
    setting: Setting = None,
    margin: Margin = None,
    require: Require = None,
    until_decided: Annotated[
        bool, typer.Option("--until-decided", help="Add runs until the verdict is clear, by a group-sequential test.")
    ] = False,
    max_runs: Annotated[
        int | None,
        typer.Option("--max-runs", metavar="N", help="With --until-decided: at most so many; sets finals.n_runs."),
    ] = None,
    from_store: Annotated[bool, typer.Option("--from-store", help="Run nothing; judge what is recorded.")] = False,
    published: Published = None,
    junit: JUnit = None,
    as_json: AsJson = False,
) -> None:
    """Judge a method against another, run by run on shared seeds: better, worse, equivalent or no evidence.

    Exit code 1: worse, or not what --require asks for. 2: nothing could be judged.
    """
    asked = question(metric, setting, margin, require)
    if len(options.methods) > 1:
        raise BenchmarkError(f"NEW is one method; the suite file names {', '.join(options.methods)}. Name one of them.")
    (new,) = options.methods
    if new == against:
        raise BenchmarkError(f"NEW and OLD are both {new!r}; there is nothing to compare.")
    if max_runs is not None and not until_decided:
        raise BenchmarkError("--max-runs goes with --until-decided; for a fixed number give --set n_runs=N.")
    check_junit(junit)
    settings = [*options.settings, *([] if max_runs is None else [f"finals.n_runs={max_runs}"])]
    options = replace(options, methods=[new, against], settings=settings)
    with interruptible():
        found = _judged(options, asked, until_decided, from_store, published)
    raise typer.Exit(conclude([found], asked, junit, as_json, as_list=False))


def _judged(
    options: SuiteOptions, asked: Question, until_decided: bool, from_store: bool, published: str | None
) -> "Judgement":
    """Both sides, from files, from the store or run now, and the judgement on them."""
    from benchmark.gate import exported, is_export
    from reports.gate.sides import side_of_records

    files = {name: side_of_records(name, exported(name)) for name in options.methods if is_export(name)}
    methods = [name for name in options.methods if name not in files]
    if not methods:
        return _judge(_Sources(names=options.methods, files=files), asked, until_decided)

    from benchmark.remembered import settle
    from benchmark.search.course import course_notes
    from benchmark.workshop import assemble, with_images

    suite = assemble(replace(options, methods=methods), published, decode=False)
    if len({(entry.name, entry.code) for entry in suite.entries}) < len(methods):
        raise BenchmarkError(f"NEW and OLD are both {suite.entries[0].name!r}; there is nothing to compare.")
    sources = _Sources(names=options.methods, files=files, suite=suite)
    if (told := _foretold(sources, asked)) is not None:
        return told
    if not from_store:
        sources = replace(sources, suite=(suite := with_images(suite, options)))
    for remark in course_notes(suite.entries, suite.bench) if "search" in sources.phases and not from_store else ():
        say_error(remark)
    with open_store(options.store, must_exist=from_store) as store:
        bench = settle(suite.bench, store, replace(options, methods=methods), published, sources.phases, not from_store)
        sources = replace(sources, suite=replace(suite, bench=bench), store=store, runs=not from_store)
        return _judge(sources, asked, until_decided)


def _foretold(sources: "_Sources", asked: Question) -> "Judgement | None":
    """A judgement that needs no run: other fingerprints, or fewer runs than can tell anything."""
    from reports.gate.judgement import foretold, measure

    new, old = sources.planned()
    return foretold(new, old, *measure(old.identity, asked.setting, asked.metric), margin=asked.margin)


def _judge(sources: "_Sources", asked: Question, until_decided: bool) -> "Judgement":
    from reports.gate.judgement import compare as judge
    from reports.gate.judgement import measure
    from reports.gate.judgement import until_decided as judge_in_looks
    from reports.statistics.sequential import boundaries, schedule

    _, old = sources.planned()
    setting, metric = measure(old.identity, asked.setting, asked.metric)
    if not until_decided:
        return judge(*sources.sides(None), setting, metric, asked.margin)
    looks = schedule(int(old.identity.protocol["values"]["finals"]["n_runs"]))
    return judge_in_looks(sources.sides, looks, boundaries(looks), setting, metric, asked.margin)


@dataclass(frozen=True, kw_only=True)
class _Sources:
    """Where the two sides come from: exported files, and methods of a suite that are run, or found in a store."""

    names: Sequence[str]  # NEW and OLD
    files: "Mapping[str, Side]"
    suite: "Suite | None" = None
    store: "Store | None" = None
    runs: bool = False  # whether what the store lacks is run

    @property
    def phases(self) -> tuple[str, ...]:
        """What is run: a search too, unless hyper-parameters are given."""
        return ("finals",) if self.suite and self.suite.given else ("search", "finals")

    def planned(self) -> "tuple[Side, Side]":
        """Both sides before anything has run: a method's has no value."""
        if self.suite is None:
            return self._in_order(self.files)
        found = {name: planned_side(name, entry, self.suite.bench) for name, entry in self._entries().items()}
        return self._in_order({**self.files, **found})

    def sides(self, n_runs: int | None) -> "tuple[Side, Side]":
        """Both sides with their first runs, or with all of them.

        Raises:
            JobsFailed, BenchmarkError: if runs of a method are missing through no doing of its own.
        """
        if self.suite is None or self.store is None:
            return self._in_order(self.files)

        from benchmark.gate import with_first_runs
        from benchmark.workshop import run_suite

        suite = self.suite if n_runs is None else with_first_runs(self.suite, n_runs)
        problems: dict[str, str] = {}
        if self.runs:
            problems = run_suite(suite, self.store, self.phases, errors)
        found = {
            name: side_in_store(name, entry, suite, self.store, problems if self.runs else None)
            for name, entry in self._entries().items()
        }
        return self._in_order({**self.files, **found})

    def _entries(self) -> "dict[str, MethodEntry]":
        assert self.suite is not None
        return dict(zip((name for name in self.names if name not in self.files), self.suite.entries, strict=True))

    def _in_order(self, found: "Mapping[str, Side]") -> "tuple[Side, Side]":
        new, old = (found[name] for name in self.names)
        return new, old
