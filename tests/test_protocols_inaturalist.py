"""iNaturalist 2019: species by category id, real names from the list beside it, damaged annotations."""

import json
from pathlib import Path

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
