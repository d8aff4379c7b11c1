"""`mlrc score`: the numbers of a slow loop and of the final runs themselves; marked as external, kept apart."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Command
from tiny import DATA, MARGINS, tiny_bench

from benchmark.executors.worker import perform
from benchmark.jobs import EnsembleJob
from benchmark.methods.registry import METHODS
from results.record import FoldRecord, RunRecord
from results.store import Store

RANDOM = np.random.default_rng(0)
LABELS = np.array([f"class {number % 5}" for number in range(40)] + ["alone"])
FOLDS = [RANDOM.normal(size=(41, 6)).astype(np.float32) + (np.arange(41) % 5)[:, None] for _ in range(3)]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Three fold models' embeddings of 41 images of five classes and a lone one."""
    for number, fold in enumerate(FOLDS):
        np.save(tmp_path / f"fold{number}.npy", fold)
    np.save(tmp_path / "y.npy", LABELS)
    return ["--embeddings", *(f"fold{number}.npy" for number in range(3)), "--labels", "y.npy"]


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def by_definition(
    queries: np.ndarray, labels: list[str], gallery: np.ndarray | None, others: list[str]
) -> dict[str, float]:
    """P@1, R-precision and MAP@R, one query after another, in double precision."""
    found: dict[str, list[float]] = {"precision_at_1": [], "r_precision": [], "map_at_r": [], "recall_at_3": []}
    for place, query in enumerate(queries):
        pool = [other for other in range(len(others)) if gallery is not None or other != place]
        references = queries if gallery is None else gallery
        ranked = sorted(pool, key=lambda other: float(np.sum((references[other] - query) ** 2)))
        hits = [others[other] == labels[place] for other in ranked]
        r = sum(hits)
        if r == 0:
            continue
        found["precision_at_1"].append(hits[0])
        found["r_precision"].append(sum(hits[:r]) / r)
        found["map_at_r"].append(sum(sum(hits[: rank + 1]) / (rank + 1) for rank in range(r) if hits[rank]) / r)
        found["recall_at_3"].append(any(hits[:3]))
    return {name: float(np.mean(values)) for name, values in found.items()}


def test_the_scores_are_those_of_a_loop_written_from_the_definition(mlrc: Command, files: list[str]) -> None:
    found = mlrc("score", *files, "--recall-at", 3, "--json").json
    labels = LABELS.tolist()
    folds = [unit(fold.astype(np.float64)) for fold in FOLDS]
    wanted = [by_definition(fold, labels, None, labels) for fold in folds]
    together = by_definition(unit(np.hstack(folds)), labels, None, labels)
    assert [fold["metrics"] for fold in found["folds"]] == [pytest.approx(one) for one in wanted]
    assert found["concatenated"]["metrics"] == pytest.approx(together)
    assert found["separated"] == pytest.approx({name: np.mean([one[name] for one in wanted]) for name in together})
    audit = found["concatenated"]["audit"]
    assert (audit["queries"], audit["left_out"], audit["smallest_r"], audit["largest_r"]) == (40, 1, 7, 7)


def test_queries_search_a_gallery_where_one_is_given(mlrc: Command, files: list[str], tmp_path: Path) -> None:
    for number, fold in enumerate(FOLDS):
        np.save(tmp_path / f"g{number}.npy", fold[:20] + 0.1)
    np.save(tmp_path / "gy.npy", LABELS[:20])
    gallery = [
        "--gallery-embeddings",
        "g0.npy",
        "g1.npy",
        "--gallery-embeddings",
        "g2.npy",
        "--gallery-labels",
        "gy.npy",
    ]
    found = mlrc("score", *files, *gallery, "--recall-at", 3, "--json").json
    queries, stored = (
        unit(np.hstack([unit(part.astype(np.float64)) for part in parts]))
        for parts in (FOLDS, [fold[:20] + np.float32(0.1) for fold in FOLDS])
    )
    wanted = by_definition(queries, LABELS.tolist(), stored, LABELS[:20].tolist())
    assert found["concatenated"]["metrics"] == pytest.approx(wanted)
    lacking = mlrc("score", *files, *gallery[:-2]).refusal()
    assert "come together" in lacking


def test_a_class_of_six_alike_is_found_whole_and_lone_queries_are_left_out(mlrc: Command, tmp_path: Path) -> None:
    """No k cuts the search short; and a query without another image of its class is neither a 0 nor a 1."""
    angles = np.array([0.0] * 6 + [1.0, 2.0, 3.0, 4.0])
    np.save(tmp_path / "points.npy", np.stack([np.cos(angles), np.sin(angles)], axis=1))
    np.save(tmp_path / "y.npy", ["six"] * 6 + ["a", "b", "c", "d"])
    scored = mlrc("score", "--embeddings", "points.npy", "--labels", "y.npy", "--json").json
    assert set(scored["separated"].values()) == {1.0}
    assert (scored["folds"][0]["audit"]["queries"], scored["folds"][0]["audit"]["left_out"]) == (6, 4)
    assert "MAP@R = sum of precision@j over hits j <= R, / R" in scored["definition"]


