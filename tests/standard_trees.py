"""Small trees of the papers' data sets in their true layouts; a picture is known again by the seed of its pixels."""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

from protocols.catalogue import MLRC_V1
from protocols.datasets import load_dataset
from protocols.datasets.index import ImageIndex
from protocols.errors import DataError
from protocols.splits import Split, make_split

HTML = "<!DOCTYPE html>\n<html><head><title>404</title></head>\n<body>Not found</body></html>\n"


def write_image(path: Path, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (3, 4, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path, format="png")  # whatever its ending says: the bytes tell the decoder


def write_text(path: Path, *lines: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def split_of(index: ImageIndex, protocol=MLRC_V1) -> Split:
    return make_split(index.classes, protocol.folds, index.test_classes)


def pictures_of(index: ImageIndex) -> dict[str, set[bytes]]:
    """The decoded pixels of each class."""
    return {label: {index.read(image).tobytes() for image in index.images_of(label)} for label in index.classes}


def pixels_of(seed: int) -> bytes:
    return np.random.default_rng(seed).integers(0, 256, (3, 4, 3), dtype=np.uint8).tobytes()


def refusal(text: str) -> str:
    with pytest.raises(DataError) as caught:
        load_dataset(text)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def cub_tree(root: Path, n_classes: int = 8, per_class: int = 2, step: int = 1) -> Path:
    """The archive's layout. Image ids are shuffled against the classes, so that only the lists tell what is what."""
    folders = [f"{1 + step * place:03d}.Bird_{chr(65 + (7 * place) % 26)}_{place}" for place in range(n_classes)]
    files = [f"{folder}/Bird_{number:04d}.jpg" for folder in folders for number in range(per_class)]
    for seed, file in enumerate(files):
        write_image(root / "images" / file, seed)
    ids = np.random.default_rng(0).permutation(len(files)) + 1
    write_text(root / "images.txt", *(f"{i} {file}" for i, file in zip(ids, files, strict=True)))
    write_text(root / "image_class_labels.txt", *(f"{i} {int(file[:3])}" for i, file in zip(ids, files, strict=True)))
    return root


def models(n: int) -> list[str]:
    """Names out of the alphabet's order, one with a slash, as the true list has them."""
    return [f"{chr(90 - place % 26)}udi {place} C/V Coupe" for place in range(n)]


def write_mat(path: Path, field: str, rows: list[tuple[str, int]], names: list[str] | None = None) -> None:
    kinds = [("bbox_x1", "O"), ("class", "O"), (field, "O")]
    annotations = np.array([(1.0, np.uint8(class_id), file) for file, class_id in rows], dtype=kinds)
    path.parent.mkdir(parents=True, exist_ok=True)
    savemat(path, {"annotations": annotations} | ({"class_names": np.array(names, object)} if names else {}))


def cars_tree(root: Path, n_classes: int = 8) -> Path:
    """cars_annos.mat and car_ims/, numbered through; picture k of class c has the seed 10 c + k."""
    rows = [(10 * c + k, c) for c in range(1, n_classes + 1) for k in range(2)]
    for number, (seed, _) in enumerate(rows, start=1):
        write_image(root / f"car_ims/{number:06d}.jpg", seed)
    files = [(f"car_ims/{number:06d}.jpg", c) for number, (_, c) in enumerate(rows, start=1)]
    write_mat(root / "cars_annos.mat", "relative_im_path", files, models(n_classes))
    return root


def cars_later_tree(root: Path, nested: bool = False, n_classes: int = 8) -> Path:
    """cars_train/ and cars_test/, each numbered from 00001.jpg in an order of its own, and the development kit."""
    for k, side in enumerate(("cars_train", "cars_test")):
        order = np.random.default_rng(k).permutation(n_classes) + 1
        for number, c in enumerate(order.tolist(), start=1):
            write_image(root / side / (side if nested else "") / f"{number:05d}.jpg", 10 * c + k)
        files = [(f"{number:05d}.jpg", c) for number, c in enumerate(order.tolist(), start=1)]
        name = "devkit/cars_train_annos.mat" if k == 0 else "cars_test_annos_withlabels.mat"
        write_mat(root / name, "fname", files)
    savemat(root / "devkit/cars_meta.mat", {"class_names": np.array(models(n_classes), object)})
    return root


def cars_by_class_tree(root: Path, n_classes: int = 8) -> Path:
    """A folder for each class below train/ and test/, which share all of them; names.csv has the order of ids."""
    for c, name in enumerate(models(n_classes), start=1):
        for k, side in enumerate(("train", "test")):
            write_image(root / "car_data" / "car_data" / side / name.replace("/", "-") / f"{c:05d}.jpg", 10 * c + k)
    write_text(root / "names.csv", *models(n_classes))
    return root


def sop_tree(root: Path, n_train: int = 6, n_test: int = 5, lists: str = ".", images: str = ".") -> Path:
    seed = 0
    for side, class_ids in (("train", range(1, n_train + 1)), ("test", range(n_train + 1, n_train + n_test + 1))):
        lines = ["image_id class_id super_class_id path"]
        for class_id in class_ids:
            kind = ("bicycle", "coffee_maker")[class_id % 2]
            for number in range(2):
                seed += 1
                file = f"{kind}_final/{class_id:012d}_{number}.JPG"
                write_image(root / images / file, seed)
                lines.append(f"{seed} {class_id} {1 + class_id % 2} {file}")
        write_text(root / lists / f"Ebay_{side}.txt", *lines)
    return root


def inshop_tree(root: Path, partition: str = "Eval", images: str = "Img") -> Path:
    rows = []
    for item in range(1, 9):
        statuses = ("train", "train") if item <= 4 else ("query", "gallery", "gallery")
        for number, status in enumerate(statuses):
            file = f"img/WOMEN/Dresses/id_{item:08d}/{number:02d}_1_front.jpg"
            write_image(root / images / file, 10 * item + number)
            rows.append(f"{file:<60} id_{item:08d} {status}")
    header = (str(len(rows)), "image_name item_id evaluation_status")
    write_text(root / partition / "list_eval_partition.txt", *header, *rows)
    return root


def inaturalist_tree(
    root: Path, with_images: range = range(650, 662), images: str = ".", n_categories: int = 1010
) -> Path:
    """All categories, few with images: one in the train file, one in the validation file."""
    genera = [{"id": k, "name": f"Genus{k // 10} species{k}", "genus": f"Genus{k // 10}"} for k in range(n_categories)]
    for side, name in enumerate(("train2019.json", "val2019.json")):
        rows = [(500 + 2 * category + side, category) for category in with_images]
        files = {image: f"train_val2019/Plants/{category}/{image:032x}.jpg" for image, category in rows}
        for image, file in files.items():
            write_image(root / images / file, image)
        annotated = {
            "images": [{"id": image, "file_name": file} for image, file in files.items()],
            "annotations": [{"id": 9, "image_id": image, "category_id": category} for image, category in rows[::-1]],
            "categories": genera[::-1],
        }
        write_text(root / name, json.dumps(annotated))
    return root


def mnist_tree(root: Path, packed: bool = True, n_train: int = 30, n_test: int = 20) -> Path:
    """Digits in turn, of random pixels: image k of a part is of class k mod 10."""
    root.mkdir(parents=True, exist_ok=True)
    for seed, (part, n_images) in enumerate((("train", n_train), ("t10k", n_test))):
        pixels = np.random.default_rng(seed).integers(0, 256, (n_images, 28, 28), dtype=np.uint8)
        labels = (np.arange(n_images) % 10).astype(np.uint8)
        for name, magic, values in (("images-idx3", 0x803, pixels), ("labels-idx1", 0x801, labels)):
            data = np.array([magic, *values.shape], ">u4").tobytes() + values.tobytes()
            path = root / f"{part}-{name}-ubyte{'.gz' if packed else ''}"
            path.write_bytes(gzip.compress(data) if packed else data)
    return root
