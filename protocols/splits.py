"""Class-disjoint splits: which classes train, which validate (one cut for each fold), which are the test set.

A split holds class names only, never rows, so shuffled rows or ids with gaps change nothing. The cut follows the order
of the classes as they are given: sorting them is the data set's part. A test list that comes with a data set is never
re-cut. With the kind `wrapped` some classes may be validated by no fold: see `never_validated`.

Source of `wrapped`: the released code of Musgrave et al., ECCV 2020, https://arxiv.org/abs/2003.08505. Source of
`balanced`: the released code of Gurbuz et al., WACV 2024. `holdout` is the first of their balanced folds alone.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import sha256
from itertools import chain, islice, pairwise
from typing import Self, get_args

from protocols.errors import ProtocolError
from protocols.spec import Folds, SplitKind

SCHEMA = 1


@dataclass(frozen=True)
class Fold:
    """The classes that one fold model trains on and those that select its best step."""

    train: tuple[str, ...]
    validation: tuple[str, ...]


@dataclass(frozen=True)
class Split:
    """The folds of a data set and its test classes, the same for all methods.

    Raises:
        ProtocolError: if a side is empty or names a class twice, or if two sides of a fold, or a fold and the test
            set, share a class.
    """

    kind: SplitKind
    folds: tuple[Fold, ...]
    test: tuple[str, ...]

    def __post_init__(self) -> None:
        if self.kind not in get_args(SplitKind):
            raise ProtocolError(f"split: kind {self.kind!r}; known are {', '.join(get_args(SplitKind))}.")
        if not self.folds:
            raise ProtocolError("split: no folds; at least one is needed.")
        for number, fold in enumerate(self.folds):
            _refuse_overlap(number, {"train": fold.train, "validation": fold.validation, "test": self.test})

    @property
    def never_validated(self) -> tuple[str, ...]:
        """Train classes that no fold validates, in the order of the classes (24 and 73 of Cars196's 0-97)."""
        validated = set(chain.from_iterable(fold.validation for fold in self.folds))
        trained = dict.fromkeys(chain.from_iterable(fold.train for fold in self.folds))
        return tuple(name for name in trained if name not in validated)

    @cached_property
    def digest(self) -> str:
        """First 12 hex digits of the SHA-256 of kind, folds and test as sorted JSON; the file's schema is left out."""
        text = json.dumps(asdict(self), sort_keys=True, separators=(",", ":"))
        return sha256(text.encode()).hexdigest()[:12]

    def to_json(self) -> str:
        """The split as a JSON text that any script can read: schema, kind, folds (train, validation), test."""
        return json.dumps({"schema": SCHEMA, **asdict(self)}, indent=1, ensure_ascii=False) + "\n"

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The split that `to_json` wrote.

        Raises:
            ProtocolError: if the text is no split, is of another schema, or holds a split that cannot be.
        """
        try:
            read = json.loads(text)
            schema = read["schema"]
            if schema == SCHEMA:
                folds = tuple(Fold(_names(fold["train"]), _names(fold["validation"])) for fold in read["folds"])
                return cls(read["kind"], folds, _names(read["test"]))
        except (json.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            raise ProtocolError("split file: not a split of `mlrc data split`; write it again with that.") from error
        raise ProtocolError(f"split file: schema {schema!r}; this code reads {SCHEMA}. Update the package.")


def make_split(classes: Sequence[str], folds: Folds, test_classes: Collection[str] | None) -> Split:
    """Cut classes into folds and a test set.

    Args:
        classes: all classes of the data set, in their sorted order.
        folds: how many folds, and of which kind.
        test_classes: the official test classes; None makes the second half of `classes` the test set, which is the
            larger half where the number is odd.

    Raises:
        ProtocolError: if fewer classes are left for the folds than there are folds or held-out parts, an official test
            class is not among the classes, a class is given twice, or no class is left for the test.
    """
    if test_classes is None:
        rest, test = tuple(classes[: len(classes) // 2]), tuple(classes[len(classes) // 2 :])
    else:
        official = frozenset(test_classes)
        if unknown := official.difference(classes):
            raise ProtocolError(
                f"split: {_listed(sorted(unknown))} in the test list but not in the data set; mend one of the two."
            )
        rest = tuple(name for name in classes if name not in official)
        test = tuple(name for name in classes if name in official)
    what, field = ("parts", "holdout_parts") if folds.kind == "holdout" else ("folds", "n_folds")
    n_parts: int = getattr(folds, field)
    if len(rest) < n_parts:
        raise ProtocolError(
            f"split: {len(rest)} classes to train and validate on ({_listed(rest)}) beside {len(test)} test classes; "
            f"{n_parts} {what} need at least {n_parts}. Add classes or lower folds.{field}."
        )
    blocks = (_wrapped_blocks if folds.kind == "wrapped" else _balanced_blocks)(len(rest), n_parts)
    cut = tuple(
        Fold(train=rest[: block.start] + rest[block.stop :], validation=rest[block.start : block.stop])
        for block in islice(blocks, folds.n_folds)
    )
    return Split(folds.kind, cut, test)


def _wrapped_blocks(n_classes: int, n_folds: int) -> Iterator[range]:
    """Validation classes by position: fold k trains from class k n / F on, around the end, and validates the last v.

    v = n // F equals the released code's `int(0.125 * n_total)` for four folds in the first half of the classes.
    """
    n_validation = n_classes // n_folds
    for fold in range(n_folds):
        stop = fold * n_classes // n_folds or n_classes
        yield range(stop - n_validation, stop)


def _balanced_blocks(n_classes: int, n_folds: int) -> Iterator[range]:
    """Validation classes by position: neighbouring blocks that cover every class once, the last block first."""
    bounds = [fold * n_classes // n_folds for fold in range(n_folds + 1)]
    return (range(start, stop) for start, stop in reversed(list(pairwise(bounds))))


def _refuse_overlap(number: int, sides: dict[str, tuple[str, ...]]) -> None:
    owner: dict[str, str] = {}
    for side, names in sides.items():
        if not names:
            raise ProtocolError(f"split, fold {number}: no {side} classes; each side needs at least one.")
        if doubled := [name for name, times in Counter(names).items() if times > 1]:
            raise ProtocolError(f"split, fold {number}: {_listed(doubled)} twice in {side}; name each class once.")
        for other in sides:
            if shared := [name for name in names if owner.get(name) == other]:
                raise ProtocolError(
                    f"split, fold {number}: {_listed(shared)} in both {other} and {side}; classes must not be shared."
                )
        owner |= dict.fromkeys(names, side)


def _names(read: object) -> tuple[str, ...]:
    if not isinstance(read, list) or not all(isinstance(name, str) for name in read):
        raise TypeError(f"expected a list of class names, found {read!r:.60}")
    return tuple(read)


def _listed(names: Iterable[str], at_most: int = 6) -> str:
    found = [repr(name) for name in names] or ["none"]
    more = f" and {len(found) - at_most} more" if len(found) > at_most else ""
    return f"{'class' if len(found) == 1 else 'classes'} {', '.join(found[:at_most])}{more}"
