"""In what the records of one table differ beside the method: versions, device, threads, trunk weights, torch's flags.

One protocol, data set and split let numbers meet in a table; other versions or machines can still move them. A table
says so itself, and whose numbers are concerned, instead of leaving it to be found.
"""

from collections.abc import Iterable

from results.record import FoldRecord

MOST_NAMES = 3  # of the methods behind one value


def origins_of(record: FoldRecord) -> dict[str, str]:
    """Versions, device, threads, trunk weights and torch's flags of one record."""
    made = record.provenance
    found = {**made.versions, "device": made.device, "threads": str(made.threads)}
    if made.trunk_weights not in ("", "none"):  # of a method without a trunk
        found["trunk weights"] = made.trunk_weights[:12]
    flags = (record.in_force or {}).get("numerics")
    return found | ({flag: str(value) for flag, value in flags.items()} if isinstance(flags, dict) else {})


def differing_origins(records: Iterable[FoldRecord]) -> tuple[str, ...]:
    """A line for each thing that is not the same in all records: `torch 2.9.0 (ms) or 2.14.1 (contrastive, triplet)`.

    A thing that some records do not tell, such as an optional package, differs only between those that do.
    """
    methods: dict[str, dict[str, set[str]]] = {}  # by thing and its value
    for record in records:
        for thing, value in origins_of(record).items():
            methods.setdefault(thing, {}).setdefault(value, set()).add(record.identity.method)
    return tuple(
        f"{thing} {' or '.join(f'{value} ({_few(who)})' for value, who in sorted(values.items()))}"
        for thing, values in sorted(methods.items())
        if len(values) > 1
    )


def _few(names: Iterable[str]) -> str:
    found = sorted(names)
    more = f" and {len(found) - MOST_NAMES} more" if len(found) > MOST_NAMES else ""
    return ", ".join(found[:MOST_NAMES]) + more
