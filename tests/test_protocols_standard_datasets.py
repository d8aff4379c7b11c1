"""What holds for every data set of the papers: what is refused, hashes, counts against the published ones."""

from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from standard_trees import HTML, cars_tree, cub_tree, inaturalist_tree, inshop_tree, refusal, sop_tree

from protocols.catalogue import CCP_V1, MLRC_V1
from protocols.datasets import _READERS, load_dataset, scan
from protocols.datasets.index import ImageIndex
from protocols.datasets.standard import STANDARD, expected_counts

TREES = {
    "cub200": cub_tree,
    "cars196": cars_tree,
    "sop": sop_tree,
    "inshop": inshop_tree,
    "inaturalist2019": inaturalist_tree,
}
each_data_set = pytest.mark.parametrize("name", TREES)


def test_every_data_set_in_the_table_has_a_reader_and_a_tree_here() -> None:
    assert set(STANDARD) == set(_READERS) == {*TREES, "mnist"}  # MNIST's images are no files: test_protocols_mnist.py


@pytest.mark.parametrize("protocol", [MLRC_V1, CCP_V1])
def test_every_data_set_for_which_a_protocol_has_a_schedule_is_in_the_table(protocol) -> None:
    assert {name for name, _ in protocol.schedule.by_dataset} <= set(STANDARD)


@each_data_set
def test_missing_images_are_counted_and_named(name: str, tmp_path: Path) -> None:
    root = TREES[name](tmp_path)
    pictures = [path for path in sorted(tmp_path.rglob("*")) if path.suffix.lower() == ".jpg"]
    for path in pictures[:4]:
        path.unlink()
    message = refusal(f"{name}:{root}")
    names = ", ".join(path.relative_to(root).as_posix() for path in pictures[:3])
    assert f"4 of the {len(pictures)} images in" in message
    assert f"are missing: {names} and 1 more. Unpack the archive again" in message


@each_data_set
def test_images_in_an_unknown_layout_are_answered_with_what_was_found_and_what_was_wanted(
    name: str, tmp_path: Path
) -> None:
    root = TREES[name](tmp_path)
    for number, path in enumerate(sorted(path for path in root.rglob("*") if path.suffix.lower() == ".jpg")):
        (root / "all of them").mkdir(exist_ok=True)
        path.rename(root / "all of them" / f"{number}.jpg")
    message = refusal(f"{name}:{root}")
    assert "is where it is looked for, such as " in message
    assert "all of them/" in message.partition("; found ")[2].partition(". ")[0]
    assert message.endswith(f"{STANDARD[name].title} is read from {STANDARD[name].layouts}.")
    assert "again" not in message


@each_data_set
def test_an_empty_folder_a_file_and_nothing_at_all_are_answered_with_the_layouts(name: str, tmp_path: Path) -> None:
    layouts = STANDARD[name].layouts
    (tmp_path / "empty").mkdir()
    assert "in it or up to 4 folders below" in (message := refusal(f"{name}:{tmp_path / 'empty'}"))
    assert message.endswith(f"{STANDARD[name].title} is read from {layouts}.")
    (tmp_path / "archive.tgz").write_text(HTML)
    assert "is a file; unpack it and give the folder" in refusal(f"{name}:{tmp_path / 'archive.tgz'}")
    assert "no such folder" in (message := refusal(f"{name}:{tmp_path / 'gone'}"))
    assert layouts in message


@pytest.mark.parametrize(
    ("name", "list_name"),
    [
        ("cub200", "images.txt"),
        ("cub200", "image_class_labels.txt"),
        ("sop", "Ebay_test.txt"),
        ("inshop", "Eval/list_eval_partition.txt"),
    ],
)
def test_a_web_page_or_an_empty_file_in_place_of_a_list_is_refused(name: str, list_name: str, tmp_path: Path) -> None:
    path = TREES[name](tmp_path) / list_name
    for content, answer in ((HTML.encode(), "html"), (b"", "lists nothing"), (b"\xff\xfe\x00", "not a text file")):
        path.write_bytes(content)
        message = refusal(f"{name}:{tmp_path}")
        assert message.startswith(f"{path}: ")
        assert answer in message


@each_data_set
def test_lists_with_other_line_ends_and_a_byte_order_mark_are_the_same_lists(name: str, tmp_path: Path) -> None:
    root = TREES[name](tmp_path)
    first = load_dataset(f"{name}:{root}")
    for path in root.rglob("*.txt"):
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    assert load_dataset(f"{name}:{root}").content_hash == first.content_hash


@each_data_set
def test_targets_ascend_from_0_and_every_image_is_read_from_its_file(name: str, tmp_path: Path) -> None:
    index = load_dataset(f"{name}:{TREES[name](tmp_path)}")
    assert np.unique(index.targets).tolist() == list(range(index.n_classes))
    assert (np.diff(index.targets) >= 0).all()
    for image, (file, image_hash) in enumerate(zip(index.files, index.image_hashes, strict=True)):
        assert sha256((tmp_path / file).read_bytes()).hexdigest() == image_hash
        assert np.array_equal(index.read(image), np.asarray(Image.open(tmp_path / file)))
    assert scan(index) == []


@each_data_set
def test_a_small_tree_is_read_and_its_counts_are_told(name: str, tmp_path: Path) -> None:
    index = load_dataset(f"{name}:{TREES[name](tmp_path)}")
    published = STANDARD[name].counts["images"]
    assert f"images: found {index.n_images}, published {published:,}" in expected_counts(index)
    assert expected_counts(replace(index, standard_name="")) == []


def test_counts_of_the_published_size_raise_no_line() -> None:
    classes = tuple(f"id_{item:08d}" for item in range(7_982))
    sizes = np.full(7_982, 6)
    sizes[:3_997] += np.arange(3_997) < 25_882 - 6 * 3_997
    sizes[3_997:] += np.arange(3_985) < 26_830 - 6 * 3_985
    gallery = np.zeros(sizes.sum(), bool)
    gallery[-12_612:] = True
    index = ImageIndex(
        name="inshop",
        location="inshop:/nowhere",
        classes=classes,
        targets=np.repeat(np.arange(7_982), sizes),
        files=("",) * 52_712,
        image_hashes=("",) * 52_712,
        reader=lambda image: np.zeros((1, 1, 3), np.uint8),
        test_classes=frozenset(classes[3_997:]),
        standard_name="inshop",
        gallery=gallery,
    )
    assert expected_counts(index) == []
    gallery[-1] = False
    assert expected_counts(replace(index, gallery=gallery)) == [
        "query images: found 14,219, published 14,218",
        "gallery images: found 12,611, published 12,612",
    ]


def test_a_mistyped_data_set_is_answered_with_the_nearest_name(tmp_path: Path) -> None:
    for typed in ("cub", "CUB200", "Cub-200"):
        assert "Did you mean 'cub200:PATH'?" in refusal(f"{typed}:{tmp_path}")
    assert "Did you mean 'shapes:shifted'?" in refusal("Shapes:Shifted")
    assert "inaturalist2019:PATH" in refusal("/no/such/place")
