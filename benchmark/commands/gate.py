"""What the commands of the regression gate share: their options, sides out of a store, and how judgements leave."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from benchmark.console import DONE, NEGATIVE, USAGE, print_json, say
from benchmark.errors import BenchmarkError

if TYPE_CHECKING:
    from benchmark.bench import Bench
    from benchmark.methods.entry import MethodEntry
    from benchmark.workshop import Suite
    from reports.gate.judgement import Judgement
    from reports.gate.sides import Side
    from results.store import Store

Metric = Annotated[str | None, typer.Option("--metric", help="Default: the protocol's own, map_at_r.")]
Setting = Annotated[
    Literal["concatenated", "separated"] | None,
    typer.Option("--setting", help="Default: concatenated, where the protocol has it."),
]
Margin = Annotated[
    float | None,
    typer.Option(
        "--margin", metavar="POINTS", help="Differences up to it do not matter, in points of a table: 0.5 is 0.005."
    ),
]
Require = Annotated[
    Literal["better", "non-inferior"] | None,
    typer.Option("--require", help="Pass only if the new one is better, or no more than --margin worse."),
]
JUnit = Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write the verdict as JUnit XML too.")]


class JobsFailed(Exception):
    """Jobs that have no result through no doing of their method; nothing can be judged before they have run."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """How two sides are to be compared."""

    metric: str | None
    setting: str | None
    margin: float | None  # a fraction
    require: Literal["better", "non-inferior"] | None


def question(metric: str | None, setting: str | None, margin: float | None, require: Any) -> Question:
    """What was asked, checked; a margin in points becomes a fraction.

    Raises:
        BenchmarkError: for a margin that can be none, or that is missing.
    """
    if margin is not None and not 0 < margin < 100:
        raise BenchmarkError(f"--margin is {margin:g}; it is in points of a table, above 0 and below 100.")
    if require == "non-inferior" and margin is None:
        raise BenchmarkError("--require non-inferior needs a --margin: by how many points the new one may be worse.")
    return Question(metric=metric, setting=setting, margin=None if margin is None else margin / 100, require=require)


def check_junit(path: Path | None) -> None:
    """Refuse a place where the file cannot be written before anything is run."""
    from results.whole_file import check_writable

    if path is not None:
        check_writable(path)


def planned_side(label: str, entry: "MethodEntry", bench: "Bench") -> "Side":
    """A method's side before anything has run: it has no value."""
    from benchmark.gate import identity_of
    from reports.gate.sides import Side

    return Side(label=label, identity=identity_of(entry, bench, {}), values={})


def side_in_store(
    label: str, entry: "MethodEntry", suite: "Suite", store: "Store", problems: "Mapping[str, str] | None"
) -> "Side":
    """A method's side as the store has it; `problems` are those of a run just now, None where nothing was run."""
    from benchmark.gate import finals_of
    from reports.gate.sides import side_of_records
    from results.repeats import n_final_runs

    try:
        found = finals_of(entry, suite.bench, store, suite.given.get(entry.name))
    except BenchmarkError as error:
        if problems and entry.name in problems:
            raise JobsFailed(f"{label}: {problems[entry.name]}") from None
        raise error
    if found.n_lacking and problems is not None:
        raise JobsFailed(f"{label}: {problems.get(entry.name, f'{found.n_lacking} final folds have no result.')}")
    if found.n_lacking:
        raise BenchmarkError(
            f"{label}: {found.n_lacking} folds of its final runs are not in {store.name}; without --from-store they "
            "are run."
        )
    side = side_of_records(label, found.records, found.identity)
    if found.no_winner is not None:
        runs = range(1, n_final_runs(entry.name, suite.bench.protocol.values()) + 1)
        side = replace(side, failed=dict.fromkeys(runs, found.no_winner))
    unsearched = entry.is_trained and entry.name not in suite.given and not suite.bench.space(entry)
    defaults = [f"{label} has no search space: it ran with its own defaults"] if unsearched else []
    return replace(side, notes=(*defaults, *found.notes(store.name)))


def conclude(
    found: "Sequence[Judgement]", asked: Question, junit: Path | None, as_json: bool, as_list: bool = True
) -> int:
    """Print and write the judgements; returns the exit code."""
    from reports.gate.judgement_text import as_dict, to_lines, verdict_line
    from reports.gate.junit import Case, to_junit
    from reports.gate.verdict import UNJUDGED
    from results.whole_file import write_whole

    codes = [
        USAGE if one.ruling.verdict in UNJUDGED else DONE if one.ruling.meets(asked.require) else NEGATIVE
        for one in found
    ]
    texts = ["\n".join(to_lines(one, asked.require)) for one in found]
    if as_json:
        values = [as_dict(one, asked.require) for one in found]
        print_json(values if as_list else values[0])
    else:
        say("\n\n".join(texts))
    if junit is not None:
        outcomes: dict[int, Literal["passed", "failure", "error"]]
        outcomes = {DONE: "passed", NEGATIVE: "failure", USAGE: "error"}
        cases = [
            Case(
                name=f"{one.new.label} against {one.old.label}",
                outcome=outcomes[code],
                message=verdict_line(one, asked.require),
                text=text,
            )
            for one, code, text in zip(found, codes, texts, strict=True)
        ]
        write_whole(junit, to_junit(cases))
    return max(codes)
