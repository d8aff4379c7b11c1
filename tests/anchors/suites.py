"""What the anchors share: a suite of the harness with values that no search chose, and what its final runs found.

A suite that was stopped goes on from its store when the same command is given again. The number of runs is a field of
the protocol, so another `--runs` is another suite.
"""

import sys
from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

from benchmark.console import INTERRUPTED, USAGE, errors, say_error
from benchmark.errors import BenchmarkError, Interrupted
from benchmark.methods.entry import Value
from benchmark.options import SuiteOptions
from benchmark.workshop import assemble, run_suite
from protocols.errors import ProtocolError
from reports.errors import ReportError
from reports.frame import Setting, runs_frame
from reports.statistics.intervals import mean_interval
from results.errors import ResultsError
from results.record import FoldRecord, Record
from results.store import Store

Methods = Mapping[str, Mapping[str, Value]]  # hyper-parameters by method


def command(doc: str | None) -> ArgumentParser:
    """The options of every anchor."""
    parser = ArgumentParser(description=(doc or "").partition("\n")[0])
    parser.add_argument("--store", default="sqlite:///runs/anchors.db", help="a SQLite file or a database URL")
    parser.add_argument("--executor", default="processes", help="processes or inline")
    parser.add_argument("--workers", type=int, help="worker processes; default: one a core")
    parser.add_argument("--set", action="append", default=[], dest="settings", help="field=value, after the anchor's")
    return parser


def final_records(
    methods: Methods, protocol: str, data: str, settings: Sequence[str], asked: Namespace
) -> list[Record]:
    """All records of the final runs of these methods with these values.

    Raises:
        BenchmarkError: if a fold failed.
    """
    options = SuiteOptions(
        list(methods), protocol, data, [*settings, *asked.settings], asked.store, asked.executor, asked.workers
    )
    suite = assemble(options)
    suite = replace(suite, given={name: dict(values) for name, values in methods.items()})
    with Store.open(asked.store) as store:
        problems = run_suite(suite, store, ("finals",), errors)
        if problems:
            raise BenchmarkError("; ".join(f"{name}: {problem}" for name, problem in problems.items()))
        found = store.records(**suite.bench.comparison._asdict(), purpose="final")
    asked_for = {(entry.name, entry.code): methods[entry.name] for entry in suite.entries}
    of = [(record, record.identity) for record in found]
    return [record for record, it in of if asked_for.get((it.method, it.method_code)) == it.hyperparameters]


def by_run(records: Sequence[Record], metric: str, setting: Setting) -> dict[str, list[float]]:
    """A test metric of each final run, by method.

    Raises:
        ReportError: if a run has no value.
    """
    frame = runs_frame(records)
    wanted = frame[(frame["metric"] == metric) & (frame["setting"] == setting)]
    if lacking := sorted(set(wanted["method"][wanted["value"].isna()])):
        raise ReportError(f"no {setting} {metric} of some runs of {', '.join(lacking)}; run the same command again.")
    return {str(name): part["value"].tolist() for name, part in wanted.groupby("method", sort=False)}


def folds_of(records: Sequence[Record], method: str) -> list[FoldRecord]:
    """The fold models of a method."""
    return [found for found in records if isinstance(found, FoldRecord) and found.identity.method == method]


def with_interval(values: Sequence[float]) -> str:
    """`0.1234 ± 0.0056`: mean and 95 % t-interval over runs; `0.1234` for one run."""
    found = mean_interval(values)
    return f"{found.mean:.4f}" + (f" ± {found.half_width:.4f}" if found.half_width is not None else "")


def leave(main: Callable[[], int]) -> NoReturn:
    """End with the exit code of `main`, or as `mlrc` does where it cannot go on."""
    try:
        sys.exit(main())
    except Interrupted:
        say_error("Interrupted. Everything finished is stored; the same command goes on from here.")
        sys.exit(INTERRUPTED)
    except (BenchmarkError, ProtocolError, ReportError, ResultsError) as error:
        say_error(f"error: {error}")
        sys.exit(USAGE)
