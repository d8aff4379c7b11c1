"""The command `mlrc new-loss`: a loss of one's own to start from."""

from pathlib import Path
from typing import Annotated

import typer

from benchmark.console import print_json, say
from benchmark.options import AsJson

scaffold_app = typer.Typer(rich_markup_mode=None)


@scaffold_app.command("new-loss")
def write_new_loss(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Of its class, such as SoftMargin; the file is soft_margin.py.")
    ],
    out: Annotated[Path, typer.Option("--out", "-o", help="The folder to write in.")] = Path(),
    as_json: AsJson = False,
) -> None:
    """Write a loss that works as it is, with its search space, and a test that passes."""
    from benchmark.scaffold import new_loss

    found = new_loss(name, out)
    if as_json:
        print_json({"loss": str(found.loss), "test": str(found.test), "method": found.method})
        return
    small = "--set max_steps=200 --set n_trials=2 --set n_runs=5"  # the same in both: compare takes what run made
    lines = (
        f"written: {found.loss}",
        f"written: {found.test}",
        "",
        f"  python -m pytest {found.test}",
        f"  mlrc run {found.method} {small}",
        f"  mlrc compare {found.method} --against contrastive {small}",
    )
    say("\n".join(lines))
