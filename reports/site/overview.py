"""The first page: methods by data sets, one matrix for each protocol."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from reports.frame import BASELINES, Setting
from reports.headings import metric_heading
from reports.notes import bold_note
from reports.site.boards import Board
from reports.site.names import file_stem
from reports.statistics.ranks import interquartile_mean
from reports.tables import Cell, Row

SHADES = 5


@dataclass(frozen=True, kw_only=True)
class Shaded:
    """One number, and how it lies in its column: from 1 to `SHADES`; 0 for a baseline."""

    text: str
    half_width: str
    complete: bool
    shade: int
    best: bool


@dataclass(frozen=True, kw_only=True)
class Line:
    """One method on all boards of a protocol, in each setting."""

    label: str
    stem: str
    baseline: bool
    cells: tuple[tuple[Shaded | None, ...], ...]  # by board and setting
    means: tuple[str, ...]  # interquartile mean over the boards by setting; "" where a board is missing


@dataclass(frozen=True, kw_only=True)
class Overview:
    """One protocol."""

    title: str
    digest: str
    note: str
    metric: str
    settings: tuple[Setting, ...]
    boards: tuple[Board, ...]
    lines: tuple[Line, ...]

    @property
    def has_intervals(self) -> bool:
        """Whether some mean is of several runs."""
        return any(cell and cell.half_width for cell in self._cells())

    @property
    def reading(self) -> tuple[str, ...]:
        """What a reader must know of these numbers, a sentence each; nothing of what is not there."""
        table, several = self.boards[0].table, len(self.boards) > 1
        cells = self._cells()
        ranked = any(board.ranks[board.primary] for board in self.boards)
        by = ("mean rank over the data sets" if several else "rank") if ranked else "name"
        setting = f" when {table.settings[0]}" if ranked and len(table.settings) > 1 else ""
        bold = "the best trained method of its column, or one that a paired test does not tell from it"
        sentences = {
            f"± half width of the 95 % interval of a mean over {table.n_runs} runs.": self.has_intervals,
            f"Ordered by {by}{setting}.": True,
            f"Bold: {bold}." if any(cell and cell.best for cell in cells) else bold_note(table): True,
            "Interquartile mean: of the middle half of the data sets, for methods with every run on all.": several,
            "† runs are missing.": not all(cell.complete for cell in cells if cell),
            "– no result.": None in cells,
        }
        return tuple(sentence for sentence, holds in sentences.items() if holds)

    def _cells(self) -> list[Shaded | None]:
        return [cell for line in self.lines for of_board in line.cells for cell in of_board]


def overviews(boards: Sequence[Board]) -> list[Overview]:
    """One for each protocol, in the order of the boards."""
    by_protocol: dict[str, list[Board]] = {}
    for board in boards:
        by_protocol.setdefault(board.table.protocol_digest, []).append(board)
    return [_overview(found) for found in by_protocol.values()]


def _overview(boards: Sequence[Board]) -> Overview:
    table = boards[0].table
    rows = [{row.method: row for row in board.table.rows} for board in boards]
    labels = list(dict.fromkeys(label for found in rows for label in found))
    ranges = {
        (place, setting): _range(board, setting) for place, board in enumerate(boards) for setting in table.settings
    }
    order = sorted(labels, key=lambda label: _order(label, rows, boards))
    return Overview(
        title=table.protocol_title,
        digest=table.protocol_digest,
        note=table.protocol_note,
        metric=metric_heading(table.primary_metric),
        settings=table.settings,
        boards=tuple(boards),
        lines=tuple(_line(label, rows, boards, ranges) for label in order),
    )


def _order(label: str, rows: Sequence[Mapping[str, Row]], boards: Sequence[Board]) -> tuple[bool, float, str]:
    """Trained methods first, by their mean rank where they are ranked; then baselines in their own order."""
    row = next(found[label] for found in rows if label in found)
    if row.baseline:
        return True, BASELINES.index(row.name), label
    ranks = [board.ranks[board.primary][label].rank for board in boards if label in board.ranks[board.primary]]
    return False, sum(ranks) / len(ranks) if ranks else math.inf, label


def _line(
    label: str,
    rows: Sequence[Mapping[str, Row]],
    boards: Sequence[Board],
    ranges: Mapping[tuple[int, Setting], tuple[float, float]],
) -> Line:
    table = boards[0].table
    row = next(found[label] for found in rows if label in found)
    found = {
        (place, setting): some[label].cells[setting, table.primary_metric]
        for place, some in enumerate(rows)
        if label in some
        for setting in table.settings
    }
    return Line(
        label=label,
        stem=file_stem(row.name),
        baseline=row.baseline,
        cells=tuple(
            tuple(
                _shaded(found.get((place, setting)), ranges[place, setting], row.baseline) for setting in table.settings
            )
            for place in range(len(boards))
        ),
        means=tuple(
            _middle([found.get((place, setting)) for place in range(len(boards))]) for setting in table.settings
        ),
    )


def _range(board: Board, setting: Setting) -> tuple[float, float]:
    cells = [row.cells[setting, board.table.primary_metric] for row in board.table.rows if not row.baseline]
    means = [cell.mean for cell in cells if cell.mean is not None]
    return min(means, default=0.0), max(means, default=1.0)


def _shaded(cell: Cell | None, ends: tuple[float, float], baseline: bool) -> Shaded | None:
    if cell is None or cell.mean is None:
        return None
    low, high = ends
    share = (cell.mean - low) / (high - low) if high > low else 1.0
    return Shaded(
        text=f"{100 * cell.mean:.2f}",
        half_width="" if cell.half_width is None else f"{100 * cell.half_width:.2f}",
        complete=cell.complete,
        shade=0 if baseline else 1 + min(int(SHADES * max(share, 0.0)), SHADES - 1),
        best=cell.best,
    )


def _middle(cells: Sequence[Cell | None]) -> str:
    means = [cell.mean for cell in cells if cell and cell.complete and cell.mean is not None]
    return f"{100 * interquartile_mean(means):.2f}" if len(means) == len(cells) else ""
