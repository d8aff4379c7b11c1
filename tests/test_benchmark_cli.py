"""The command line where all goes well: what each command prints, where it writes, and that no work is done twice."""

import re
from pathlib import Path
from types import ModuleType

import pytest
from conftest import SEARCHED, Command, draw_images, options, write_loss
from standard_trees import inshop_tree

from benchmark.methods.registry import COMPOSERS, METHODS
from protocols.catalogue import CATALOGUE, PUBLISHED
from results.store import Store

SETTINGS_AND_METRICS = {
    (setting, metric)
    for setting in ("concatenated", "separated")
    for metric in ("precision_at_1", "r_precision", "map_at_r")
}


def records_in(store: Path) -> int:
    with Store.open(str(store)) as opened:
        return len(opened.records())


# --- the main job


def test_run_searches_and_runs_every_method_and_prints_one_table(
    mlrc: Command, suite: list[str], tmp_path: Path
) -> None:
    done = mlrc("run", "pixels", "untrained", "contrastive", "norm-softmax", *suite, "--out", tmp_path / "out")
    assert done.code == 0
    for method in ("pixels", "untrained", "contrastive", "norm-softmax"):
        assert method in done.out
    assert "mini@1+" in done.out
    assert "MAP@R" in done.out
    # pixels: 1; untrained: 2 folds + 1 run; each loss: 2 trials of 2 folds, then 2 folds + 1 run
    assert records_in(tmp_path / "store.db") == 1 + 3 + 2 * 7
    written = sorted(path.suffix for path in (tmp_path / "out").iterdir())
    assert written == [".csv", ".html", ".md", ".png", ".svg", ".tex"]
    assert all(str(path) in done.err for path in (tmp_path / "out").iterdir())


def test_json_of_a_run_is_all_of_standard_output_and_has_every_cell(mlrc: Command, suite: list[str]) -> None:
    (table,) = mlrc("run", "untrained", "contrastive", *suite, "--json").json
    assert table["protocol"]["title"] == "mini@1+"
    assert "schedule.max_steps = 2" in table["protocol"]["note"]
    assert table["dataset"]["name"] == "images"
    assert [row["method"] for row in table["rows"]] == ["untrained", "contrastive"]
    for row in table["rows"]:
        cells = {(cell["setting"], cell["metric"]): cell for cell in row["results"]}
        assert cells.keys() == SETTINGS_AND_METRICS
        assert all(0 <= cell["mean"] <= 1 and cell["n_runs"] == 1 for cell in cells.values())
        assert all(cell["ci95_half_width"] is None for cell in cells.values())  # one run has no interval


def test_search_then_finals_gives_the_table_of_run(mlrc: Command, images: Path, tmp_path: Path) -> None:
    apart, together = options(images, tmp_path / "apart.db"), options(images, tmp_path / "together.db")
    searched = mlrc("search", "contrastive", *apart, "--json")
    (line,) = searched.json
    assert searched.code == 0
    assert line["trials"] == {"done": 2, "failed": 0, "of": 2}
    assert line["final_folds"]["done"] == 0
    assert line["best_hyperparameters"].keys() == {"pos_margin", "neg_margin"}
    finals = mlrc("finals", "contrastive", *apart, "--json")
    assert finals.code == 0
    assert finals.json == mlrc("run", "contrastive", *together, "--json").json


def test_a_finished_command_run_again_does_nothing_and_says_so(mlrc: Command, suite: list[str], tmp_path: Path) -> None:
    first = mlrc("run", "untrained", "contrastive", *suite, "--json")
    n_records = records_in(tmp_path / "store.db")
    again = mlrc("run", "contrastive", "untrained", "contrastive", *suite, "--json")
    assert again.code == 0
    assert again.json == first.json
    assert records_in(tmp_path / "store.db") == n_records
    assert sorted(again.err.splitlines()) == ["contrastive: nothing left to run.", "untrained: nothing left to run."]
    trials = mlrc("status", "--store", tmp_path / "store.db", "--json").json[0]["trials"]
    assert trials == {"done": 2, "failed": 0, "of": 2}


def test_worker_processes_give_the_bits_of_one_process_and_a_difference_is_seen(
    mlrc: Command, images: Path, tmp_path: Path, three_executors: ModuleType
) -> None:
    drawn = ("train_crop=random-resized", "crop_area=[0.3, 1.0]", "flip_probability=0.5", "n_trials=3")
    wide = ("pixels", "contrastive", "xbm(contrastive)", "--parallel-trials", "2", "--json")
    inline = mlrc("run", *wide, *options(images, tmp_path / "inline.db", *drawn))
    spread = options(images, tmp_path / "spread.db", *drawn)
    spread[spread.index("inline")] = "processes"
    assert mlrc("run", *wide, *spread, "--workers", "2").json == inline.json
    wanted, found = (three_executors.found_in(tmp_path / name) for name in ("inline.db", "spread.db"))
    assert found == wanted
    n_records = 1 + 2 * (3 * 2 + 2 + 1)
    assert three_executors.counted(wanted, found) == {
        "embeddings": [5, 5], "record": [n_records, n_records], "search": [2, 2],
    }  # fmt: skip
    name = next(name for name in wanted if name.startswith("record"))
    other = {**wanted, name: {**wanted[name], "seed": -1}}
    assert three_executors.counted(other, found)["record"] == [n_records - 1, n_records]


