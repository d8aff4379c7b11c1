"""How many final runs and fold models a method has, by its name: a record is read where its method's code is not.

Nothing is random in some methods, so a second run would say what the first said. Some know no fold either.
"""

from collections.abc import Mapping
from typing import Any

ONE_EMBEDDING = frozenset({"pixels"})  # one model, and nothing to put beside it: the same in both settings
ONE_MODEL = ONE_EMBEDDING | {"pretrained"}  # one job, of fold 0, stands for all folds
ONE_RUN = ONE_MODEL | {"euclidean", "whitened", "within-class", "nca", "lmnn"}


def n_final_runs(method: str, protocol: Mapping[str, Any]) -> int:
    """Final runs of a method under a protocol, given as its plain values."""
    return 1 if method in ONE_RUN else int(protocol["finals"]["n_runs"])


def n_final_folds(method: str, protocol: Mapping[str, Any]) -> int:
    """Fold models of one final run."""
    return 1 if method in ONE_MODEL else int(protocol["folds"]["n_folds"])


def is_concatenated(method: str, protocol: Mapping[str, Any]) -> bool:
    """Whether a final run has a concatenated embedding that is another than that of its one model."""
    return method not in ONE_EMBEDDING and int(protocol["folds"]["n_folds"]) > 1
