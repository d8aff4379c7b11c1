"""What stands on the page of a method: its results on each board, its search, its training, its records.

Values only; templates turn them into text.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from reports.finals import Finals
from reports.hierarchy import Hierarchy, hierarchies
from reports.site.boards import Board, hyperparameters
from reports.site.charts import Chart
from reports.site.gallery import Looked, Thumbnails, looked
from reports.site.material import Material, MethodText, Searched
from reports.site.names import file_stem
from reports.site.searches import Knob, histories, knobs
from reports.site.training import Curves, curves
from reports.tables import Row
from results.record import FoldRecord, Record


@dataclass(frozen=True, kw_only=True)
class RecordCell:
    """A number that leads to its record."""

    stem: str
    text: str
    is_failed: bool = False


@dataclass(frozen=True, kw_only=True)
class RunLine:
    """The fold models of one run, and the record of all of them together last."""

    run: int
    cells: tuple[RecordCell | None, ...]


@dataclass(frozen=True, kw_only=True)
class Grid:
    """All runs."""

    folds: tuple[int, ...]
    has_runs: bool
    lines: tuple[RunLine, ...]


@dataclass(frozen=True, kw_only=True)
class Section:
    """One method, with one set of hyper-parameters, on one board."""

    anchor: str
    board: Board
    row: Row
    knobs: Sequence[Knob]
    importances: Sequence[tuple[str, float]]
    history: Chart | None
    curves: Curves | None
    grid: Grid
    trials: Grid
    hierarchy: Hierarchy | None
    looked: Looked | None

    @property
    def missing(self) -> tuple[str, ...]:
        """Which runs are missing and why; a fold that failed may be missed in one setting only."""
        cells = [(setting, cell.missing) for (setting, _), cell in self.row.cells.items() if cell.missing]
        found = {why: [setting for setting, other in cells if other == why] for _, why in cells}
        n_settings = len(self.board.table.settings)
        return tuple(why if len(set(of)) == n_settings else f"{why} ({of[0]})" for why, of in found.items())


@dataclass(frozen=True, kw_only=True)
class MethodPage:
    """One method."""

    name: str
    text: MethodText | None
    sections: tuple[Section, ...]


def method_pages(boards: Sequence[Board], material: Material, thumbnails: Thumbnails) -> list[MethodPage]:
    """A page for each method that stands on a board, by name."""
    found: dict[str, list[Section]] = {}
    for board in boards:
        charts, trials = histories(board.records), _trials(board.records)
        rows = [*board.ordered(baseline=False), *board.ordered(baseline=True)]
        for row in rows:
            section = _section(board, row, charts, trials, material, thumbnails)
            found.setdefault(row.name, []).append(section)
    return [
        MethodPage(name=name, text=material.methods.get(name), sections=tuple(sections))
        for name, sections in sorted(found.items())
    ]


def _section(
    board: Board,
    row: Row,
    charts: Mapping[Searched, Chart],
    trials: Mapping[Searched, Grid],
    material: Material,
    thumbnails: Thumbnails,
) -> Section:
    finals = board.finals[row.method]
    search = Searched(board.comparison, row.name, row.code)
    text = material.methods.get(row.name)
    space = material.spaces.get(search) or (text.space if text else {})
    folds = [fold for fold in finals.folds.values() if fold.outcome == "done"]
    tried = trials.get(search, Grid(folds=(), has_runs=False, lines=()))
    shares = material.importances.get(search, {})
    return Section(
        anchor=board.anchor(row),
        board=board,
        row=row,
        knobs=knobs(hyperparameters(row), space, is_random=len(tried.lines) < _n_startup_trials(board)),
        importances=sorted(shares.items(), key=lambda item: -item[1]),
        history=charts.get(search),
        curves=curves(folds),
        grid=_grid(finals, board),
        trials=tried,
        hierarchy=_hierarchy(folds),
        looked=looked(board, finals, material, thumbnails),
    )


def _n_startup_trials(board: Board) -> int:
    search = board.identity.protocol["values"].get("search") or {}
    return int(search.get("n_startup_trials") or 0)


def _grid(finals: Finals, board: Board) -> Grid:
    metric = board.table.primary_metric
    folds = tuple(sorted({fold for _, fold in finals.folds}))
    numbers = sorted({run for run, _ in finals.folds} | set(finals.runs))
    lines = []
    for run in numbers:
        cells = [_cell(finals.folds.get((run, fold)), metric, "test") for fold in folds]
        together = [_cell(finals.runs.get(run), metric, "test")] if finals.runs else []
        lines.append(RunLine(run=run, cells=(*cells, *together)))
    return Grid(folds=folds, has_runs=bool(finals.runs), lines=tuple(lines))


def _trials(records: Iterable[Record]) -> dict[Searched, Grid]:
    """The fold models of each trial, in the order in which trials began."""
    folds = [record for record in records if isinstance(record, FoldRecord) and record.identity.purpose == "search"]
    found: dict[Searched, dict[str, dict[int, FoldRecord]]] = {}
    for fold in sorted(folds, key=lambda one: one.provenance.created_at):
        identity = fold.identity
        trials = found.setdefault(Searched(identity.comparison, identity.method, identity.method_code), {})
        trials.setdefault(identity.hyperparameters_text, {})[fold.fold] = fold
    return {search: _trial_grid(list(trials.values())) for search, trials in found.items()}


def _trial_grid(trials: Sequence[Mapping[int, FoldRecord]]) -> Grid:
    numbers = tuple(sorted({fold for trial in trials for fold in trial}))
    return Grid(
        folds=numbers,
        has_runs=False,
        lines=tuple(
            RunLine(run=number, cells=tuple(_cell(trial.get(fold), "map_at_r", "validation") for fold in numbers))
            for number, trial in enumerate(trials, start=1)
        ),
    )


def _cell(record: Record | None, metric: str, measured: Literal["test", "validation"]) -> RecordCell | None:
    if record is None:
        return None
    stem, metrics = file_stem(record.id), getattr(record, measured) or {}
    if isinstance(record, FoldRecord) and record.outcome == "failed":
        return RecordCell(stem=stem, text=str(record.reason), is_failed=True)
    return RecordCell(stem=stem, text=f"{100 * metrics[metric]:.2f}" if metric in metrics else "?")


def _hierarchy(folds: Iterable[FoldRecord]) -> Hierarchy | None:
    with_one = [fold for fold in folds if "hierarchy" in (fold.method_state or {})]
    return hierarchies(with_one[:1])[0] if with_one else None
