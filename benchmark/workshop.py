"""Puts a suite together from what a command was given, checks all of it, then runs it.

Everything that can be wrong is looked for before the first job: names, fields, images, classes, batches, the store.
"""

import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import optuna
from optuna.storages import RDBStorage
from rich.console import Console

from benchmark.bench import Bench, default_device
from benchmark.errors import BenchmarkError, Interrupted
from benchmark.executors import check_executor, make_executor, usable_cores
from benchmark.methods.entry import MethodEntry
from benchmark.methods.registry import method_entry
from benchmark.progress import SuiteProgress
from benchmark.suite import Driver, expected_work
from protocols.catalogue import protocol_named
from protocols.datasets import check_decodes, load_dataset
from protocols.derive import derive
from protocols.sampler import batch_plan
from protocols.splits import make_split
from results.store import Store


@dataclass(frozen=True, kw_only=True)
class SuiteOptions:
    """What the commands `run`, `search`, `finals` and `demo` have in common."""

    protocol: str
    settings: tuple[str, ...]
    data: str
    methods: tuple[str, ...]
    store: str
    executor: str
    workers: int | None  # None: one a core
    threads: int  # of one job; not derived from the workers, so that these never change a bit of a result


@dataclass(frozen=True, eq=False)
class Suite:
    """A checked suite, ready to run."""

    bench: Bench
    entries: tuple[MethodEntry, ...]
    executor: str
    workers: int


def assemble(options: SuiteOptions, store: Store) -> Suite:
    """Check everything and put it together.

    Raises:
        ProtocolError, DataError, BenchmarkError: in one line, with the way out.
    """
    protocol = derive(protocol_named(options.protocol), options.settings)
    if not options.methods:
        raise BenchmarkError(
            "no method given. Name one or more, for example: mlrc run contrastive ms; see mlrc methods."
        )
    entries = tuple(method_entry(name) for name in dict.fromkeys(options.methods))
    workers = options.workers if options.workers is not None else usable_cores()
    check_executor(options.executor, workers)
    if options.threads < 1:
        raise BenchmarkError(f"--threads is {options.threads}; it must be at least 1.")
    workers = 1 if options.executor == "inline" else workers
    index = load_dataset(options.data)
    check_decodes(index)
    bench = Bench(
        protocol=protocol,
        index=index,
        split=make_split(index.classes, protocol.folds, index.test_classes),
        artifacts=artifact_folder(store),
        threads=options.threads,
        device=default_device(),
    )
    _check_sides(bench)
    for entry in entries:
        _check_batches(entry, bench)
    return Suite(bench, entries, options.executor, workers)


def run_suite(suite: Suite, store: Store, phases: Sequence[str], console: Console) -> dict[str, str]:
    """Run all methods; returns what went wrong, by method.

    Raises:
        Interrupted: after Ctrl-C, when what ran is stored; the same command goes on from there.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    expected = {entry.name: expected_work(entry, suite.bench, phases) for entry in suite.entries}
    executor = make_executor(suite.executor, suite.bench, suite.workers)
    storage = RDBStorage(
        store.url, engine_kwargs={"connect_args": {"timeout": 60}} if store.url.startswith("sqlite") else None
    )
    try:
        with SuiteProgress(expected, suite.bench.n_folds, console) as progress:
            driver = Driver(suite.bench, store, executor, progress)
            with _interruptible(driver.stop, console):
                return driver.run(suite.entries, storage, phases)
    except KeyboardInterrupt:
        raise Interrupted from None
    finally:
        executor.stop()


def artifact_folder(store: Store) -> Path:
    """Where test embeddings lie: beside a SQLite file, in `runs/` for a server."""
    file = Path(store.name)
    return file.with_name(file.name + ".embeddings") if file.exists() else Path("runs") / "embeddings"


def _check_sides(bench: Bench) -> None:
    """Refuse folds whose evaluation could only give one number."""
    alone = set(bench.index.lone_classes)
    sides = [(f"fold {number}'s validation", cut.validation) for number, cut in enumerate(bench.split.folds)]
    for side, classes in [*sides, ("the test", bench.split.test)]:
        if len(classes) < 2:
            raise BenchmarkError(
                f"{bench.index.location}: {side} side is the single class {classes[0]!r}, so every neighbour is a hit "
                f"and MAP@R is always 1. Add classes: {bench.n_folds} folds need {2 * bench.n_folds} for training."
            )
        if alone.issuperset(classes):
            raise BenchmarkError(
                f"{bench.index.location}: each of the {len(classes)} classes of {side} side has a single image, "
                "so no query has a match. Add images to them."
            )


def _check_batches(entry: MethodEntry, bench: Bench) -> None:
    if entry.family != "baseline":
        for fold in range(bench.n_folds):
            batch_plan(bench.protocol.batch, "class" if entry.family == "class" else "pair", bench.n_classes(fold))


@contextmanager
def _interruptible(stop: Callable[[], None], console: Console) -> Iterator[None]:
    """The first Ctrl-C lets running folds finish; the second ends them."""

    def first(*_: object) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        stop()
        console.print("Stopping when the running folds are done; press Ctrl-C again to stop at once.", soft_wrap=True)

    before = signal.signal(signal.SIGINT, first)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
