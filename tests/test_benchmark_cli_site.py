"""The command `mlrc report --site` on a store that `mlrc run` filled: pages, galleries, scores; or one line."""

import re
from pathlib import Path

import pytest
from conftest import Command, options
from test_reports_site import Page

from benchmark.cli import main
from results.record import RunRecord
from results.store import Store


@pytest.fixture(scope="module")
def filled(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with ten trials and a final run of a loss, a baseline with fold models and one without."""
    store = tmp_path_factory.mktemp("site") / "store.db"
    settings = ("n_trials=10", "sampler=random")
    with pytest.raises(SystemExit) as left:
        main(["run", "contrastive", "untrained", "pixels", *options(images, store, *settings)])
    assert left.value.code == 0
    return store


def test_a_site_with_galleries_is_made_of_a_store_and_its_data(
    mlrc: Command, filled: Path, images: Path, tmp_path: Path
) -> None:
    out = tmp_path / "a site"
    made = mlrc("report", "--store", filled, "--site", out, "--data", images)
    assert made.code == 0
    assert re.fullmatch(rf"written: {re.escape(str(out / 'index.html'))} \(\d+ files, \d+ kB\)\n", made.out)
    page = Page(out / "methods" / "contrastive.html")
    text = re.sub(r"\s+", " ", page.text)
    with Store.open(str(filled)) as store:
        (run,) = [one for one in store.records(method="contrastive") if isinstance(one, RunRecord)]
        n_records = len(store.records())
    assert f"over 16 queries: {100 * run.test['map_at_r']:.2f} percent" in text  # found here as the job found it
    for wanted in ("mean over non-zero [d - pos_margin]+", "Search space, 2 hyper-parameters", "neg_margin"):
        assert wanted in text
    assert "The records of 10 trials" in text
    assert "What moved the validation score" in text
    frames = [attributes["class"] for tag, attributes in page.elements if tag == "figure" and "class" in attributes]
    assert (frames.count("query"), frames.count("right") + frames.count("wrong")) == (8, 64)
    files = [attributes["src"] for tag, attributes in page.elements if tag == "img"]
    assert all((out / "methods" / name).resolve().read_bytes()[:2] == b"\xff\xd8" for name in files)
    right = [attributes["alt"] for tag, attributes in page.elements if tag == "img" and "alt" in attributes]
    assert all(re.fullmatch(r"(query|right|wrong): class [4-7]", alt) for alt in right)
    assert "Retrieval" not in Page(out / "methods" / "pixels.html").text  # it has no fold model
    assert len(list((out / "records").iterdir())) == n_records


def test_a_site_is_made_without_images_too_and_of_exports(mlrc: Command, filled: Path, tmp_path: Path) -> None:
    found = mlrc("report", "--store", filled, "--site", tmp_path / "site", "--json").json
    assert found["index"] == str(tmp_path / "site" / "index.html")
    assert found["n_files"] == sum(path.is_file() for path in (tmp_path / "site").rglob("*"))
    assert mlrc("export", tmp_path / "exported", "--store", filled).code == 0
    again = mlrc("report", "--from", tmp_path / "exported", "--site", tmp_path / "again", "--json")
    assert again.code == 0
    for page in ("index.html", "methods/contrastive.html"):
        assert (tmp_path / "again" / page).read_bytes() == (tmp_path / "site" / page).read_bytes()


def test_what_cannot_be_made_is_one_line_with_the_way_out(
    mlrc: Command, filled: Path, images: Path, tmp_path: Path
) -> None:
    def refused(*arguments: object) -> str:
        return mlrc("report", "--store", filled, *arguments).refusal()

    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("mine", encoding="utf-8")
    assert "no site of ours" in refused("--site", tmp_path / "mine")
    assert "--data goes with --site" in refused("--data", images)
    assert "leave the others out" in refused("--site", tmp_path / "s", "--out", tmp_path / "t")
    assert "Give that data set, unchanged" in refused("--site", tmp_path / "s", "--data", "shapes:shifted")
    assert not (tmp_path / "s").exists()


def test_a_method_named_by_a_file_is_not_run_for_its_text(
    mlrc: Command, tmp_path: Path, filled: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from benchmark.commands.site import method_texts

    trap = tmp_path / "trap.py"
    trap.write_text("raise SystemExit('it ran')", encoding="utf-8")
    with Store.open(str(filled)) as store:
        record = store.records(method="contrastive")[0]
    named = [f"{trap}:Loss", f"ccp({trap}:Loss)", "contrastive", "ccp(contrastive)", "pml:TripletMarginLoss", "no such"]
    records = [type(record)(**{**vars(record), "identity": _named(record.identity, name)}) for name in named]
    found = method_texts(records)
    assert {"contrastive", "ccp(contrastive)"} <= set(found)
    assert not [name for name in found if "trap" in name]
    other = type(record)(**{**vars(record), "identity": _named(record.identity, "contrastive", "another code")})
    assert method_texts([other]) == {}


def _named(identity: object, method: str, code: str = "") -> object:
    return type(identity)(**{**vars(identity), "method": method, "method_code": code})
