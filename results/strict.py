"""Frozen dataclasses to plain JSON values and back, checked against their type hints: the hints are the schema.

`plain` is the border where NumPy scalars become Python numbers; `read` builds a dataclass and accepts nothing that its
hints do not say. A hint `Annotated[X, check]` adds a rule: `check(value)` returns what was wanted, or None if content.
Both name the field by its path, such as `curve[3].map_at_r`.
"""

import math
import types
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from datetime import datetime, timedelta
from difflib import get_close_matches
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from results.errors import ResultsError

Check = Callable[[Any], str | None]
WANTED = {bool: "true or false", int: "a whole number", float: "a number", str: "a text", type(None): "null"}
LONGEST_SHOWN = 60  # characters of a wrong value that a one-line message can hold


def _is_fraction(value: float) -> str | None:
    return None if 0.0 <= value <= 1.0 else "a fraction in [0, 1]"


def _is_utc(value: str) -> str | None:
    try:
        is_utc = datetime.fromisoformat(value).utcoffset() == timedelta(0)
    except ValueError:
        is_utc = False
    return None if is_utc else "a UTC time in ISO 8601, such as 2020-08-23T12:00:00+00:00"


Fraction = Annotated[float, _is_fraction]
UtcTime = Annotated[str, _is_utc]


def check_schema(found: Any, newest: int, what: str) -> None:
    """Refuse a schema number that is none, or that of newer code.

    Raises:
        ResultsError: with the way out.
    """
    if type(found) is not int or found < 1:
        raise ResultsError(f"found schema {found!r:.60}, wanted a whole number from 1 to {newest}.")
    if found > newest:
        raise ResultsError(f"{what} schema {found}; this code reads up to {newest}. Update the package.")


def has(**types_by_key: type) -> Check:
    """A check for a dictionary that must hold these keys with values of these types, and may hold more."""

    def check(value: dict[str, Any]) -> str | None:
        lacking = [key for key, kind in types_by_key.items() if type(value.get(key)) is not kind]
        return f"an object with {', '.join(lacking)} ({types_by_key[lacking[0]].__name__})" if lacking else None

    return check


def plain(value: Any, path: str = "") -> Any:
    """The value as JSON knows it: dict with text keys, list, str, bool, int, finite float, None.

    Raises:
        ResultsError: for NaN and infinity, and for anything that JSON has no form for.
    """
    if is_dataclass(value):
        return {item.name: plain(getattr(value, item.name), _join(path, item.name)) for item in fields(value)}
    if isinstance(value, dict):
        for key in value:
            if not isinstance(key, str):
                raise ResultsError(f"{path or 'value'}: found the key {_shown(key)}, wanted a text.")
        return {key: plain(item, _join(path, key)) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, f"{path}[{index}]") for index, item in enumerate(value)]
    if getattr(value, "shape", None) == () and hasattr(value, "item"):
        value = value.item()  # a NumPy scalar; float32 widens to the double of equal value
    if value is not None and type(value) not in (bool, int, float, str):
        raise ResultsError(f"{path or 'value'}: found type {type(value).__name__}, wanted what JSON can hold.")
    if isinstance(value, float) and not math.isfinite(value):
        raise ResultsError(f"{path or 'value'}: found {value}, wanted a finite number; leave out what does not exist.")
    return value


def read(hint: Any, value: Any, path: str = "") -> Any:
    """The JSON value as the hint's type; whole numbers become floats where a float is wanted.

    Raises:
        ResultsError: if a field is missing, unknown or of another type, or fails its check.
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Annotated:
        result = read(arguments[0], value, path)
        for check in arguments[1:]:
            if wanted := check(result):
                raise _wrong(path, value, wanted)
        return result
    if hint is Any:
        return plain(value, path)
    if origin in (Union, types.UnionType):
        return _read_union(arguments, value, path)
    if origin is Literal:
        if type(value) is not str or value not in arguments:
            raise _wrong(path, value, f"one of {', '.join(arguments)}")
        return value
    if origin is tuple:
        if type(value) is not list:
            raise _wrong(path, value, "a list")
        return tuple(read(arguments[0], item, f"{path}[{index}]") for index, item in enumerate(value))
    if origin is dict or is_dataclass(hint):
        if type(value) is not dict:
            raise _wrong(path, value, "an object")
        if origin is dict:
            return {key: read(arguments[1], item, _join(path, key)) for key, item in value.items()}
        return _read_dataclass(hint, value, path)
    if hint is float and type(value) in (int, float):
        return plain(float(value), path)
    if type(value) is not hint:
        raise _wrong(path, value, WANTED[hint])
    return value


def _read_union(members: tuple[Any, ...], value: Any, path: str) -> Any:
    if type(value) in members:
        return plain(value, path)
    others = [member for member in members if member is not type(None)]
    if len(others) == 1 and value is not None:
        return read(others[0], value, path)
    raise _wrong(path, value, " or ".join(WANTED.get(member, "an object") for member in members))


def _read_dataclass(cls: Any, value: dict[str, Any], path: str) -> Any:
    hints = _hints(cls)
    for key in value:
        if key not in hints:
            near = get_close_matches(key, hints, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(hints)}."
            raise ResultsError(f"{path or 'value'}: unknown field {_shown(key)}. {hint}")
    for item in fields(cls):
        if item.name not in value and item.default is MISSING:
            raise ResultsError(f"{_join(path, item.name)}: missing field.")
    return cls(**{key: read(hints[key], item, _join(path, key)) for key, item in value.items()})


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls, include_extras=True)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


def _wrong(path: str, value: object, wanted: str) -> ResultsError:
    return ResultsError(f"{path or 'value'}: found {_shown(value)}, wanted {wanted}.")
