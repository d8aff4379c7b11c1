"""A suite file: the options of `mlrc run`, `search`, `finals` and `plan` in TOML, read from their own definitions.

A key is an option's long flag without the dashes in front; `methods` is the list of methods, `set` a table of the
protocol's fields. Paths are relative to the file. What is typed beside the file wins: methods in place of the file's, a
field of `--set` in place of the same field there.
"""

import json
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from typer.models import OptionInfo

from benchmark.errors import BenchmarkError
from benchmark.options import HOW_IT_RUNS, Out, Published, SuiteOptions
from protocols.errors import did_you_mean
from results.errors import ResultsError
from results.strict import plain, read

EXAMPLE = 'methods = ["contrastive", "ms"]'
UNSUITED = "for `mlrc run`, `finals` and `plan`; it has no part in a search."


@dataclass(frozen=True)
class Key:
    """A key of the file: the parameter that it fills, the type of its value, and what its option is marked with."""

    name: str
    kind: Any
    marks: tuple[Any, ...]

    @property
    def is_content(self) -> bool:
        """Whether its value is a part of what the suite is."""
        return HOW_IT_RUNS not in self.marks

    def placed(self, folder: Path, value: Any) -> Any:
        """The value with its relative paths beside the file."""
        place: Callable[[Path, str], str] | None = next((mark for mark in self.marks if callable(mark)), None)
        if place is None:
            return value
        return [place(folder, item) for item in value] if isinstance(value, list) else place(folder, value)


def known_keys() -> dict[str, Key]:
    """All keys, by their spelling in a file."""
    hints = get_type_hints(SuiteOptions, include_extras=True) | {"published": Published, "out": Out}
    return dict(_key(name, hint) for name, hint in hints.items())


def with_suite_file(given: Mapping[str, Any], typed: set[str]) -> dict[str, Any]:
    """What a command was given, with what its suite file says wherever nothing was typed.

    Raises:
        BenchmarkError: if the file cannot be read, has an unknown key or a value of a wrong type, or names no method.
    """
    files = [name for name in given["methods"] if name.endswith(".toml")]
    if len(files) > 1:
        raise BenchmarkError(f"{' and '.join(files)}: one suite file at a time.")
    found = read_suite_file(Path(files[0]))
    if "published" in found and "published" not in given:
        raise BenchmarkError(f"{files[0]}: published is {UNSUITED} Leave it out of the file, or run mlrc finals.")
    methods = [name for name in given["methods"] if name not in files] or found.get("methods")
    if not methods:
        raise BenchmarkError(f"{files[0]}: it names no method; add, for example, {EXAMPLE}.")
    chosen = {name: value for name, value in found.items() if name in given and name not in typed}
    settings = [*found.get("settings", []), *given["settings"]]  # of a field that is set twice, the last holds
    return {**given, **chosen, "methods": methods, "settings": settings}


def read_suite_file(path: Path) -> dict[str, Any]:
    """What a suite file says, by parameter, as the command line would have it.

    Raises:
        BenchmarkError: in one line, with the way out.
    """
    keys = known_keys()
    found: dict[str, Any] = {}
    for spelt, value in _parsed(path).items():
        if spelt not in keys:
            near = did_you_mean(spelt.replace("_", "-"), keys)
            raise BenchmarkError(f"{path}: no key {spelt!r}.{near} Known: {', '.join(keys)}.")
        key = keys[spelt]
        try:
            found[key.name] = list(_settings(value)) if spelt == "set" else _value(key, path.parent, value)
        except ResultsError as error:
            raise BenchmarkError(f"{path}: {spelt}{str(error).removeprefix('value')}") from None
    return found


def _key(name: str, hint: Any) -> tuple[str, Key]:
    kind, *marks = get_args(hint)
    # In an annotation, Typer takes the first flag for a default until it reads the signature.
    options = [mark for mark in marks if isinstance(mark, OptionInfo)]
    flags = [str(flag) for option in options for flag in (option.default, *(option.param_decls or ()))]
    spelt = next((flag.removeprefix("--") for flag in flags if flag.startswith("--")), name)
    return spelt, Key(name, kind, tuple(marks))


def _parsed(path: Path) -> dict[str, Any]:
    try:
        text = path.read_bytes().decode("utf-8-sig")
        return tomllib.loads(text)
    except OSError as error:
        raise BenchmarkError(f"{path}: cannot be read ({error.strerror}). A suite file is TOML: {EXAMPLE}.") from None
    except UnicodeDecodeError:
        raise BenchmarkError(f"{path}: is not UTF-8; save it so.") from None
    except tomllib.TOMLDecodeError as error:
        raise BenchmarkError(f"{path}: is no TOML: {error}.") from None


def _value(key: Key, folder: Path, value: Any) -> Any:
    is_optional = get_origin(key.kind) in (UnionType, Union)  # TOML has no null
    kind = next(kind for kind in get_args(key.kind) if kind is not type(None)) if is_optional else key.kind
    if value == "" or (isinstance(value, list) and "" in value):
        raise ResultsError(" is empty; give it a value, or leave it out.")
    if get_origin(kind) is list:
        return key.placed(folder, list(read(tuple[str, ...], value)))
    placed = key.placed(folder, read(str if kind is Path else kind, value))
    return Path(placed) if kind is Path else placed


def _settings(value: Any, prefix: str = "") -> Iterator[str]:
    """`field=value` for each field of a table; a dotted name is a table in a table."""
    if not isinstance(value, dict):
        raise ResultsError(f": found {value!r:.60}, wanted a table of fields, such as {{ max_steps = 200 }}.")
    for name, item in value.items():
        if isinstance(item, dict):
            yield from _settings(item, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}={json.dumps(plain(item, f'.{prefix}{name}'))}"
