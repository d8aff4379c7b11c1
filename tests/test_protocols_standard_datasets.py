"""The papers' data sets, read from small trees in their true layouts: labels, sides, order, hashes, what is refused."""

import json
import pickle
import shutil
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from protocols.catalogue import CCP_V1, MLRC_V1
from protocols.datasets import _READERS, load_dataset, scan
from protocols.datasets.index import ImageIndex
from protocols.datasets.standard import STANDARD, counts, expected_counts
from protocols.errors import DataError
from protocols.splits import Split, make_split

HTML = "<!DOCTYPE html>\n<html><head><title>404</title></head>\n<body>Not found</body></html>\n"


def _image(path: Path, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (3, 4, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path, format="png")  # whatever its ending says: the bytes tell the decoder


def _text(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _split(index: ImageIndex, protocol=MLRC_V1) -> Split:
    return make_split(index.classes, protocol.folds, index.test_classes)


def _pictures(index: ImageIndex) -> dict[str, set[bytes]]:
    """The decoded pixels of each class."""
    return {label: {index.read(image).tobytes() for image in index.images_of(label)} for label in index.classes}


def _pixels(seed: int) -> bytes:
    return np.random.default_rng(seed).integers(0, 256, (3, 4, 3), dtype=np.uint8).tobytes()


def _refusal(text: str) -> str:
    with pytest.raises(DataError) as caught:
        load_dataset(text)
    assert "\n" not in str(caught.value)
    return str(caught.value)


# CUB-200-2011


def _cub(root: Path, n_classes: int = 8, per_class: int = 2, step: int = 1) -> Path:
    """The archive's layout. Image ids are shuffled against the classes, so that only the lists tell what is what."""
    folders = [f"{1 + step * place:03d}.Bird_{chr(65 + (7 * place) % 26)}_{place}" for place in range(n_classes)]
    files = [f"{folder}/Bird_{number:04d}.jpg" for folder in folders for number in range(per_class)]
    for seed, file in enumerate(files):
        _image(root / "images" / file, seed)
    ids = np.random.default_rng(0).permutation(len(files)) + 1
    _text(root / "images.txt", *(f"{i} {file}" for i, file in zip(ids, files, strict=True)))
    _text(root / "image_class_labels.txt", *(f"{i} {int(file[:3])}" for i, file in zip(ids, files, strict=True)))
    return root


def test_cub_is_read_from_its_archive_with_readable_labels_in_the_order_of_ids(tmp_path: Path) -> None:
    index = load_dataset(f"cub200:{_cub(tmp_path / 'CUB_200_2011')}")
    assert index.classes[:2] == ("001.Bird_A_0", "002.Bird_H_1")
    assert (index.name, index.standard_name) == ("cub200", "cub200")
    assert load_dataset(index.location).content_hash == index.content_hash
    assert _pictures(index) == {label: {_pixels(2 * k), _pixels(2 * k + 1)} for k, label in enumerate(index.classes)}
    assert index.test_classes is None
    assert index.super_classes is None
    assert index.gallery is None


def test_cub_of_200_classes_is_halved_and_folded_as_published(tmp_path: Path) -> None:
    split = _split(index := load_dataset(f"cub200:{_cub(tmp_path, n_classes=200, per_class=1 + 1)}"))
    assert [int(name[:3]) for name in split.test] == list(range(101, 201))
    validated = [[int(name[:3]) - 1 for name in (fold.validation[0], fold.validation[-1])] for fold in split.folds]
    assert validated == [[75, 99], [0, 24], [25, 49], [50, 74]]
    assert [line for line in expected_counts(index) if "classes" in line] == []


def test_cub_ids_may_have_gaps_and_targets_have_none(tmp_path: Path) -> None:
    index = load_dataset(f"cub200:{_cub(tmp_path, n_classes=5, step=9)}")
    assert [label[:3] for label in index.classes] == ["001", "010", "019", "028", "037"]
    assert np.unique(index.targets).tolist() == [0, 1, 2, 3, 4]


def test_every_layout_of_cub_gives_the_same_index(tmp_path: Path) -> None:
    archive = _cub(tmp_path / "archive" / "CUB_200_2011")
    _text(archive / "attributes" / "attributes.txt", "1 has_bill_shape::curved")
    _image(archive / "segmentations" / "001.Bird_A_0" / "Bird_0000.png", 999)
    alone = Path(shutil.copytree(archive, tmp_path / "alone"))
    (alone / "images.txt").unlink()
    (alone / "images" / "001.Bird_A_0" / "notes.txt").write_text("no picture")
    parted = tmp_path / "parted"
    for folder in sorted((archive / "images").iterdir()):  # some mirrors part the images of each class
        for side, file in zip(("train", "test"), sorted(folder.iterdir()), strict=True):
            (parted / "cub" / side / folder.name).mkdir(parents=True)
            shutil.copy(file, parted / "cub" / side / folder.name / f"renamed {file.name}")
    found = [load_dataset(f"cub200:{root}") for root in (archive, archive.parent, alone, parted)]
    assert {index.content_hash for index in found} == {found[0].content_hash}
    assert {index.image_hashes for index in found} == {found[0].image_hashes}
    assert found[2].skipped == ("images/001.Bird_A_0/notes.txt: not an image ending",)


def test_cub_lists_that_disagree_are_refused(tmp_path: Path) -> None:
    root = _cub(tmp_path)
    lines = (root / "image_class_labels.txt").read_text().splitlines()
    _text(root / "image_class_labels.txt", *lines[:-1], lines[-1].replace(" 8", " 7"))
    assert "is of class 7, but images.txt has it in 008." in _refusal(f"cub200:{root}")
    _text(root / "image_class_labels.txt", *lines[1:])
    assert "is of class None, but images.txt" in _refusal(f"cub200:{root}")


# Cars196


def _models(n: int) -> list[str]:
    """Names out of the alphabet's order, one with a slash, as the true list has them."""
    return [f"{chr(90 - place % 26)}udi {place} C/V Coupe" for place in range(n)]


def _mat(path: Path, field: str, rows: list[tuple[str, int]], names: list[str] | None = None) -> None:
    kinds = [("bbox_x1", "O"), ("class", "O"), (field, "O")]
    annotations = np.array([(1.0, np.uint8(class_id), file) for file, class_id in rows], dtype=kinds)
    path.parent.mkdir(parents=True, exist_ok=True)
    savemat(path, {"annotations": annotations} | ({"class_names": np.array(names, object)} if names else {}))


def _cars_first(root: Path, n_classes: int = 8) -> Path:
    """cars_annos.mat and car_ims/, numbered through; picture k of class c has the seed 10 c + k."""
    rows = [(10 * c + k, c) for c in range(1, n_classes + 1) for k in range(2)]
    for number, (seed, _) in enumerate(rows, start=1):
        _image(root / f"car_ims/{number:06d}.jpg", seed)
    files = [(f"car_ims/{number:06d}.jpg", c) for number, (_, c) in enumerate(rows, start=1)]
    _mat(root / "cars_annos.mat", "relative_im_path", files, _models(n_classes))
    return root


def _cars_later(root: Path, nested: bool = False, n_classes: int = 8) -> Path:
    """cars_train/ and cars_test/, each numbered from 00001.jpg in an order of its own, and the development kit."""
    for k, side in enumerate(("cars_train", "cars_test")):
        order = np.random.default_rng(k).permutation(n_classes) + 1
        for number, c in enumerate(order.tolist(), start=1):
            _image(root / side / (side if nested else "") / f"{number:05d}.jpg", 10 * c + k)
        files = [(f"{number:05d}.jpg", c) for number, c in enumerate(order.tolist(), start=1)]
        name = "devkit/cars_train_annos.mat" if k == 0 else "cars_test_annos_withlabels.mat"
        _mat(root / name, "fname", files)
    savemat(root / "devkit/cars_meta.mat", {"class_names": np.array(_models(n_classes), object)})
    return root


def _cars_by_class(root: Path, n_classes: int = 8) -> Path:
    """A folder for each class below train/ and test/, which share all of them; names.csv has the order of ids."""
    for c, name in enumerate(_models(n_classes), start=1):
        for k, side in enumerate(("train", "test")):
            _image(root / "car_data" / "car_data" / side / name.replace("/", "-") / f"{c:05d}.jpg", 10 * c + k)
    _text(root / "names.csv", *_models(n_classes))
    return root


def test_every_layout_of_cars_gives_the_same_index(tmp_path: Path) -> None:
    first = load_dataset(f"cars196:{_cars_first(tmp_path / 'first')}")
    nested = _cars_later(tmp_path / "nested", nested=True)
    shutil.copy(tmp_path / "first" / "cars_annos.mat", nested)  # one mirror adds it to images that it does not number
    later = _cars_later(tmp_path / "later" / "stanford_cars").parent
    for name in ("__MACOSX", ".trash"):  # left by archivers and desktops
        (later / name / "cars_train").mkdir(parents=True)
    roots = (later, nested, _cars_by_class(tmp_path / "classes"), tmp_path / "first")
    for root in roots:
        index = load_dataset(f"cars196:{root}")
        assert index.content_hash == first.content_hash, root
        assert index.image_hashes == first.image_hashes, root
    assert first.classes[:2] == ("001.Zudi 0 C-V Coupe", "002.Yudi 1 C-V Coupe")
    expected = {label: {_pixels(10 * c), _pixels(10 * c + 1)} for c, label in enumerate(first.classes, start=1)}
    assert _pictures(first) == expected
    assert first.test_classes is None


def test_cars_of_196_classes_is_halved_and_two_classes_are_never_validated(tmp_path: Path) -> None:
    index = load_dataset(f"cars196:{_cars_first(tmp_path, n_classes=196)}")
    split = _split(index)
    assert [int(name[:3]) for name in split.test] == list(range(99, 197))
    assert [int(name[:3]) - 1 for name in split.never_validated] == [24, 73]
    blocks = [[int(fold.validation[k][:3]) - 1 for k in (0, -1)] for fold in _split(index, CCP_V1).folds]
    assert blocks == [[73, 97], [49, 72], [24, 48], [0, 23]]


def test_cars_class_folders_without_the_order_of_ids_are_refused(tmp_path: Path) -> None:
    root = _cars_by_class(tmp_path)
    _text(root / "names.csv", *_models(7))
    assert "none of the data set's classes: car_data/car_data/test/" in _refusal(f"cars196:{root}")
    (root / "names.csv").unlink()
    assert "no cars_annos.mat in it or up to 4 folders below" in _refusal(f"cars196:{root}")


def test_damaged_or_unfit_cars_annotations_are_refused_by_name(tmp_path: Path) -> None:
    root = _cars_later(tmp_path)
    test = root / "cars_test_annos_withlabels.mat"
    test.rename(root / "devkit" / "cars_test_annos.mat")
    assert "no cars_test_annos_withlabels.mat" in _refusal(f"cars196:{root}")
    for content in (HTML.encode(), b"", b"MATLAB 5.0 MAT-file" + bytes(200)):
        test.write_bytes(content)
        assert f"{test}: not the MATLAB file" in _refusal(f"cars196:{root}")
    _mat(test, "fname", [("00001.jpg", 9)])
    assert f"{test}: class 9 of 8 named classes" in _refusal(f"cars196:{root}")
    savemat(test, {"annotations": np.array([(1.0, "00001.jpg")], dtype=[("bbox_x1", "O"), ("fname", "O")])})
    assert f"{test}: not the MATLAB file" in _refusal(f"cars196:{root}")


# Stanford Online Products


def _sop(root: Path, n_train: int = 6, n_test: int = 5, lists: str = ".", images: str = ".") -> Path:
    seed = 0
    for side, class_ids in (("train", range(1, n_train + 1)), ("test", range(n_train + 1, n_train + n_test + 1))):
        lines = ["image_id class_id super_class_id path"]
        for class_id in class_ids:
            kind = ("bicycle", "coffee_maker")[class_id % 2]
            for number in range(2):
                seed += 1
                file = f"{kind}_final/{class_id:012d}_{number}.JPG"
                _image(root / images / file, seed)
                lines.append(f"{seed} {class_id} {1 + class_id % 2} {file}")
        _text(root / lists / f"Ebay_{side}.txt", *lines)
    return root


def test_sop_keeps_its_official_test_list_where_halving_would_move_a_class(tmp_path: Path) -> None:
    index = load_dataset(f"sop:{_sop(tmp_path)}")
    split = _split(index)
    assert [int(name[:5]) for name in split.test] == [7, 8, 9, 10, 11]
    assert index.test_classes == frozenset(split.test)
    assert index.classes[:2] == ("00001.coffee_maker", "00002.bicycle")
    assert index.super_classes[:2] == ("coffee_maker", "bicycle")
    assert counts(index)["train_super_classes"] == counts(index)["test_super_classes"] == 2


def test_sop_class_ids_are_ordered_as_numbers(tmp_path: Path) -> None:
    index = load_dataset(f"sop:{_sop(tmp_path, n_train=12)}")
    assert [int(label[:5]) for label in index.classes] == list(range(1, 18))


def test_every_layout_of_sop_gives_the_same_index(tmp_path: Path) -> None:
    found = [
        load_dataset(f"sop:{_sop(tmp_path / 'archive')}"),
        load_dataset(f"sop:{_sop(tmp_path / 'around' / 'Stanford_Online_Products').parent}"),
        load_dataset(f"sop:{_sop(tmp_path / 'mirror', lists='Info_Files', images='images')}"),
    ]
    assert len({index.content_hash for index in found}) == 1


def test_a_class_on_both_sides_or_an_image_listed_twice_is_refused(tmp_path: Path) -> None:
    root = _sop(tmp_path)
    lines = (root / "Ebay_test.txt").read_text().splitlines()
    file = (root / "Ebay_train.txt").read_text().splitlines()[1].split()[-1]
    _text(root / "Ebay_test.txt", *lines, f"99 7 2 {file}")
    assert f"listed twice in Ebay_train.txt and Ebay_test.txt: {file}" in _refusal(f"sop:{root}")
    _image(root / "coffee_maker_final" / "new.JPG", 99)
    _text(root / "Ebay_test.txt", *lines, "99 1 2 coffee_maker_final/new.JPG")
    assert "on the train and the test side of Ebay_train.txt and Ebay_test.txt: 00001.coffee_maker" in _refusal(
        f"sop:{root}"
    )


# In-shop


def _inshop(root: Path, partition: str = "Eval", images: str = "Img") -> Path:
    rows = []
    for item in range(1, 9):
        statuses = ("train", "train") if item <= 4 else ("query", "gallery", "gallery")
        for number, status in enumerate(statuses):
            file = f"img/WOMEN/Dresses/id_{item:08d}/{number:02d}_1_front.jpg"
            _image(root / images / file, 10 * item + number)
            rows.append(f"{file:<60} id_{item:08d} {status}")
    header = (str(len(rows)), "image_name item_id evaluation_status")
    _text(root / partition / "list_eval_partition.txt", *header, *rows)
    return root


def test_inshop_queries_and_gallery_are_told_apart_on_the_test_side_only(tmp_path: Path) -> None:
    index = load_dataset(f"inshop:{_inshop(tmp_path)}")
    assert index.classes == tuple(f"id_{item:08d}" for item in range(1, 9))
    assert _split(index).test == index.classes[4:]
    for label in index.classes:
        item = int(label[3:])
        searched = {index.read(k).tobytes() for k in index.images_of(label) if index.gallery[k]}
        assert searched == ({_pixels(10 * item + 1), _pixels(10 * item + 2)} if item > 4 else set())
    assert counts(index)["query_images"] == 4
    assert counts(index)["gallery_images"] == 8
    copy = pickle.loads(pickle.dumps(index))
    assert copy.content_hash == index.content_hash


def test_every_layout_of_inshop_gives_the_same_index(tmp_path: Path) -> None:
    found = [
        load_dataset(f"inshop:{_inshop(tmp_path / 'a')}"),
        load_dataset(f"inshop:{_inshop(tmp_path / 'b', images='.')}"),
        load_dataset(f"inshop:{_inshop(tmp_path / 'c' / 'In-shop Clothes Retrieval', '.', '.').parent}"),
    ]
    assert len({index.content_hash for index in found}) == 1


def test_the_gallery_is_part_of_the_hash_and_hashes_without_one_stay(tmp_path: Path) -> None:
    index = load_dataset(f"inshop:{_inshop(tmp_path)}")
    swapped = index.gallery.copy()
    first = index.images_of(index.classes[-1])
    swapped[first] = ~swapped[first]
    without = replace(index, gallery=None)
    assert len({index.content_hash, without.content_hash, replace(index, gallery=swapped).content_hash}) == 3
    digest = sha256()  # the definition that indexes had before there was a gallery
    for label in index.classes:
        hashes = [index.image_hashes[k] for k in index.images_of(label)]
        digest.update(json.dumps([label, None, label in index.test_classes, hashes]).encode() + b"\n")
    assert without.content_hash == digest.hexdigest()[:12]


def test_a_gallery_in_train_classes_or_without_queries_is_refused(tmp_path: Path) -> None:
    index = load_dataset(f"inshop:{_inshop(tmp_path)}")
    test = np.isin(index.targets, range(4, 8))
    for gallery, found in (
        (~test, "8 gallery images, 8 of"),
        (test, "0 query and 12"),
        (test & False, "12 query and 0"),
    ):
        with pytest.raises(DataError, match=found):
            replace(index, gallery=gallery)
    with pytest.raises(DataError, match="12 of the latter in train classes"):
        replace(index, gallery=test, test_classes=None)


def test_an_inshop_list_cut_short_is_refused(tmp_path: Path) -> None:
    path = _inshop(tmp_path) / "Eval" / "list_eval_partition.txt"
    _text(path, *path.read_text().splitlines()[:-3])
    assert f"{path}: 17 images; its first line announces 20" in _refusal(f"inshop:{tmp_path}")


# iNaturalist 2019


def _inaturalist(root: Path, with_images: range = range(650, 662), images: str = ".", n_categories: int = 1010) -> Path:
    """All categories, few with images: one in the train file, one in the validation file."""
    genera = [{"id": k, "name": f"Genus{k // 10} species{k}", "genus": f"Genus{k // 10}"} for k in range(n_categories)]
    for side, name in enumerate(("train2019.json", "val2019.json")):
        rows = [(500 + 2 * category + side, category) for category in with_images]
        files = {image: f"train_val2019/Plants/{category}/{image:032x}.jpg" for image, category in rows}
        for image, file in files.items():
            _image(root / images / file, image)
        annotated = {
            "images": [{"id": image, "file_name": file} for image, file in files.items()],
            "annotations": [{"id": 9, "image_id": image, "category_id": category} for image, category in rows[::-1]],
            "categories": genera[::-1],
        }
        _text(root / name, json.dumps(annotated))
    return root


def test_inaturalist_tests_on_the_species_after_the_656th_category(tmp_path: Path) -> None:
    index = load_dataset(f"inaturalist2019:{_inaturalist(tmp_path)}")
    assert [int(name[:4]) for name in _split(index).test] == [656, 657, 658, 659, 660, 661]
    assert index.classes[0] == "0650.Genus65 species650"
    assert index.super_classes == ("Genus65",) * 10 + ("Genus66",) * 2
    assert _pictures(index)[index.classes[3]] == {_pixels(500 + 2 * 653), _pixels(500 + 2 * 653 + 1)}


def test_inaturalist_takes_the_real_names_from_a_list_beside_it(tmp_path: Path) -> None:
    root = _inaturalist(tmp_path, images="unpacked")
    for path in (root / "train2019.json", root / "val2019.json"):
        read = json.loads(path.read_text())
        coded = [{"id": category["id"], "name": str(category["id"])} for category in read["categories"]]
        path.write_text(json.dumps(read | {"categories": coded}))
    assert "an entry without 'genus'. Put categories.json beside it" in _refusal(f"inaturalist2019:{root}")
    real = [{"id": k, "name": f"Rana {k}", "genus": "Rana", "family": "Ranidae"} for k in range(1010)]
    _text(root / "categories.json", json.dumps(real))
    (root / "unpacked" / "train_val2019").rename(root / "train_val2019")
    index = load_dataset(f"inaturalist2019:{root}")
    assert index.classes[0] == "0650.Rana 650"
    assert set(index.super_classes) == {"Rana"}


def test_inaturalist_without_a_species_to_test_on_is_refused(tmp_path: Path) -> None:
    root = _inaturalist(tmp_path, with_images=range(4), n_categories=656)
    assert "has images on one side only; wanted train and test" in _refusal(f"inaturalist2019:{root}")


def test_damaged_annotations_are_refused_by_name(tmp_path: Path) -> None:
    path = _inaturalist(tmp_path) / "val2019.json"
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
        assert f"{path}: {answer}" in _refusal(f"inaturalist2019:{tmp_path}")


# All of them

TREES = {"cub200": _cub, "cars196": _cars_first, "sop": _sop, "inshop": _inshop, "inaturalist2019": _inaturalist}
each_data_set = pytest.mark.parametrize("name", TREES)


def test_every_data_set_in_the_table_has_a_reader_and_a_tree_here() -> None:
    assert set(STANDARD) == set(_READERS) == set(TREES)


@pytest.mark.parametrize("protocol", [MLRC_V1, CCP_V1])
def test_every_data_set_for_which_a_protocol_has_a_schedule_is_in_the_table(protocol) -> None:
    assert {name for name, _ in protocol.schedule.by_dataset} <= set(STANDARD)


@each_data_set
def test_missing_images_are_counted_and_named(name: str, tmp_path: Path) -> None:
    root = TREES[name](tmp_path)
    pictures = [path for path in sorted(tmp_path.rglob("*")) if path.suffix.lower() == ".jpg"]
    for path in pictures[:4]:
        path.unlink()
    message = _refusal(f"{name}:{root}")
    names = ", ".join(path.relative_to(root).as_posix() for path in pictures[:3])
    assert f"4 of the {len(pictures)} images in" in message
    assert f"are missing: {names} and 1 more. Unpack the archive again" in message


@each_data_set
def test_an_empty_folder_a_file_and_nothing_at_all_are_answered_with_the_layouts(name: str, tmp_path: Path) -> None:
    layouts = STANDARD[name].layouts
    (tmp_path / "empty").mkdir()
    assert "in it or up to 4 folders below" in (message := _refusal(f"{name}:{tmp_path / 'empty'}"))
    assert message.endswith(f"{STANDARD[name].title} is read from {layouts}.")
    (tmp_path / "archive.tgz").write_text(HTML)
    assert "is a file; unpack it and give the folder" in _refusal(f"{name}:{tmp_path / 'archive.tgz'}")
    assert "no such folder" in (message := _refusal(f"{name}:{tmp_path / 'gone'}"))
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
        message = _refusal(f"{name}:{tmp_path}")
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
    assert "Did you mean 'cub200:PATH'?" in _refusal(f"cub:{tmp_path}")
    assert "inaturalist2019:PATH" in _refusal("/no/such/place")
