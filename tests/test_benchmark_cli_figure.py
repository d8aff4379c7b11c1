"""The command `mlrc figure` on a store that `mlrc run` filled: files and paths, or one line with the way out."""

import csv
import shutil
from pathlib import Path

import pytest
from conftest import Command, draw_images, options

from benchmark.cli import main
from reports.analyses.catalogue import FIGURES


@pytest.fixture(scope="module")
def filled(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with five trials and a final run of chance constraints, a baseline with fold models and one without."""
    store = tmp_path_factory.mktemp("figures") / "store.db"
    with pytest.raises(SystemExit) as left:
        main(["run", "ccp-contrastive", "untrained", "pixels", *options(images, store, "n_trials=5", "sampler=random")])
    assert left.value.code == 0
    return store


def test_without_a_name_the_figures_are_listed(mlrc: Command) -> None:
    listed = mlrc("figure")
    assert listed.code == 0
    assert [line.split()[0] for line in listed.out.splitlines()[1:] if not line.startswith(" ")] == list(FIGURES)
    assert {line["name"]: line["shows"] for line in mlrc("figure", "--json").json} == {
        name: figure.shows for name, figure in FIGURES.items()
    }


@pytest.mark.parametrize("name", ["lambda-proxies", "pool-proxies", "problems"])
def test_a_figure_of_records_is_three_files_whose_paths_are_printed(
    mlrc: Command, filled: Path, tmp_path: Path, name: str
) -> None:
    out = tmp_path / "a b"
    drawn = mlrc("figure", name, "--store", filled, "--out", out)
    assert (drawn.code, drawn.err) == (0, "")
    assert drawn.out.splitlines() == [f"written: {out / f'{name}.{kind}'}" for kind in ("png", "svg", "csv")]
    with (out / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        found = list(csv.DictReader(file))
    assert len(found) == (5 if name != "problems" else 2)  # trials, or fold models with one problem each
    assert {line["method"] for line in found} == {"ccp-contrastive"}


def test_figures_of_embeddings_have_every_test_image_and_every_method_with_folds(
    mlrc: Command, filled: Path, images: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    given = ("--store", filled, "--data", images, "--out", out)
    mapped = mlrc("figure", "embedding-map", "--method", "ccp-contrastive", "--json", *given)
    assert mapped.json == [str(out / f"embedding-map.{kind}") for kind in ("png", "svg", "csv")]
    with (out / "embedding-map.csv").open(encoding="utf-8", newline="") as file:
        found = list(csv.DictReader(file))
    assert [line["file"] for line in found] == [f"class {c}/{n}.png" for c in range(4, 8) for n in range(4)]
    assert {line["class"] for line in found} == {f"class {c}" for c in range(4, 8)}
    assert any(line["thumbnail"] == "True" for line in found)
    radii = mlrc("figure", "covering-radius", *given)
    assert radii.code == 0
    with (out / "covering-radius.csv").open(encoding="utf-8", newline="") as file:
        lines = list(csv.DictReader(file))
    assert {line["method"] for line in lines} == {"ccp-contrastive", "untrained"}  # pixels has no fold model
    assert [float(line["mean"]) for line in lines if line["k"] == "4"] == pytest.approx([0.0, 0.0], abs=1e-6)


def test_what_cannot_be_drawn_is_one_line_with_the_way_out(
    mlrc: Command, filled: Path, images: Path, tmp_path: Path
) -> None:
    def refused(*arguments: object, store: Path = filled) -> str:
        return mlrc("figure", *arguments, "--store", store).refusal()

    assert "Did you mean 'problems'?" in refused("problem")
    assert "no store there yet; mlrc run" in refused("problems", store=tmp_path / "none.db")
    assert "mlrc search hpl-proxy-anchor" in refused("coarse-proxies")
    assert "no search over lambda" in refused("lambda-proxies", "--method", "untrained")
    assert "Methods there: ccp-contrastive, pixels, untrained" in refused("problems", "--method", "ms")
    assert "--set batch.size=64" in refused("batch-size")
    assert "with --data" in refused("covering-radius")
    assert "leave --data out" in refused("problems", "--data", images)
    assert "--tsne goes with embedding-map" in refused("covering-radius", "--tsne", "--data", images)
    assert "no final fold model" in refused("embedding-map", "--method", "pixels", "--data", images)
    other = draw_images(tmp_path / "other", n_classes=9, n_images=2)
    assert "Give that data set, unchanged" in refused("embedding-map", "--data", other)
    assert not (tmp_path / "runs" / "figures").exists()


def test_lost_embeddings_are_named(mlrc: Command, filled: Path, images: Path, tmp_path: Path) -> None:
    for file in filled.parent.glob("store.db*"):
        if file.is_file():
            shutil.copy(file, tmp_path)  # without the folder beside it
    said = mlrc("figure", "covering-radius", "--store", tmp_path / "store.db", "--data", images).refusal()
    assert "cannot be read" in said
