"""CUB-200-2011: 11,788 photographs of 200 bird species, read from the archive's lists or from class folders alone.

A class is named like its folder, "001.Black_footed_Albatross", so that the order of names is the order of class ids.
The archive's own train_test_split.txt divides every class and is of no use here: the protocols cut the classes.

Source: Wah et al., "The Caltech-UCSD Birds-200-2011 Dataset", 2011, https://doi.org/10.22002/D1.20098
"""

import re
from pathlib import Path, PurePosixPath

from protocols.datasets.archive import class_folders, find, needed, place, records
from protocols.datasets.index import ImageIndex
from protocols.datasets.standard import Listed, standard_index
from protocols.errors import DataError

NAME = "cub200"
_CLASS = re.compile(r"\d{3}\.\S+")


def cub200_index(root: Path) -> ImageIndex:
    """Index the data set below an absolute folder.

    Raises:
        DataError: if there is neither the list nor a class folder, a list is damaged, or the two lists do not agree.
        OSError: if a file cannot be read.
    """
    if find(root, "images.txt") is None:
        listed, skipped = class_folders(root, lambda name: name if _CLASS.fullmatch(name) else None)
        if listed:
            return standard_index(NAME, root, listed, "the class folders", skipped)
    images = needed(root, "images.txt", NAME)
    class_ids = needed(images.parent, "image_class_labels.txt", NAME)
    id_of = {row[0]: row[1] for row in records(class_ids, "<image id> <class id>", r"(\d+)\s+(\d+)")}
    rows = records(images, "<image id> <class folder>/<file>", r"(\d+)\s+(\S+/\S+)")
    files = place(root, [images.parent / "images", images.parent], [file for _, file in rows])
    labels = [PurePosixPath(file).parent.name for file in files]
    for (image, _), label in zip(rows, labels, strict=True):
        if not _CLASS.fullmatch(label) or id_of.get(image) != str(int(label[:3])):
            raise DataError(
                f"{class_ids}: image {image} is of class {id_of.get(image)}, but {images.name} has it in {label}. "
                "Fetch both files again."
            )
    return standard_index(NAME, root, [Listed(*pair) for pair in zip(files, labels, strict=True)], images.name)
