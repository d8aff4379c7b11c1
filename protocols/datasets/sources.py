"""Where the papers' data sets come from: addresses, sizes, checksums, terms, and what to do by hand.

A checksum is the MD5 that the publisher, torchvision or many users of the file have written down; it tells a damaged or
another file, not a forged one. A size is in bytes, rounded where only a rounded one was published, 0 where none was.
"""

from dataclasses import dataclass

from protocols.datasets.files import size_text
from protocols.datasets.standard import STANDARD
from protocols.errors import DataError, did_you_mean

_INATURALIST = "https://ml-inat-competition-datasets.s3.amazonaws.com/2019"
_MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist"
_CARS_COPY = "https://www.kaggle.com/api/v1/datasets/download/jutrera/stanford-car-dataset-by-classes-folder"


@dataclass(frozen=True)
class Archive:
    """A file as it is published; `url` is "" where no address is left or none may be passed on."""

    name: str
    size: int = 0
    url: str = ""
    md5: str = ""


@dataclass(frozen=True, kw_only=True)
class Source:
    """How a data set is published."""

    page: str
    terms: str
    archives: tuple[Archive, ...]
    by_hand: str = ""  # where it cannot be fetched: why, and the way out

    @property
    def is_open(self) -> bool:
        """Whether all of it has an address that asks for no login."""
        return all(archive.url for archive in self.archives)

    @property
    def size(self) -> int:
        """Bytes of all archives."""
        return sum(archive.size for archive in self.archives)


SOURCES = {  # by the keys of STANDARD
    "cub200": Source(
        page="https://www.vision.caltech.edu/datasets/cub_200_2011/",
        terms="non-commercial research and education; the photographs belong to their authors on Flickr",
        archives=(
            Archive(
                "CUB_200_2011.tgz",
                1_150_585_339,
                "https://data.caltech.edu/records/65de6-vp158/files/CUB_200_2011.tgz",
                "97eceeb196236b17998738112f37df78",
            ),
        ),
    ),
    "cars196": Source(
        page="https://github.com/pytorch/vision/issues/7545",
        terms="non-commercial research",
        archives=(
            Archive("car_ims.tgz", md5="d5c8f0aa497503f355e17dc7886c3f14"),
            Archive("cars_annos.mat", md5="b407c6086d669747186bd1d764ff9dbc"),
        ),
        by_hand="Stanford's addresses are gone; a copy in class folders, without a published checksum, can be given as "
        f"--from {_CARS_COPY}",
    ),
    "sop": Source(
        page="https://cvgl.stanford.edu/projects/lifted_struct/",
        terms="research; the photographs are from offers on eBay",
        archives=(
            Archive(
                "Stanford_Online_Products.zip",
                3_083_860_082,
                "http://ftp.cs.stanford.edu/cs/cvgl/Stanford_Online_Products.zip",
                "7f73d41a2f44250d4779881525aea32e",
            ),
        ),
    ),
    "inshop": Source(
        page="https://mmlab.ie.cuhk.edu.hk/projects/DeepFashion/InShopRetrieval.html",
        terms="non-commercial research, after an agreement with the authors",
        archives=(Archive("img.zip"), Archive("list_eval_partition.txt")),
        by_hand="its authors ask for an agreement first; then take Eval/list_eval_partition.txt and Img/img.zip, not "
        "img_highres.zip, which is locked",
    ),
    "inaturalist2019": Source(
        page="https://github.com/visipedia/inat_comp/tree/master/2019",
        terms="non-commercial research and education; not to be passed on",
        archives=(
            Archive(  # the lists first: what is wrong with them is seen before 74 GB are fetched
                "train2019.json.tar.gz",
                13_000_000,
                f"{_INATURALIST}/train2019.json.tar.gz",
                "b06a6683537867c0d5c7a45f407a306d",
            ),
            Archive(
                "val2019.json.tar.gz",
                156_000,
                f"{_INATURALIST}/val2019.json.tar.gz",
                "5cc5509b0fe495f1c8c1362612448497",
            ),
            Archive("categories.json.tar.gz", 13_000, f"{_INATURALIST}/categories.json.tar.gz"),
            Archive(
                "train_val2019.tar.gz",
                74_000_000_000,
                f"{_INATURALIST}/train_val2019.tar.gz",
                "c60a6e2962c9b8ccbd458d12c8582644",
            ),
        ),
    ),
    "mnist": Source(
        page="https://github.com/pytorch/vision/blob/main/torchvision/datasets/mnist.py",
        terms="CC BY-SA 3.0 (Yann LeCun and Corinna Cortes)",
        archives=tuple(
            Archive(f"{name}-ubyte.gz", size, f"{_MNIST}/{name}-ubyte.gz", md5)
            for name, size, md5 in (
                ("train-images-idx3", 9_912_422, "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
                ("train-labels-idx1", 28_881, "d53e105ee54ea40749a09fcbcd1e9432"),
                ("t10k-images-idx3", 1_648_877, "9fb629c4189551a2d022fa330f9573f3"),
                ("t10k-labels-idx1", 4_542, "ec29112dd5afa0611ce80d1b7f02629c"),
            )
        ),
    ),
}


def source_named(name: str) -> Source:
    """The source of a data set of the papers; DataError, with the nearest name, if there is none."""
    if name in SOURCES:
        return SOURCES[name]
    if name.partition(":")[0] in ("shapes", "folder"):
        raise DataError(f"{name}: needs no fetching; see mlrc data list.")
    raise DataError(
        f"no data set named {name!r} to fetch.{did_you_mean(name.casefold(), SOURCES)} Known: {', '.join(SOURCES)}."
    )


def manual(name: str, to: str) -> str:
    """What to do by hand where fetching a data set fails: files, page, command, layout; one line."""
    source, published = SOURCES[name], STANDARD[name]
    files = ", ".join(map(_in_full, source.archives))
    given = " ".join(f"--from {archive.name}" for archive in source.archives)
    return (
        f"By hand: get {files}; see {source.page}. Then run mlrc data fetch {name} {to} {given}, or unpack it yourself "
        f"and use {name}:FOLDER, which is read from {published.layouts}."
    )


def _in_full(archive: Archive) -> str:
    known = [size_text(archive.size)] * bool(archive.size) + [f"MD5 {archive.md5}"] * bool(archive.md5)
    return archive.name + (f" ({', '.join(known)})" if known else "")
