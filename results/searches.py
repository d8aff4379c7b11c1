"""Why a search has no winner: asked of the searches and records of a store, or of those of a folder of exports."""

from collections import Counter
from collections.abc import Iterable

from results.comparison import Comparison
from results.record import FoldRecord, Record
from results.study import Study


def no_winner(study: Study, records: Iterable[Record]) -> str:
    """Why a search has no best trial: "0 of 10 trials finished: 28 folds collapsed, 12 folds non-finite; ..."."""
    failed = [
        record
        for record in records
        if isinstance(record, FoldRecord)
        and record.outcome == "failed"
        and record.identity.purpose == "search"
        and record.identity.comparison == study.comparison
        and (record.identity.method, record.identity.method_code) == (study.method, study.method_code)
    ]
    counts = Counter(record.reason for record in failed)
    reasons = ", ".join(f"{count} folds {reason}" for reason, count in counts.most_common())
    first = f"; the first: {failed[0].message}" if failed else ""
    return f"0 of {study.n_trials} trials finished: {reasons or 'none began'}{first}"


def trial_numbers(records: Iterable[Record]) -> dict[str, int]:
    """The trial of each fold record of a search by its id, from 1 in the order in which trials began."""
    searched = [record for record in records if isinstance(record, FoldRecord) and record.identity.purpose == "search"]
    trials: dict[tuple[Comparison, str, str], dict[str, int]] = {}
    numbers = {}
    for record in sorted(searched, key=lambda one: one.provenance.created_at):
        identity = record.identity
        of_search = trials.setdefault((identity.comparison, identity.method, identity.method_code), {})
        numbers[record.id] = of_search.setdefault(identity.hyperparameters_text, len(of_search) + 1)
    return numbers


def unfinished(studies: Iterable[Study], records: Iterable[Record]) -> dict[str, str]:
    """The methods whose search has no winner yet, each with the reason. Of one comparison."""
    reasons, records = {}, list(records)
    for study in studies:
        if study.n_told < study.n_trials:
            reasons[study.method] = f"{study.n_told} of {study.n_trials} trials are done"
        elif study.best_hyperparameters is None:
            reasons[study.method] = no_winner(study, records)
    return reasons
