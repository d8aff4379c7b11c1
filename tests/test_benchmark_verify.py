"""`mlrc verify`: a job that is run again is identical, or the field that differs is named with its size."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import SETTINGS, Command, draw_images, options

from benchmark.oversight.recorded import recorded_protocol
from benchmark.oversight.verify import differing
from benchmark.provenance import device_name
from protocols.catalogue import PUBLISHED
from protocols.derive import derive
from results.store import Store


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory, images: Path) -> Path:
    """A folder with a store of everything that two methods leave behind."""
    from benchmark.cli import main

    folder = tmp_path_factory.mktemp("finished")
    with pytest.raises(SystemExit) as left:
        main(["run", "contrastive", "pixels", *options(images, folder / "store.db"), "--json"])
    assert left.value.code == 0
    return folder


@pytest.fixture
def store(finished: Path, tmp_path: Path) -> Path:
    """A copy of it, for this test to damage."""
    return Path(shutil.copytree(finished, tmp_path / "finished")) / "store.db"


def an_id(store: Path, method: str, kind: str, purpose: str = "final") -> str:
    with Store.open(str(store)) as opened:
        return opened.records(kind=kind, method=method, purpose=purpose)[0].id


def edit(store: Path, record_id: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Change a record as no program does."""
    with sqlite3.connect(store) as database:
        table = next(name for (name,) in database.execute("SELECT name FROM sqlite_master") if name.endswith("records"))
        (body,) = database.execute(f"SELECT body FROM {table} WHERE id = ?", (record_id,)).fetchone()
        record = json.loads(body)
        change(record)
        database.execute(f"UPDATE {table} SET body = ? WHERE id = ?", (json.dumps(record), record_id))
    database.close()


@pytest.mark.parametrize(
    ("method", "kind", "purpose", "embeddings"),
    [
        ("contrastive", "fold", "search", "none to compare"),
        ("contrastive", "fold", "final", "identical"),
        ("contrastive", "run", "final", "none to compare"),
        ("pixels", "fold", "final", "identical"),
    ],
)
def test_a_job_that_is_run_again_gives_its_record(
    mlrc: Command, images: Path, store: Path, method: str, kind: str, purpose: str, embeddings: str
) -> None:
    record_id = an_id(store, method, kind, purpose)
    found = mlrc("verify", record_id[:12], "--store", store, "--data", images, "--json")
    assert found.code == 0, found.err
    assert found.json["id"] == record_id
    assert (found.json["identical"], found.json["differences"]) == (True, [])
    assert found.json["embeddings"] == embeddings


def test_a_changed_value_is_named_with_its_size_and_the_exit_code_is_1(
    mlrc: Command, images: Path, store: Path
) -> None:
    def change(record: dict[str, Any]) -> None:
        record["curve"][1]["loss"] += 0.25
        record["test"]["map_at_r"] = record["test"]["map_at_r"] / 2

    record_id = an_id(store, "contrastive", "fold")
    edit(store, record_id, change)
    found = mlrc("verify", record_id, "--store", store, "--data", images, "--json")
    assert found.code == 1
    by_field = {one["field"]: one for one in found.json["differences"]}
    assert by_field.keys() == {"curve[1].loss", "test.map_at_r"}
    assert by_field["curve[1].loss"]["by"] == pytest.approx(0.25)
    assert by_field["test.map_at_r"]["by"] == pytest.approx(by_field["test.map_at_r"]["recorded"])
    text = mlrc("verify", record_id, "--store", store, "--data", images)
    assert text.code == 1
    assert "curve[1].loss" in text.out
    assert "off by 0.25" in text.out


def test_embeddings_that_were_changed_differ(mlrc: Command, images: Path, store: Path) -> None:
    record_id = an_id(store, "contrastive", "fold")
    path = Path(f"{store}.embeddings") / f"{record_id}.npy"
    embeddings = np.load(path)
    embeddings[0, 0] += 0.5
    np.save(path, embeddings)
    found = mlrc("verify", record_id, "--store", store, "--data", images)
    assert found.code == 1
    assert "test embeddings: differ by up to 0.5" in found.out


def test_other_images_are_refused_by_their_hash(mlrc: Command, store: Path, tmp_path: Path) -> None:
    others = draw_images(tmp_path / "others", n_classes=6, n_images=4)
    record_id = an_id(store, "contrastive", "fold")
    refused = mlrc("verify", record_id, "--store", store, "--data", others).refusal()
    assert f"record {record_id} cannot be verified here: data set {others}" in refused


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("provenance.versions.torch", "1.0.0", "torch is "),
        ("provenance.versions.pillow", "9.0.0", "pillow is "),
        ("provenance.device", "NVIDIA H200", "device is cpu "),
        ("provenance.device", "NVIDIA H200, training as CUDA graphs", "it was made with NVIDIA H200."),
        (
            "provenance.device",
            f"{device_name('cpu')}, training as CUDA graphs",
            "--cuda-graphs: jobs would run on the cpu here",
        ),
        ("identity.method_code", "0123456789ab", "method code is none; it was made with 0123456789ab"),
        ("seed", 7, "the record was changed by hand"),
    ],
)
def test_what_cannot_be_run_here_is_refused_with_the_reason(
    mlrc: Command, images: Path, store: Path, path: str, value: object, said: str
) -> None:
    def change(record: dict[str, Any]) -> None:
        *parents, last = path.split(".")
        for parent in parents:
            record = record[parent]
        record[last] = value

    record_id = an_id(store, "contrastive", "fold")
    edit(store, record_id, change)
    assert said in mlrc("verify", record_id, "--store", store, "--data", images).refusal()


