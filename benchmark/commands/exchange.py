"""The commands `mlrc export` and `mlrc import`: how results travel between stores and groups."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from benchmark.console import print_json, say, say_error
from benchmark.options import DEFAULT_STORE, AsJson, StoreUrl
from benchmark.stores import open_store

if TYPE_CHECKING:
    from results.exchange.export import Export

exchange_app = typer.Typer(rich_markup_mode=None)


@exchange_app.command("export")
def export_results(
    out: Annotated[
        Path, typer.Argument(metavar="FOLDER", help="The folder for the files; those of the same name are replaced.")
    ],
    method: Annotated[list[str], typer.Option("--method", "-m", help="Of this method alone; may be repeated.")] = [],  # noqa: B006
    embeddings: Annotated[
        bool, typer.Option("--embeddings", help="Test embeddings too: NumPy files in a folder beside each file.")
    ] = False,
    store: StoreUrl = DEFAULT_STORE,
    as_json: AsJson = False,
) -> None:
    """Write results as self-contained JSON, one file for each method, data set, split and protocol."""
    from benchmark.exchange.files import export_store

    with open_store(store, must_exist=True) as opened:
        written = export_store(opened, store, out, method, embeddings)
    _say_left_out(written.left_out)
    lines = _lines(written.files)
    if as_json:
        print_json({"files": lines, "left_out": list(written.left_out)})
        return
    for line in lines:
        n_embeddings = f", {_files(line['embeddings'])}" if embeddings else ""
        say(f"written: {line['file']} ({_records(line['records'])}, {_searches(line['searches'])}{n_embeddings})")


@exchange_app.command("import")
def import_results(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH", help="Exports, or folders of them.")],
    store: StoreUrl = DEFAULT_STORE,
    as_json: AsJson = False,
) -> None:
    """Check exports and take them into a store: all of them, or nothing where one is damaged or contradicts."""
    from benchmark.exchange.files import import_exports

    taken = import_exports(paths, store)
    _say_left_out(taken.left_out)
    merged, lines = taken.merged, _lines(taken.files)
    if as_json:
        print_json(
            {
                "files": lines,
                "records": {"new": merged.n_new, "known": merged.n_known, "duplicates": taken.n_duplicates},
                "searches": merged.n_searches,
                "embeddings": taken.n_embeddings,
                "left_out": list(taken.left_out),
            }
        )
        return
    for line in lines:
        known = "published" if line["published"] else "its values are in the file"
        say(f"read: {line['file']} ({_records(line['records'])}; protocol {line['protocol']}: {known})")
    counts = [
        f"{merged.n_new} new record{'s' if merged.n_new != 1 else ''}",
        f"{merged.n_known} known before",
        *([f"{taken.n_duplicates} in several files"] if taken.n_duplicates else []),
        _searches(merged.n_searches),
        *([_files(taken.n_embeddings)] if taken.n_embeddings else []),
    ]
    say(f"Taken: {', '.join(counts)}.")


def _records(number: int) -> str:
    return f"{number} record{'s' if number != 1 else ''}"


def _searches(number: int) -> str:
    return f"{number} search{'es' if number != 1 else ''}"


def _files(number: int) -> str:
    return f"{number} file{'s' if number != 1 else ''} of embeddings"


def _lines(files: "Mapping[Path, Export]") -> list[dict[str, Any]]:
    from benchmark.exchange.files import is_published

    lines = []
    for path, export in files.items():
        identity = export.records[0].identity
        lines.append(
            {
                "file": str(path),
                "method": identity.method,
                "protocol": identity.protocol["title"],
                "protocol_digest": identity.protocol["digest"],
                "published": is_published(identity),
                "dataset": identity.dataset["name"],
                "dataset_hash": identity.dataset["content_hash"],
                "split_digest": identity.split["digest"],
                "records": len(export.records),
                "searches": len(export.studies),
                "embeddings": len(export.embeddings),
            }
        )
    return lines


def _say_left_out(reasons: Iterable[str]) -> None:
    for reason in reasons:
        say_error(f"left out: {reason}")
