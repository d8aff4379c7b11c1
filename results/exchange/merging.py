"""Exports put together: duplicates are counted, contradictions refused, and then all of it is taken or nothing."""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from results.errors import ResultsError
from results.exchange.agreement import agreed, agreed_study
from results.exchange.export import Export, read_export
from results.record import Record
from results.study import Study


@dataclass(frozen=True, kw_only=True)
class Collected:
    """The content of several exports, each record and search once."""

    records: tuple[Record, ...]
    studies: tuple[Study, ...]
    exports: Mapping[Path, Export]
    n_duplicates: int  # records that were there before


def export_files(paths: Iterable[Path]) -> list[Path]:
    """The files that are named, and all `.json` files in and below the folders that are, in a fixed order.

    Raises:
        ResultsError: if something is not there, or a folder holds no such file.
    """
    found: list[Path] = []
    for path in paths:
        if not path.exists():
            raise ResultsError(f"{path}: is not there; name an export or a folder of them (mlrc export makes it).")
        within = sorted(_json_files(path)) if path.is_dir() else [path]
        if not within:
            raise ResultsError(f"{path}: no .json file in this folder; `mlrc export FOLDER` makes one.")
        found += within
    return list(dict.fromkeys(found))


def collect(paths: Iterable[Path]) -> Collected:
    """All that is in some exports.

    Raises:
        ResultsError: if one of them fails a check of `read_export`, or two contradict each other.
    """
    read = {path: read_export(path) for path in paths}
    records: dict[str, tuple[Path, Record]] = {}
    studies: dict[str, tuple[Path, Study]] = {}
    n_duplicates = 0
    for path, export in read.items():
        for record in export.records:
            before = records.get(record.id)
            n_duplicates += before is not None
            if before is None:
                records[record.id] = path, record
            else:
                records[record.id] = path, agreed(before[1], record, f"{before[0]} and {path}")
        for study in export.studies:
            known = studies.get(study.id)
            kept = study if known is None else agreed_study(known[1], study, f"{known[0]} and {path}")
            studies[study.id] = path, kept
    return Collected(
        records=tuple(record for _, record in records.values()),
        studies=tuple(study for _, study in studies.values()),
        exports=read,
        n_duplicates=n_duplicates,
    )


def _json_files(folder: Path) -> Iterator[Path]:
    for parent, _, names in os.walk(folder):  # follows no link to another folder
        yield from (Path(parent) / name for name in names if name.endswith(".json"))