@pytest.fixture(scope="module")
def final(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[FoldRecord], RunRecord]:
    """A final run of the harness: its store, its folds and their concatenation."""
    folder = tmp_path_factory.mktemp("final")
    bench = tiny_bench(folder)
    jobs = tuple(bench.job(METHODS["contrastive"], MARGINS, 1, fold) for fold in range(4))
    records = [perform(job) for job in (*jobs, EnsembleJob(members=jobs))]
    names = np.array(bench.index.classes)[bench.index.targets[bench.index.indices_of(bench.split.test)]]
    np.save(folder / "y.npy", names)
    with Store.open(str(folder / "store.db")) as store:
        store.merge(records, [])
    folds = [record for record in records if isinstance(record, FoldRecord)]
    (together,) = [record for record in records if isinstance(record, RunRecord)]
    return folder, folds, together


def test_the_embeddings_of_a_final_run_score_what_its_records_say(mlrc: Command, final: Any) -> None:
    folder, folds, together = final
    (Path.cwd() / "split.json").write_text(mlrc("data", "split", DATA, "-p", "demo").out, encoding="utf-8")
    given = [folder / "embeddings" / f"{fold.id}.npy" for fold in folds]
    found = mlrc("score", "--embeddings", *given, "--labels", folder / "y.npy", "--split", "split.json", "--json").json
    assert [fold["metrics"] for fold in found["folds"]] == [fold.test for fold in folds]  # to the last bit
    assert found["concatenated"]["metrics"] == together.test
    assert found["dataset"]["content_hash"] == together.identity.dataset["content_hash"]
    assert found["split"]["digest"] == together.identity.split["digest"]


def test_no_table_puts_external_results_beside_audited_ones(mlrc: Command, final: Any) -> None:
    folder, folds, _ = final
    store = folder / "store.db"
    split = Path.cwd() / "split.json"
    split.write_text(mlrc("data", "split", DATA, "-p", "demo").out, encoding="utf-8")
    given = [folder / "embeddings" / f"{fold.id}.npy" for fold in folds]
    scored = mlrc("score", "--embeddings", *given, "--labels", folder / "y.npy", "--split", split, "--store", store)
    assert scored.code == 0, scored.err
    tables = mlrc("report", "--store", store, "--json").json
    methods = {table["protocol"]["title"]: [row["method"] for row in table["rows"]] for table in tables}
    assert methods["demo@1+"] == ["contrastive"]
    (name,) = methods["external@1"]
    assert name.startswith("external:")
    (external,) = [table for table in tables if table["protocol"]["title"] == "external@1"]
    assert "not audited" in external["protocol"]["note"]
    shown = mlrc("report", "--store", store).out
    assert "external, not audited" in shown
    assert mlrc("status", "--store", store).code == 0
    assert (
        "cannot be run again"
        in mlrc("verify", mlrc("record", "--store", store, "--json").json[-1]["id"], "--store", store).refusal()
    )


def test_scores_are_stored_once_and_go_along_with_an_export(mlrc: Command, files: list[str]) -> None:
    first = mlrc("score", *files, "--name", "mine")
    assert "Stored as run 1 of 'external:mine'" in first.out
    assert "40 queries, 1 left out, R = 7." in first.out
    assert "Already stored" in mlrc("score", *files, "--name", "mine").out
    assert (
        "is there with other embeddings"
        in mlrc("score", files[0], *files[2:4], files[3], *files[4:], "--name", "mine").refusal()
    )
    assert mlrc("export", "out").code == 0
    assert mlrc("import", "out", "--store", "other.db").code == 0
    assert mlrc("report", "--json").json == mlrc("report", "--json", "--store", "other.db").json


def test_without_a_name_it_is_called_by_its_content_and_without_a_store_nothing_is_kept(
    mlrc: Command, files: list[str]
) -> None:
    found = mlrc("score", *files, "--no-store", "--json").json
    assert found["stored"] is False
    assert found["method"].startswith("external:fold0-")
    assert not Path("runs").exists()


def test_several_runs_make_an_interval(mlrc: Command, files: list[str], tmp_path: Path) -> None:
    for run in (1, 2):
        assert mlrc("score", *files, "--name", "mine", "--run", run, "--n-runs", 2).code == 0
        for number, fold in enumerate(FOLDS):
            np.save(tmp_path / f"fold{number}.npy", fold + RANDOM.normal(size=fold.shape).astype(np.float32))
    (table,) = mlrc("report", "--json").json
    assert all(cell["n_runs"] == 2 and cell["ci95_half_width"] > 0 for cell in table["rows"][0]["results"])
    assert "--run 3 of 2" in mlrc("score", *files, "--run", 3, "--n-runs", 2).refusal()


