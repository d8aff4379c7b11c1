"""`mlrc status`: what is left is known from the start, and a running method has a pace and an end."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path

import pytest
from conftest import Command
from rich.console import Console
from tiny import MARGINS, tiny_bench

from benchmark.bench import Bench
from benchmark.commands.listings import table
from benchmark.methods.entry import Value
from benchmark.methods.registry import method_entry
from benchmark.oversight.status import remarks, shown, status_lines
from benchmark.training.training import run_fold
from protocols.catalogue import MINI_V1
from results.claims import campaign_claim, new_owner
from results.record import FoldRecord
from results.store import Store

CONTRASTIVE = method_entry("contrastive")
NOON = datetime(2024, 5, 17, 12, tzinfo=UTC)


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """3 trials and 2 runs of 4 folds."""
    return tiny_bench(tmp_path_factory.mktemp("bench"), "max_steps=1", "cadence.evaluate_every_steps=1")


@pytest.fixture(scope="module")
def record(bench: Bench) -> FoldRecord:
    """A fold of a search."""
    return run_fold(bench.job(CONTRASTIVE, MARGINS, run=0, fold=0), bench)


@pytest.fixture
def opened(store: Path) -> Iterator[Store]:
    with Store.open(str(store)) as opened:
        yield opened


def put(store: Store, record: FoldRecord, ends: list[timedelta], seconds: float) -> None:
    """Records of jobs of so many seconds that ended at these times before or after noon."""
    for number, after in enumerate(ends):
        made = (NOON + after).isoformat(timespec="seconds")
        provenance = replace(record.provenance, created_at=made)
        store.add(replace(record, id=f"{number:016x}", seconds={"train": seconds}, provenance=provenance))


def claim_of(bench: Bench) -> str:
    return campaign_claim(bench.comparison, CONTRASTIVE.name, CONTRASTIVE.code)


def minutes(*numbers: float) -> list[timedelta]:
    return [timedelta(minutes=number) for number in numbers]


def test_a_search_that_has_just_begun_has_known_totals(opened: Store, bench: Bench) -> None:
    mini = replace(bench, protocol=MINI_V1)
    opened.put_study(mini.new_study(CONTRASTIVE, mini.space(CONTRASTIVE)))
    (line,) = status_lines(opened)
    assert line["final_folds"] == {"done": 0, "failed": 0, "of": 40}
    assert line["left"] == 10 * 4 + 10 * 4


def test_another_methods_record_tells_the_totals_of_a_derived_protocol(
    opened: Store, bench: Bench, record: FoldRecord
) -> None:
    other = method_entry("ms")
    opened.put_study(bench.new_study(other, bench.space(other)))
    assert status_lines(opened)[0]["left"] is None  # nothing in the store says what this protocol asks for
    opened.add(record)
    (line,) = [line for line in status_lines(opened) if line["method"] == "ms"]
    assert line["final_folds"]["of"] == 2 * 4
    assert line["left"] == 3 * 4 + 2 * 4


def test_the_pace_is_that_of_the_work_since_the_last_pause(opened: Store, bench: Bench, record: FoldRecord) -> None:
    opened.put_study(replace(bench.new_study(CONTRASTIVE, bench.space(CONTRASTIVE)), n_finished=2))
    # Yesterday 3 folds in an hour; today two side by side from noon on, each of 10 minutes.
    yesterday = [timedelta(days=-1), timedelta(days=-1, minutes=30), timedelta(days=-1, minutes=60)]
    put(opened, record, [*yesterday, *minutes(10, 10, 20, 20)], seconds=600)
    assert opened.claim(claim_of(bench), owner := new_owner())
    (line,) = status_lines(opened)
    assert line["running"] == owner
    assert line["folds_per_hour"] == pytest.approx(12)
    assert line["left"] == 4 + 2 * 4
    assert datetime.fromisoformat(line["expected_end"]) == NOON + timedelta(minutes=20) + timedelta(hours=1)


def test_what_nobody_runs_has_no_pace_and_no_end(opened: Store, bench: Bench, record: FoldRecord) -> None:
    put(opened, record, minutes(10, 20), seconds=600)
    (line,) = status_lines(opened)
    assert [line[name] for name in ("running", "folds_per_hour", "expected_end")] == [None] * 3
    assert remarks([line]) == ["contrastive: 8 folds left"]
    opened.claim(claim_of(bench), owner := new_owner())
    (line,) = status_lines(opened)
    end = datetime.fromisoformat(line["expected_end"]).astimezone()
    assert remarks([line]) == [
        f"contrastive: 8 folds left; {owner} runs it, 6 an hour, ends about {end:%Y-%m-%d %H:%M}"
    ]
    assert remarks([{**line, "left": 0, "running": None}]) == []  # all is done


def test_people_read_percent_as_in_the_tables_and_programs_a_fraction(mlrc: Command, suite: list[str]) -> None:
    (line,) = mlrc("search", "contrastive", *suite, "--json").json
    best = line["best_map_at_r"]
    assert 0 < best < 1
    assert f"{100 * best:.2f}" in mlrc("status", "--store", suite[suite.index("--store") + 1]).out
    assert shown({**line, "best_map_at_r": 0.12345})["best_map_at_r"] == "12.35"


def final(store: Store, bench: Bench, record: FoldRecord, hyperparameters: dict[str, Value]) -> None:
    """Records of both final runs with these hyper-parameters."""
    jobs = [bench.job(CONTRASTIVE, hyperparameters, run, fold) for run in (1, 2) for fold in range(4)]
    for job in jobs:
        made = replace(record, id=job.id, identity=bench.identity(job), fold=job.fold, seed=job.seed)
        store.add(replace(made, test=record.validation))


def test_final_runs_with_published_values_are_counted_apart_from_those_of_the_search(
    opened: Store, bench: Bench, record: FoldRecord
) -> None:
    paper: dict[str, Value] = {"pos_margin": 0.2652, "neg_margin": 0.5409}
    study = bench.new_study(CONTRASTIVE, bench.space(CONTRASTIVE))
    opened.put_study(replace(study, n_finished=3, best_trial=0, best_hyperparameters=MARGINS, best_value=0.5))
    final(opened, bench, record, MARGINS)
    final(opened, bench, record, paper)
    searched, published = status_lines(opened)
    assert [line["final_folds"] for line in (searched, published)] == [{"done": 8, "failed": 0, "of": 8}] * 2
    assert (searched["hyperparameters"], published["hyperparameters"]) == (None, paper)
    assert [line["left"] for line in (searched, published)] == [0, 0]
    assert [shown(line)["method"] for line in (searched, published)] == [
        "contrastive",
        "contrastive (neg_margin=0.5409, pos_margin=0.2652)",
    ]


def test_what_runs_is_the_set_of_hyperparameters_with_the_newest_record(
    opened: Store, bench: Bench, record: FoldRecord
) -> None:
    opened.put_study(bench.new_study(CONTRASTIVE, bench.space(CONTRASTIVE)))
    put(opened, record, minutes(10, 20), seconds=600)
    job = bench.job(CONTRASTIVE, {"pos_margin": 0.1, "neg_margin": 0.5}, 1, 0)
    newest = replace(record.provenance, created_at=(NOON + timedelta(minutes=30)).isoformat(timespec="seconds"))
    made = replace(record, id=job.id, identity=bench.identity(job), provenance=newest, test=record.validation)
    opened.add(replace(made, seconds={"train": 600.0}))
    opened.claim(claim_of(bench), owner := new_owner())
    searched, published = status_lines(opened)
    assert (searched["running"], published["running"]) == (None, owner)
    assert remarks([published])[0].startswith(f"contrastive (neg_margin=0.5, pos_margin=0.1): 7 folds left; {owner}")


@pytest.mark.parametrize("width", [40, 60, 200])
def test_no_method_name_is_broken_however_narrow_the_terminal(width: int) -> None:
    name = "losses/my_loss.py:SquaredContrastive"
    console = Console(width=width, file=StringIO())
    lines = [{"method": name, "trials": {"done": 2, "failed": 1, "of": 10}}]
    console.print(table(lines, ("method", "trials"), unbroken=True), crop=False)
    assert isinstance(console.file, StringIO)
    assert name in console.file.getvalue()
