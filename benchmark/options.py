"""The options of the command line, each written once: their types, flags and help."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

DEFAULT_STORE = "sqlite:///runs/mlrc.db"
DATA_HELP = (
    "shapes:shifted, shapes:centred, a folder of images, or a data set of the papers with its folder: cub200:PATH, "
    "cars196:PATH, sop:PATH, inshop:PATH, inaturalist2019:PATH."
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
StoreUrl = Annotated[str, typer.Option("--store", help="A SQLite file or a database URL.")]
ExecutorName = Annotated[str, typer.Option("--executor", help="processes or inline.")]
Workers = Annotated[int | None, typer.Option("--workers", "-w", help="Worker processes; default: one a core.")]
Threads = Annotated[int, typer.Option("--threads", help="Torch threads of one job; may change the last bits.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on standard output.")]
Out = Annotated[
    Path | None, typer.Option("--out", "-o", help="Folder for tables (Markdown, CSV) and plots (PNG, SVG).")
]


@dataclass(frozen=True)
class SuiteOptions:
    """What the commands `run`, `search`, `finals` and `demo` have in common."""

    methods: Sequence[str]
    protocol: str = "mini"
    data: str = "shapes:shifted"
    settings: Sequence[str] = ()
    store: str = DEFAULT_STORE
    executor: str = "processes"
    workers: int | None = None  # None: one a core
    threads: int = 1  # of one job; not derived from the workers, so that these never change a bit of a result
