"""How large the papers' data sets are, and whether a table is on all of one: a number on a part is another number.

Records name the data set and count its classes and images, so this needs no image. Equal counts prove no equal images;
unequal ones prove others.
"""

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from reports.tables import Table


class Size(NamedTuple):
    """A data set as it was published."""

    title: str
    n_classes: int
    n_images: int


SIZES = {  # by standard name
    "cub200": Size("CUB-200-2011", 200, 11_788),
    "cars196": Size("Cars196", 196, 16_185),
    "sop": Size("Stanford Online Products", 22_634, 120_053),
    "inshop": Size("In-shop Clothes Retrieval", 7_982, 52_712),
    "inaturalist2019": Size("iNaturalist 2019", 1_010, 268_243),
    "mnist": Size("MNIST", 10, 70_000),
}


def other_images(table: "Table") -> str:
    """What a table was made on, and what the data set of that name has; "" for all of it, or for one of no paper."""
    size = SIZES.get(table.standard_name)
    if size is None or (table.n_classes, table.n_images) == size[1:]:
        return ""
    return (
        f"{table.n_classes:,} classes and {table.n_images:,} images; {size.title} has {size.n_classes:,} classes and "
        f"{size.n_images:,} images"
    )
