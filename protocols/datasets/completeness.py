"""What a run says of its images before it begins: that they are not all of the published ones, or that files were left.

Neither stops a run: a mirror without one damaged image is of use, and so is a folder with notes in it. But a number on
half of the images looks like any other, so it is never silent.
"""

from collections import Counter

from protocols.datasets.index import ImageIndex
from protocols.datasets.standard import STANDARD, expected_counts


def remark_on(index: ImageIndex) -> str:
    """One line: what was found and what the data set has, how many files were left out; "" where all is well."""
    parts = [part for part in (_unlike_published(index), _left_out(index)) if part]
    return f"{index.name}: {'; '.join(parts)}. See mlrc data check {index.location}" if parts else ""


def _unlike_published(index: ImageIndex) -> str:
    if not (differing := expected_counts(index)):
        return ""
    published = STANDARD[index.standard_name]
    classes, images = published.counts["classes"], published.counts["images"]
    found = f"{index.n_classes:,} classes and {index.n_images:,} images"
    if (index.n_classes, index.n_images) == (classes, images):
        return f"{found} as in {published.title}, but {'; '.join(differing)}"
    return f"{found}; {published.title} has {classes:,} classes and {images:,} images"


def _left_out(index: ImageIndex) -> str:
    """Hidden files are passed over: nobody takes them for images, and desktops leave them everywhere."""
    reasons = Counter(line.rpartition(": ")[2] for line in index.skipped)
    del reasons["hidden"]
    if not (total := reasons.total()):
        return ""
    why = ", ".join(f"{reason}: {number:,}" for reason, number in reasons.most_common())
    return f"{total:,} files or folders left out ({why})"
