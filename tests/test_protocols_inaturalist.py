"""iNaturalist 2019: species by category id, layouts, real names from the list beside it, damaged annotations."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from standard_trees import HTML, inaturalist_tree, pictures_of, pixels_of, refusal, split_of, write_text

from protocols.datasets import load_dataset


def test_inaturalist_tests_on_the_species_after_the_656th_category(tmp_path: Path) -> None:
    index = load_dataset(f"inaturalist2019:{inaturalist_tree(tmp_path)}")
    assert [int(name[:4]) for name in split_of(index).test] == [656, 657, 658, 659, 660, 661]
    assert index.classes[0] == "0650.Genus65 species650"
    assert index.super_classes == ("Genus65",) * 10 + ("Genus66",) * 2
    assert pictures_of(index)[index.classes[3]] == {pixels_of(500 + 2 * 653), pixels_of(500 + 2 * 653 + 1)}


def test_inaturalist_takes_the_real_names_from_a_list_beside_it(tmp_path: Path) -> None:
    root = inaturalist_tree(tmp_path, images="unpacked")
    for path in (root / "train2019.json", root / "val2019.json"):
        read = json.loads(path.read_text())
        coded = [{"id": category["id"], "name": str(category["id"])} for category in read["categories"]]
        path.write_text(json.dumps(read | {"categories": coded}))
    assert "an entry without 'genus'. Put categories.json beside it" in refusal(f"inaturalist2019:{root}")
    real = [{"id": k, "name": f"Rana {k}", "genus": "Rana", "family": "Ranidae"} for k in range(1010)]
    write_text(root / "categories.json", json.dumps(real))
    (root / "unpacked" / "train_val2019").rename(root / "train_val2019")
    index = load_dataset(f"inaturalist2019:{root}")
    assert index.classes[0] == "0650.Rana 650"
    assert set(index.super_classes) == {"Rana"}


def moved(source: Path, target: Path, folder: str, inside: str = ".", *, ungrouped: bool = False) -> Path:
    """The flat tree with its folder of images under another name, in other folders, or without Plants/."""
    shutil.copytree(source, target)
    pictures = target / folder
    (target / "train_val2019").rename(aside := target / "aside")
    pictures.parent.mkdir(parents=True, exist_ok=True)
    (aside / "Plants" if ungrouped else aside).rename(pictures)
    shutil.rmtree(aside, ignore_errors=True)
    for path in list(target.glob("*.json")):
        (target / inside).mkdir(parents=True, exist_ok=True)
        path.rename(target / inside / path.name)
    return target


@pytest.mark.parametrize(
    "layout",
    [
        {"folder": "train_val2019/train_val2019"},  # unpacked into a folder of the archive's name
        {"folder": "train_val2019", "inside": "annotations"},
        {"folder": "images/train_val2019"},
        {"folder": "images/train_val2019", "inside": "lists/json"},
        {"folder": "2019"},  # torchvision
        {"folder": "2019", "inside": "2019"},  # and the lists in it
        {"folder": "2019/train_val2019", "inside": "2019"},
        {"folder": "2019", "ungrouped": True},
        {"folder": "data/train_val2019", "inside": "data", "ungrouped": True},
    ],
    ids=str,
)
def test_every_layout_of_inaturalist_gives_the_same_index(tmp_path: Path, layout: dict[str, Any]) -> None:
    flat = inaturalist_tree(tmp_path / "flat")
    index, first = (
        load_dataset(f"inaturalist2019:{moved(flat, tmp_path / 'other', **layout)}"),
        load_dataset(f"inaturalist2019:{flat}"),
    )
    assert index.content_hash == first.content_hash
    assert pictures_of(index) == pictures_of(first)


def test_the_folder_of_torchvision_may_be_given_itself_and_groups_may_lie_beside_the_lists(tmp_path: Path) -> None:
    flat = inaturalist_tree(tmp_path / "flat")
    first = load_dataset(f"inaturalist2019:{flat}")
    within = moved(flat, tmp_path / "within", "2019", "2019") / "2019"
    beside = moved(flat, tmp_path / "beside", "2019", "2019")
    (beside / "2019").rename(beside / "inat")
    for root in (within, beside / "inat", beside):
        assert load_dataset(f"inaturalist2019:{root}").content_hash == first.content_hash


def test_a_copy_of_a_few_images_does_not_hide_the_whole(tmp_path: Path) -> None:
    root = moved(inaturalist_tree(tmp_path / "flat"), tmp_path / "root", "images/train_val2019")
    (species,) = (root / "images/train_val2019/Plants").glob("650")
    shutil.copytree(species, root / "2019" / "Plants" / "650")
    index = load_dataset(f"inaturalist2019:{root}")
    assert {Path(file).parts[0] for file in index.files} == {"images"}


def test_inaturalist_without_a_species_to_test_on_is_refused(tmp_path: Path) -> None:
    root = inaturalist_tree(tmp_path, with_images=range(4), n_categories=656)
    assert "has images on one side only; wanted train and test" in refusal(f"inaturalist2019:{root}")


def test_damaged_annotations_are_refused_by_name(tmp_path: Path) -> None:
    path = inaturalist_tree(tmp_path) / "val2019.json"
    whole = path.read_text()
    read = json.loads(whole)
    strange = [{"id": 9, "image_id": row["id"], "category_id": 2000} for row in read["images"]]
    for content, answer in (
        (whole[:-40], "no annotations in the competition's form"),
        (HTML, "no annotations in the competition's form"),
        ("[]", "no annotations in the competition's form"),
        (json.dumps(read | {"annotations": read["annotations"][1:]}), "an entry without "),
        (json.dumps(read | {"annotations": strange}), "category 2000 is in no list of categories"),
    ):
        path.write_text(content)
        assert f"{path}: {answer}" in refusal(f"inaturalist2019:{tmp_path}")
