"""The trials of searches as data frames: a row for each set of hyper-parameters, with the answer of its folds.

A trial that repeats an earlier one has its records, and is one row with it. A trial is a failure if a fold of it is,
and is left out while a fold of it is still to come. In a search all hyper-parameters move at once, so a picture over
one or two of them shows what the search saw, and not what a change of these alone would do.
"""

import json
import math
import statistics
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pandas as pd

from reports.analyses.drawing import Subject, by_subject
from results.record import FoldRecord, Record

FEWEST = 5  # finished trials that a picture needs
COLUMNS = ["map_at_r", "lowest_fold", "highest_fold", "missing", "hyperparameters"]


def trial_frames(records: Iterable[Record]) -> dict[Subject, pd.DataFrame]:
    """The trials of each search in some records, in the order of their first record.

    Returns:
        By subject, the columns `COLUMNS`: the mean over folds of the best validation MAP@R, its lowest and highest
        fold, as fractions; "" or why there is no such mean; and the hyper-parameters as sorted JSON.
    """
    searched = [record for record in records if isinstance(record, FoldRecord) and record.identity.purpose == "search"]
    return {
        subject: pd.DataFrame(_rows(found), columns=pd.Index(COLUMNS))
        for subject, found in by_subject(searched, with_method=True).items()
    }


def with_parameters(frames: dict[Subject, pd.DataFrame], names: Sequence[str]) -> dict[Subject, pd.DataFrame]:
    """The searches over all of these hyper-parameters, their values as first columns."""
    found = {}
    for subject, frame in frames.items():
        values = [json.loads(text) for text in frame["hyperparameters"]]
        if values and all(name in one for one in values for name in names):
            columns = pd.DataFrame([{name: one[name] for name in names} for one in values])
            found[subject] = pd.concat([columns, frame], axis=1)
    return found


def finished(trials: pd.DataFrame) -> pd.DataFrame:
    """The trials that have a value."""
    return trials[trials["missing"] == ""]


def too_few(subject: Subject, trials: pd.DataFrame) -> str:
    """Why a search cannot have a picture, or ""."""
    n_finished = len(finished(trials))
    if n_finished >= FEWEST:
        return ""
    return (
        f"{subject.method} ({subject.protocol}, {subject.dataset}): {n_finished} different trials finished, a picture "
        f"needs {FEWEST}; let mlrc search go on, or --set a larger n_trials."
    )


def others_moved(trials: pd.DataFrame, shown: Sequence[str]) -> str:
    """A note that names the hyper-parameters that a picture does not show."""
    values = pd.DataFrame([json.loads(text) for text in trials["hyperparameters"]])
    others = [str(name) for name in values if name not in shown and values[name].nunique() > 1]
    return f"Other values moved from trial to trial as well: {', '.join(others)}." if others else ""


def _rows(records: Sequence[Record]) -> Iterator[dict[str, Any]]:
    trials: dict[str, list[FoldRecord]] = {}
    for record in records:
        assert isinstance(record, FoldRecord)
        trials.setdefault(record.identity.hyperparameters_text, []).append(record)
    for hyperparameters, folds in trials.items():
        failed = sorted({str(fold.reason) for fold in folds if fold.outcome == "failed"})
        values = [fold.validation["map_at_r"] for fold in folds if fold.outcome == "done" and fold.validation]
        if not failed and len(values) < folds[0].identity.protocol["values"]["folds"]["n_folds"]:
            continue
        row = {"missing": ", ".join(failed), "hyperparameters": hyperparameters}
        if failed:
            yield {**row, "map_at_r": math.nan, "lowest_fold": math.nan, "highest_fold": math.nan}
        else:
            mean = statistics.fmean(values)
            yield {**row, "map_at_r": mean, "lowest_fold": min(values), "highest_fold": max(values)}
