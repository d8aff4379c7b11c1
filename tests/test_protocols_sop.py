"""Stanford Online Products: its official test list, the order of ids, lists that contradict each other."""

from pathlib import Path

from standard_trees import refusal, sop_tree, split_of, write_image, write_text

from protocols.datasets import load_dataset
from protocols.datasets.standard import counts


def test_sop_keeps_its_official_test_list_where_halving_would_move_a_class(tmp_path: Path) -> None:
    index = load_dataset(f"sop:{sop_tree(tmp_path)}")
    split = split_of(index)
    assert [int(name[:5]) for name in split.test] == [7, 8, 9, 10, 11]
    assert index.test_classes == frozenset(split.test)
    assert index.classes[:2] == ("00001.coffee_maker", "00002.bicycle")
    assert index.super_classes[:2] == ("coffee_maker", "bicycle")
    assert counts(index)["train_super_classes"] == counts(index)["test_super_classes"] == 2


def test_sop_class_ids_are_ordered_as_numbers(tmp_path: Path) -> None:
    index = load_dataset(f"sop:{sop_tree(tmp_path, n_train=12)}")
    assert [int(label[:5]) for label in index.classes] == list(range(1, 18))


def test_every_layout_of_sop_gives_the_same_index(tmp_path: Path) -> None:
    found = [
        load_dataset(f"sop:{sop_tree(tmp_path / 'archive')}"),
        load_dataset(f"sop:{sop_tree(tmp_path / 'around' / 'Stanford_Online_Products').parent}"),
        load_dataset(f"sop:{sop_tree(tmp_path / 'mirror', lists='Info_Files', images='images')}"),
        load_dataset(f"sop:{sop_tree(tmp_path / 'images', images='images')}"),
        load_dataset(f"sop:{sop_tree(tmp_path / 'lists', lists='Info_Files')}"),
        load_dataset(f"sop:{_without_final(sop_tree(tmp_path / 'short'))}"),
    ]
    assert len({index.content_hash for index in found}) == 1


def _without_final(root: Path) -> Path:
    """Folders named by the kind alone, in the lists too."""
    for path in list(root.glob("*_final")):
        path.rename(root / path.name.removesuffix("_final"))
    for path in root.glob("Ebay_*.txt"):
        path.write_text(path.read_text().replace("_final/", "/"))
    return root


def test_a_class_on_both_sides_or_an_image_listed_twice_is_refused(tmp_path: Path) -> None:
    root = sop_tree(tmp_path)
    lines = (root / "Ebay_test.txt").read_text().splitlines()
    file = (root / "Ebay_train.txt").read_text().splitlines()[1].split()[-1]
    write_text(root / "Ebay_test.txt", *lines, f"99 7 2 {file}")
    assert f"listed twice in Ebay_train.txt and Ebay_test.txt: {file}" in refusal(f"sop:{root}")
    write_image(root / "coffee_maker_final" / "new.JPG", 99)
    write_text(root / "Ebay_test.txt", *lines, "99 1 2 coffee_maker_final/new.JPG")
    assert "on the train and the test side of Ebay_train.txt and Ebay_test.txt: 00001.coffee_maker" in refusal(
        f"sop:{root}"
    )
