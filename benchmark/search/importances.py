"""How much each hyper-parameter of a search mattered, from the trials that its records hold.

PED-ANOVA asks what sets the best tenth of the trials apart from all of them. Source: Watanabe, Bansal, Hutter,
"PED-ANOVA: Efficiently Quantifying Hyperparameter Importance in Arbitrary Subspaces", IJCAI 2023,
https://arxiv.org/abs/2304.10255
"""

import json
import warnings
from collections.abc import Iterable, Iterator
from statistics import fmean

import optuna
from optuna.distributions import BaseDistribution, json_to_distribution
from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

from results.record import FoldRecord, Record, Value
from results.study import Study

FEWEST = 10  # finished different trials: below, the best tenth is no trial at all


def importances(study: Study, records: Iterable[Record]) -> dict[str, float]:
    """The shares of the hyper-parameters that had a choice, which sum to 1; nothing where too few trials finished.

    `records` may hold those of other searches too.
    """
    space = {name: json_to_distribution(json.dumps(item)) for name, item in json.loads(study.space).items()}
    free = {name: distribution for name, distribution in space.items() if not distribution.single()}
    trials = [(values, value) for values, value in _trials(study, records) if values.keys() >= free.keys()]
    if len(trials) < FEWEST or len(free) < 2 or len({value for _, value in trials}) == 1:
        return {}
    return _shares(free, trials)


def _trials(study: Study, records: Iterable[Record]) -> Iterator[tuple[dict[str, Value], float]]:
    """The hyper-parameters and the value of each trial of which all folds are done."""
    found: dict[str, list[FoldRecord]] = {}
    for record in records:
        identity = record.identity
        search = identity.comparison, identity.method, identity.method_code, identity.purpose
        if search == (study.comparison, study.method, study.method_code, "search") and isinstance(record, FoldRecord):
            found.setdefault(json.dumps(identity.hyperparameters, sort_keys=True), []).append(record)
    for folds in found.values():
        values = [fold.validation["map_at_r"] for fold in folds if fold.outcome == "done" and fold.validation]
        identity = folds[0].identity
        if len(values) == identity.protocol["values"]["folds"]["n_folds"]:
            yield identity.hyperparameters, fmean(values)


def _shares(free: dict[str, BaseDistribution], trials: list[tuple[dict[str, Value], float]]) -> dict[str, float]:
    level = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            seen = optuna.create_study(direction="maximize")
            for values, value in trials:
                parameters = {name: values[name] for name in free}
                seen.add_trial(optuna.create_trial(params=parameters, distributions=free, value=value))
            found = get_param_importances(seen, evaluator=PedAnovaImportanceEvaluator())
    finally:
        optuna.logging.set_verbosity(level)
    return {name: float(share) for name, share in found.items()}
