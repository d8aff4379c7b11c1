"""In-shop Clothes Retrieval (DeepFashion): 52,712 photographs of 7,982 articles, with official queries and gallery.

A class is named like its item, "id_00000001". On the test side the images marked `query` are searched for among those
marked `gallery`, never among each other: `ImageIndex.gallery` tells them apart. Training and validation know no such
division.

Source: Liu et al., "DeepFashion", CVPR 2016, https://mmlab.ie.cuhk.edu.hk/projects/DeepFashion/InShopRetrieval.html
"""

from pathlib import Path

from protocols.datasets.archive import needed, place, records
from protocols.datasets.index import ImageIndex
from protocols.datasets.standard import Listed, standard_index
from protocols.errors import DataError

NAME = "inshop"
_FORM = "<img/.../file> <item id> <train, query or gallery>"
_PATTERN = r"(\S+/\S+)\s+(\S+)\s+(train|query|gallery)"


def inshop_index(root: Path) -> ImageIndex:
    """Index the data set below an absolute folder.

    Raises:
        DataError: if the list is missing, damaged or cut short, or an article is on both sides.
        OSError: if a file cannot be read.
    """
    path = needed(root, "list_eval_partition.txt", NAME)
    rows = records(path, _FORM, _PATTERN, n_header=2)
    n_announced = path.read_text(encoding="utf-8-sig").split(maxsplit=1)[0]
    if n_announced != str(len(rows)):
        raise DataError(f"{path}: {len(rows)} images; its first line announces {n_announced}. Fetch the file again.")
    above = path.parent.parent
    beside = [path.parent, path.parent / "Img", path.parent / "img", above, above / "Img", above / "img"]
    files = place(root, beside, [file for file, _, _ in rows])
    listed = [Listed(file, item, side) for file, (_, item, side) in zip(files, rows, strict=True)]
    return standard_index(NAME, root, listed, path.name)
