"""Methods on frozen features: computed once and whole, test images shut, fitted per fold, the pretrained row."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler
from tiny import tiny_bench, without_timings
from torch.nn.functional import normalize

from benchmark.bench import Bench
from benchmark.campaign import expected_work
from benchmark.checks import check_trunk
from benchmark.errors import BenchmarkError
from benchmark.executors.worker import hold
from benchmark.finals import final_jobs, finals
from benchmark.methods.linear import mmc
from benchmark.methods.registry import METHODS, method_entry
from benchmark.seeding import stream
from benchmark.training.embeddings import load_embeddings
from benchmark.training.ensemble import concatenate
from benchmark.training.features import FrozenFeatures, features_folder
from benchmark.training.learner import in_batches
from benchmark.training.training import run_fold
from protocols.catalogue import CCP_V1, LITE_V1, MINI_V1, MLRC_V1
from protocols.derive import derive
from protocols.fold import FoldImages
from protocols.metrics import evaluate
from protocols.trunks import build_trunk
from reports.frame import runs_frame
from results.record import from_json, to_json

LINEAR = [name for name, entry in METHODS.items() if entry.family == "linear"]
VALUES = {
    "within-class": {"shrinkage": 0.01},
    "nca": {"scale": 3.0},
    "lmnn": {"n_neighbours": 2},
    "itml": {"gamma": 1.0, "n_constraints": 200},
    "mmc": {"shrinkage": 0.01},
}
CHECKS = {"trunk input", "random crops", "classes disjoint", "embedding width", "test images opened"}


def lite_bench(folder: Path) -> Bench:
    """`lite` with its weights on crops of 32 px: a real trunk in milliseconds."""
    protocol = derive(LITE_V1, ["resize_px=32", "crop_px=32", "n_trials=2", "n_runs=2"])
    bench = replace(tiny_bench(folder), protocol=protocol)
    hold(bench)
    return bench


@pytest.fixture(scope="module")
def lite(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return lite_bench(tmp_path_factory.mktemp("lite"))


def door(bench: Bench, fold: int = 0) -> FoldImages:
    return FoldImages(bench.index, bench.images, bench.split, fold)


def run(bench: Bench, name: str, run: int = 1, fold: int = 0):
    record = run_fold(bench.job(method_entry(name), VALUES.get(name, {}), run, fold), bench)
    assert record.outcome == "done", record.message
    assert from_json(to_json(record)) == record
    return record


def test_kept_features_are_bit_equal_to_computed_ones_and_are_computed_once(lite: Bench, monkeypatch) -> None:
    images = door(lite)
    others = np.setdiff1d(np.arange(lite.index.n_images), images.test)
    trunk = build_trunk(lite.protocol.trunk, stream(0, "none")).eval()
    with torch.inference_mode():
        direct = torch.cat([trunk(lite.images.eval(some)) for some in in_batches(others)]).numpy()
    first = FrozenFeatures(lite, images)(images.train)
    assert np.array_equal(first, direct[np.searchsorted(others, images.train)])
    monkeypatch.setattr(FrozenFeatures, "_compute", None)  # not called again, by any fold
    for fold in range(4):
        images = door(lite, fold)
        for side in (images.train, images.validation):
            assert np.array_equal(FrozenFeatures(lite, images)(side), direct[np.searchsorted(others, side)])


def test_features_do_not_pass_a_shut_door_and_are_counted_when_it_opens(lite: Bench) -> None:
    images = door(lite)
    features = FrozenFeatures(lite, images)
    with pytest.raises(ValueError, match="only a final run opens them"):
        features(images.test)
    features(images.train)
    assert images.test_images_opened.sum() == 0
    images.open_test()
    features(images.test)
    again = door(lite)
    again.open_test()
    FrozenFeatures(lite, again)(again.test)  # from the file
    for one in (images, again):
        assert (one.test_images_opened == 1).all()


def test_other_images_trunks_and_transforms_have_other_files(tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path)
    wider = replace(bench, protocol=derive(bench.protocol, ["resize_px=40"]))
    folder, kept = features_folder(bench.artifacts), []
    for one in (bench, wider, bench, wider):
        FrozenFeatures(one, door(one))(door(one).train)
        kept.append(len(list(folder.iterdir())))
    assert kept == [1, 2, 2, 2]


def test_under_random_weights_the_features_are_the_input_and_no_trunk_is_built(tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path)
    images = door(bench)
    features = FrozenFeatures(bench, images)
    assert features.trunk is None
    assert np.array_equal(features(images.train), bench.images.eval(images.train).flatten(1).numpy())


def test_a_writer_killed_in_the_middle_leaves_nothing_under_the_final_name(tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path)
    folder = features_folder(bench.artifacts)
    script = (
        "import os, sys; from pathlib import Path; import numpy as np\n"
        "from benchmark.training.embeddings import save_embeddings\n"
        "def killed(file, matrix, **_):\n"
        "    file.write(b'half'); file.flush(); os._exit(9)\n"
        "np.save = killed\n"
        "save_embeddings(Path(sys.argv[1]), sys.argv[2], np.zeros((3, 2), np.float32))"
    )
    others = np.setdiff1d(np.arange(bench.index.n_images), door(bench).test)
    name = FrozenFeatures(bench, door(bench))._name(others)
    root = Path(__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", script, str(folder), name], cwd=root, timeout=120)
    assert done.returncode == 9
    assert [path.suffix for path in folder.iterdir()] == [".partial"]
    FrozenFeatures(bench, door(bench))(door(bench).train)
    assert [path.stem for path in folder.glob("*.npy")] == [name]


def test_a_damaged_file_is_made_again(tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path)
    wanted = FrozenFeatures(bench, door(bench))(door(bench).train)
    (kept,) = features_folder(bench.artifacts).glob("*.npy")
    whole = kept.read_bytes()
    kept.write_bytes(whole[:1000])
    assert np.array_equal(FrozenFeatures(bench, door(bench))(door(bench).train), wanted)
    assert kept.read_bytes() == whole


@pytest.mark.parametrize("name", LINEAR)
def test_a_linear_metric_is_validated_and_tested_without_a_step(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mmc, "MOST_PAIRS", 500)
    bench = tiny_bench(tmp_path)
    searched, final = run(bench, name, run=0), run(bench, name, run=1)
    assert searched.test is None
    assert 0 < searched.validation["map_at_r"] <= 1
    assert (final.n_steps, final.n_images_seen, final.curve, final.best_step) == (0, 0, (), None)
    assert {check.name for check in final.audit} == CHECKS
    embeddings = torch.from_numpy(load_embeddings(bench.artifacts, final.id))
    test = bench.index.indices_of(bench.split.test)
    assert embeddings.shape == (len(test), bench.protocol.embedding.dim)
    assert evaluate(embeddings, torch.from_numpy(bench.index.targets[test])).metrics == final.test
    assert final.method_state["reduced_to"] <= 128


def test_a_job_on_frozen_features_gives_the_same_bits_with_and_without_the_file(tmp_path: Path) -> None:
    first, other = tiny_bench(tmp_path / "a"), tiny_bench(tmp_path / "b")
    one, again, elsewhere = (run(bench, "itml") for bench in (first, first, other))
    assert without_timings(one) == without_timings(again) == without_timings(elsewhere)


def test_folds_differ_in_what_they_are_fitted_to(tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path)
    assert run(bench, "whitened", fold=0).test != run(bench, "whitened", fold=1).test


def test_on_a_pretrained_trunk_the_audit_watches_its_batch_norm(lite: Bench) -> None:
    record = run(lite, "whitened")
    assert {check.name for check in record.audit} == {*CHECKS, "batch norm"}
    assert record.provenance.trunk_weights.startswith("57934424")


def test_hyperparameters_that_are_not_the_methods_fail_the_fold_in_words(tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path)
    record = run_fold(bench.job(method_entry("itml"), {"gama": 1.0}, 0, 0), bench)
    assert (record.outcome, record.reason) == ("failed", "method-error")
    assert "Did you mean 'gamma'?" in record.message


def test_the_pretrained_row_is_standardised_pca_of_the_test_features(lite: Bench) -> None:
    record = run(lite, "pretrained")
    test = lite.index.indices_of(lite.split.test)
    labels = torch.from_numpy(lite.index.targets[test])
    trunk = build_trunk(lite.protocol.trunk, stream(0, "none")).eval()
    with torch.inference_mode():
        features = torch.cat([trunk(lite.images.eval(some)) for some in in_batches(test)]).numpy()
    scaled = StandardScaler().fit_transform(features.astype(np.float64))
    narrow, wide = (
        normalize(torch.from_numpy(PCA(min(dim, len(test)), svd_solver="full").fit_transform(scaled)).float())
        for dim in (128, 512)
    )
    assert record.test == pytest.approx(evaluate(narrow, labels).metrics, abs=1e-6)
    assert record.validation is None
    assert {check.name for check in record.audit} == {*CHECKS, "batch norm"}
    (ensemble,) = steps_of("pretrained", lite, [record])[1]
    together = concatenate(ensemble, lite)
    assert together.embedding_dim == 4 * 128
    assert together.test == pytest.approx(evaluate(wide, labels).metrics, abs=1e-6)
    frame = runs_frame([record, together]).set_index(["setting", "metric"])
    assert not any(frame["missing"])
    assert frame["value"]["separated", "map_at_r"] == record.test["map_at_r"]
    assert frame["value"]["concatenated", "map_at_r"] == together.test["map_at_r"]


def test_one_run_of_a_method_without_chance_is_whole_in_a_report(tmp_path: Path) -> None:
    bench = tiny_bench(tmp_path)
    records = [run(bench, "euclidean", fold=fold) for fold in range(4)]
    (ensemble,) = steps_of("euclidean", bench, records)[1]
    frame = runs_frame([*records, concatenate(ensemble, bench)])
    assert set(frame["run"]) == {1}
    assert not any(frame["missing"])


def steps_of(name: str, bench: Bench, records: list) -> list:
    """What a method's final phase asks for, given its fold records."""
    steps = finals(method_entry(name), bench, VALUES.get(name, {}))
    asked = [next(steps)]
    try:
        asked.append(steps.send(records))
    except StopIteration:
        asked.append([])
    return asked


