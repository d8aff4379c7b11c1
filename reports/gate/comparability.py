"""In what two sides of a comparison differ beside their methods: what makes it void, and what may move its numbers.

Another protocol, data set or split makes two numbers answers to two questions. Other package versions, machines or
threads do not, but they are the first thing to look at when a number has moved, so they are told first.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from reports.gate.sides import Side
from results.exchange.fingerprints import PROSE

ABSENT = "-"


@dataclass(frozen=True, kw_only=True)
class FieldDifference:
    """One field that is not the same on both sides."""

    field: str
    new: str
    old: str
    is_decisive: bool  # whether numbers on its two sides may not be compared


def differences(new: Side, old: Side) -> list[FieldDifference]:
    """All fields that differ: those of the fingerprint first, then versions, device and threads."""
    return [*_fingerprint(new, old), *_origins(new, old)]


def _fingerprint(new: Side, old: Side) -> Iterator[FieldDifference]:
    if new.identity.comparison.protocol_digest != old.identity.comparison.protocol_digest:
        yield from _protocol(new.identity.protocol, old.identity.protocol)
    for part, names in (("dataset", ("content_hash", "name", "n_classes", "n_images")), ("split", ("digest", "kind"))):
        found, against = getattr(new.identity, part), getattr(old.identity, part)
        if found[names[0]] != against[names[0]]:
            for name in names:
                if found.get(name) != against.get(name):
                    yield _differing(f"{part}.{name}", found.get(name), against.get(name), is_decisive=True)


def _protocol(new: Mapping[str, Any], old: Mapping[str, Any]) -> Iterator[FieldDifference]:
    found, against = _flat(new["values"]), _flat(old["values"])
    paths = [path for path in dict.fromkeys([*found, *against]) if found.get(path) != against.get(path)]
    named = [path for path in paths if path not in PROSE]
    for path in named:
        yield _differing(f"protocol.{path}", found.get(path), against.get(path), is_decisive=True)
    if not named:  # a digest that does not follow from its values
        yield _differing("protocol.digest", new["digest"], old["digest"], is_decisive=True)


def _origins(new: Side, old: Side) -> Iterator[FieldDifference]:
    """A thing that one side does not tell, such as an optional package, is not known to differ."""
    for thing in sorted(new.origins.keys() & old.origins.keys()):
        if new.origins[thing] != old.origins[thing]:
            yield FieldDifference(
                field=thing,
                new=" and ".join(new.origins[thing]),
                old=" and ".join(old.origins[thing]),
                is_decisive=False,
            )


def _differing(field: str, new: Any, old: Any, *, is_decisive: bool) -> FieldDifference:
    return FieldDifference(field=field, new=_text(new), old=_text(old), is_decisive=is_decisive)


def _flat(values: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items():
        if isinstance(value, Mapping):
            found |= _flat(value, f"{prefix}{name}.")
        else:
            found[prefix + name] = value
    return found


def _text(value: Any) -> str:
    if value is None:
        return ABSENT
    return value if isinstance(value, str) else json.dumps(value)
