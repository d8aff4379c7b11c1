"""How a search is run where its user wants it otherwise than usual. All of it but `fork` is in the study's fingerprint.

None of it is in the protocol's: one method of a table may be searched by a grid, as FastAP was in the reality check.
"""

from dataclasses import dataclass
from typing import Literal

Sampler = Literal["gp", "tpe", "random", "grid"]


@dataclass(frozen=True, kw_only=True)
class SearchRules:
    """What `--sampler`, `--parallel-trials`, `--enqueue`, `--pruning` and `--fork` say."""

    sampler: Sampler | None = None  # None: the protocol's
    parallel_trials: int = 1  # trials that are proposed together and told together
    enqueue: Literal["published"] | None = None  # what comes before the sampler's own proposals
    pruning: bool = False  # whether a trial may end before all of its folds have run
    fork: bool = False  # whether a search that is run otherwise than its study began a new study


USUAL = SearchRules()