def test_runs_and_folds_are_as_many_as_chance_and_folds_have_a_say(lite: Bench) -> None:
    shapes = {name: [len(run) for run in final_jobs(method_entry(name), lite, {})] for name in METHODS}
    assert shapes["pixels"] == shapes["pretrained"] == [1]
    assert shapes["euclidean"] == shapes["lmnn"] == [4]
    assert shapes["itml"] == shapes["untrained"] == shapes["contrastive"] == [4, 4]
    finals_alone = {name: expected_work(method_entry(name), lite, ["finals"]) for name in shapes}
    assert finals_alone["pixels"] == 1
    assert finals_alone["pretrained"] == 1 + 1  # its one model, and the same features wider
    assert finals_alone["euclidean"] == 4 + 1
    assert finals_alone["itml"] == finals_alone["untrained"] == 8 + 2
    assert steps_of("pixels", lite, [run(lite, "pixels")])[1] == []


def test_nothing_of_random_weights_is_called_pretrained() -> None:
    for protocol in (MLRC_V1, CCP_V1, LITE_V1):
        check_trunk(METHODS["pretrained"], protocol)
    check_trunk(METHODS["untrained"], MINI_V1)
    with pytest.raises(BenchmarkError, match="mini@1 has random weights"):
        check_trunk(METHODS["pretrained"], MINI_V1)
