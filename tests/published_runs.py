"""Records of made-up runs under a paper's protocol on a data set that papers have, for the tests of what meets them."""

from dataclasses import replace
from hashlib import sha256
from statistics import fmean
from typing import Any

from test_reports_tables import fold_record, identity, run_record

from protocols.catalogue import MLRC_V1, PUBLISHED
from protocols.spec import Protocol
from reports.frame import runs_frame
from reports.published_sizes import SIZES
from reports.quoted import with_quoted
from reports.tables import Table
from reports.tabulation import result_tables
from results.record import Record

DIGESTS = {protocol.title: protocol.digest() for protocol in PUBLISHED}
SPREAD = (-0.004, 0.004, -0.002, 0.002, 0.0, 0.003, -0.003, 0.001, -0.001, 0.0)  # of ten runs about their mean
assert abs(fmean(SPREAD)) < 1e-15


def runs(
    method: str, mean: float, protocol: Protocol = MLRC_V1, dataset: str = "cub200", n_runs: int = 10, **changes: Any
) -> list[Record]:
    """Runs of a method whose concatenated and separated metrics all have one mean and spread."""
    found: list[Record] = []
    for run, offset in enumerate(SPREAD[:n_runs], start=1):
        who = identity(method, run, protocol, split={"kind": "wrapped", "digest": "e" * 12}, **changes)
        named = {"name": dataset, "standard_name": dataset, "content_hash": sha256(dataset.encode()).hexdigest()}
        size = SIZES.get(dataset)
        counts = {"n_classes": size.n_classes, "n_images": size.n_images} if size else {}
        who = replace(who, dataset={**who.dataset, **named, **counts})
        members = [fold_record(who, fold, mean + offset) for fold in range(4)]
        found += [*members, run_record(who, mean + offset)]
    return found


def on_a_part(records: list[Record]) -> list[Record]:
    """The same, of twelve classes and 48 images."""
    part = {"content_hash": "9" * 12, "n_classes": 12, "n_images": 48}
    return [replace(one, identity=replace(one.identity, dataset=one.identity.dataset | part)) for one in records]


def quoted(records: list[Record]) -> list[Table]:
    """The tables of some records, with the papers' rows."""
    return with_quoted(result_tables(runs_frame(records)), DIGESTS)
