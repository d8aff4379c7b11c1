"""Puts a suite together from what a command was given, checks all of it, then runs it.

Everything that can be wrong is looked for before the first job: names, fields, images, classes, batches, the store.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

import optuna
from rich.console import Console

from benchmark.bench import Bench, check_graphs, check_metrics_version, default_device
from benchmark.campaign import expected_work, trials_told
from benchmark.checks import check_batches, check_network, check_sides, check_space, check_super_classes, check_trunk
from benchmark.console import errors, say
from benchmark.errors import BenchmarkError, Interrupted
from benchmark.executors import MOST_WORKERS, Scheduler, check_executor, make_executor, usual_workers
from benchmark.executors.contract import ClusterAway, memory_text
from benchmark.interruption import interruptible, leave_if_asked, stopped_by
from benchmark.methods.entry import MethodEntry, Value
from benchmark.methods.registry import method_entry
from benchmark.options import SuiteOptions
from benchmark.prepared import ready_images
from benchmark.progress import SuiteProgress
from benchmark.published import published_values
from benchmark.search.course import course_of
from benchmark.search.rules import USUAL, SearchRules
from benchmark.search.trials import database_errors, open_trials
from benchmark.suite import Driver
from benchmark.training.checkpoint import checkpoints_folder
from benchmark.training.embeddings import embeddings_folder
from protocols.candidates import load_faiss
from protocols.catalogue import protocol_named
from protocols.datasets import check_decodes, load_dataset
from protocols.datasets.completeness import remark_on
from protocols.derive import derive
from protocols.spec import Protocol
from protocols.splits import make_split
from protocols.trunks import use_weight_file
from results.store import Store


@dataclass(frozen=True, eq=False)
class Suite:
    """A checked suite, ready to run."""

    bench: Bench
    entries: tuple[MethodEntry, ...]
    executor: str
    workers: int
    given: dict[str, dict[str, Value]]  # hyper-parameters that no search chose, by method
    scheduler: Scheduler | None = None  # of the Dask cluster, whose workers are as many as there are
    said: set[str] = field(default_factory=set)  # told once a command, which may run it part by part


def assemble(
    options: SuiteOptions, published: str | None = None, decode: bool = True, build_network: bool = True
) -> Suite:
    """Check everything and put it together; `published` is the key of the hyper-parameters to run with.

    `decode` False: images are not decoded and no cache is looked for, as nothing will be run. `build_network` False:
    nor are the trunk's weights wanted, as nothing is run to measure either.

    Raises:
        ProtocolError, DataError, BenchmarkError: in one line, with the way out.
    """
    leave_if_asked()
    if options.executor != "dask":  # whose workers look at their own devices
        check_graphs(options.cuda_graphs, default_device())
    protocol = derive(protocol_named(options.protocol), options.settings)
    entries = tuple(method_entry(name) for name in dict.fromkeys(options.methods))
    check_executor(options.executor, options.workers, options.scheduler, options.scheduler_file)
    if not 1 <= options.threads <= MOST_WORKERS:
        raise BenchmarkError(f"--threads is {options.threads}; it must be at least 1, and at most {MOST_WORKERS:,}.")
    if options.search == "faiss":
        load_faiss()
    if options.weights is not None:
        use_weight_file(protocol.trunk, options.weights)
    check_metrics_version(protocol)
    for entry in entries:
        check_trunk(entry, protocol)
    if build_network and any(entry.embeds_with != "pixels" for entry in entries):
        check_network(protocol)
    bench = _bench(options, protocol)
    check_sides(bench)
    for entry in entries:
        check_batches(entry, bench)
        check_super_classes(entry, bench)
        check_space(entry, bench)
        course_of(entry, bench)  # a bound or a rule that cannot hold here is refused before there is a store
    if published is not None and bench.rules != USUAL:
        raise BenchmarkError(
            "--published searches nothing: leave --sampler, --parallel-trials, --enqueue, --pruning and --fork out."
        )
    given = {} if published is None else {entry.name: published_values(entry, published, bench) for entry in entries}
    workers = options.workers or usual_workers(bench.device)
    suite = Suite(
        bench=bench,
        entries=entries,
        executor=options.executor,
        workers=1 if options.executor == "inline" else workers,
        given=given,
        scheduler=options.scheduler or options.scheduler_file,
    )
    return with_images(suite, options) if decode else suite


def with_images(suite: Suite, options: SuiteOptions) -> Suite:
    """The suite once all its images are known to decode, with the cache that it reads, if it needs one.

    That they are not those of the published data set, or not all in the folder, is said first.

    Raises:
        DataError: if an image does not decode, or a cache that is needed cannot be made.
        Interrupted: if Ctrl-C has come.
    """
    leave_if_asked()
    bench = suite.bench
    if remark := remark_on(bench.index):
        say(remark, errors)
    if options.no_cache:
        check_decodes(bench.index)
        return suite
    cache = ready_images(bench.index, bench.protocol.transforms.resize_px, errors)
    return replace(suite, bench=replace(bench, cache=cache))


def _bench(options: SuiteOptions, protocol: Protocol) -> Bench:
    """The bench of a suite, its images not decoded yet."""
    index = load_dataset(options.data)
    return Bench(
        protocol=protocol,
        index=index,
        split=make_split(index.classes, protocol.folds, index.test_classes),
        artifacts=embeddings_folder(options.store),
        threads=options.threads,
        device=default_device(),
        cuda_graphs=options.cuda_graphs,
        search=options.search,
        keep_checkpoints=options.keep_checkpoints,
        rules=SearchRules(
            sampler=options.sampler,
            parallel_trials=options.parallel_trials,
            enqueue=options.enqueue,
            pruning=options.pruning,
            fork=options.fork,
        ),
    )


def run_suite(suite: Suite, store: Store, phases: Sequence[str], console: Console) -> dict[str, str]:
    """Run all methods; returns what went wrong, by method.

    Raises:
        Interrupted: after Ctrl-C, when what ran is stored; the same command goes on from there.
        ResultsError: if the database cannot take a trial or a record; `StoreUnavailable`, if it may do so later.
    """
    leave_if_asked()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    expected = {entry.name: expected_work(entry, suite.bench, phases) for entry in suite.entries}
    told = {entry.name: trials_told(entry, suite.bench, store, phases) for entry in suite.entries}
    checkpoints = checkpoints_folder(suite.bench.artifacts)
    bench = replace(suite.bench, checkpoints=checkpoints)  # jobs outside a suite have none
    executor = make_executor(suite.executor, bench, suite.workers, store, suite.scheduler)
    try:
        bars = SuiteProgress(expected, suite.bench.n_folds, console, told, suite.said)
        with interruptible(), database_errors(store), bars as progress:
            storage = open_trials(store)
            driver = Driver(bench, store, executor, progress)
            with stopped_by(driver.stop):
                return driver.run(suite.entries, storage, phases, suite.given)
    except KeyboardInterrupt:
        raise Interrupted from None
    except ClusterAway as error:
        say(str(error), console)
        raise Interrupted from None
    finally:
        executor.stop()
        if line := memory_text(executor.peak_memory):
            say(line, console)
        with suppress(OSError):  # it stays while something is in it
            checkpoints.rmdir()
