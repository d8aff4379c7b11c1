"""The figures by name: what each shows, what it is drawn from, and what draws it."""

import difflib
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from reports.analyses.batch_size import batch_size
from reports.analyses.coarse_proxies import coarse_proxies
from reports.analyses.covering_radius import covering_radius
from reports.analyses.drawing import Gallery
from reports.analyses.embedding_map import embedding_map
from reports.analyses.problems import steps_per_problem
from reports.analyses.search_budget import search_budget
from reports.analyses.surface import lambda_by_proxies, pool_by_proxies
from reports.errors import ReportError
from results.record import Record


@dataclass(frozen=True)
class FromRecords:
    """A figure of what the records hold: those of the searches, of the final runs, or of both."""

    shows: str
    draw: Callable[[Iterable[Record]], Gallery]
    purpose: Literal["search", "final"] | None = None


@dataclass(frozen=True)
class FromEmbeddings:
    """A figure of the test embeddings, which needs the data set too."""

    shows: str
    draw: Callable[..., Gallery]  # of an `Embedded`


FIGURES: dict[str, FromRecords | FromEmbeddings] = {
    "lambda-proxies": FromRecords("CCP: validation MAP@R over lambda and n_proxies", lambda_by_proxies, "search"),
    "pool-proxies": FromRecords("CCP: validation MAP@R over pool_size and n_proxies", pool_by_proxies, "search"),
    "problems": FromRecords("CCP: steps of each problem of the chain", steps_per_problem, "final"),
    "coarse-proxies": FromRecords("HPL: validation MAP@R over the number of coarse proxies", coarse_proxies, "search"),
    "search-budget": FromRecords("best validation MAP@R so far, by trial and method", search_budget, "search"),
    "batch-size": FromRecords("test metric over protocols that differ in batch.size alone", batch_size),
    "covering-radius": FromEmbeddings("covering radius of each test class by k centres", covering_radius),
    "embedding-map": FromEmbeddings("test embeddings on a plane with thumbnails: PCA, or --tsne", embedding_map),
}


def figure_named(name: str) -> FromRecords | FromEmbeddings:
    """One figure.

    Raises:
        ReportError: if there is none of that name; the nearest is offered.
    """
    if name not in FIGURES:
        near = difflib.get_close_matches(name, FIGURES, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise ReportError(f"no figure named {name!r}.{hint} Known: {', '.join(FIGURES)}.")
    return FIGURES[name]
