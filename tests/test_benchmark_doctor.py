"""`mlrc doctor`: each check says what it found, and what is wrong makes the exit code 1."""

from importlib.metadata import version
from pathlib import Path

import pytest
from conftest import Command
from standard_trees import cub_tree

from benchmark.oversight import doctor
from protocols.trunks import TRUNKS


def lines_of(outcome) -> dict[str, dict[str, str]]:
    return {line["what"]: line for line in outcome.json}


def test_a_sound_machine_passes_every_check(mlrc: Command, images: Path, tmp_path: Path) -> None:
    found = mlrc("doctor", "--data", images, "--store", "store.db", "--json")
    lines = lines_of(found)
    assert found.code == 0
    assert not [line for line in lines.values() if line["state"] == "wrong"]
    assert f"torch {version('torch')}, " in lines["packages"]["found"]
    assert "cores" in lines["processor"]["found"]
    assert lines["flags of a worker"]["found"] == "deterministic kernels on, tf32 off, kernels chosen by speed off"
    assert lines["a job run twice"]["found"].startswith("gives equal bits")
    assert "32 images of 8 classes" in lines["data"]["found"]
    assert "none yet" in lines["store"]["found"]
    assert list(tmp_path.iterdir()) == []  # it made no store


def test_a_part_of_a_published_data_set_is_noted(mlrc: Command, tmp_path: Path) -> None:
    found = mlrc("doctor", "--data", f"cub200:{cub_tree(tmp_path / 'birds')}", "--json")
    line = lines_of(found)["data"]
    assert (found.code, line["state"]) == (0, "note")
    assert "8 classes and 16 images; CUB-200-2011 has 200 classes and 11,788 images" in line["found"]


def test_a_store_that_is_there_is_opened(mlrc: Command, suite: list[str], store: Path) -> None:
    mlrc("run", "pixels", *suite)
    assert lines_of(mlrc("doctor", "--store", store, "--json"))["store"]["found"] == f"{store}: 1 comparison"
    text = mlrc("doctor", "--store", store)
    assert text.code == 0
    assert "a job run twice" in text.out


@pytest.mark.parametrize(
    ("what", "arguments"),
    [("data", ["--data", "no/such/folder"]), ("store", ["--store", "text.db"]), ("store", ["--store", "nodb://host"])],
)
def test_what_is_wrong_is_said_and_the_exit_code_is_1(
    mlrc: Command, tmp_path: Path, what: str, arguments: list[str]
) -> None:
    (tmp_path / "text.db").write_text("no database", encoding="utf-8")
    found = mlrc("doctor", *arguments, "--json")
    assert found.code == 1
    assert lines_of(found)[what]["state"] == "wrong"


def test_a_job_that_is_not_the_same_twice_is_wrong(mlrc: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    perform, fold = doctor.perform, iter(range(2))

    def other_job(job):
        return perform(type(job)(**{**vars(job), "seed": job.seed + next(fold)}))

    monkeypatch.setattr(doctor, "perform", other_job)
    found = mlrc("doctor", "--json")
    assert found.code == 1
    assert lines_of(found)["a job run twice"]["state"] == "wrong"


def test_weights_that_are_missing_name_the_protocols_that_want_them(
    mlrc: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for trunk in TRUNKS.values():
        if trunk.published_file is not None:
            monkeypatch.setenv(trunk.published_file.variable, str(tmp_path / "none.pth"))
    line = lines_of(mlrc("doctor", "--json"))["weights of bn-inception"]
    assert line["state"] == "note"  # other protocols run without them
    assert line["found"].startswith("mlrc@1, mlrc-batch256@1, ccp@1")
