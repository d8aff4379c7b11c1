"""The commands that look ahead and look again: `mlrc plan`, `mlrc verify`, `mlrc doctor`."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from benchmark.console import DONE, NEGATIVE, console, print_json, say, say_error
from benchmark.errors import BenchmarkError
from benchmark.options import (
    DATA_HELP,
    DEFAULT_STORE,
    AsJson,
    Published,
    StoreUrl,
    SuiteOptions,
    Weights,
    with_suite_options,
)
from benchmark.stores import find_record, missing_file, open_store
from protocols.spec import MOST_STEPS

if TYPE_CHECKING:
    from benchmark.bench import Bench

MOST_STEP_S = 86_400  # a day

oversight_app = typer.Typer(rich_markup_mode=None)


@oversight_app.command("plan")
@with_suite_options
def plan_suite(
    options: SuiteOptions,
    published: Published = None,
    step_s: Annotated[
        float | None,
        typer.Option("--seconds-per-step", help="Of a training step, in place of a short calibration here."),
    ] = None,
    steps: Annotated[int | None, typer.Option("--steps-per-job", help="In place of an assumption.")] = None,
    as_json: AsJson = False,
) -> None:
    """Tell what `mlrc run` with these options would do: jobs, models, steps, hours by workers, disk."""
    if step_s is not None and not 0 < step_s <= MOST_STEP_S:
        raise BenchmarkError(f"--seconds-per-step is {step_s}; it must be positive, and at most {MOST_STEP_S:,}.")
    if steps is not None and not 1 <= steps <= MOST_STEPS:
        raise BenchmarkError(f"--steps-per-job is {steps}; it must be at least 1, and at most {MOST_STEPS:,}.")

    from benchmark.bench import check_graphs
    from benchmark.executors import usable_cores
    from benchmark.oversight.calibration import measured_costs
    from benchmark.oversight.costs import given_costs
    from benchmark.oversight.plan import job_steps, plan
    from benchmark.oversight.plan_text import plan_text
    from benchmark.oversight.workload import left_of
    from benchmark.remembered import settle
    from benchmark.workshop import assemble
    from protocols.datasets.completeness import remark_on

    suite = assemble(options, published, decode=False, build_network=step_s is None)
    if remark := remark_on(suite.bench.index):
        say_error(remark)
    bench = replace(suite.bench, cache=_ready_cache(suite.bench) if not options.no_cache else None)
    with nullcontext() if missing_file(options.store) else open_store(options.store) as store:
        if store:
            bench = settle(bench, store, options, published, ("search", "finals"), begin=False)
        left = [left_of(entry, bench, store, suite.given.get(entry.name)) for entry in suite.entries]
        expected = job_steps(bench, store, steps)
    entries = [entry for entry, one in zip(suite.entries, left, strict=True) if one.n_jobs]
    if step_s is None and entries:
        check_graphs(bench.cuda_graphs, bench.device)  # of this machine, also for a cluster that has the device
        named = f"{len(entries)} methods" if len(entries) > 1 else entries[0].name
        say_error(f"Measuring a few steps of {named}; --seconds-per-step takes no measurement.")
        costs = measured_costs(entries, bench, min(suite.workers, usable_cores()))
    else:
        costs = given_costs(suite.entries, bench, step_s or 0.0)
    found = plan(bench, left, costs, expected, suite.workers)
    if as_json:
        print_json(found)
    else:
        for part in plan_text(found):
            console.print(part, highlight=False, soft_wrap=isinstance(part, str))


@oversight_app.command("verify")
def verify_record(
    record_id: Annotated[str, typer.Argument(metavar="ID", help="A record's id, or its beginning.")],
    store: StoreUrl = DEFAULT_STORE,
    data: Annotated[str | None, typer.Option("--data", "-d", help=f"The data set it was made on: {DATA_HELP}")] = None,
    weights: Weights = None,
    as_json: AsJson = False,
) -> None:
    """Run a record's job again. Exit code 0: identical; 1: it differs, and where; 2: it cannot be run here."""
    from benchmark.oversight.verify import verified_line, verified_text, verify

    with open_store(store, must_exist=True) as opened:
        found = verify(find_record(opened, record_id), opened, store, data, weights)
    if as_json:
        print_json(verified_line(found))
    else:
        say(verified_text(found))
    raise typer.Exit(NEGATIVE if found.differs else DONE)


@oversight_app.command("doctor")
def examine(
    data: Annotated[str | None, typer.Option("--data", "-d", help=DATA_HELP)] = None,
    store: StoreUrl = DEFAULT_STORE,
    as_json: AsJson = False,
) -> None:
    """Look at what runs need: packages, devices, equal bits, weights, data, store. Exit code 1: something is wrong."""
    from benchmark.commands.listings import table
    from benchmark.oversight.doctor import diagnose, shown

    found = diagnose(data, store)
    if as_json:
        print_json(found)
    else:
        console.print(table([shown(line) for line in found], ("", "what", "found")))
    raise typer.Exit(NEGATIVE if any(line["state"] == "wrong" for line in found) else DONE)


def _ready_cache(bench: "Bench") -> Path | None:
    """The decoded images of a data set, where they are there."""
    from protocols.datasets.cache import cache_folder, cache_path

    path = cache_path(cache_folder(), bench.index, bench.protocol.transforms.resize_px)
    return path if path.exists() else None
