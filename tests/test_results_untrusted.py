"""JSON of strangers: what is refused, in one line, before anything in it is looked at."""

import json
import math
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.errors import ResultsError
from results.exchange.untrusted import LARGEST_WHOLE, MOST_BYTES, parse_untrusted, read_untrusted

TEXTS = st.text(st.characters(exclude_categories=["Cc", "Cs"]))
NUMBERS = st.integers(-LARGEST_WHOLE, LARGEST_WHOLE) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_what_strict_json_holds_is_read_as_it_is(value: object) -> None:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    assert parse_untrusted(text.encode()) == value
    assert parse_untrusted(b"\xef\xbb\xbf" + text.encode()) == value  # with a byte order mark


@given(st.binary(max_size=200))
def test_no_bytes_raise_anything_but_one_plain_line(content: bytes) -> None:
    said = ""
    try:
        parse_untrusted(content)
    except ResultsError as error:
        said = str(error)
    assert said.isprintable()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is no JSON"),
        (b'{"a": 1', "is no JSON"),
        (b"\xff\xfe{}", "is no UTF-8 text"),
        (b'{"a": NaN}', "holds NaN"),
        (b"[-Infinity]", "holds -Infinity"),
        (b"[1e999]", "beyond what a double can be"),
        (b"[9223372036854775808]", "beyond 9223372036854775807"),
        (b"[" + b"9" * 5000 + b"]", "holds a number that cannot be"),
        (b'{"a": 1, "b": 2, "a": 3}', "has the key 'a' twice"),
        (b"[" * 41 + b"0" + b"]" * 41, "nested deeper than 40"),
        (b"[" * 10**6, "nested deeper than 40"),
        (b'{"a":' * 10**5, "nested deeper than 40"),
        (rb'["\u001b[31mred"]', "U+001B"),
        (rb'["\u0000"]', "U+0000"),
        (rb'{"\u009b": 1}', "U+009B"),
        (rb'["\ud800"]', "U+D800"),
    ],
)
def test_what_is_damaged_or_hostile_is_refused(content: bytes, said: str) -> None:
    with pytest.raises(ResultsError, match=said.replace("+", r"\+").replace("[", r"\[")):
        parse_untrusted(content)


def test_line_breaks_tabs_and_other_scripts_are_texts_like_any() -> None:
    value = {"donnée": "一行\n\t二行", "😀": "­"}
    assert parse_untrusted(json.dumps(value).encode()) == value


def test_a_number_keeps_every_bit() -> None:
    for value in (0.1, math.pi, 5e-324, -0.0, 1.7976931348623157e308):
        assert math.copysign(1, parse_untrusted(repr(value).encode())) == math.copysign(1, value)
        assert parse_untrusted(repr(value).encode()) == value


def test_what_is_no_file_is_refused_and_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for name, said in (("none", "no file"), ("", "a folder"), ("pipe", "no file")):
        with pytest.raises(ResultsError) as raised:
            read_untrusted(tmp_path / name)
        assert str(raised.value) == f"{tmp_path / name}: found {said}, wanted a file."


def test_a_file_too_large_is_refused_without_being_read_whole(tmp_path: Path) -> None:
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(MOST_BYTES * 1000)  # sparse: it takes no room
    with pytest.raises(ResultsError, match="larger than 64 MiB"):
        read_untrusted(tmp_path / "huge.json")
