"""JSON that a stranger wrote: read within bounds, and strictly, before anything in it is believed.

Refused are texts that are no UTF-8 (a byte order mark may lead), NaN and infinity, a key given twice (readers disagree
on which one counts), nesting and numbers beyond what a record needs, and control characters, which a terminal obeys.
"""

import json
import math
from collections import Counter
from pathlib import Path
from typing import Any, NoReturn

from results.errors import ResultsError

MOST_BYTES = 64 * 2**20  # some 10,000 records
MOST_NESTED = 40  # a record of a hierarchy nests about ten deep
LARGEST_WHOLE = 2**63 - 1  # what databases hold
ALLOWED_CONTROLS = "\n\t"


def read_untrusted(path: Path) -> Any:
    """The JSON value in a file.

    Raises:
        ResultsError: if the file cannot be read, is too large, or holds what this module refuses.
    """
    content = bytes_of(path)
    try:
        return parse_untrusted(content)
    except ResultsError as error:
        raise ResultsError(f"{path}: {error}") from None


def bytes_of(path: Path) -> bytes:
    """What a file holds, or one byte more than may be.

    Raises:
        ResultsError: if it cannot be read.
    """
    try:
        if not path.is_file():  # a pipe or device would never end
            raise ResultsError(f"{path}: found {'a folder' if path.is_dir() else 'no file'}, wanted a file.")
        with path.open("rb") as file:
            return file.read(MOST_BYTES + 1)
    except ResultsError:  # a ValueError itself
        raise
    except (OSError, ValueError) as error:  # ValueError: a NUL in the name
        raise ResultsError(f"{path}: cannot be read ({getattr(error, 'strerror', None) or error}).") from None


def parse_untrusted(content: bytes) -> Any:
    """The JSON value of UTF-8 bytes.

    Raises:
        ResultsError: if they hold what this module refuses.
    """
    if len(content) > MOST_BYTES:
        raise ResultsError(f"is larger than {MOST_BYTES // 2**20} MiB, which no file of ours is.")
    try:
        value = json.loads(content.decode("utf-8-sig"), object_pairs_hook=_once_each, parse_constant=_no_number)
    except UnicodeDecodeError as error:
        raise ResultsError(f"is no UTF-8 text (byte {error.start}); it is damaged, or another kind of file.") from None
    except RecursionError:
        raise ResultsError(f"is nested deeper than {MOST_NESTED} levels; no file of ours is.") from None
    except json.JSONDecodeError as error:
        raise ResultsError(f"is no JSON ({error}); it is damaged, or another kind of file.") from None
    except ResultsError:
        raise
    except ValueError as error:  # a whole number of thousands of digits
        raise ResultsError(f"holds a number that cannot be ({error}).") from None
    _check(value)
    return value


def _once_each(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        doubled, _ = Counter(name for name, _ in pairs).most_common(1)[0]
        raise ResultsError(f"has the key {doubled[:60]!r} twice in one object.")
    return found


def _no_number(text: str) -> NoReturn:
    raise ResultsError(f"holds {text}; strict JSON has finite numbers only.")


def _check(value: Any) -> None:
    """Level by level, so that no depth can exhaust the stack."""
    level, depth = [value], 0
    while level:
        if depth > MOST_NESTED:
            raise ResultsError(f"is nested deeper than {MOST_NESTED} levels; no file of ours is.")
        following: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                following += item.keys()
                following += item.values()
            elif isinstance(item, list):
                following += item
            else:
                _check_plain(item)
        level, depth = following, depth + 1


def _check_plain(item: Any) -> None:
    if isinstance(item, str):
        bad = next((sign for sign in item if _is_refused(sign)), None) if not item.isprintable() else None
        if bad is not None:
            raise ResultsError(f"holds the character U+{ord(bad):04X} in {item[:60]!r}; texts have no such characters.")
    elif isinstance(item, float) and not math.isfinite(item):
        raise ResultsError("holds a number beyond what a double can be.")
    elif isinstance(item, int) and abs(item) > LARGEST_WHOLE:
        raise ResultsError(f"holds a whole number beyond {LARGEST_WHOLE}.")


def _is_refused(sign: str) -> bool:
    """C0 and C1 controls, and halves of surrogate pairs, which no encoding can write."""
    code = ord(sign)
    return (code < 0x20 or 0x7F <= code < 0xA0 or 0xD800 <= code < 0xE000) and sign not in ALLOWED_CONTROLS