@pytest.mark.parametrize(("method", "matters"), [("contrastive", False), ("hpl-gmm(proxy-nca)", True)])
def test_the_library_that_clusters_matters_to_the_methods_that_cluster(
    mlrc: Command, images: Path, store: Path, method: str, matters: bool
) -> None:
    def change(record: dict[str, Any]) -> None:
        record["provenance"]["versions"]["scikit-learn"] = "0.1"
        record["identity"]["method"] = method

    record_id = an_id(store, "contrastive", "fold", "search")
    edit(store, record_id, change)
    found = mlrc("verify", record_id, "--store", store, "--data", images)
    assert found.code == (2 if matters else 0)
    assert ("scikit-learn is " in found.err) == matters


def test_another_release_of_the_code_is_told_and_not_refused(mlrc: Command, images: Path, store: Path) -> None:
    record_id = an_id(store, "contrastive", "fold")
    edit(store, record_id, lambda record: record["provenance"].update(code_revision="abcdef"))
    found = mlrc("verify", record_id, "--store", store, "--data", images, "--json")
    assert found.code == 0
    assert found.json["notes"][0].startswith("the code was abcdef, is ")


@pytest.mark.parametrize("lacking", ["in_force", "in_force.coverage"])
def test_a_record_from_before_something_was_recorded_can_be_verified(
    mlrc: Command, images: Path, store: Path, lacking: str
) -> None:
    def change(record: dict[str, Any]) -> None:
        *parents, last = lacking.split(".")
        for parent in parents:
            record = record[parent]
        del record[last]

    record_id = an_id(store, "contrastive", "fold")
    edit(store, record_id, change)
    found = mlrc("verify", record_id, "--store", store, "--data", images, "--json")
    assert (found.code, found.json["differences"]) == (0, [])


def test_what_only_older_releases_told_of_a_job_is_no_difference_and_a_part_that_is_gone_is_one(
    mlrc: Command, images: Path, store: Path
) -> None:
    record_id = an_id(store, "contrastive", "fold")
    edit(store, record_id, lambda record: record["in_force"].update(transforms={}, schedule={}))
    edit(store, record_id, lambda record: record["evaluation_audit"].update(chunk_rows=1, search="faiss"))
    found = mlrc("verify", record_id, "--store", store, "--data", images, "--json")
    assert (found.code, found.json["differences"]) == (0, [])
    edit(store, record_id, lambda record: record["in_force"].update(unheard_of=1))
    found = mlrc("verify", record_id, "--store", store, "--data", images, "--json")
    assert found.code == 1
    assert [one["field"] for one in found.json["differences"]] == ["in_force.unheard_of"]


def test_what_was_in_force_is_compared(mlrc: Command, images: Path, store: Path) -> None:
    record_id = an_id(store, "contrastive", "fold")
    edit(store, record_id, lambda record: record["in_force"]["coverage"].update(n_images=1))
    found = mlrc("verify", record_id, "--store", store, "--data", images, "--json")
    assert [one["field"] for one in found.json["differences"]] == ["in_force.coverage.n_images"]


def test_an_id_that_is_not_there_or_not_the_only_one_is_refused(mlrc: Command, store: Path, tmp_path: Path) -> None:
    assert "no record begins with 'xyz'; an id there is " in mlrc("verify", "xyz", "--store", store).refusal()
    assert "0 records" not in mlrc("verify", "", "--store", store).refusal()
    with Store.open(str(store)) as opened:
        ids = [record.id for record in opened.records()]
    first = max((record_id[0] for record_id in ids), key=[record_id[0] for record_id in ids].count)
    assert f"records begin with '{first}'" in mlrc("verify", first, "--store", store).refusal()
    assert "no store there" in mlrc("verify", "xyz", "--store", tmp_path / "none.db").refusal()
    assert not (tmp_path / "none.db").exists()


def test_the_data_set_must_be_named_unless_it_is_generated(mlrc: Command, store: Path, tmp_path: Path) -> None:
    record_id = an_id(store, "contrastive", "fold")
    assert "name that data set with --data" in mlrc("verify", record_id, "--store", store).refusal()
    settings = [part for setting in SETTINGS for part in ("--set", setting)]
    other = tmp_path / "generated.db"
    assert mlrc("run", "untrained", "--store", other, "--executor", "inline", *settings).code == 0
    assert mlrc("verify", an_id(other, "untrained", "fold"), "--store", other).code == 0


@pytest.mark.parametrize("base", PUBLISHED, ids=lambda protocol: protocol.title)
def test_the_protocol_of_a_record_is_found_again(base) -> None:
    derived = derive(base, ["max_steps=7", "n_trials=3", "transforms.crop_area=[0.5, 1.0]", "proxy_lr_factor=2.5"])
    for protocol in (base, derived):
        recorded = {"title": protocol.title, "digest": protocol.digest(), "values": protocol.values()}
        assert recorded_protocol(json.loads(json.dumps(recorded))) == protocol


def test_differences_are_found_in_every_corner() -> None:
    one = {"a": [1, {"b": 2.0}], "c": None, "d": "x", "e": True}
    other = {"a": [1, {"b": 2.5}, 3], "c": 0.5, "d": "y", "f": 1}
    found = {difference.field: difference.by for difference in differing(one, other)}
    assert found == {"a (length)": 1, "a[1].b": 0.5, "c": None, "d": None, "e": None, "f": None}
    assert list(differing(one, one)) == []
