"""Exports: how results travel between stores, groups and pages. One JSON file a method, data set, split and protocol.

A file is self-contained: its records name their protocol in full. Equal content gives equal bytes, a line for each
record. What is read is held to its own words (`results.exchange.integrity`), and so is what is written: what leaves
here can be read there. Files of test embeddings may lie beside it, in the folder `embeddings_beside`; it holds their
hashes.
"""

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from results.comparison import Comparison
from results.errors import ResultsError
from results.exchange.integrity import check_records, incomplete_runs, run_key
from results.exchange.untrusted import bytes_of, parse_untrusted
from results.record import FoldRecord, Record, from_json, from_values, to_json
from results.strict import check_schema, read
from results.study import Study, study_from_values, study_to_json
from results.whole_file import cannot_write, replace_whole

FORMAT = "mlrc-export"
SCHEMA = 1


class Subject(NamedTuple):
    """What one file is about."""

    comparison: Comparison
    method: str


@dataclass(frozen=True, kw_only=True)
class Export:
    """What one method found under one protocol on one data set and split."""

    records: tuple[Record, ...]
    studies: tuple[Study, ...] = ()
    embeddings: Mapping[str, str] = field(default_factory=dict)  # SHA-256 of the file of a fold's, by the record's id


def subject_of(item: Record | Study) -> Subject:
    """The subject of the file to which a record or a search belongs."""
    of = item if isinstance(item, Study) else item.identity
    return Subject(of.comparison, of.method)


def exports(records: Iterable[Record], studies: Iterable[Study]) -> tuple[list[Export], list[str]]:
    """Records and searches sorted into files; and what is left out, because a run is not whole yet."""
    found: dict[Subject, tuple[list[Record], list[Study]]] = defaultdict(lambda: ([], []))
    for record in records:
        found[subject_of(record)][0].append(record)
    for study in studies:
        found[subject_of(study)][1].append(study)
    made: list[Export] = []
    left_out: list[str] = []
    for subject in sorted(found):
        of_method, searches = found[subject]
        lacking = incomplete_runs(of_method)
        left_out += lacking.values()
        whole = [one for one in of_method if one.identity.purpose == "search" or run_key(one.identity) not in lacking]
        if whole:
            made.append(Export(records=tuple(whole), studies=tuple(searches)))
    return made, left_out


def file_name(export: Export) -> str:
    """`mini@1-cub200-ms-1a2b3c4d.json`: names for people, and the beginning of a hash of the subject."""
    identity = export.records[0].identity
    subject = subject_of(export.records[0])
    digits = sha256(json.dumps(subject).encode()).hexdigest()[:8]
    parts = (identity.protocol["title"], identity.dataset["name"], identity.method)
    return "-".join([*(_safe(part) for part in parts), digits]) + ".json"


def write_export(
    records: Iterable[Record], studies: Iterable[Study], path: Path, embeddings: Mapping[str, str] | None = None
) -> None:
    """Write one file, whole or not at all; the same content gives the same bytes.

    Raises:
        ResultsError: if they are not of one subject, fail a check of `read_export`, or cannot be written.
    """
    plain = tuple(from_json(to_json(record)) for record in records)  # NumPy's numbers become Python's here
    export = Export(records=plain, studies=tuple(studies), embeddings=dict(embeddings or {}))
    content = _text(export).encode()
    _export(parse_untrusted(content))
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        replace_whole(path, content)
    except (OSError, ValueError) as error:
        raise cannot_write(path, error) from None


def read_export(path: Path) -> Export:
    """The export in a file, after all checks.

    Raises:
        ResultsError: if it is damaged, newer than this code, or not what it claims to be.
    """
    content = bytes_of(path)
    try:
        return _export(parse_untrusted(content))
    except (ResultsError, RecursionError, OverflowError) as error:
        raise ResultsError(f"{path}: {error}") from None


def embeddings_beside(path: Path) -> Path:
    """The folder of the test embeddings that belong to an export."""
    return path.with_suffix(".embeddings")


def _export(value: Any) -> Export:
    if not isinstance(value, dict) or value.get("format") != FORMAT:
        raise ResultsError(f'is not an export of results; those are JSON objects with "format": "{FORMAT}".')
    check_schema(value.get("schema"), SCHEMA, "export")
    wanted = {"format", "schema", "records", "studies", "embeddings"}
    if value.keys() != wanted:
        odd = sorted(value.keys() ^ wanted)[0]
        raise ResultsError(f"{'unknown' if odd in value else 'missing'} field {odd!r:.60}.")
    for name in ("records", "studies"):
        if not isinstance(value[name], list):
            raise ResultsError(f"{name}: found {value[name]!r:.60}, wanted a list.")
    export = Export(
        records=tuple(map(from_values, value["records"])),
        studies=tuple(map(study_from_values, value["studies"])),
        embeddings=read(dict[str, str], value["embeddings"], "embeddings"),
    )
    _check(export)
    return export


def _check(export: Export) -> None:
    if not export.records:
        raise ResultsError("holds no record; an export has at least one.")
    subjects = {subject_of(item) for item in (*export.records, *export.studies)}
    if len(subjects) > 1:
        raise ResultsError(f"is about {_told_apart(subjects)}; a file is about one method under one comparison.")
    check_records(export.records, export.studies)
    finals = {one.id for one in export.records if isinstance(one, FoldRecord) and one.test is not None}
    if stray := sorted(export.embeddings.keys() - finals):
        raise ResultsError(f"embeddings: {stray[0]!r:.60} is not the id of a final fold in it.")
    if odd := [one for one in export.embeddings.values() if not re.fullmatch(r"[0-9a-f]{64}", one)]:
        raise ResultsError(f"embeddings: found {odd[0]!r:.60}, wanted a SHA-256.")


def _told_apart(subjects: Iterable[Subject]) -> str:
    one, other = sorted(subjects)[:2]
    if one.method != other.method:
        return f"the methods {one.method!r:.60} and {other.method!r:.60}"
    name = next(name for name in Comparison._fields if getattr(one.comparison, name) != getattr(other.comparison, name))
    found = [repr(getattr(subject.comparison, name))[:60] for subject in (one, other)]
    return f"{name.replace('_', ' ')} {found[0]} and {found[1]}"


def _text(export: Export) -> str:
    """Strict JSON in a fixed order, one line for each record and search: friendly to version control."""
    records = [to_json(record) for record in sorted(export.records, key=_order)]
    studies = sorted(map(study_to_json, export.studies))
    embeddings = json.dumps(dict(sorted(export.embeddings.items())), sort_keys=True)
    return (
        f'{{\n"format": "{FORMAT}",\n"schema": {SCHEMA},\n"embeddings": {embeddings},\n'
        f'"studies": {_lines(studies)},\n"records": {_lines(records)}\n}}\n'
    )


def _order(record: Record) -> tuple[str, int, bool, int, str]:
    """By run, fold and id; the record of a run after those of its folds."""
    of_fold = (False, record.fold) if isinstance(record, FoldRecord) else (True, 0)
    return record.identity.purpose, record.identity.run, *of_fold, record.id


def _lines(items: list[str]) -> str:
    return "[" + ",".join(f"\n{item}" for item in items) + "\n]" if items else "[]"


def _safe(text: str) -> str:
    """Letters, digits and a few signs of a name; never a path, never hidden."""
    return re.sub(r"[^A-Za-z0-9@+_.-]+", "_", text).strip(".")[:60] or "_"
