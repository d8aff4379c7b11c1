"""What stands below a result table: definitions, ties, runs, intervals, order, and what may move its numbers."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from reports.headings import definitions, metric_heading, printable
from reports.published_sizes import other_images
from reports.statistics.ranks import FEWEST_TESTED, LEVEL
from results import external
from results.reference.published import PAPERS
from results.repeats import ONE_EMBEDDING, ONE_RUN

if TYPE_CHECKING:
    from reports.tables import QuotedRow, Table

FEW = 5  # runs: below, a paired test of several methods sees large differences alone; or rows to be named
QUOTED_NOTE = (
    "With a source in brackets: as published, other people's runs; neither tested nor ordered among ours. "
    "Runs: ? where the paper does not say."
)
ON_FEATURES = ONE_RUN - ONE_EMBEDDING | {"itml", "mmc"}  # of the frozen trunk
ON_FEATURES_NOTE = (
    "Not trained, the trunk is frozen: pretrained (its features by PCA, fitted on the test images; one run of one "
    "model) and the linear metrics euclidean, whitened, within-class, nca, lmnn (one run: nothing is random), itml and "
    "mmc, on its features or, where its weights are random, on the image itself."
)
SPLIT_NOTES = {
    "wrapped": "Wrapped split: a few train classes may be in no fold's validation part.",
    "holdout": "Holdout split: the train classes that validate, and so pick the best step, are not trained on.",
}
DATASET_NOTES = {  # by standard name: a folder may be called anything
    "cub200": "CUB-200-2011: its authors warn that some of its images are in ImageNet too; a pretrained trunk may have "
    "seen test images.",
}
CUT_NOTES = {  # by standard name
    "sop": "Stanford Online Products is cut by its official lists, into 11,318 and 11,316 classes; the reality check's "
    "figures are of halves, 11,317 each.",
}


def warning(table: "Table") -> str:
    """In what the records behind the numbers differ beside the method; "" where they were made alike."""
    differing = "; ".join(printable(line) for line in table.origins)
    return f"Not made alike, which can move numbers: {differing}." if differing else ""


def footer(table: "Table") -> list[str]:
    """What a reader needs to know of the numbers, a line for each."""
    evaluated = f" Here: {table.evaluated}." if table.evaluated else ""
    others = other_images(table)
    return [
        f"Metrics version {table.metrics_version}.",
        *definitions(table.metrics),
        f"R: images of the query's class other than the query; queries with R = 0 are left out.{evaluated} "
        "Equal distances: smaller reference index first.",
        _interval(table),
        _settings(table),
        *([ON_FEATURES_NOTE] if any(row.name in ON_FEATURES for row in table.rows) else []),
        *([SPLIT_NOTES[table.split_kind]] if table.split_kind in SPLIT_NOTES else []),
        *(notes[table.standard_name] for notes in (DATASET_NOTES, CUT_NOTES) if table.standard_name in notes),
        *([f"Not the published data set: {others}; no published figure is of it."] if others else []),
        *(
            [f"Not searched, run with its own defaults: {', '.join(table.unsearched)}."]
            if table.unsearched and not is_external(table)
            else []
        ),
        *([f"Not searched, run with published values: {', '.join(table.published)}."] if table.published else []),
        f"Order: baselines, then ascending {'separated ' if table.n_folds > 1 else ''}"
        f"{metric_heading(table.primary_metric)}. {bold_note(table)}",
        *_quoted(table.quoted),
    ]


def is_external(table: "Table") -> bool:
    """Whether its numbers are of embeddings that somebody brought."""
    return table.protocol_title == external.TITLE


def _interval(table: "Table") -> str:
    runs = "1 run" if table.n_runs == 1 else f"{table.n_runs} runs"
    return f"Percent: mean ± half width of the 95 % Student t-interval over {runs} (one run has none). " + (
        external.RUNS_NOTE if is_external(table) else "Runs differ by seed only; all methods share the seeds."
    )


def _settings(table: "Table") -> str:
    if table.n_folds == 1:
        return "A run is one model; nothing is concatenated. pixels: the images themselves, one run."
    return (
        f"Separated: mean over the {table.n_folds} fold models of a run. Concatenated: their embeddings side by "
        "side. pixels: the images themselves, one run, the same in both."
    )


def bold_note(table: "Table") -> str:
    """What bold stands for, or why nothing is bold."""
    n_runs = table.n_runs
    if is_external(table):
        return "Nothing is bold: without shared seeds nothing is tested."
    if n_runs < FEWEST_TESTED:
        return f"Nothing is bold: below {FEWEST_TESTED} runs no method can be told from the best."
    return (
        "Bold: the highest mean of the trained methods, and those that are not distinguishable from it (paired t-test "
        f"over runs, {100 * LEVEL:.0f} %, Holm-corrected); none where the highest lacks runs."
        + (f" With {n_runs} runs little can be told apart." if n_runs < FEW else "")
    )


def _quoted(rows: "Iterable[QuotedRow]") -> list[str]:
    """A line for each paper and protocol, after one for all."""
    groups: dict[tuple[str, str, str], list[QuotedRow]] = {}
    for row in rows:
        groups.setdefault((row.source, row.table, row.protocol), []).append(row)
    lines = []
    for (source, where, protocol), found in groups.items():
        which = ", ".join(row.method for row in found) + " " if len(found) < FEW else ""
        same = "this protocol" if found[0].same_protocol else "not this protocol"
        same = same if found[0].same_images else "other images"
        lines.append(f"{which}[{source}]: {PAPERS.get(source, source)}, {where}; {protocol}, {same}.")
    return [*([QUOTED_NOTE] if lines else []), *lines]
