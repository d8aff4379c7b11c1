"""Tables of one metric to draw and to write. `FULL` has a baseline, a hole and a method without a run."""

from reports.tables import Cell, Row, Table


def row(method: str, mean: float | None, *, n_runs: int = 3, missing: str = "", baseline: bool = False) -> Row:
    found = Cell(
        mean=mean,
        half_width=0.01 if mean is not None and n_runs > 1 else None,
        n_runs=n_runs,
        expected_runs=3,
        missing=missing,
    )
    return Row(
        method=method, baseline=baseline, cells={("concatenated", "map_at_r"): found, ("separated", "map_at_r"): found}
    )


def table(*rows: Row) -> Table:
    return Table(
        protocol_title="demo@1",
        protocol_digest="4beca8181092",
        protocol_note="a demonstration, not a measurement",
        dataset_name="shapes",
        dataset_hash="ab" * 32,
        split_kind="wrapped",
        split_digest="cd" * 8,
        n_folds=4,
        n_runs=3,
        embedding_dim=128,
        primary_metric="map_at_r",
        metrics=("map_at_r",),
        rows=rows,
    )


FULL = table(
    row("untrained", 0.05, baseline=True),
    row("ms", 0.3),
    row("holed", 0.25, n_runs=2, missing="run 2: not run"),
    row("lost", None, n_runs=0, missing="no trial finished"),
)
