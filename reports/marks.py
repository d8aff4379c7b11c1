"""Which cells of a column are bold: the best trained method and those that cannot be told from it."""

from collections.abc import Sequence
from dataclasses import replace

from reports.frame import Column
from reports.statistics.ranks import FEWEST_TESTED, same_as_best
from reports.tables import Row


def with_best(rows: Sequence[Row], n_runs: int) -> list[Row]:
    """The rows with `best` set in their cells.

    A column that an incomplete mean leads has no mark, and other incomplete means are not tested: which runs a method
    lacks is rarely chance. Where nothing is random in a method, its one value stands for every run.
    """
    columns = dict.fromkeys(column for row in rows for column in row.cells)
    best = {column: _best(rows, column, n_runs) for column in columns}
    return [
        replace(row, cells={column: replace(cell, best=place in best[column]) for column, cell in row.cells.items()})
        for place, row in enumerate(rows)
    ]


def _best(rows: Sequence[Row], column: Column, n_runs: int) -> set[int]:
    """The places of the rows to be marked in one column."""
    trained = {
        place: cell
        for place, row in enumerate(rows)
        if not row.baseline and (cell := row.cells.get(column)) is not None and cell.mean is not None
    }
    if n_runs < FEWEST_TESTED or not trained:
        return set()
    if not max(trained.values(), key=lambda cell: cell.mean or 0.0).complete:
        return set()
    values = {str(place): cell.for_runs(n_runs) for place, cell in trained.items() if cell.complete}
    return {int(place) for place in same_as_best(values)}
