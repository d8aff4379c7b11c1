"""A report on made-up records, to be run before a search starts: a report that cannot be made is found in a second.

It covers what a real report meets: a baseline, a full method, a failed fold, a method without a winner.
"""

import json

from rich.console import Console

from reports.frame import runs_frame
from reports.latex import to_latex
from reports.page import to_html
from reports.plots import png_bytes
from reports.render import as_dict, to_csv, to_markdown, to_terminal
from reports.tabulation import result_tables
from results.record import FoldRecord, Identity, Metrics, Provenance, Record, RunRecord

N_RUNS, N_FOLDS = 2, 4
METRICS: Metrics = {"precision_at_1": 0.5, "r_precision": 0.3, "map_at_r": 0.2}
VALUES = {  # of the protocol
    "name": "rehearsal",
    "folds": {"n_folds": N_FOLDS},
    "finals": {"n_runs": N_RUNS},
    "embedding": {"dim": 128},
    "evaluation": {"primary_metric": "map_at_r", "metrics": list(METRICS)},
}
PROVENANCE = Provenance(created_at="", versions={}, device="cpu", threads=1, code_revision="", trunk_weights="random")


def rehearse() -> None:
    """Make every form of a report from made-up records; whatever is broken raises."""
    records = [*_method("pixels"), *_method("untrained"), *_method("full"), *_method("holed", failed_fold=2)]
    for table in result_tables(runs_frame(records, failures={"lost": "no trial finished"})):
        Console(width=120, quiet=True).print(to_terminal(table))
        to_markdown(table)
        to_csv([table])
        json.dumps(as_dict(table), allow_nan=False)
        to_latex([table])
        to_html([table])
        png_bytes(table)


def _method(name: str, failed_fold: int | None = None) -> list[Record]:
    records: list[Record] = []
    for run in range(1, N_RUNS + 1):
        identity = Identity(
            protocol={"title": "rehearsal@1", "digest": "0" * 12, "values": VALUES},
            dataset={"name": "none", "content_hash": "0" * 64, "n_classes": 0, "n_images": 0},
            split={"kind": "balanced", "digest": "0" * 12},
            method=name,
            method_code="",
            hyperparameters={},
            purpose="final",
            run=run,
        )
        folds = [
            FoldRecord(
                id=f"{name}-{run}-{fold}",
                identity=identity,
                fold=fold,
                seed=0,
                outcome="failed" if fold == failed_fold else "done",
                reason="collapsed" if fold == failed_fold else None,
                test=None if fold == failed_fold else METRICS,
                seconds={},
                peak_memory_bytes=0,
                provenance=PROVENANCE,
            )
            for fold in range(N_FOLDS)
        ]
        records += folds
        if failed_fold is None:
            records.append(
                RunRecord(
                    id=f"{name}-{run}",
                    identity=identity,
                    members=tuple(fold.id for fold in folds),
                    test=METRICS,
                    embedding_dim=N_FOLDS * 128,
                    evaluation_audit={},
                    seconds={},
                    provenance=PROVENANCE,
                )
            )
    return records
