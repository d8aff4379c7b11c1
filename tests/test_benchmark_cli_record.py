"""`mlrc record` shows what a record proves: its checks, what was in force, what made it; found by how its id begins."""

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Command
from tiny import MARGINS, tiny_bench

from benchmark.methods.registry import METHODS
from benchmark.training.training import run_fold
from results.record import FoldRecord
from results.store import Store


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, FoldRecord]:
    """A store with one fold of a final run."""
    folder = tmp_path_factory.mktemp("record")
    bench = tiny_bench(folder)
    record = run_fold(bench.job(METHODS["contrastive"], MARGINS, run=1, fold=0), bench)
    with Store.open(str(folder / "store.db")) as store:
        store.add(record)
    return folder / "store.db", record


def test_a_record_is_shown_in_full(mlrc: Command, made: tuple[Path, FoldRecord]) -> None:
    store, record = made
    shown = mlrc("record", record.id[:6], "--store", store)
    assert shown.code == 0
    words = " ".join(shown.out.split())
    for check in record.audit:
        assert f"{check.name} passed: {' '.join(check.detail.split())}"[:40] in words
    for part in (record.id, "pos_margin 0.2", record.identity.protocol["digest"], "In force", "torch 2."):
        assert part in words
    device = record.provenance.device
    assert device.startswith("cpu ")  # and its instructions
    assert f"device {device}" in words


def test_records_are_listed_and_given_as_json(mlrc: Command, made: tuple[Path, FoldRecord]) -> None:
    store, record = made
    (line,) = mlrc("record", "--store", store, "--json").json
    assert line["id"] == record.id
    assert line["map_at_r"] == record.test["map_at_r"]
    listed = mlrc("record", "--store", store).out
    assert record.id in listed
    assert f"{100 * record.test['map_at_r']:.2f}" in listed
    found = mlrc("record", record.id, "--store", store, "--json").json
    assert [check["name"] for check in found["audit"]] == [check.name for check in record.audit]


def test_a_record_that_is_not_there_is_one_line(mlrc: Command, made: tuple[Path, FoldRecord], tmp_path: Path) -> None:
    store, record = made
    assert (
        f"no record begins with 'nothing'; an id there is {record.id}"
        in mlrc("record", "nothing", "--store", store).refusal()
    )
    assert "no store there yet" in mlrc("record", "--store", tmp_path / "none.db").refusal()


def test_what_a_store_holds_is_listed_and_shown_without_torch_whose_import_takes_seconds(
    made: tuple[Path, FoldRecord], tmp_path: Path
) -> None:
    store, record = made
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "from benchmark.cli import main\n"
        "for command in (['record'], ['record', sys.argv[2]], ['status'], ['report']):\n"
        "    try:\n        main([*command, '--store', sys.argv[1]])\n"
        "    except SystemExit as left:\n        assert not left.code, command\n"
    )
    command = [sys.executable, "-c", code, str(store), record.id]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="utf-8", timeout=120)
    assert done.returncode == 0, done.stderr
    assert record.id in done.stdout
