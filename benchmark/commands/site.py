"""What `mlrc report --site` gathers beside tables and records: what methods are, importances, test embeddings."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmark.commands.held_out import HeldOutImages, fold_models, held_out_images
from benchmark.errors import BenchmarkError
from benchmark.methods.listing import method_line, method_notes
from benchmark.methods.registry import METHODS, method_entry, parts_of
from benchmark.methods.user import installed_names
from benchmark.search.importances import importances
from benchmark.training.embeddings import Matrix, Place, load_embeddings
from protocols.datasets import load_dataset
from reports.errors import ReportError
from reports.site.build import SitePaths, build_site
from reports.site.folder import check_place
from reports.site.material import Material, MethodText, Searched
from reports.site.searches import space_of
from reports.tables import Table
from results.comparison import Comparison
from results.record import FoldRecord, Record
from results.study import Study


@dataclass(frozen=True, eq=False)
class StoredEmbeddings:
    """The fold models whose test images are at hand."""

    records: Sequence[FoldRecord]
    images: Mapping[Comparison, HeldOutImages]
    load: Callable[[str], Matrix]

    def of(self, record: FoldRecord) -> tuple[Matrix, HeldOutImages]:
        """The embeddings of one fold model and their images.

        Raises:
            ReportError: if there is not one for each image.
            BenchmarkError: if they cannot be read.
        """
        embeddings, images = self.load(record.id), self.images[record.identity.comparison]
        if len(embeddings) != len(images.files):
            raise ReportError(
                f"record {record.id}: {len(embeddings)} test embeddings of {len(images.files)} test images; restore "
                "the file of its embeddings."
            )
        return embeddings, images


def write_site(
    tables: Sequence[Table],
    records: Sequence[Record],
    studies: Iterable[Study],
    folder: Path,
    data: Sequence[str] = (),
    place: Place | None = None,
) -> SitePaths:
    """Write the site of some tables; with data sets and the place of embeddings, with galleries and scores of classes.

    Raises:
        ReportError, BenchmarkError, DataError: in one line, with the way out.
    """
    check_place(folder)  # before anything that takes long
    if data and place is None:
        raise BenchmarkError("--data is for the test embeddings beside a store, and exports have none; leave it out.")
    newest = sorted(studies, key=lambda study: study.fork)
    searches = {Searched(study.comparison, study.method, study.method_code): study for study in newest}
    return build_site(
        tables,
        records,
        folder,
        Material(
            methods=method_texts(records),
            spaces={search: space_of(study) for search, study in searches.items()},
            importances={search: importances(study, records) for search, study in searches.items()},
            embeddings=None if place is None or not data else stored_embeddings(records, data, place),
        ),
    )


def method_texts(records: Iterable[Record]) -> dict[str, MethodText]:
    """What is known here of the methods in some records, if it is of the code that the records are of.

    A method named by a file is not looked for: records may be anybody's, and reading a method runs its code.
    """
    codes = {record.identity.method: record.identity.method_code for record in records}
    found = {}
    for name, code in codes.items():
        if not _is_known(name):
            continue
        try:
            entry = method_entry(name)
            line = method_line(entry)
        except BenchmarkError:  # of another version of the package
            continue
        if entry.code == code:
            found[name] = MethodText(
                family=entry.family,
                formula=entry.formula,
                source=entry.source,
                notes=method_notes(entry),
                space=line["space"],
            )
    return found


def stored_embeddings(records: Sequence[Record], data: Sequence[str], place: Place) -> StoredEmbeddings:
    """The test embeddings in a place of the final fold models on some data sets.

    Raises:
        BenchmarkError: if nothing is recorded on one of them.
    """
    models: list[FoldRecord] = []
    images: dict[Comparison, HeldOutImages] = {}
    finals = [record for record in records if record.identity.purpose == "final"]
    for name in data:
        index = load_dataset(name)
        some = fold_models(finals, index)
        models += some
        images |= held_out_images(some, index)
    return StoredEmbeddings(models, images, partial(load_embeddings, place))


def _is_known(name: str) -> bool:
    if parts := parts_of(name):
        return _is_known(parts[1])
    return name in METHODS or name.startswith("pml:") or name in installed_names()
