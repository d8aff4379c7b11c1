"""Whether records are what they claim to be, as far as they themselves can tell.

Fingerprints, ids and seeds are worked out again from what they stand for; numbers that follow from others must follow;
a run must have all its folds. A record that passes may still have been made up, with care: `mlrc verify` runs its job
again. Each error names the record.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from math import isclose
from statistics import fmean
from typing import Any

from results.errors import ResultsError
from results.exchange.fingerprints import ensemble_id, fold_seed, job_id, protocol_digest, space_hash
from results.record import COUNTS, FoldRecord, Identity, Metrics, Record, RunRecord
from results.repeats import is_concatenated, n_final_folds, n_final_runs
from results.study import Study

MOST_RUNS, MOST_FOLDS = 1_000, 100  # a table has a row for each run that a protocol asks for, run or not
WANTED = {
    "name": str,
    "version": int,
    "derived": bool,
    "embedding.dim": int,
    "batch.size": int,
    "folds.n_folds": int,
    "folds.kind": str,
    "evaluation.primary_metric": str,
    "evaluation.metrics": list,
    "finals.n_runs": int,
}  # what readers of a protocol's values rely on

RunKey = tuple[str, str, int]  # the method's code, its hyper-parameters, the run


def check_records(records: Sequence[Record], studies: Iterable[Study] = ()) -> None:
    """Hold records and searches to their own words.

    Raises:
        ResultsError: for the first thing that is not as it should be.
    """
    for record_id, n_times in Counter(record.id for record in records).items():
        if n_times > 1:
            raise ResultsError(f"record {record_id} is there {n_times} times; each belongs there once.")
    for record in records:
        _check_protocol(record.identity)
        _require(record, *_first(_claims(record)))
    for lacking in incomplete_runs(records).values():
        raise ResultsError(f"{lacking}; a run is whole or left out.")
    by_id = {record.id: record for record in records}
    for record in records:
        if isinstance(record, RunRecord):
            _require(record, *_first(_members(record, by_id)))
    for study in studies:
        _check_study(study, records)


def incomplete_runs(records: Iterable[Record]) -> dict[RunKey, str]:
    """The final runs that lack a record, and what they lack: `run 2 of 'ms' lacks the record of fold 3`."""
    folds: dict[RunKey, dict[int, FoldRecord]] = defaultdict(dict)
    runs: dict[RunKey, Identity] = {}
    together: set[RunKey] = set()
    for record in records:
        if record.identity.purpose == "final":
            key = run_key(record.identity)
            runs[key] = record.identity
            if isinstance(record, FoldRecord):
                folds[key][record.fold] = record
            else:
                together.add(key)
    found = {}
    for key, identity in runs.items():
        values = identity.protocol["values"]
        lacking = [str(fold) for fold in range(n_final_folds(identity.method, values)) if fold not in folds[key]]
        whole = not lacking and all(fold.outcome == "done" for fold in folds[key].values())
        which = f"run {identity.run} of {identity.method!r} lacks the record of "
        if lacking:
            found[key] = f"{which}fold{'s' if len(lacking) > 1 else ''} {', '.join(lacking)}"
        elif whole and key not in together and is_concatenated(identity.method, values):
            found[key] = f"{which}its folds' concatenation"
    return found


def run_key(identity: Identity) -> RunKey:
    """What the records of one final run of a method share, within a comparison."""
    return identity.method_code, identity.hyperparameters_text, identity.run


def _require(record: Record, *problems: str) -> None:
    for problem in problems:
        raise ResultsError(f"record {record.id} of {record.identity.method!r}: {problem}")


def _first(problems: Iterator[str]) -> tuple[str, ...]:
    found = next(problems, None)
    return () if found is None else (found,)


def _check_protocol(identity: Identity) -> None:
    title, digest, values = (identity.protocol[name] for name in ("title", "digest", "values"))
    where = f"protocol {title!r:.60}"
    for path, kind in WANTED.items():
        found: Any = values
        for name in path.split("."):
            found = found.get(name) if isinstance(found, dict) else None
        if type(found) is not kind:
            raise ResultsError(f"{where}: {path} is {found!r:.60}; wanted a value of type {kind.__name__}.")
    for path, most in (("finals.n_runs", MOST_RUNS), ("folds.n_folds", MOST_FOLDS)):
        section, name = path.split(".")
        if not 1 <= values[section][name] <= most:
            raise ResultsError(f"{where}: {path} is {values[section][name]}; wanted 1 to {most}.")
    named = f"{values['name']}@{values['version']}{'+' if values['derived'] else ''}"
    if title != named:
        raise ResultsError(f"{where}: its values are those of {named!r:.60}; a title says which protocol it is.")
    if values["evaluation"]["primary_metric"] not in identity.metrics:
        raise ResultsError(f"{where}: its primary metric is none of those that it asks for.")
    if (found := protocol_digest(values)) != digest:
        raise ResultsError(f"{where}: its digest is {digest!r:.60}, but that of its values is {found}.")


def _claims(record: Record) -> Iterator[str]:
    """All that is wrong with one record, looked at by itself."""
    identity = record.identity
    n_runs = n_final_runs(identity.method, identity.protocol["values"])
    if identity.purpose == "final" and not 1 <= identity.run <= n_runs:
        yield f"its run is {identity.run}; its protocol has runs 1 to {n_runs}."
    if identity.purpose == "search" and identity.run != 0:
        yield f"its run is {identity.run}; a search is run 0."
    if not (1 <= identity.dataset["n_classes"] <= identity.dataset["n_images"]):
        yield f"{identity.dataset['n_classes']} classes in {identity.dataset['n_images']} images cannot be."
    yield from _metrics(record.test)
    yield from _audit(record.evaluation_audit, identity.dataset["n_images"])
    if any(seconds < 0 for seconds in record.seconds.values()):
        yield "it took less than no time."
    if isinstance(record, FoldRecord):
        yield from _fold_claims(record)
    elif (wanted := ensemble_id(record.members)) != record.id:
        yield f"its id does not follow from its members; that would be {wanted}."


def _fold_claims(record: FoldRecord) -> Iterator[str]:
    identity, values = record.identity, record.identity.protocol["values"]
    n_folds = n_final_folds(identity.method, values) if identity.purpose == "final" else values["folds"]["n_folds"]
    if not 0 <= record.fold < n_folds:
        yield f"its fold is {record.fold}; there are folds 0 to {n_folds - 1}."
    if record.seed != fold_seed(identity.run, record.fold):
        yield f"its seed is {record.seed}; that of run {identity.run}, fold {record.fold} is " + str(
            fold_seed(identity.run, record.fold)
        )
    if (wanted := job_id(record)) != record.id:
        yield f"its id does not follow from its job; that would be {wanted}."
    if min(record.n_steps, record.n_images_seen, record.peak_memory_bytes, record.provenance.threads) < 0:
        yield "a count in it is negative."
    if record.n_images_seen != record.n_steps * values["batch"]["size"]:
        yield f"{record.n_steps} steps of {values['batch']['size']} images are not {record.n_images_seen} images."
    if record.outcome == "failed" and (record.test or record.validation):
        yield "it failed and has metrics all the same."
    if identity.purpose == "search" and record.test:
        yield "it is of a search and has test metrics; a search never opens the test classes."
    failed = [check.name for check in record.audit if not check.passed]
    if failed and record.outcome == "done":
        yield f"its check {failed[0]!r} failed and it is done all the same."
    yield from _metrics(record.validation)
    yield from _curve(record)


def _curve(record: FoldRecord) -> Iterator[str]:
    """The best step is the first of the best validations, and its value that of the record."""
    steps = [point.step for point in record.curve]
    if steps != sorted(set(steps)) or (steps and not 0 <= steps[0] <= steps[-1] <= record.n_steps):
        yield f"the steps of its curve do not ascend from 0 to {record.n_steps}."
    if not record.curve or record.outcome == "failed":
        return
    best = max(record.curve, key=lambda point: point.map_at_r)
    if record.best_step != best.step:
        yield f"its best step is {record.best_step}; in its curve it is {best.step}."
    if (record.validation or {}).get("map_at_r") != best.map_at_r:
        yield f"its validation MAP@R is {(record.validation or {}).get('map_at_r')}; its curve has {best.map_at_r}."


def _metrics(found: Metrics | None) -> Iterator[str]:
    """What holds between metrics by their definitions."""
    metrics = found or {}
    if metrics.get("map_at_r", 0.0) > metrics.get("r_precision", 1.0) + 1e-9:
        yield f"MAP@R {metrics['map_at_r']} is above R-precision {metrics['r_precision']}, which cannot be."
    recalls = sorted(
        (int(name.removeprefix("recall_at_")), value)
        for name, value in metrics.items()
        if name.removeprefix("recall_at_").isdecimal()
    )
    values = [value for _, value in recalls]
    if values != sorted(values):
        yield "its recall@K falls where K grows, which cannot be."
    if recalls and recalls[0][0] == 1 and metrics.get("precision_at_1", values[0]) != values[0]:
        yield f"recall@1 {values[0]} is not P@1 {metrics['precision_at_1']}, which it must be."


def _audit(found: dict[str, Any] | None, n_images: int) -> Iterator[str]:
    counts = {name: (found or {}).get(name, 0) for name in COUNTS}
    if bad := [name for name, count in counts.items() if type(count) is not int or count < 0]:
        yield f"evaluation_audit.{bad[0]} is {counts[bad[0]]!r:.60}; wanted a count."
    elif counts["queries"] + counts["left_out"] > n_images:
        yield f"{counts['queries']} queries and {counts['left_out']} left out are more than {n_images} images."
    elif counts["smallest_r"] > counts["largest_r"]:
        yield f"its smallest R is {counts['smallest_r']} and its largest {counts['largest_r']}."


def _members(run: RunRecord, by_id: dict[str, Record]) -> Iterator[str]:
    identity = run.identity
    wanted = n_final_folds(identity.method, identity.protocol["values"])
    members = [by_id.get(member) for member in run.members]
    folds = [member for member in members if isinstance(member, FoldRecord)]
    if [fold.fold for fold in folds] != list(range(wanted)) or len(members) != wanted:
        yield f"its members are not folds 0 to {wanted - 1} of the records beside it."
    elif any(
        (fold.identity.comparison, run_key(fold.identity)) != (identity.comparison, run_key(identity)) for fold in folds
    ):
        yield "its members are of another run."
    elif any(fold.outcome != "done" for fold in folds):
        yield "a member of it failed."
    elif run.embedding_dim < 1:
        yield f"its embedding has {run.embedding_dim} dimensions."


def _check_study(study: Study, records: Sequence[Record]) -> None:
    """A search by itself, and against the folds of its winning trial where they are there."""
    for problem in _study_claims(study, records):
        raise ResultsError(f"search of {study.method!r}: {problem}")


def _study_claims(study: Study, records: Sequence[Record]) -> Iterator[str]:
    if min(study.n_trials, study.n_finished, study.n_failed, study.n_pruned, study.fork) < 0:
        yield "a count in it is negative."
    if space_hash(study.space) != study.space_hash:
        yield f"its space_hash is not that of its space, {space_hash(study.space)}."
    best = (study.best_trial, study.best_hyperparameters, study.best_value)
    if (None in best and best != (None, None, None)) or (study.n_finished == 0 and study.best_value is not None):
        yield "its best trial, hyper-parameters and value do not go together."
    folds = [
        record.validation["map_at_r"]
        for record in records
        if isinstance(record, FoldRecord)
        and record.identity.purpose == "search"
        and record.identity.method_code == study.method_code
        and record.identity.hyperparameters == study.best_hyperparameters
        and record.validation is not None
    ]
    if study.best_value is not None and folds and not isclose(fmean(folds), study.best_value, rel_tol=1e-9):
        yield f"its best value is {study.best_value}; the folds of that trial have the mean {fmean(folds)}."
