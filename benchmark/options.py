"""The options of the command line, each written once: their types, flags and help."""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

DEFAULT_STORE = "sqlite:///runs/mlrc.db"
DATA_HELP = (
    "shapes:shifted, shapes:centred, a folder of images, or a data set of the papers with its folder: cub200:PATH, "
    "cars196:PATH, sop:PATH, inshop:PATH, inaturalist2019:PATH, mnist:PATH."
)

Methods = Annotated[
    list[str],
    typer.Argument(metavar="METHOD...", help="Names from `mlrc methods`, pml:Name, or path/to/file.py:ClassName."),
]
Protocol = Annotated[str, typer.Option("--protocol", "-p", help="A name from `mlrc protocols`.")]
Data = Annotated[str, typer.Option("--data", "-d", help=DATA_HELP)]
Settings = Annotated[
    list[str], typer.Option("--set", help="field=value: a derived protocol, with its own name and fingerprint.")
]
Weights = Annotated[
    Path | None, typer.Option("--weights", help="The trunk's weight file; its hash must be the protocol's.")
]
NoCache = Annotated[bool, typer.Option("--no-cache", help="Decode images at each use; the results are the same.")]
Search = Annotated[
    Literal["torch", "faiss"], typer.Option("--search", help="What finds the neighbours; the results are the same.")
]
KeepCheckpoints = Annotated[
    bool,
    typer.Option(
        "--keep-checkpoints",
        help="Keep the best weights of each final run's folds, STORE.checkpoints/<job id>.best.pt: a state_dict for "
        "torch.load(path, weights_only=True).",
    ),
]
StoreUrl = Annotated[str, typer.Option("--store", help="A SQLite file or a database URL.")]
ExecutorName = Annotated[str, typer.Option("--executor", help="processes or inline.")]
Workers = Annotated[int | None, typer.Option("--workers", "-w", help="Worker processes; default: one a core.")]
Threads = Annotated[int, typer.Option("--threads", help="Torch threads of one job; may change the last bits.")]
Published = Annotated[
    str | None,
    typer.Option("--published", metavar="KEY", help="A paper's values instead of a search: mlrc:cub200, ccp:sop, ..."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
Out = Annotated[
    Path | None, typer.Option("--out", "-o", help="Folder for tables (Markdown, CSV) and plots (PNG, SVG).")
]


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
    weights: Weights = None  # the trunk's file, where it is not in its usual place
    search: Search = "torch"
    no_cache: NoCache = False  # True: nor is it remembered which images decode
    keep_checkpoints: KeepCheckpoints = False


def with_suite_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command as Typer reads it: its first parameter, `options`, becomes one parameter for each field."""
    own = list(signature(command).parameters.values())[1:]
    names = [item.name for item in fields(SuiteOptions)]
    shared = list(signature(SuiteOptions).parameters.values())
    for place, item in enumerate(shared):
        if item.name == "settings":  # a default that its class makes anew for each; Typer wants to be told it
            shared[place] = item.replace(default=[])

    @wraps(command)
    def flat(**given: Any) -> None:
        command(SuiteOptions(**{name: given.pop(name) for name in names}), **given)

    parameters = [item.replace(kind=Parameter.KEYWORD_ONLY) for item in (*shared, *own)]
    flat.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
    flat.__annotations__ = {item.name: item.annotation for item in parameters}
    return flat
