"""The options of the command line and of a suite file, each written once: their types, flags and help.

A mark beside the flag says what a suite file has to know: that a value may name a file (`benchmark.places`), or that it
changes no number (`HOW_IT_RUNS`), so that a suite of one name may have another.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from functools import wraps
from inspect import Parameter, Signature, signature
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from benchmark.errors import BenchmarkError
from benchmark.places import beside, data_beside, method_beside, store_beside
from benchmark.search.rules import Sampler
from protocols.catalogue import protocol_named
from protocols.derive import derive

DEFAULT_STORE = "sqlite:///runs/mlrc.db"
DATA_HELP = (
    "shapes:shifted, shapes:centred, a folder of images, or a data set of the papers with its folder: cub200:PATH, "
    "cars196:PATH, sop:PATH, inshop:PATH, inaturalist2019:PATH, mnist:PATH."
)

HOW_IT_RUNS = "how it runs"  # the mark of an option that is no part of what a suite is

Methods = Annotated[
    list[str],
    typer.Argument(
        metavar="METHOD",
        help="Names from `mlrc methods`, pml:Name, or path/to/file.py:ClassName; or a suite file, suite.toml.",
    ),
    method_beside,
]
Protocol = Annotated[str, typer.Option("--protocol", "-p", help="A name from `mlrc protocols`.")]
Data = Annotated[str, typer.Option("--data", "-d", help=DATA_HELP), data_beside]
Settings = Annotated[
    list[str], typer.Option("--set", help="field=value: a derived protocol, with its own name and fingerprint.")
]
Weights = Annotated[
    Path | None,
    typer.Option("--weights", help="The trunk's weight file; its hash must be the protocol's."),
    beside,
    HOW_IT_RUNS,
]
NoCache = Annotated[
    bool,
    typer.Option(
        "--no-cache",
        help="Neither read nor make decoded images on disk: each process decodes, and keeps 512 MiB of resized images "
        "and as much of input tensors at most; the results are the same.",
    ),
    HOW_IT_RUNS,
]
Search = Annotated[
    Literal["torch", "faiss"],
    typer.Option("--search", help="What finds the neighbours; the results are the same."),
    HOW_IT_RUNS,
]
KeepCheckpoints = Annotated[
    bool,
    typer.Option(
        "--keep-checkpoints",
        help="Keep the best weights of each final run's folds, STORE.checkpoints/<job id>.best.pt: a state_dict for "
        "torch.load(path, weights_only=True).",
    ),
    HOW_IT_RUNS,
]
StoreUrl = Annotated[str, typer.Option("--store", help="A SQLite file or a database URL."), store_beside, HOW_IT_RUNS]
Artifacts = Annotated[
    str | None,
    typer.Option(
        "--artifacts",
        help="Where test embeddings go: a folder that all hosts see, s3://BUCKET/PREFIX or gs://BUCKET/PREFIX. "
        "Default: beside the store, which remembers another place.",
    ),
    beside,
    HOW_IT_RUNS,
]
SuiteName = Annotated[
    str | None,
    typer.Option("--name", help="A name for the suite; in one store, it always stands for the same suite."),
    HOW_IT_RUNS,
]
ExecutorName = Annotated[str, typer.Option("--executor", help="processes, inline or dask."), HOW_IT_RUNS]
Workers = Annotated[
    int | None,
    typer.Option("--workers", "-w", help="Worker processes; default: one a core, or one a GPU."),
    HOW_IT_RUNS,
]
Scheduler = Annotated[
    str | None,
    typer.Option("--scheduler", help="With --executor dask: tcp://HOST:PORT of a running cluster."),
    HOW_IT_RUNS,
]
SchedulerFile = Annotated[
    Path | None,
    typer.Option("--scheduler-file", help="With --executor dask: the file that its scheduler wrote."),
    beside,
    HOW_IT_RUNS,
]
Threads = Annotated[int, typer.Option("--threads", help="Torch threads of one job; may change the last bits.")]
CudaGraphs = Annotated[
    bool,
    typer.Option(
        "--cuda-graphs",
        help="On a CUDA device, launch the network's part of a training step at once; told in the record.",
    ),
]
SearchSampler = Annotated[
    Sampler | None,
    typer.Option("--sampler", help="Of searches, in place of the protocol's; grid: a finite space, point by point."),
]
ParallelTrials = Annotated[
    int, typer.Option("--parallel-trials", help="Trials of one search that run at once and are told together.")
]
Enqueue = Annotated[
    Literal["published"] | None,
    typer.Option("--enqueue", help="published: searches begin with the values that papers publish for the method."),
]
Pruning = Annotated[
    bool, typer.Option("--pruning", help="Give a trial up when its first folds are worse than those of the best.")
]
Fork = Annotated[
    bool,
    typer.Option(
        "--fork", help="Where a search began over another space or by other rules, begin a new one beside it."
    ),
    HOW_IT_RUNS,
]
Published = Annotated[
    str | None,
    typer.Option("--published", metavar="KEY", help="A paper's values instead of a search: mlrc:cub200, ccp:sop, ..."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
Out = Annotated[
    Path | None,
    typer.Option("--out", "-o", help="Folder for tables (Markdown, CSV, LaTeX, HTML) and plots (PNG, SVG)."),
    beside,
    HOW_IT_RUNS,
]


def refuse_empty(arguments: Sequence[str]) -> None:
    """Refuse a word that is empty, as an unset variable of a script leaves it: as a path, it would be this folder.

    Raises:
        BenchmarkError: with the option, or the word before it.
    """
    for before, given in pairwise(("mlrc", *arguments)):
        option, sign, value = given.partition("=")
        if not given.strip() or (option.startswith("--") and sign and not value.strip()):
            named = option.strip() or (before if before.startswith("-") else f"what follows {before!r:.60}")
            raise BenchmarkError(f"{named} is empty, perhaps of an unset variable; give it a value, or leave it out.")


@dataclass(frozen=True)
class SuiteOptions:
    """What the commands `run`, `search`, `finals` and `demo` have in common; each field is an option of theirs."""

    methods: Methods
    protocol: Protocol = "mini"
    data: Data = "shapes:shifted"
    settings: Settings = field(default_factory=list)
    store: StoreUrl = DEFAULT_STORE
    executor: ExecutorName = "processes"
    workers: Workers = None  # None: one a core
    threads: Threads = 1  # of one job; not derived from the workers, so that these never change a bit of a result
    cuda_graphs: CudaGraphs = False
    weights: Weights = None  # the trunk's file, where it is not in its usual place
    search: Search = "torch"
    no_cache: NoCache = False  # True: nor is it remembered which images decode
    keep_checkpoints: KeepCheckpoints = False
    sampler: SearchSampler = None  # the protocol's
    parallel_trials: ParallelTrials = 1
    enqueue: Enqueue = None
    pruning: Pruning = False
    fork: Fork = False
    artifacts: Artifacts = None  # beside the store
    name: SuiteName = None
    scheduler: Scheduler = None
    scheduler_file: SchedulerFile = None


def with_suite_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command as Typer reads it: its first parameter, `options`, becomes one parameter for each field.

    A suite file among the methods is read here: what it says holds where the command line says nothing.
    """
    own = list(signature(command).parameters.values())[1:]
    names = [item.name for item in fields(SuiteOptions)]
    shared = list(signature(SuiteOptions).parameters.values())
    for place, item in enumerate(shared):
        if item.name == "settings":  # a default that its class makes anew for each; Typer wants to be told it
            shared[place] = item.replace(default=[])

    @wraps(command)
    def flat(context: typer.Context, **given: Any) -> None:
        if any(name.endswith(".toml") for name in given["methods"]):
            from benchmark.commands.suite_file import with_suite_file

            typed = {name for name in given if getattr(context.get_parameter_source(name), "name", "") == "COMMANDLINE"}
            given = with_suite_file(given, typed)
        options = SuiteOptions(**{name: given.pop(name) for name in names})
        derive(protocol_named(options.protocol), options.settings)  # a typo is answered before torch is imported
        command(options, **given)

    parameters = [item.replace(kind=Parameter.KEYWORD_ONLY) for item in (*shared, *own)]
    asked = Parameter("context", Parameter.KEYWORD_ONLY, annotation=typer.Context)
    return with_parameters(flat, [asked, *parameters])


def with_parameters(command: Callable[..., None], parameters: Sequence[Parameter]) -> Callable[..., None]:
    """The command, which Typer takes to have these parameters, in this order."""
    command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {item.name: item.annotation for item in parameters}
    return command