def test_a_repeated_trial_counts_and_costs_nothing(mlrc: Command, images: Path, tmp_path: Path) -> None:
    body = SEARCHED.replace("FloatDistribution(0.0, 1.0)", "IntDistribution(1, 2)")
    loss = write_loss(tmp_path / "loss.py", "return self.x * embeddings[0, 0]", body)
    suite = options(images, tmp_path / "store.db", "n_trials=5")
    (line,) = mlrc("search", loss, *suite, "--json").json
    assert line["trials"] == {"done": 5, "failed": 0, "of": 5}
    assert records_in(tmp_path / "store.db") <= 2 * 2  # two values, two folds


def test_protocols_that_differ_in_one_value_share_a_store_and_no_table(
    mlrc: Command, images: Path, tmp_path: Path
) -> None:
    for steps in (2, 3):
        assert mlrc("run", "untrained", *options(images, tmp_path / "store.db", f"max_steps={steps}")).code == 0
    tables = mlrc("report", "--store", tmp_path / "store.db", "--json").json
    assert len({table["protocol"]["digest"] for table in tables}) == len(tables) == 2
    assert sorted("max_steps = 3" in table["protocol"]["note"] for table in tables) == [False, True]


# --- what is in the store


def test_report_repeats_the_table_and_the_files_of_the_run(mlrc: Command, suite: list[str], tmp_path: Path) -> None:
    ran = mlrc("run", "untrained", "contrastive", *suite, "--out", tmp_path / "first")
    told = mlrc("report", "--store", tmp_path / "store.db", "--out", tmp_path / "second")
    assert told.code == 0
    assert told.out == ran.out
    for path in (tmp_path / "first").iterdir():
        assert (tmp_path / "second" / path.name).read_bytes() == path.read_bytes()


def test_status_tells_done_failed_and_left_of_each_method(mlrc: Command, suite: list[str], tmp_path: Path) -> None:
    broken = write_loss(tmp_path / "broken.py", "raise ValueError('no')")
    mlrc("search", "contrastive", *suite)
    mlrc("run", "pixels", broken, *suite)
    status = mlrc("status", "--store", tmp_path / "store.db", "--json")
    lines = {line["method"]: line for line in status.json}
    assert status.code == 0
    assert lines.keys() == {"contrastive", "pixels", broken}
    assert lines["contrastive"]["trials"] == {"done": 2, "failed": 0, "of": 2}
    assert lines["contrastive"]["final_folds"] == {"done": 0, "failed": 0, "of": 2}
    assert lines["pixels"]["trials"] is None
    assert lines["pixels"]["final_folds"] == {"done": 1, "failed": 0, "of": 1}
    assert lines[broken]["final_folds"] == {"done": 0, "failed": 2, "of": 2}
    assert "contrastive" in mlrc("status", "--store", tmp_path / "store.db").out


