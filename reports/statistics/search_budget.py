"""Score against search budget: the best validation MAP@R after each trial of a search, and its mean over searches.

Budget is counted in different trials: one that repeats an earlier one costs nothing and has no record of its own. The
order of trials is that of their records' times, which are whole seconds: trials shorter than that may change places.
A failed trial is budget too; the best so far stays what it was.
"""

from collections.abc import Iterable
from datetime import datetime

import pandas as pd

from reports.analyses.trials import trial_frames
from results.record import FoldRecord, Record

SEARCH = ["protocol_digest", "dataset_hash", "split_digest", "method", "method_code"]
COLUMNS = ["protocol", "dataset", *SEARCH, "trial", "map_at_r", "best_so_far", "missing"]
METHOD = ["protocol_digest", "method", "method_code"]
MEAN_COLUMNS = ["protocol", *METHOD, "trial", "best_so_far", "n_searches", "missing"]


def best_so_far(records: Iterable[Record]) -> pd.DataFrame:
    """One row for each trial of each search in some records, in any order.

    Returns:
        Columns `COLUMNS`: `trial` counts from 1; `map_at_r` is the trial's mean over folds, or NaN, and then `missing`
        says why; `best_so_far` is NaN before the first trial that finished. Fractions.
    """
    folds = [record for record in records if isinstance(record, FoldRecord)]
    folds.sort(key=lambda record: datetime.fromisoformat(record.provenance.created_at))
    frames = [
        trials.assign(
            **{name: value for name, value in subject._asdict().items() if name in COLUMNS},
            trial=range(1, len(trials) + 1),
            best_so_far=trials["map_at_r"].cummax().ffill(),
        )
        for subject, trials in trial_frames(folds).items()
    ]
    found = pd.concat([frame[COLUMNS] for frame in frames if len(frame)] or [pd.DataFrame(columns=COLUMNS)])
    return found.reset_index(drop=True)


def mean_best_so_far(trials: pd.DataFrame) -> pd.DataFrame:
    """The best so far of each method, averaged over its searches under one protocol: mostly over data sets.

    A mean over the searches that happen to have a trial would jump where one of them ends, so it is missing there.
    Methods can be compared where they were searched on the same data sets.

    Args:
        trials: what `best_so_far` returns.

    Returns:
        Columns `MEAN_COLUMNS`: `best_so_far` is a fraction, or NaN, and then `missing` says why.
    """
    rows = []
    for _, searches in trials.groupby(METHOD, sort=False):
        n_searches = searches.groupby(SEARCH).ngroups
        for trial, found in searches.groupby("trial"):
            reached, started = len(found), int(found["best_so_far"].notna().sum())
            missing = ""
            if reached < n_searches:
                missing = f"{n_searches - reached} of {n_searches} searches have fewer trials"
            elif started < n_searches:
                missing = f"no trial has finished in {n_searches - started} of {n_searches} searches"
            rows.append(
                {
                    **found.iloc[0][["protocol", *METHOD]].to_dict(),
                    "trial": trial,
                    "best_so_far": found["best_so_far"].mean() if not missing else float("nan"),
                    "n_searches": n_searches,
                    "missing": missing,
                }
            )
    return pd.DataFrame(rows, columns=pd.Index(MEAN_COLUMNS))
