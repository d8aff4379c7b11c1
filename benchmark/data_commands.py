"""The commands `mlrc data ...`: everything about a data set that needs no training."""

import sys
from typing import Annotated

import typer

from benchmark.console import DONE, USAGE, console, print_json
from benchmark.options import DATA_HELP, AsJson, Protocol, Settings

data_app = typer.Typer(help="Look at data sets.", no_args_is_help=True, rich_markup_mode=None)


@data_app.command("check")
def data_check(data: Annotated[str, typer.Argument(help=DATA_HELP)], as_json: AsJson = False) -> None:
    """Read every image of a data set; list what is damaged, doubled, lone, left out or unlike the published counts."""
    from benchmark.listings import dataset_line, details
    from protocols.datasets import load_dataset

    found = dataset_line(load_dataset(data))
    if as_json:
        print_json(found)
    else:
        console.print(details({name: value for name, value in found.items() if value not in (None, [], {})}))
        console.print("Every image can be read." if not found["unreadable"] else "Mend or remove what cannot be read.")
    raise typer.Exit(USAGE if found["unreadable"] else DONE)


@data_app.command("split")
def data_split(
    data: Annotated[str, typer.Argument(help=DATA_HELP)],
    protocol: Protocol = "mini",
    settings: Settings = [],  # noqa: B006
) -> None:
    """Print the class split that a protocol cuts, as JSON: which classes train, validate and test in each fold."""
    from protocols.catalogue import protocol_named
    from protocols.datasets import load_dataset
    from protocols.derive import derive
    from protocols.splits import make_split

    folds, index = derive(protocol_named(protocol), settings).folds, load_dataset(data)
    sys.stdout.write(make_split(index.classes, folds, index.test_classes).to_json() + "\n")
