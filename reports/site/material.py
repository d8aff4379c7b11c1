"""What a site is made of beside the records: plain values, as their makers are out of reach of a report.

Everything is optional. A method that was a plug-in, and is not installed where the site is made, has its records alone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from numpy.typing import NDArray

from reports.analyses.embedded import Floats, Images
from results.comparison import Comparison
from results.record import FoldRecord

Space = Mapping[str, Mapping[str, Any]]  # by hyper-parameter: type, and low, high, log, step or choices


class Searched(NamedTuple):
    """What one search was of."""

    comparison: Comparison
    method: str
    method_code: str


@dataclass(frozen=True, kw_only=True)
class MethodText:
    """What is said of a method."""

    family: str
    formula: str
    source: str
    notes: str = ""
    space: Space = field(default_factory=dict)


class TestImages(Images, Protocol):
    """The test images, of which some may be there only to be found."""

    @property
    def gallery(self) -> NDArray[Any] | None:
        """(N,) true for an image that queries search among and that is no query; None: all search all others."""


class Embeddings(Protocol):
    """Final fold records with their test embeddings and images."""

    @property
    def records(self) -> Sequence[FoldRecord]:
        """The records of which the embeddings are at hand."""

    def of(self, record: FoldRecord) -> tuple[Floats, TestImages]:
        """The embeddings of one fold model and their images."""


@dataclass(frozen=True, kw_only=True)
class Material:
    """All of it."""

    methods: Mapping[str, MethodText] = field(default_factory=dict)
    spaces: Mapping[Searched, Space] = field(default_factory=dict)
    importances: Mapping[Searched, Mapping[str, float]] = field(default_factory=dict)  # shares of hyper-parameters
    embeddings: Embeddings | None = None
