"""Which training classes a hierarchical method put together, and how far that agrees with the super-classes given.

Read from the final fold records of methods whose summary holds a hierarchy (HPL). Agreement is between two partitions
of a fold's training classes: the adjusted Rand index (1 if equal, near 0 by chance, below 0 if worse; Hubert, Arabie
1985), and the normalised mutual information (0 to 1; the mean of the two entropies stands below the line), which grows
with the number of groups by chance alone.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sklearn.metrics import adjusted_rand_score, normalized_mutual_info_score

from reports.errors import ReportError
from results.record import FoldRecord, Record


@dataclass(frozen=True, kw_only=True)
class Level:
    """One coarse level: its groups of class names, and their agreement with the super-classes where there are any."""

    n_coarse: int
    n_empty: int  # coarse proxies without a member
    n_updates: int
    changes: tuple[int, ...]  # at each update, members that moved; on the second level these are coarse proxies
    groups: tuple[tuple[str, ...], ...]  # by falling size; empty ones are left out
    adjusted_rand_index: float | None
    normalised_mutual_information: float | None


@dataclass(frozen=True, kw_only=True)
class Hierarchy:
    """What one fold model of one final run ended with."""

    protocol: str
    dataset: str
    method: str
    run: int
    fold: int
    n_classes: int
    n_super_classes: int | None
    levels: tuple[Level, ...]


def hierarchies(records: Iterable[Record], method: str | None = None) -> list[Hierarchy]:
    """The hierarchies in some records, of all methods or of one, in the order of the records.

    Raises:
        ReportError: if there is none.
    """
    found = [
        _hierarchy(record, record.method_state["hierarchy"])
        for record in records
        if isinstance(record, FoldRecord) and record.identity.purpose == "final"
        if record.method_state and "hierarchy" in record.method_state
    ]
    chosen = [one for one in found if method in (None, one.method)]
    if not chosen:
        known = ", ".join(sorted({one.method for one in found})) or "none; mlrc run hpl-proxy-anchor would"
        raise ReportError(
            f"no final run{f' of {method!r}' if method else ''} with a hierarchy is recorded. Those with one: {known}."
        )
    return chosen


def as_dict(hierarchy: Hierarchy) -> dict[str, Any]:
    """Strict JSON values; what does not exist is null."""
    return asdict(hierarchy)


def to_lines(hierarchy: Hierarchy) -> Iterator[str]:
    """For people: a line for each level, below it one for each group."""
    one = hierarchy
    yield f"{one.method}, run {one.run}, fold {one.fold} ({one.protocol}, {one.dataset})"
    for number, level in enumerate(one.levels, start=1):
        empty = f" ({level.n_empty} empty)" if level.n_empty else ""
        yield (
            f"  level {number}: {one.n_classes} classes under {level.n_coarse} coarse proxies{empty}; "
            f"{level.n_updates} updates, {sum(level.changes)} changes{_agreement(one, level)}"
        )
        for group in level.groups:
            yield f"    {len(group)}: {', '.join(group)}"


def _agreement(hierarchy: Hierarchy, level: Level) -> str:
    if level.adjusted_rand_index is None or level.normalised_mutual_information is None:
        return "; no super-classes to compare with"
    return (
        f"; with {hierarchy.n_super_classes} super-classes: adjusted Rand index {level.adjusted_rand_index:.3f}, "
        f"NMI {level.normalised_mutual_information:.3f}"
    )


def _hierarchy(record: FoldRecord, state: dict[str, Any]) -> Hierarchy:
    classes, given = state["classes"], state["super_classes"]
    levels, label_of = [], list(range(len(classes)))
    for level in state["levels"]:
        label_of = [level["members"][label] for label in label_of]
        levels.append(_level(level, classes, label_of, given and given["members"]))
    return Hierarchy(
        protocol=record.identity.protocol["title"],
        dataset=record.identity.dataset["name"],
        method=record.identity.method,
        run=record.identity.run,
        fold=record.fold,
        n_classes=len(classes),
        n_super_classes=len(given["names"]) if given else None,
        levels=tuple(levels),
    )


def _level(
    state: dict[str, Any], classes: Sequence[str], label_of: Sequence[int], given: Sequence[int] | None
) -> Level:
    groups = defaultdict(list)
    for name, label in zip(classes, label_of, strict=True):
        groups[label].append(name)
    return Level(
        n_coarse=state["n_coarse"],
        n_empty=len(state["empty"]),
        n_updates=len(state["changes"]),
        changes=tuple(state["changes"]),
        groups=tuple(
            sorted((tuple(sorted(group)) for group in groups.values()), key=lambda group: (-len(group), group))
        ),
        adjusted_rand_index=float(adjusted_rand_score(given, label_of)) if given else None,
        normalised_mutual_information=float(normalized_mutual_info_score(given, label_of)) if given else None,
    )
