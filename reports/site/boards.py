"""One leaderboard: a result table with the rank of each method, its interval, and letters of who can be told apart.

Only complete means of methods that are no baseline are ranked, and runs of equal number are paired. What is published
stands apart and has no rank: those are other people's runs. Nor has what is external: its runs share no seeds.
"""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from reports.finals import Finals, Variant, finals_of
from reports.frame import Column
from reports.notes import is_external
from reports.site.intervals import Scale, scale
from reports.site.names import marked
from reports.statistics.ranks import FEWEST_TESTED, RankInterval, groups, rank_intervals
from reports.tables import Cell, Row, Table
from results.comparison import Comparison
from results.record import Identity, Record


@dataclass(frozen=True, kw_only=True)
class Board:
    """A result table, the records behind it, and where its rows stand."""

    table: Table
    records: tuple[Record, ...]
    ranks: Mapping[Column, Mapping[str, RankInterval]] = field(default_factory=dict)  # by column and label of a row
    letters: Mapping[Column, Mapping[str, str]] = field(default_factory=dict)

    @property
    def identity(self) -> Identity:
        """Protocol, data set and split in full, as one of the records has them."""
        return self.records[0].identity

    @property
    def comparison(self) -> Comparison:
        """The fingerprints of the table."""
        return self.table.comparison

    @cached_property
    def stem(self) -> str:
        """A part of file names and of addresses within a page."""
        return marked(f"{self.table.protocol_title}-{self.table.dataset_name}", *self.comparison)

    def anchor(self, row: Row) -> str:
        """Where a row stands on the page of its method; a method may have several, told apart by their labels."""
        return self.stem if row.method == row.name else marked(self.stem, *self.comparison, row.method)

    @property
    def is_tested(self) -> bool:
        """Whether there are runs enough to tell methods apart."""
        return any(self.letters.values())

    @property
    def columns(self) -> tuple[Column, ...]:
        """Each setting with each metric."""
        return tuple((setting, metric) for setting in self.table.settings for metric in self.table.metrics)

    @property
    def primary(self) -> Column:
        """What the board is ordered by at first."""
        return self.table.settings[0], self.table.primary_metric

    def ordered(self, *, baseline: bool) -> list[Row]:
        """Baselines or all others, from the best to the worst; those without a number last."""
        rows = [row for row in self.table.rows if row.baseline == baseline]
        return sorted(rows, key=lambda row: -_mean(row.cells[self.primary]))

    @cached_property
    def scales(self) -> dict[Column, Scale]:
        """The scale of each column."""
        return {column: self._scale(column) for column in self.columns}

    @cached_property
    def finals(self) -> dict[str, Finals]:
        """The final records of each row, by its label; none of a method whose search had no winner."""
        found = finals_of(self.records)
        return {row.method: found.get(self._variant(row), Finals()) for row in self.table.rows}

    def _variant(self, row: Row) -> Variant:
        return Variant(self.comparison, row.name, row.code, row.hyperparameters)

    def _scale(self, column: Column) -> Scale:
        cells = [(row.baseline, row.cells[column]) for row in self.table.rows]
        known = [(baseline, (cell.mean, cell.half_width)) for baseline, cell in cells if cell.mean is not None]
        trained = [interval for baseline, interval in known if not baseline]
        quoted = [row.cells[column].mean for row in self.table.quoted if column in row.cells]
        return scale(trained or [interval for _, interval in known], [mean for _, (mean, _) in known] + quoted)


def boards(tables: Iterable[Table], records: Iterable[Record]) -> list[Board]:
    """The boards of some tables and of the records that they were made of."""
    found: dict[Comparison, list[Record]] = {}
    for record in records:
        found.setdefault(record.identity.comparison, []).append(record)
    return [_board(table, tuple(found[table.comparison])) for table in tables]


def hyperparameters(row: Row) -> dict[str, float | int | str | bool]:
    """The hyper-parameters of a row by name."""
    found: dict[str, float | int | str | bool] = json.loads(row.hyperparameters or "{}")
    return found


def _board(table: Table, records: tuple[Record, ...]) -> Board:
    columns = [(setting, metric) for setting in table.settings for metric in table.metrics]
    values = {column: {} if is_external(table) else _values(table, column) for column in columns}
    ranks = {column: rank_intervals(found) for column, found in values.items()}
    if table.n_runs < FEWEST_TESTED:  # as in the table, nobody is told apart
        return Board(
            table=table, records=records, ranks={column: _without_interval(found) for column, found in ranks.items()}
        )
    letters = {column: groups(found) for column, found in values.items()}
    return Board(table=table, records=records, ranks=ranks, letters=letters)


def _without_interval(ranks: Mapping[str, RankInterval]) -> dict[str, RankInterval]:
    return {label: RankInterval(rank=one.rank, low=one.rank, high=one.rank) for label, one in ranks.items()}


def _values(table: Table, column: Column) -> dict[str, Mapping[int, float]]:
    """Run -> value of the rows that are ranked; where nothing is random, the one value stands for every run."""
    complete = [row for row in table.rows if not row.baseline and row.cells[column].complete]
    return {row.method: row.cells[column].for_runs(table.n_runs) for row in complete if row.cells[column].values}


def _mean(cell: Cell) -> float:
    return -1.0 if cell.mean is None else cell.mean
