"""The command `mlrc figure`: analyses of what a store holds, drawn."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from benchmark.console import console, print_json, say, say_error
from benchmark.errors import BenchmarkError
from benchmark.options import DATA_HELP, DEFAULT_STORE, AsJson, StoreUrl
from benchmark.stores import open_store, refuse_unrecorded
from reports.errors import ReportError

if TYPE_CHECKING:
    from reports.analyses.drawing import Gallery

figure_app = typer.Typer(rich_markup_mode=None)


@figure_app.command("figure")
def draw_figure(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="One of the figures; without it they are listed.")
    ] = None,
    store: StoreUrl = DEFAULT_STORE,
    method: Annotated[str | None, typer.Option("--method", "-m", help="Of this method alone.")] = None,
    data: Annotated[str | None, typer.Option("--data", "-d", help=f"For test embeddings: {DATA_HELP}")] = None,
    tsne: Annotated[bool, typer.Option("--tsne", help="embedding-map: t-SNE instead of principal components.")] = False,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for PNG, SVG and CSV.")] = Path("runs/figures"),
    as_json: AsJson = False,
) -> None:
    """Draw an analysis of what a store holds, with the numbers behind it; without a NAME, list the figures."""
    from reports.analyses.catalogue import FIGURES
    from reports.save import save_drawings
    from results.whole_file import check_folder

    if name is None:
        _show_figures([{"name": key, "shows": found.shows} for key, found in FIGURES.items()], as_json)
        return
    check_folder(out)
    drawn = _gallery(name, store, method, data, tsne)
    for reason in drawn.left_out:
        say_error(f"left out: {reason}")
    paths = [str(path) for path in save_drawings(name, drawn.drawings, out)]
    if as_json:
        print_json(paths)
    else:
        say("\n".join(f"written: {path}" for path in paths))


def _gallery(name: str, store: str, method: str | None, data: str | None, tsne: bool) -> "Gallery":
    """The pictures of a figure from a store; all that can be refused at once is refused first."""
    from benchmark.training.embeddings import load_embeddings, stored_place
    from reports.analyses.catalogue import FromRecords, figure_named

    found = figure_named(name)
    if tsne and name != "embedding-map":
        raise ReportError(f"--tsne goes with embedding-map; leave it out for {name}.")
    if data is not None and isinstance(found, FromRecords):
        raise ReportError(f"{name} is drawn from records alone; leave --data out.")
    with open_store(store, must_exist=True) as opened:
        refuse_unrecorded(opened, [method] if method is not None else [])
        if isinstance(found, FromRecords):
            return found.draw(opened.records(method=method, purpose=found.purpose))
        records, place = opened.records(kind="fold", method=method, purpose="final"), stored_place(opened, store)
    if data is None:
        raise BenchmarkError(f"{name} is drawn from test embeddings; name the data set that they are of with --data.")

    from benchmark.commands.held_out import fold_models, held_out_images
    from protocols.datasets import load_dataset
    from reports.analyses.embedded import Embedded

    index = load_dataset(data)
    models = fold_models(records, index)
    embedded = Embedded(models, held_out_images(models, index), partial(load_embeddings, place))
    return found.draw(embedded, tsne=True) if tsne else found.draw(embedded)


def _show_figures(lines: Sequence[dict[str, str]], as_json: bool) -> None:
    from benchmark.commands.listings import table

    if as_json:
        print_json(lines)
    else:
        console.print(table(lines, ("name", "shows")))