def test_status_tells_searches_of_one_name_apart(mlrc: Command, images: Path, tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    mlrc("search", "contrastive", *options(images, store))
    mlrc("search", "contrastive", *options(images, store, "folds.kind=balanced"))
    first, second = mlrc("status", "--store", store, "--json").json
    assert (first["protocol"], first["method"]) == (second["protocol"], second["method"])
    assert first["split_digest"] != second["split_digest"]
    shown = mlrc("status", "--store", store).out.splitlines()
    for line in (first, second):  # one heading per board, its method below
        heading = f"{line['protocol']} ({line['protocol_digest']}) on images ({line['dataset_hash'][:12]}):"
        assert shown[shown.index(heading) + 2].startswith("contrastive  2 of 2  0 of 2")


def test_the_store_may_be_given_as_a_url(mlrc: Command, images: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'by url.db'}"
    assert mlrc("run", "untrained", *options(images, url)).code == 0
    by_path = mlrc("report", "--store", tmp_path / "by url.db", "--json")
    assert mlrc("report", "--store", url, "--json").json == by_path.json


# --- listings


def test_methods_lists_every_method_with_space_and_source(mlrc: Command) -> None:
    lines = mlrc("methods", "--json").json
    assert [line["name"] for line in lines] == list(METHODS)
    assert all({"name", "family", "space", "source", "published"} <= line.keys() for line in lines)
    (one,) = mlrc("methods", "ms", "--json").json
    assert one == next(line for line in lines if line["name"] == "ms")
    assert "ms-miner" in mlrc("methods").out
    assert METHODS["ms"].source.partition(",")[0] in mlrc("methods", "ms").out


def test_methods_lists_what_can_be_made_of_others_and_shows_it_by_the_name_that_it_lists(mlrc: Command) -> None:
    listed = re.findall(r"^  ([a-z0-9-]+)\(NAME\)  +\S", mlrc("methods").out, flags=re.MULTILINE)
    assert set(listed) == set(COMPOSERS)
    for composer in listed:
        base = "ms-miner" if composer in ("ccp", "xbm") else "cosface"
        (line,) = mlrc("methods", f"{composer}({base})", "--json").json
        assert line["name"] == f"{composer}({base})"
    assert {"n_coarse_1", "n_coarse_2"} <= mlrc("methods", "hpl3(cosface)", "--json").json[0]["space"].keys()


def test_methods_lists_installed_plug_ins_and_names_those_that_cannot_serve(
    mlrc: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_loss(tmp_path / "listed_plug_in.py", "return embeddings[0, 0]")
    described = tmp_path / "listed-1.2.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: listed\nVersion: 1.2\n")
    (described / "entry_points.txt").write_text(
        "[mlrc.methods]\nmine=listed_plug_in:Loss\ngone=listed_plug_in:Gone\nms=listed_plug_in:Loss\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    listed = mlrc("methods", "--json")
    assert listed.code == 0
    assert [line["name"] for line in listed.json] == [*METHODS, "mine"]
    assert next(line for line in listed.json if line["name"] == "ms")["source"] == METHODS["ms"].source
    (said,) = listed.err.splitlines()
    assert said.startswith("left out: gone: its plug-in listed_plug_in:Gone cannot be imported")


def test_protocols_lists_every_published_one_with_its_fingerprint(mlrc: Command) -> None:
    lines = mlrc("protocols", "--json").json
    assert [(line["name"], line["version"], line["digest"]) for line in lines] == [
        (protocol.name, protocol.version, protocol.digest()) for protocol in PUBLISHED
    ]
    assert {line["values"]["folds"]["n_folds"] for line in lines} == {4, 1}
    assert CATALOGUE["mini@1"].digest() in mlrc("protocols", "mini").out


def test_data_check_lists_what_is_damaged_lone_or_left_out(mlrc: Command, tmp_path: Path) -> None:
    folder = draw_images(tmp_path / "found", n_classes=5, n_images=3)
    (folder / "empty").mkdir()
    (folder / ".hidden").write_text("x")
    (folder / "class 0" / "notes.txt").write_text("x")
    (folder / "lone").mkdir()
    (folder / "lone" / "0.png").write_bytes((folder / "class 1" / "0.png").read_bytes())
    checked = mlrc("data", "check", folder, "--json")
    assert checked.code == 0
    assert checked.json["n_classes"] == 6
    assert checked.json["n_images"] == 16
    assert checked.json["lone_classes"] == ["lone"]
    assert checked.json["duplicates_across_sides"][0]["files"] == ["class 1/0.png", "lone/0.png"]
    assert checked.json["unreadable"] == []
    assert [line.partition(":")[0] for line in checked.json["skipped"]] == [".hidden", "class 0/notes.txt", "empty"]
    (folder / "class 0" / "cut.png").write_bytes((folder / "class 0" / "0.png").read_bytes()[:60])
    cut = mlrc("data", "check", folder, "--json")
    assert cut.code == 2
    assert cut.json["unreadable"][0]["files"] == ["class 0/cut.png"]


def test_data_check_compares_a_data_set_of_the_papers_with_its_published_counts(mlrc: Command, tmp_path: Path) -> None:
    root = inshop_tree(tmp_path / "inshop")
    checked = mlrc("data", "check", f"inshop:{root}", "--json").json
    assert checked["counts"]["query_images"] == 4
    assert checked["counts"]["gallery_images"] == 8
    assert "gallery images: found 8, published 12,612" in checked["differs_from_published"]
    assert "gallery images: found 8, published 12,612" in mlrc("data", "check", f"inshop:{root}").out
    alike = mlrc("data", "check", "shapes:centred", "--json").json
    assert alike["counts"] is alike["differs_from_published"] is None


def test_data_split_prints_the_classes_of_every_fold(mlrc: Command, images: Path) -> None:
    split = mlrc("data", "split", images).json
    assert len(split["folds"]) == 4
    everywhere = {name for fold in split["folds"] for name in (*fold["train"], *fold["validation"])}
    assert everywhere | set(split["test"]) == {f"class {label}" for label in range(8)}
    assert not everywhere & set(split["test"])


def test_without_a_command_the_help_is_shown(mlrc: Command) -> None:
    bare = mlrc()
    assert bare.code == 2
    for command in ("run", "search", "finals", "report", "status", "methods", "protocols", "data"):
        assert command in bare.err


def test_paths_with_spaces_and_other_scripts_work(mlrc: Command, tmp_path: Path) -> None:
    folder = tmp_path / "Bilder für 距離"
    folder.mkdir()
    draw_images(folder / "données", n_classes=8, n_images=2)
    loss = write_loss(folder / "mon écart.py", "return embeddings[0, 0]")
    suite = options(folder / "données", folder / "größe.db")
    done = mlrc("run", loss, *suite, "--out", folder / "résultats", "--json")
    assert done.code == 0, done.err
    (table,) = done.json
    assert table["dataset"]["name"] == "données"
    assert table["rows"][0]["method"] == loss
    assert "mon écart.py" in (folder / "résultats" / "results.md").read_text(encoding="utf-8")
    assert (folder / "größe.db").exists()
