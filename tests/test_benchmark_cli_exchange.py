"""`mlrc export`, `mlrc import` and `mlrc report --from`: results travel whole, and only what is sound is taken."""

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Command, options
from genuine import VALUES, final_run, finals, identity

from benchmark.cli import main
from benchmark.training.embeddings import embeddings_folder
from benchmark.training.failure import one_line
from results.exchange.export import write_export
from results.record import to_json
from results.store import Store


@pytest.fixture(scope="module")
def source(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The store of a suite: a searched method, a baseline, and a run whose folds are not all there."""
    store = tmp_path_factory.mktemp("source") / "source.db"
    with pytest.raises(SystemExit) as left:
        main(["run", "contrastive", "pixels", *options(images, store), "--json"])
    assert left.value.code == 0
    return store


@pytest.fixture
def out(mlrc: Command, source: Path, tmp_path: Path) -> Path:
    assert mlrc("export", "out", "--store", source).code == 0
    return tmp_path / "out"


def content(store: Path) -> list[str]:
    with Store.open(str(store)) as opened:
        return [*map(to_json, opened.records()), *map(repr, opened.studies())]


def test_a_store_goes_into_another_to_the_last_bit_and_gives_the_same_tables(
    mlrc: Command, source: Path, out: Path
) -> None:
    taken = mlrc("import", out, "--store", "other.db", "--json").json
    assert taken["records"] == {"new": len(content(source)) - 1, "known": 0, "duplicates": 0}
    assert taken["searches"] == 1
    assert content(Path("other.db")) == content(source)
    for as_what in (["--json"], []):
        assert mlrc("report", "--store", "other.db", *as_what).out == mlrc("report", "--store", source, *as_what).out
    again = mlrc("import", out, out, "--store", "other.db")
    assert again.out.splitlines()[-1] == f"Taken: 0 new records, {taken['records']['new']} known before, 0 searches."


def test_files_of_the_same_store_have_the_same_bytes(mlrc: Command, source: Path, out: Path) -> None:
    assert mlrc("import", out, "--store", "other.db").code == 0
    assert mlrc("export", "again", "--store", "other.db").code == 0
    written = {path.name: path.read_bytes() for path in out.iterdir()}
    assert {path.name: path.read_bytes() for path in Path("again").iterdir()} == written
    assert len(written) == 2


def test_a_report_is_made_of_the_files_alone_and_without_torch(mlrc: Command, source: Path, out: Path) -> None:
    tables = mlrc("report", "--store", source, "--json").json
    assert mlrc("report", "--from", out, "--json").json == tables
    without = "import sys; sys.modules['torch'] = None; from benchmark.cli import main; "
    code = f"{without}main(['report', '--from', {str(out)!r}, '--json'])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, encoding="utf-8", timeout=120, check=False)
    assert json.loads(done.stdout) == tables, done.stderr
    assert "--from takes the place of --store" in mlrc("report", "--from", out, "--store", source).refusal()


def test_one_method_is_exported_where_one_is_named(mlrc: Command, source: Path) -> None:
    (line,) = mlrc("export", "out", "--store", source, "--method", "pixels", "--json").json["files"]
    assert line["method"] == "pixels"
    assert [path.name for path in Path("out").iterdir()] == [Path(line["file"]).name]
    refused = mlrc("export", "out", "--store", source, "--method", "pixel").refusal()
    assert "nothing of 'pixel' is recorded there. Did you mean 'pixels'? Methods there: contrastive, pixels." in refused


def test_embeddings_go_along_and_are_held_to_their_hashes(mlrc: Command, source: Path) -> None:
    files = mlrc("export", "out", "--store", source, "--embeddings", "--json").json["files"]
    assert [line["embeddings"] for line in files] == [2, 1]
    assert mlrc("import", "out", "--store", "other.db", "--json").json["embeddings"] == 3
    there, here = embeddings_folder(str(source)), embeddings_folder("other.db")
    assert {path.name: path.read_bytes() for path in here.iterdir()} == {
        path.name: path.read_bytes() for path in there.iterdir()
    }
    assert (
        mlrc("verify", _final_id(source), "--store", "other.db", "--data", "no").code == 2
    )  # found, and its data asked for
    one = next(Path("out").rglob("*.npy"))
    np.save(one, np.load(one) + 1)
    assert f"{one.name}: is not the file that was exported" in mlrc("import", "out", "--store", "third.db").refusal()
    assert not Path("third.db").exists()
    one.unlink()
    partial = mlrc("import", "out", "--store", "third.db")
    assert partial.code == 0
    assert "files of test embeddings are not there" in partial.err


def _final_id(store: Path) -> str:
    with Store.open(str(store)) as opened:
        return opened.records(purpose="final", method="contrastive")[0].id


def test_what_an_export_leaves_out_is_said(mlrc: Command, source: Path) -> None:
    with Store.open("partial.db") as store:
        store.merge([*finals("ms", 0.1), *final_run(identity("ms", 2), [0.2] * 4, 0.3)[:2]], [])
    found = mlrc("export", "out", "--store", "partial.db")
    assert found.code == 0
    assert found.err.strip() == "left out: run 2 of 'ms' lacks the record of folds 2, 3"
    assert "(5 records, 0 searches)" in found.out
    embeddings = mlrc("export", "out", "--store", "partial.db", "--embeddings", "--json").json
    assert sum("cannot be read" in reason for reason in embeddings["left_out"]) == 4


def test_a_store_without_anything_to_export_is_refused(mlrc: Command) -> None:
    assert "no store there yet" in mlrc("export", "out").refusal()
    with Store.open("empty.db"):
        pass
    assert "nothing is recorded there yet" in mlrc("export", "out", "--store", "empty.db").refusal()
    with Store.open("begun.db") as store:
        store.merge(final_run(identity("ms", 1), [0.2] * 4, 0.3)[:2], [])
    assert "run 1 of 'ms' lacks the record of folds 2, 3" in mlrc("export", "out", "--store", "begun.db").refusal()
    assert not Path("out").exists()


def damaged() -> Iterator[tuple[str, bytes, str]]:
    yield "empty", b"", "is no JSON"
    yield "text", b"hello", "is no JSON"
    yield "other", b'{"results": []}', "is not an export of results"
    yield "list", b"[]", "is not an export of results"
    yield "newer", b'{"format": "mlrc-export", "schema": 99}', "Update the package"
    yield "deep", b"[" * 10**6, "nested deeper"
    yield "nan", b'{"format": NaN}', "holds NaN"
    yield "binary", bytes(range(256)), "is no UTF-8 text"
    yield "picture", b"\x89PNG\r\n\x1a\n" + bytes(100), "is no UTF-8 text"


@pytest.mark.parametrize(("name", "bytes_", "said"), list(damaged()), ids=[one[0] for one in damaged()])
def test_a_damaged_file_among_good_ones_is_refused_and_nothing_is_taken(
    name: str, bytes_: bytes, said: str, mlrc: Command, out: Path
) -> None:
    (out / f"zz {name}.json").write_bytes(bytes_)
    refused = mlrc("import", out, "--store", "other.db").refusal()
    assert said in refused
    assert f"zz {name}.json" in refused
    assert not Path("other.db").exists()
    assert said in mlrc("report", "--from", out).refusal()


def tampered(path: Path) -> Any:
    value = json.loads(path.read_bytes())
    final = next(record for record in value["records"] if record["kind"] == "run")
    final["test"]["map_at_r"] = final["test"]["map_at_r"] / 2
    path.write_text(json.dumps(value), encoding="utf-8")
    return final


def test_files_and_stores_that_contradict_each_other_are_refused_with_what_differs(
    mlrc: Command, source: Path, out: Path
) -> None:
    file = next(path for path in out.iterdir() if "contrastive" in path.name)
    copy = out / "copy.json"
    copy.write_bytes(file.read_bytes())
    taken = mlrc("import", out, "--store", "other.db", "--json").json
    assert taken["records"]["duplicates"] == taken["files"][1]["records"] > 1
    final = tampered(copy)
    refused = mlrc("import", out, "--store", "third.db").refusal()
    assert all(part in refused for part in ("copy.json", file.name, "contradict", final["id"], "test.map_at_r"))
    before = content(Path("other.db"))
    refused = mlrc("import", copy, "--store", "other.db").refusal()
    assert all(part in refused for part in ("other.db", "contradict", final["id"], "Nothing was taken"))
    assert content(Path("other.db")) == before


def test_a_file_that_claims_a_published_protocol_and_holds_another_is_refused(mlrc: Command) -> None:
    values = VALUES | {"name": "mlrc"}
    write_export(final_run(identity("ms", 1, values), [0.2] * 4, 0.3), [], Path("forged.json"))
    refused = mlrc("import", "forged.json").refusal()
    assert "holds results under mlrc@1 with the fingerprint" in refused
    assert mlrc("report", "--from", "forged.json").refusal() == refused
    unknown = VALUES | {"name": "theirs"}
    write_export(final_run(identity("ms", 1, unknown), [0.2] * 4, 0.3), [], Path("theirs.json"))
    assert "protocol theirs@1: its values are in the file" in mlrc("import", "theirs.json").out


def test_files_of_one_method_on_two_splits_make_two_tables_that_name_them(mlrc: Command) -> None:
    for number, digest in enumerate(("cd" * 6, "ef" * 6)):
        who = replace(identity("ms", 1), split={"kind": "balanced", "digest": digest})
        write_export(final_run(who, [0.2] * 4, 0.3), [], Path(f"{number}.json"))
    tables = mlrc("report", "--from", "0.json", "--from", "1.json", "--json").json
    assert sorted(table["split"]["digest"] for table in tables) == ["cd" * 6, "ef" * 6]
    assert [len(table["rows"]) for table in tables] == [1, 1]


def test_the_message_of_a_failed_fold_holds_nothing_that_an_export_could_not() -> None:
    said = one_line(ValueError("\x1b[31mred\x1b[0m \udc80 and\ttabs\nmore"))
    assert said == "ValueError: ?[31mred?[0m ? and?tabs"


def test_places_that_are_not_there_are_one_line(mlrc: Command, tmp_path: Path, source: Path) -> None:
    assert "is not there" in mlrc("import", "nowhere.json").refusal()
    (tmp_path / "empty").mkdir()
    assert "no .json file in this folder" in mlrc("import", "empty").refusal()
    (tmp_path / "file").write_text("", encoding="utf-8")
    assert "cannot be written" in mlrc("export", "file", "--store", source).refusal()
    assert "cannot be written" in mlrc("export", "file", "--store", source, "--embeddings").refusal()


def test_a_name_that_is_markup_or_a_path_stays_a_name(mlrc: Command) -> None:
    for method in ("<script>alert(1)</script>", "../../up", "[red]x"):
        with Store.open("odd.db") as store:
            store.merge(final_run(identity(method, 1), [0.2] * 4, 0.3), [])
    written = mlrc("export", "out", "--store", "odd.db", "--json").json["files"]
    assert sorted(Path(line["file"]).parent.name for line in written) == ["out"] * 3
    assert mlrc("import", "out", "--store", "other.db").code == 0
    assert "[red]x" in mlrc("report", "--from", "out").out
