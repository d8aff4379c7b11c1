"""The cut is by class, is what the two published codes do, and survives its journey through a file."""

import json
from itertools import chain

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.errors import ProtocolError
from protocols.spec import Folds
from protocols.splits import Fold, Split, make_split

KINDS = ("wrapped", "balanced")
SIZES = (4, 5, 6, 10, 98, 100, 3997)


def names(n_classes: int) -> list[str]:
    return [f"{number:05d}" for number in range(n_classes)]


def cut(n_classes: int, kind: str, n_folds: int = 4) -> Split:
    """A split with `n_classes` classes before the test."""
    return make_split(names(2 * n_classes), Folds(n_folds=n_folds, kind=kind), None)


def validated(split: Split) -> list[tuple[int, int]]:
    """First and last validation class of each fold; each fold's must be neighbours."""
    found = []
    for fold in split.folds:
        numbers = [int(name) for name in fold.validation]
        assert numbers == list(range(numbers[0], numbers[-1] + 1))
        found.append((numbers[0], numbers[-1]))
    return found


def released_wrapped(classes: list[str], n_total: int) -> list[tuple[list[str], list[str]]]:
    """Four folds as the reality check's code cuts them: floating-point starts, a window that wraps around the end."""
    folds = []
    n_validation = int(n_total * 0.125)
    for fold in range(4):
        start = int((fold / 4) * len(classes))
        turned = classes[start:] + classes[:start]
        folds.append((turned[: len(classes) - n_validation], turned[len(classes) - n_validation :]))
    return folds


@pytest.mark.parametrize(
    ("n_classes", "kind", "expected"),
    [
        (100, "wrapped", [(75, 99), (0, 24), (25, 49), (50, 74)]),
        (98, "wrapped", [(74, 97), (0, 23), (25, 48), (49, 72)]),
        (98, "balanced", [(73, 97), (49, 72), (24, 48), (0, 23)]),
        (100, "balanced", [(75, 99), (50, 74), (25, 49), (0, 24)]),
        (4, "wrapped", [(3, 3), (0, 0), (1, 1), (2, 2)]),
        (5, "balanced", [(3, 4), (2, 2), (1, 1), (0, 0)]),
    ],
)
def test_validation_blocks_are_the_published_ones(n_classes, kind, expected):
    assert validated(cut(n_classes, kind)) == expected


def test_balanced_folds_of_inshop_validate_1000_and_three_times_999_classes():
    assert [len(fold.validation) for fold in cut(3997, "balanced").folds] == [1000, 999, 999, 999]


def test_cars_validates_its_classes_24_and_73_in_no_wrapped_fold_and_all_in_balanced_ones():
    assert cut(98, "wrapped").never_validated == ("00024", "00073")
    assert cut(98, "balanced").never_validated == ()


