"""Derived protocols: a published protocol with some fields set by hand, under its own name and fingerprint.

`mini@1` with `schedule.max_steps=120` becomes `mini@1+`: its numbers never meet those of `mini@1` in one table.
"""

import json
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from protocols.catalogue import CATALOGUE
from protocols.errors import ProtocolError, nearest
from protocols.spec import Protocol

_FIXED = ("name", "version", "purpose", "source", "derived")


def derive(protocol: Protocol, settings: Iterable[str]) -> Protocol:
    """The protocol with `field=value` settings applied.

    A field is named by its path (`schedule.max_steps`), or by its last part where only one field ends so. Values are
    JSON; a bare word is text. Setting every field to the value it has returns the protocol itself.

    Raises:
        ProtocolError: for a setting without `=`, an unknown or ambiguous field, a value of the wrong type, or values
            that no protocol can have together.
    """
    owner: Any
    changes: dict[str, Any] = {}
    for setting in settings:
        field, sign, text = setting.partition("=")
        if not sign or not field.strip():
            raise ProtocolError(f"--set {setting!r}: expected field=value, for example schedule.max_steps=200.")
        path = _resolve(protocol, field.strip())
        *parents, name = path.split(".")
        owner, place = protocol, changes
        for parent in parents:
            owner, place = getattr(owner, parent), place.setdefault(parent, {})
        place[name] = _parse(text.strip(), typing.get_type_hints(type(owner))[name], path, getattr(owner, name))
    derived = _replaced(protocol, changes)  # all at once: values that need each other may come in any order
    return protocol if derived == protocol else replace(derived, derived=True)


def settable_fields(value: Any, prefix: str = "") -> list[str]:
    """Dotted paths of all fields below a protocol that `--set` may change."""
    paths: list[str] = []
    for item in fields(value):
        if not prefix and item.name in _FIXED:
            continue
        found, path = getattr(value, item.name), f"{prefix}{item.name}"
        paths += settable_fields(found, f"{path}.") if is_dataclass(found) else [path]
    return paths


def _resolve(protocol: Protocol, field: str) -> str:
    known = settable_fields(protocol)
    matches = [path for path in known if path == field or path.endswith(f".{field}")]
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise ProtocolError(f"--set {field}: several fields end so: {', '.join(matches)}. Give the whole path.")
    leaves = {path.rpartition(".")[2]: path for path in known}
    near = nearest(field, [*known, *leaves])
    hint = f" Did you mean {leaves.get(near, near)!r}?" if near else f" mlrc protocols {protocol.name} lists them."
    raise ProtocolError(f"--set {field}: {protocol.title} has no such field.{hint}")


def _replaced(value: Any, changes: Mapping[str, Any]) -> Any:
    return replace(
        value,
        **{
            name: _replaced(getattr(value, name), new) if isinstance(new, dict) else new
            for name, new in changes.items()
        },
    )


def _parse(text: str, wanted: Any, full: str, held: Any) -> Any:
    try:
        found = json.loads(text)
    except ValueError:  # of a whole number of thousands of digits, too
        found = text
    try:
        return _coerce(found, wanted)
    except TypeError:
        name = getattr(wanted, "__name__", str(wanted)) if not typing.get_args(wanted) else _choices(wanted)
        raise ProtocolError(f"--set {full}={text:.60}: expected {name}, for example {full}={_shown(held)}.") from None


def _coerce(found: Any, wanted: Any) -> Any:
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if origin is typing.Literal:
        if found in arguments:
            return found
    elif origin is tuple:
        if isinstance(found, list):
            kinds = [arguments[0]] * len(found) if arguments[-1] is Ellipsis else arguments
            if len(kinds) == len(found):
                return tuple(_coerce(item, kind) for item, kind in zip(found, kinds, strict=True))
    elif origin is types.UnionType:
        for kind in arguments:
            if kind is type(None) and found is None:
                return None
            if kind is not type(None) and found is not None:
                return _coerce(found, kind)
    elif wanted is float and isinstance(found, int | float) and not isinstance(found, bool):
        return float(found)
    elif isinstance(wanted, type) and type(found) is wanted:
        return found
    raise TypeError


def _shown(held: Any) -> str:
    """A value as `--set` takes it."""
    return held if isinstance(held, str) else json.dumps(held, default=str)


def _choices(wanted: Any) -> str:
    if typing.get_origin(wanted) is typing.Literal:
        return "one of " + ", ".join(map(str, typing.get_args(wanted)))
    return str(wanted)


def derivation(values: Mapping[str, Any]) -> str:
    """How a derived protocol's values differ from the published one's: "schedule.max_steps = 120"; "" if published.

    `values` are plain JSON values as a record holds them; a protocol that this version does not know gives "".
    """
    base = CATALOGUE.get(f"{values['name']}@{values['version']}")
    if not values["derived"] or base is None:
        return ""
    return "; ".join(f"{path} = {json.dumps(value)}" for path, value in _differences(values, base.values(), ""))


def _differences(values: Mapping[str, Any], base: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _differences(value, base.get(name, {}), f"{prefix}{name}.")
        elif value != base.get(name) and prefix + name not in _FIXED:
            yield prefix + name, value
