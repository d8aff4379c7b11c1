"""Records that pass `results.exchange.integrity`: ids, seeds and digests follow from their content. Made in no time."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from results.exchange.fingerprints import ensemble_id, fold_seed, job_id, protocol_digest, space_hash
from results.record import FoldRecord, Identity, Provenance, Record, RunRecord, Value
from results.study import Study

VALUES: dict[str, Any] = {
    "name": "small",
    "version": 1,
    "derived": False,
    "batch": {"size": 32, "pair_samples_per_class": 4},
    "embedding": {"dim": 8},
    "evaluation": {"primary_metric": "map_at_r", "metrics": ["precision_at_1", "r_precision", "map_at_r"]},
    "finals": {"n_runs": 2},
    "folds": {"n_folds": 4, "kind": "balanced"},
}
PROVENANCE = Provenance(
    created_at="2024-01-01T12:00:00+00:00",
    versions={"python": "3.11.7", "torch": "2.9.0"},
    device="cpu",
    threads=1,
    code_revision="0.2.0",
    trunk_weights="random",
)


def identity(method: str, run: int, values: dict[str, Any] = VALUES, **hyperparameters: Value) -> Identity:
    """Of the final run of that number; run 0 is the search."""
    title = f"{values['name']}@{values['version']}{'+' if values['derived'] else ''}"
    return Identity(
        protocol={"title": title, "digest": protocol_digest(values), "values": values},
        dataset={"name": "things", "content_hash": "ab" * 32, "n_classes": 12, "n_images": 120},
        split={"kind": "balanced", "digest": "cd" * 6},
        method=method,
        method_code="",
        hyperparameters=hyperparameters,
        purpose="final" if run else "search",
        run=run,
    )


def fold(of: Identity, number: int, map_at_r: float | None) -> FoldRecord:
    """One fold; None is one that collapsed."""
    found = None if map_at_r is None else metrics(map_at_r)
    record = FoldRecord(
        id="",
        identity=of,
        fold=number,
        seed=fold_seed(of.run, number),
        outcome="failed" if found is None else "done",
        reason="collapsed" if found is None else None,
        validation=found,
        test=found if of.purpose == "final" else None,
        seconds={"train": 1.5},
        peak_memory_bytes=10**8,
        provenance=PROVENANCE,
    )
    return replace(record, id=job_id(record))


def final_run(of: Identity, separated: Sequence[float | None], concatenated: float | None) -> list[Record]:
    """The folds of one run and, where all are done, their concatenation."""
    folds = [fold(of, number, value) for number, value in enumerate(separated)]
    members = tuple(one.id for one in folds)
    if concatenated is None:
        return list(folds)
    together = RunRecord(
        id=ensemble_id(members),
        identity=of,
        members=members,
        test=metrics(concatenated),
        embedding_dim=8 * len(folds),
        evaluation_audit={"queries": 60, "left_out": 0, "smallest_r": 4, "largest_r": 9},
        seconds={},
        provenance=PROVENANCE,
    )
    return [*folds, together]


def finals(method: str, *values: float, **hyperparameters: Value) -> list[Record]:
    """Final runs 1, 2, ... of four folds; each value is the MAP@R of all folds of a run and of their concatenation."""
    protocol = VALUES | {"finals": {"n_runs": max(2, len(values))}}
    return [
        record
        for run, value in enumerate(values, 1)
        for record in final_run(identity(method, run, protocol, **hyperparameters), [value] * 4, value)
    ]


def metrics(map_at_r: float) -> dict[str, float]:
    """All three, such as the definitions allow."""
    return {"map_at_r": map_at_r, "r_precision": (1 + map_at_r) / 2, "precision_at_1": (3 + map_at_r) / 4}


def study(**changed: Any) -> Study:
    """A finished search of `ms`; its winning trial has margin 0.1 and the mean 0.3."""
    found = identity("ms", 0).comparison
    space = '{"margin":{}}'
    fields: dict[str, Any] = {
        **{"protocol_title": "small@1", **found._asdict(), "dataset_name": "things", "method": "ms", "method_code": ""},
        **{"optuna_name": "small@1/things/ms", "space": space, "space_hash": space_hash(space), "n_trials": 2},
        **{"n_finished": 2, "n_failed": 0, "best_trial": 1, "best_hyperparameters": {"margin": 0.1}, "best_value": 0.3},
        **{"best_standard_error": None, "updated_at": "2024-01-01T12:00:00+00:00"},
    }
    return Study(**(fields | changed))