@pytest.mark.parametrize("n_total", [8, 9, 10, 11, 12, 20, 21, 196, 197, 200, 201, 7994, 7995, 22634])
def test_wrapped_folds_equal_the_released_code(n_total):
    split = make_split(names(n_total), Folds(n_folds=4, kind="wrapped"), None)
    expected = released_wrapped(names(n_total)[: n_total // 2], n_total)
    assert [(list(fold.train), list(fold.validation)) for fold in split.folds] == [
        (sorted(train), sorted(validation)) for train, validation in expected
    ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_classes", SIZES)
def test_every_fold_uses_every_class_once_in_the_given_order(n_classes, kind):
    split = cut(n_classes, kind)
    before_test = names(2 * n_classes)[:n_classes]
    assert split.test == tuple(names(2 * n_classes)[n_classes:])
    for fold in split.folds:
        assert sorted(fold.train + fold.validation) == before_test
        assert list(fold.train) == sorted(fold.train)


@given(n_classes=st.integers(2, 300), n_folds=st.integers(2, 9), kind=st.sampled_from(KINDS), odd=st.booleans())
def test_sides_are_disjoint_cover_all_classes_and_balanced_validates_each_once(n_classes, n_folds, kind, odd):
    classes = names(2 * n_classes + odd)
    if n_classes < n_folds:
        with pytest.raises(ProtocolError):
            make_split(classes, Folds(n_folds=n_folds, kind=kind), None)
        return
    split = make_split(classes, Folds(n_folds=n_folds, kind=kind), None)
    assert len(split.test) == n_classes + odd
    for fold in split.folds:
        assert sorted(fold.train + fold.validation + split.test) == classes
    times_validated = list(chain.from_iterable(fold.validation for fold in split.folds))
    assert len(times_validated) == len(set(times_validated))
    if kind == "balanced":
        assert sorted(times_validated) == classes[:n_classes]


def held_out(n_classes: int, n_parts: int) -> Split:
    return make_split(names(2 * n_classes), Folds(n_folds=1, kind="holdout", holdout_parts=n_parts), None)


@pytest.mark.parametrize(
    ("n_classes", "n_parts", "validation"),
    [(100, 3, (66, 99)), (98, 3, (65, 97)), (100, 4, (75, 99)), (98, 4, (73, 97)), (5, 4, (3, 4)), (2, 2, (1, 1))],
)
def test_a_holdout_is_one_model_validated_on_the_last_part(n_classes, n_parts, validation):
    split = held_out(n_classes, n_parts)
    assert validated(split) == [validation]
    assert sorted(split.folds[0].train + split.folds[0].validation) == names(2 * n_classes)[:n_classes]


def test_a_holdout_is_the_first_balanced_fold():
    assert held_out(98, 4).folds == cut(98, "balanced").folds[:1]


def test_a_holdout_of_more_parts_than_classes_is_refused_with_both():
    with pytest.raises(ProtocolError, match=r"3 classes .* 4 parts need at least 4.*lower folds.holdout_parts"):
        held_out(3, 4)


def test_a_holdout_comes_back_from_its_file():
    split = held_out(9, 3)
    assert Split.from_json(split.to_json()) == split


def test_the_larger_half_of_five_classes_is_the_test():
    split = make_split(list("abcde"), Folds(n_folds=2, kind="balanced"), None)
    assert split.test == ("c", "d", "e")


def test_an_official_test_list_is_never_recut_by_halving():
    classes = list("abcdefghijk")  # 11 classes, 6 of them for training: halving would put f into the test
    split = make_split(classes, Folds(n_folds=3, kind="balanced"), {"k", "j", "g", "h", "i"})
    assert split.test == tuple("ghijk")
    assert sorted(split.folds[0].train + split.folds[0].validation) == list("abcdef")


def test_official_test_classes_may_lie_between_the_others():
    split = make_split(list("abcdef"), Folds(n_folds=2, kind="balanced"), ["e", "b"])
    assert split.test == ("b", "e")
    assert [fold.validation for fold in split.folds] == [("d", "f"), ("a", "c")]


@pytest.mark.parametrize(
    ("classes", "test_classes", "message"),
    [
        (list("abcdef"), None, r"3 classes .*'a', 'b', 'c'.* 3 test classes; 4 folds need at least 4"),
        (list("abcdef"), {"a", "z"}, r"class 'z' in the test list but not in the data set"),
        (list("abcdef"), set(), r"no test classes"),
        (list("abcdeabc"), None, r"classes 'a', 'b', 'c' in both \w+ and test"),
        (list("aabcdefghi"), None, r"class 'a' twice in train"),
        ([], None, r"0 classes to train and validate on \(.*none"),
    ],
)
def test_a_split_that_cannot_be_is_refused_with_its_classes(classes, test_classes, message):
    with pytest.raises(ProtocolError, match=message) as caught:
        make_split(classes, Folds(n_folds=4, kind="wrapped"), test_classes)
    assert "\n" not in str(caught.value)


def test_many_classes_are_abbreviated_in_a_message():
    fold = Fold(train=tuple(names(50)), validation=tuple(names(40)))
    with pytest.raises(ProtocolError, match=r"'00005' and 34 more in both train and validation"):
        Split("wrapped", (fold,), ("t",))


def test_an_empty_side_is_refused():
    with pytest.raises(ProtocolError, match="fold 1: no validation classes"):
        Split("wrapped", (Fold(("a",), ("b",)), Fold(("a",), ())), ("c",))


@pytest.mark.parametrize("kind", KINDS)
def test_a_split_comes_back_from_its_file_with_the_same_digest(kind):
    split = make_split(["é", "日本", "a b", "c", "d", "e", "f", "g"], Folds(n_folds=4, kind=kind), None)
    read = Split.from_json(split.to_json())
    assert read == split
    assert read.digest == split.digest


def test_a_plain_reader_gets_the_lists_from_the_file():
    split = cut(5, "wrapped")
    read = json.loads(split.to_json())
    assert read["schema"] == 1
    assert read["kind"] == "wrapped"
    assert [tuple(fold["validation"]) for fold in read["folds"]] == [fold.validation for fold in split.folds]
    assert tuple(read["test"]) == split.test


def test_the_digest_is_pinned_and_tells_splits_apart():
    assert cut(10, "wrapped").digest == "9068e684b7ac"
    assert len({cut(n, kind).digest for n in SIZES for kind in KINDS}) == len(SIZES) * len(KINDS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("<html>", "not a split"),
        ("[]", "not a split"),
        ('{"schema": 1, "kind": "wrapped", "folds": []}', "not a split of `mlrc data split`; write it again"),
        ('{"schema": 1, "kind": "wrapped", "folds": [], "test": ["a"]}', "no folds"),
        (
            '{"schema": 1, "kind": "round", "folds": [], "test": ["a"]}',
            "kind 'round'; known are wrapped, balanced, holdout",
        ),
        (
            '{"schema": 1, "kind": "wrapped", "folds": [{"train": "ab", "validation": ["c"]}], "test": []}',
            "not a split",
        ),
        ('{"schema": 2}', "schema 2; this code reads 1"),
    ],
)
def test_a_file_that_is_no_split_is_refused_in_one_line(text, message):
    with pytest.raises(ProtocolError, match=message) as caught:
        Split.from_json(text)
    assert "\n" not in str(caught.value)
