"""Cars196 (Stanford Cars): 16,185 photographs of 196 models, read from either archive or from class folders.

A class is named by its id and its model, "001.AM General Hummer SUV 2000", with a hyphen for the slash that no folder's
name can hold. The ids do not follow the alphabet (the Audi V8 comes before the Audi 100), so class folders alone are
not enough: the list of names in the order of ids must lie beside them. The official train and test images divide every
class and are read as one; the protocols cut the classes.

Source: Krause et al., "3D Object Representations for Fine-Grained Categorization", 3dRR 2013
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import loadmat

from protocols.datasets.archive import class_folders, find, needed, place, records
from protocols.datasets.index import ImageIndex
from protocols.datasets.standard import Listed, standard_index
from protocols.errors import DataError

NAME = "cars196"
_LISTS_OF_NAMES = ("names.csv", "cars_meta.mat", "cars_annos.mat")


def cars196_index(root: Path) -> ImageIndex:
    """Index the data set below an absolute folder.

    Raises:
        DataError: if the folder holds none of the three layouts, or a list is missing, damaged or at odds with another.
        OSError: if a file cannot be read.
    """
    if find(root, "car_ims", Path.is_dir) is None:
        if find(root, "cars_train", Path.is_dir):
            return _later_archive(root)
        if names := next(filter(None, (find(root, name) for name in _LISTS_OF_NAMES)), None):
            label_of = {name: _label(position, name) for position, name in enumerate(_names(names), start=1)}
            listed, skipped = class_folders(root, label_of.get)
            if listed:
                return standard_index(NAME, root, listed, "the class folders", skipped)
    annotations = needed(root, "cars_annos.mat", NAME)
    pictures = needed(root, "car_ims", NAME, Path.is_dir)
    listed = _annotated(root, annotations, "relative_im_path", [pictures.parent, pictures], _names(annotations))
    return standard_index(NAME, root, listed, annotations.name)


def _later_archive(root: Path) -> ImageIndex:
    """The images in two folders, each numbered from 00001.jpg, with an annotation file for each."""
    names = _names(needed(root, "cars_meta.mat", NAME))
    listed = []
    for side, list_name in (("cars_train", "cars_train_annos.mat"), ("cars_test", "cars_test_annos_withlabels.mat")):
        pictures = needed(root, side, NAME, Path.is_dir)
        annotations = needed(root, list_name, NAME)
        listed += _annotated(root, annotations, "fname", [pictures, pictures / side], names)
    return standard_index(NAME, root, listed, "cars_train_annos.mat and cars_test_annos_withlabels.mat")


def _annotated(root: Path, path: Path, field: str, beside: Sequence[Path], names: Sequence[str]) -> list[Listed]:
    files, class_ids = _columns(path, "annotations", field, "class")
    if strange := sorted({int(class_id) for class_id in class_ids} - set(range(1, len(names) + 1))):
        raise DataError(f"{path}: class {strange[0]} of {len(names)} named classes. Fetch the annotations again.")
    labels = [_label(int(class_id), names[int(class_id) - 1]) for class_id in class_ids]
    placed = place(root, beside, [str(file) for file in files])
    return [Listed(file, label) for file, label in zip(placed, labels, strict=True)]


def _label(class_id: int, name: str) -> str:
    return f"{class_id:03d}.{name}"


def _names(path: Path) -> list[str]:
    """The names of the classes in the order of their ids, as a folder can be called."""
    if path.suffix == ".csv":
        names = [name for (name,) in records(path, "a class name", r'"?(.+?)"?')]
    else:
        (names,) = _columns(path, "class_names")
    return [str(name).strip().replace("/", "-") for name in names]


def _columns(path: Path, key: str, *fields: str) -> list[list[Any]]:
    """One array of a MATLAB file, or some fields of it."""
    try:
        array = np.atleast_1d(loadmat(path, squeeze_me=True)[key])
        return [list(array[field]) for field in fields] if fields else [list(array)]
    except OSError:
        raise
    except Exception as error:  # the reader of MATLAB files raises nearly any type on a damaged one
        reason = " ".join(str(error).split()) or type(error).__name__
        raise DataError(f"{path}: not the MATLAB file that was wanted ({reason}). Fetch it again.") from None