def test_many_values_may_be_given_to_one_option_or_the_option_repeated(mlrc: Command, files: list[str]) -> None:
    spellings = (
        files,
        ["--embeddings=fold0.npy", "fold1.npy", "--labels=y.npy", "--embeddings", "fold2.npy"],
        [*(f"--embeddings=fold{number}.npy" for number in range(3)), "--labels", "y.npy"],
    )
    first, *others = (mlrc("score", *spelling, "--no-store", "--json").json["concatenated"] for spelling in spellings)
    assert others == [first, first]


def test_one_fold_is_scored_alone(mlrc: Command, files: list[str]) -> None:
    found = mlrc("score", *files[:2], *files[-2:], "--json").json
    assert found["concatenated"] is None
    assert found["separated"] == found["folds"][0]["metrics"]
    (table,) = mlrc("report", "--json").json
    assert set(table["dimensions"]) == {"separated"}


def replaced(tmp_path: Path, name: str, array: object) -> None:
    np.save(tmp_path / name, np.asarray(array))


def with_row(value: float) -> np.ndarray:
    fold = FOLDS[1].copy()
    fold[17] = value
    return fold


BAD = {
    "a row too few": ("fold1.npy", FOLDS[1][:-1], "fold1.npy has 40 rows and y.npy 41 labels"),
    "another width": ("fold1.npy", FOLDS[1][:, :5], "fold1.npy has 5 columns and the first file 6"),
    "NaN": ("fold1.npy", with_row(np.nan), "fold1.npy: 1 of 41 rows are NaN or infinite (first: row 17"),
    "infinite": ("fold1.npy", with_row(np.inf), "1 of 41 rows are NaN or infinite"),
    "beyond float32": ("fold1.npy", FOLDS[1].astype(np.float64) * 1e300, "float64 beyond 3.4e+38, the largest float32"),
    "too long to compare": ("fold1.npy", FOLDS[1] * np.float32(1e30), "41 of 41 rows are shorter than 1e-12 or longer"),
    "labels all alike": ("y.npy", np.zeros(41, int), "all 41 labels are '0', so every neighbour is a hit"),
    "a zero row": ("fold1.npy", with_row(0.0), "1 of 41 rows are all zero, which has no direction (first: row 17"),
    "one dimension": ("fold1.npy", FOLDS[1][:, 0], "shape (41,); wanted (N, D)"),
    "labels all different": ("y.npy", np.arange(41), "none of the 41 queries has a reference of its class"),
    "labels in a square": ("y.npy", np.ones((41, 41)), "wanted (N,), a label for each image"),
}


@pytest.mark.parametrize("what", BAD)
def test_input_that_cannot_be_scored_is_one_line_and_nothing_is_stored(
    what: str, mlrc: Command, files: list[str], tmp_path: Path
) -> None:
    name, array, said = BAD[what]
    replaced(tmp_path, name, array)
    assert said in mlrc("score", *files).refusal()
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("labels", "said"),
    [
        (LABELS, "there is a 'alone'. Labels are the class names"),
        (np.where(LABELS == "class 1", "class 0", LABELS)[:40], "there is no 'class 1'"),
        (np.where(np.arange(40) == 1, "class 0", LABELS[:40]), "has 8 test images and the labels name 9"),
        (np.arange(40) % 5, "there is no 'class 0' (and 4 more)"),
    ],
)
def test_labels_that_are_not_those_of_the_split_are_refused(
    labels: np.ndarray, said: str, mlrc: Command, files: list[str], tmp_path: Path
) -> None:
    split = {
        "schema": 1,
        "kind": "balanced",
        "folds": [{"train": ["a"], "validation": ["b"]}],
        "test": [f"class {number}" for number in range(5)],
        "test_images": {f"class {number}": 8 for number in range(5)},
    }
    Path("split.json").write_text(json.dumps(split), encoding="utf-8")
    replaced(tmp_path, "y.npy", labels)
    replaced(tmp_path, "fold0.npy", FOLDS[0][: len(labels)])
    assert said in mlrc("score", *files[:2], *files[-2:], "--split", "split.json").refusal()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[]", "not a split of `mlrc data split`"),
        ("{", "is no JSON"),
        ('{"schema": 9}', "schema 9"),
        ("", "is no JSON"),
    ],
)
def test_a_file_that_is_no_split_is_refused(text: str, said: str, mlrc: Command, files: list[str]) -> None:
    Path("split.json").write_text(text, encoding="utf-8")
    assert said in mlrc("score", *files, "--split", "split.json").refusal()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--name", "a\nb"], "wanted 1 to 100 printable characters"),
        (["--name", ""], "--name is empty"),
        (["--recall-at", 0], "--recall-at is 0; it must be at least 1"),
        (["--n-runs", 0], "Invalid value for '--n-runs'"),
        (["--gallery-embeddings", "fold0.npy", "--gallery-labels", "y.npy"], "give one of each a fold model"),
    ],
)
def test_options_that_cannot_be_are_one_line(options: list[object], said: str, mlrc: Command, files: list[str]) -> None:
    assert said in mlrc("score", *files, *options).refusal()
