"""After the runs: a report that broke is made again without a job, and one that lacks records names what is missing."""

import sqlite3
from pathlib import Path

import pytest
from conftest import SEARCHED, Command, Launch, draw_images, ended, folds_in, options, write_loss

import reports.render
from results.record import FoldRecord

NUMPY_SUMMARY = """def summary(self):
        import numpy
        return {"share": numpy.float32(0.25), "seen": numpy.int64(7), "both": [numpy.float64(0.5), numpy.bool_(1)]}"""


def test_a_report_that_broke_after_the_runs_is_made_again_without_running_a_job(
    mlrc: Command, suite: list[str], store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert mlrc("run", "untrained", *suite).code == 0
    before = folds_in(store)
    with monkeypatch.context() as broken:
        broken.delattr(reports.render, "to_terminal")
        with pytest.raises((ImportError, AttributeError)):
            mlrc("report", "--store", store)
    again = mlrc("report", "--store", store, "--out", tmp_path / "report")
    assert again.code == 0, again.err
    assert "untrained" in again.out
    assert (tmp_path / "report" / "results.md").exists()
    assert folds_in(store) == before  # the same times of making: nothing ran


def test_a_report_that_lacks_the_record_of_a_fold_names_it_and_the_same_command_runs_that_one(
    mlrc: Command, suite: list[str], store: Path
) -> None:
    whole = mlrc("run", "untrained", *suite, "--json").json
    (kept, lost) = folds_in(store)
    with sqlite3.connect(store) as connection:
        connection.execute("DELETE FROM mlrc_records WHERE id = ?", (lost.id,))
    shown = mlrc("report", "--store", store)
    assert shown.code == 0, shown.err
    assert "fold 1 not run" in " ".join(shown.out.split())
    (table,) = mlrc("report", "--store", store, "--json").json
    separated = [cell for cell in table["rows"][0]["results"] if cell["setting"] == "separated"]
    assert all(cell["mean"] is None for cell in separated)  # never a mean of the folds that are there
    assert mlrc("run", "untrained", *suite, "--json").json == whole
    again = folds_in(store)
    assert again[0] == kept  # its seconds too: it was not run again
    assert (again[1].id, again[1].test) == (lost.id, lost.test)


def test_numbers_of_numpy_in_what_a_method_says_become_plain_ones(
    mlrc: Command, suite: list[str], store: Path, tmp_path: Path
) -> None:
    loss = write_loss(tmp_path / "loss.py", "return embeddings[0] @ embeddings[1]", NUMPY_SUMMARY)
    assert mlrc("run", loss, *suite).code == 0
    told = [record.method_state for record in folds_in(store) if isinstance(record, FoldRecord)]
    assert told
    assert all(state == {"share": 0.25, "seen": 7, "both": [0.5, True]} for state in told)
    assert all(type(state["seen"]) is int for state in told if state)


def test_a_suite_of_other_scripts_works_under_the_c_locale_and_its_store_is_one_file_once_it_has_ended(
    launch: Launch, tmp_path: Path
) -> None:
    folder = tmp_path / "Bilder für 距離"
    draw_images(folder / "données", n_classes=8, n_images=2)
    write_loss(folder / "mon écart.py", "return self.x * embeddings[0, 0]", SEARCHED)
    pairs = [part for part in options("x", "y") if "=" in part]
    fields = "".join(f"{pair.replace('=', ' = ', 1)}\n" for pair in pairs)
    (folder / "größe.toml").write_bytes(
        b"\xef\xbb\xbf"
        + f'name = "größe 距離"\nmethods = ["mon écart.py:Loss"]\ndata = "données"\nstore = "größe.db"\n'
        f'executor = "inline"\nout = "résultats"\n[set]\n{fields}'.encode()
    )
    done = ended(launch("run", "Bilder für 距離/größe.toml", "--json", LC_ALL="C"))
    assert done.code == 0, done.err
    (table,) = done.json
    assert table["dataset"]["name"] == "données"
    assert "mon écart.py:Loss" in table["rows"][0]["method"]
    assert "mon écart.py" in (folder / "résultats" / "results.md").read_text(encoding="utf-8")
    assert sorted(path.name for path in folder.glob("größe.db*")) == ["größe.db", "größe.db.embeddings"]
    with sqlite3.connect(folder / "größe.db") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert len(folds_in(folder / "größe.db")) == 2 * 2 + 2  # of two trials and a final run
