"""Stanford Online Products: 120,053 photographs of 22,634 articles in twelve kinds, with an official test list.

A class is named by its id in five digits and its kind, "00001.bicycle". The test classes are those of Ebay_test.txt:
halving all classes would move one of them (11,317 instead of 11,318 to train on).

Source: Oh Song et al., "Deep Metric Learning via Lifted Structured Feature Embedding", CVPR 2016,
https://cvgl.stanford.edu/projects/lifted_struct/
"""

from pathlib import Path

from protocols.datasets.archive import needed, place, records
from protocols.datasets.index import ImageIndex
from protocols.datasets.standard import Listed, standard_index

NAME = "sop"
_FORM = "<image id> <class id> <super-class id> <super-class>_final/<file>"
_PATTERN = r"\d+\s+(\d+)\s+\d+\s+((\S+?)(?:_final)?/\S+)"


def sop_index(root: Path) -> ImageIndex:
    """Index the data set below an absolute folder.

    Raises:
        DataError: if a list is missing or damaged, or a class or an image is in both.
        OSError: if a file cannot be read.
    """
    listed = []
    for side in ("train", "test"):
        path = needed(root, f"Ebay_{side}.txt", NAME)
        rows = records(path, _FORM, _PATTERN, n_header=1)
        beside = [path.parent, path.parent / "images", path.parent.parent / "images", path.parent.parent]
        files = place(root, beside, [file for _, file, _ in rows])
        listed += [
            Listed(file, f"{int(class_id):05d}.{kind}", side, kind)
            for file, (class_id, _, kind) in zip(files, rows, strict=True)
        ]
    return standard_index(NAME, root, listed, "Ebay_train.txt and Ebay_test.txt")
