"""Which methods have no number in one table and have some under another fingerprint: they were run, but elsewhere.

A method that was run under another protocol or split, or on another data set, may look as if it had never been run.
"""

from collections.abc import Hashable, Iterator
from typing import Any

import pandas as pd

from reports.frame import BASELINES, COMPARISON
from reports.headings import printable

FEWEST_DIGITS = 12  # of a fingerprint


def elsewhere(frame: pd.DataFrame) -> list[tuple[str, ...]]:
    """For each comparison of a `runs_frame`, in its order: a line for each other one that shares its protocol or data.

    A line names the methods without any number here, and which fingerprints differ there.
    """
    parts = [part for _, part in frame.groupby(COMPARISON, sort=False)]
    heads: list[dict[Hashable, Any]] = [part.iloc[0].to_dict() for part in parts]
    with_values = [_methods(part[part["missing"] == ""]) for part in parts]
    return [
        tuple(
            f"{', '.join(map(printable, sorted(lacking)))}: recorded {there}"
            for other, there in ((other, _difference(here, heads[other])) for other in range(len(parts)))
            if other != place and there and (lacking := with_values[other] - with_values[place])
        )
        for place, here in enumerate(heads)
    ]


def _methods(part: pd.DataFrame) -> set[str]:
    return set(part["method"]) - set(BASELINES)


def _difference(here: dict[Hashable, Any], there: dict[Hashable, Any]) -> str:
    """What is another there, in words; "" for comparisons that have neither protocol nor data set in common."""
    same_protocol = here["protocol_digest"] == there["protocol_digest"]
    same_data = here["dataset_hash"] == there["dataset_hash"]
    if not (same_protocol or same_data):
        return ""
    return " and ".join(_parts(here, there, same_protocol=same_protocol, same_data=same_data))


def _parts(
    here: dict[Hashable, Any], there: dict[Hashable, Any], *, same_protocol: bool, same_data: bool
) -> Iterator[str]:
    if not same_protocol:
        yield f"under protocol {printable(there['protocol_title'])} ({there['protocol_digest']})"
    if not same_data:
        yield f"on data set {printable(there['dataset_name'])} ({there['dataset_hash'][:FEWEST_DIGITS]})"
    elif here["split_digest"] != there["split_digest"]:
        yield f"with {there['split_kind']} split ({there['split_digest'][:FEWEST_DIGITS]})"
