"""The commands `mlrc data ...`: everything about a data set that needs no training."""

from pathlib import Path
from typing import Annotated

import typer

from benchmark.console import DONE, USAGE, console, errors, print_json, say, say_error
from benchmark.options import DATA_HELP, AsJson, Protocol, Settings

data_app = typer.Typer(
    help="List, fetch, check, prepare and split data sets.", no_args_is_help=True, rich_markup_mode=None
)


@data_app.command("list")
def data_list(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="One data set, in full.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the data sets that can be named, with their counts, terms, layouts, and whether they can be fetched."""
    from benchmark.commands.fetching import known_dataset, known_datasets
    from benchmark.commands.listings import details, table

    lines = [known_dataset(name)] if name else known_datasets()
    if as_json:
        print_json(lines)
    elif name:
        console.print(details({key: value for key, value in lines[0].items() if value not in (None, {})}))
    else:
        counted = [line | {name: f"{line[name]:,}" for name in ("classes", "images") if line[name]} for line in lines]
        console.print(table(counted, ("name", "title", "classes", "images", "fetch")))
        console.print("In full, with layouts and terms: mlrc data list NAME", highlight=False)


@data_app.command("fetch")
def data_fetch(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name from `mlrc data list`.")],
    to: Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder to fill; it is not there yet, or is empty.")],
    given: Annotated[
        list[str], typer.Option("--from", help="An address or a file to use instead; once for each file.")
    ] = [],  # noqa: B006
    checksums: Annotated[
        list[str], typer.Option("--checksum", help="MD5 or SHA-256 of a file that may be used; may be repeated.")
    ] = [],  # noqa: B006
    as_json: AsJson = False,
) -> None:
    """Download, verify and unpack a data set; run it again to go on after an interruption."""
    from benchmark.commands.fetching import FetchProgress, fetched_line, fetched_text
    from protocols.datasets.fetch import fetch

    with FetchProgress(errors) as progress:
        done = fetch(name, to, given, checksums, progress)
    if as_json:
        print_json(fetched_line(done))
    else:
        say(fetched_text(done))


@data_app.command("check")
def data_check(data: Annotated[str, typer.Argument(metavar="DATA", help=DATA_HELP)], as_json: AsJson = False) -> None:
    """Read every image of a data set; list what is damaged, doubled, lone, left out or unlike the published counts.

    Exit code 2: an image cannot be read, or a data set of the papers has other counts than the published ones.
    """
    from benchmark.commands.listings import dataset_line, details, shown_dataset
    from protocols.datasets import load_dataset

    found = dataset_line(load_dataset(data))
    if as_json:
        print_json(found)
    else:
        console.print(details(shown_dataset(found)))
        console.print("Every image can be read." if not found["unreadable"] else "Mend or remove what cannot be read.")
        if found["differs_from_published"]:
            console.print("The counts are not the published ones: an incomplete data set, or another one.")
    raise typer.Exit(USAGE if found["unreadable"] or found["differs_from_published"] else DONE)


@data_app.command("prepare")
def data_prepare(
    data: Annotated[str, typer.Argument(metavar="DATA", help=DATA_HELP)],
    protocol: Protocol = "mlrc",
    settings: Settings = [],  # noqa: B006
    to: Annotated[Path | None, typer.Option("--to", help="Folder; default: MLRC_CACHE or the user's cache.")] = None,
) -> None:
    """Decode every image once, at the size of a protocol, into one file that all runs read. It may be interrupted."""
    from benchmark.prepared import make_cache
    from protocols.catalogue import protocol_named
    from protocols.datasets import load_dataset
    from protocols.datasets.cache import cache_folder, cache_path
    from protocols.derive import derive

    resize_px, index = derive(protocol_named(protocol), settings).transforms.resize_px, load_dataset(data)
    path = cache_path(to.absolute() if to else cache_folder(), index, resize_px)
    made = make_cache(index, resize_px, path, errors)
    done = "Prepared" if made else "Already prepared"
    say(f"{done}: {path}")
    if to and path.parent != cache_folder():
        say_error(f"Runs look for it where MLRC_CACHE says: set it to {path.parent}")


@data_app.command("split")
def data_split(
    data: Annotated[str, typer.Argument(metavar="DATA", help=DATA_HELP)],
    protocol: Protocol = "mini",
    settings: Settings = [],  # noqa: B006
) -> None:
    """Print the class split that a protocol cuts, as JSON: which classes train, validate and test in each fold.

    It also says of which data set, and how many images each test class has, for `mlrc score --split`.
    """
    from benchmark.commands.listings import split_line
    from protocols.catalogue import protocol_named
    from protocols.datasets import load_dataset
    from protocols.derive import derive
    from protocols.splits import make_split

    folds, index = derive(protocol_named(protocol), settings).folds, load_dataset(data)
    print_json(split_line(make_split(index.classes, folds, index.test_classes), index))
