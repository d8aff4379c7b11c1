"""iNaturalist 2019: 268,243 photographs of 1,010 species in 72 genera; the first 656 species train, the others test.

A class is named by its category id in four digits and its species, "0000.Dendrobates auratus". The two annotation files
divide images, not species, and are read as one. They were published with coded names: the list of real ones,
categories.json, takes their place where it is given, and only with it is the `content_hash` that of others who did so.

The lists name an image train_val2019/Plants/17/<hash>.jpg. The archive's folder keeps its name in most places;
torchvision renames it to 2019, and mirrors leave out the group (Plants) or put further folders around it.

Source: https://github.com/visipedia/inat_comp/tree/master/2019
"""

import json
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

from protocols.datasets.archive import find, levels, needed, share_in
from protocols.datasets.index import ImageIndex
from protocols.datasets.standard import Listed, standard_index
from protocols.errors import DataError

NAME = "inaturalist2019"
N_TRAIN_SPECIES = 656  # the first by category id
_PACKED = "train_val2019"
_NAMES = (_PACKED, "2019")  # the folder of the images, as the archive and as torchvision call it

Parsed = TypeVar("Parsed")


def inaturalist_index(root: Path) -> ImageIndex:
    """Index the data set below an absolute folder.

    Raises:
        DataError: if an annotation file is missing or damaged, a category has no genus, or no species is left to test.
        OSError: if a file cannot be read.
    """
    paths = [needed(root, f"{side}2019.json", NAME) for side in ("train", "val")]
    renamed = find(root, "categories.json")
    species = _parsed(renamed, _species) if renamed else _parsed(paths[0], lambda read: _species(read["categories"]))
    train = frozenset(sorted(species)[:N_TRAIN_SPECIES])
    listed = []
    for path in paths:
        rows = _parsed(path, _images)
        if unknown := {category for _, category in rows} - species.keys():
            raise DataError(f"{path}: category {min(unknown)} is in no list of categories. Fetch the file again.")
        for file, (_, category) in zip(_placed(root, path.parent, [file for file, _ in rows]), rows, strict=True):
            name, genus = species[category]
            listed.append(Listed(file, f"{category:04d}.{name}", "train" if category in train else "test", genus))
    return standard_index(NAME, root, listed, "train2019.json and val2019.json")


def _placed(root: Path, beside: Path, listed: list[str]) -> list[str]:
    """The listed files relative to the root, in whichever folder for images has most of a sample of them.

    The nearest comes first, so that a whole data set is found without a look into its thousand folders.
    """
    inner = [file.removeprefix(f"{_PACKED}/") for file in listed]
    ungrouped = ["/".join(file.split("/")[-2:]) for file in listed]
    best, most = [(beside / file).relative_to(root).as_posix() for file in listed], 0.0
    for level in levels(root):
        for folder in level:
            if folder.name not in _NAMES and folder not in (root, beside):
                continue
            for files in (inner, ungrouped):
                if (share := share_in(folder, files)) > most:
                    prefix = PurePosixPath(folder.relative_to(root).as_posix())
                    best, most = [str(prefix / file) for file in files], share
        if most == 1:
            break
    return best


def _species(categories: list[dict[str, Any]]) -> dict[int, tuple[str, str]]:
    """Name and genus by category id."""
    return {int(category["id"]): (category["name"], category["genus"]) for category in categories}


def _images(read: dict[str, Any]) -> list[tuple[str, int]]:
    """File and category id of each image."""
    category_of = {annotation["image_id"]: int(annotation["category_id"]) for annotation in read["annotations"]}
    return [(image["file_name"], category_of[image["id"]]) for image in read["images"]]


def _parsed(path: Path, parse: Callable[[Any], Parsed]) -> Parsed:
    try:
        return parse(json.loads(path.read_bytes()))
    except KeyError as error:
        way_out = "Put categories.json beside it" if error.args == ("genus",) else "Fetch the file again"
        raise DataError(f"{path}: an entry without {error}. {way_out}.") from None
    except (ValueError, TypeError, AttributeError) as error:
        raise DataError(f"{path}: no annotations in the competition's form ({error}). Fetch the file again.") from None
