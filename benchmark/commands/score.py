"""The command `mlrc score`: metrics of anybody's embeddings, by the same code that scores the final runs."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from benchmark.console import console, print_json, say
from benchmark.options import DEFAULT_STORE, AsJson, Search, StoreUrl
from benchmark.stores import open_store

if TYPE_CHECKING:
    from benchmark.exchange.score import Given, Scores
    from protocols.metrics import Evaluation
    from results.record import Identity

MANY = ("--embeddings", "--gallery-embeddings", "--recall-at")  # options that take all values up to the next option

score_app = typer.Typer(rich_markup_mode=None)


class ManyValues(TyperCommand):
    """A command whose options in `MANY` may be given several values at once: `--embeddings a.npy b.npy`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Repeat the option before each further value, as Typer wants it."""
        spread: list[str] = []
        option, n_values = "", 0
        for given in args:
            if given.startswith("--"):
                option, sign, _ = given.partition("=")
                n_values = len(sign)
            elif option in MANY:
                n_values += 1
                spread += [option] if n_values > 1 else []
            spread.append(given)
        return super().parse_args(ctx, spread)


@score_app.command("score", cls=ManyValues)
def score_embeddings(
    embeddings: Annotated[
        list[Path],
        typer.Option(help="A file for each fold model, (N, D): .npy, .npz, .csv, .tsv or .parquet.", metavar="FILE..."),
    ],
    labels: Annotated[Path, typer.Option(help="The N labels, whole numbers or names, in a file of the same kinds.")],
    gallery_embeddings: Annotated[
        list[Path],
        typer.Option(help="What the queries search, where it is not they themselves; a file each.", metavar="FILE..."),
    ] = [],  # noqa: B006
    gallery_labels: Annotated[Path | None, typer.Option(help="The labels of the gallery.")] = None,
    split: Annotated[
        Path | None, typer.Option(help="From mlrc data split: the labels must be its test classes, image by image.")
    ] = None,
    recall_at: Annotated[list[int], typer.Option(help="Recall@K, too.", metavar="K...")] = [],  # noqa: B006
    name: Annotated[
        str | None, typer.Option(help="What to call it; default: the first file and a hash of its content.")
    ] = None,
    run: Annotated[int, typer.Option(help="Which of several runs it is.", min=1)] = 1,
    n_runs: Annotated[int, typer.Option(help="Of how many runs.", min=1, max=1000)] = 1,
    no_store: Annotated[bool, typer.Option("--no-store", help="Print the scores, and keep nothing.")] = False,
    store: StoreUrl = DEFAULT_STORE,
    search: Search = "torch",
    as_json: AsJson = False,
) -> None:
    """Score embeddings of any origin, each fold model's and all side by side; stored as external, not audited."""
    from benchmark.bench import default_device
    from benchmark.exchange.external import about, check_name, check_ranks, external_records, identity, keep
    from benchmark.exchange.score import read_given, score

    check_name(name, run, n_runs)
    check_ranks(recall_at)
    given = read_given(embeddings, labels, gallery_embeddings, gallery_labels)
    of, ranks, device = about(given, split), sorted(set(recall_at)), default_device()
    called = name or f"{embeddings[0].stem}-{given.content_hash[:6]}"
    who = identity(given, of, called, run, n_runs, ranks)
    scores = score(given, ranks, search, device)
    records = external_records(given, scores, who, embeddings, device)
    is_new = None
    if not no_store:
        with open_store(store) as opened:
            is_new = keep(records, opened)
    if as_json:
        print_json(_line(given, scores, who, is_new))
        return
    _show(given, scores, who)
    if is_new is not None:
        found = "Stored" if is_new else "Already stored"
        say(f"{found} as run {run} of {who.method!r}: external, not audited; mlrc report has it in a table of its own.")


def _line(given: "Given", scores: "Scores", who: "Identity", is_new: bool | None) -> dict[str, Any]:
    from dataclasses import asdict

    from protocols.metrics import DEFINITION
    from results.external import NOTE

    return {
        "method": who.method,
        "run": who.run,
        "audited": False,
        "note": NOTE,
        "protocol": {"title": who.protocol["title"], "digest": who.protocol["digest"]},
        "dataset": dict(who.dataset),
        "split": dict(who.split),
        "n_folds": len(scores.separated),
        "embedding_dim": given.width,
        "separated": scores.means,
        "folds": [asdict(found) for found in scores.separated],
        "concatenated": asdict(scores.concatenated) if scores.concatenated else None,
        "peak_memory_bytes": _peak(),
        "definition": DEFINITION,
        "stored": is_new is not None,
    }


def _show(given: "Given", scores: "Scores", who: "Identity") -> None:
    from benchmark.commands.listings import table
    from reports.headings import metric_heading
    from results.external import NOTE

    rows: list[tuple[str, dict[str, float]]] = []
    n_folds = len(scores.separated)
    if scores.concatenated:
        rows.append((f"concatenated ({n_folds * given.width}-D)", scores.concatenated.metrics))
        rows.append((f"separated ({given.width}-D, mean of {n_folds})", scores.means))
    rows += [(f"  fold {number}", found.metrics) for number, found in enumerate(scores.separated)]
    names = list(scores.means)
    lines = [
        {"": title, **{metric_heading(name): f"{100 * metrics[name]:.2f}" for name in names}} for title, metrics in rows
    ]
    say(f"{who.method}: {NOTE}")
    say(f"Data set {who.dataset['name']} ({who.dataset['content_hash'][:12]}), {who.split['kind']} split")
    console.print(table(lines, ["", *map(metric_heading, names)]))
    for line in _notes(scores.concatenated or scores.separated[0], scores.separated):
        say(line)


def _notes(shown: "Evaluation", all_: "Sequence[Evaluation]") -> Iterator[str]:
    """What the numbers are over, and what they took. The metrics are defined below the tables of `mlrc report`."""
    from protocols.datasets.files import size_text
    from reports.evaluated import words

    audit = shown.audit
    yield f"Percent. {words(audit.queries, audit.left_out, audit.smallest_r, audit.largest_r)}."
    ties = " + ".join(f"{found.audit.tied_queries:,}" for found in all_)
    yield f"Queries decided by the tie rule (smaller reference index first), by fold: {ties}."
    yield f"Memory at its most: {size_text(_peak())}, of which similarities {size_text(audit.buffer_bytes)}."


def _peak() -> int:
    from benchmark.bench import default_device
    from benchmark.memory import peak_memory_bytes

    return peak_memory_bytes(default_device())
