"""What `mlrc export` and `mlrc import` do: a store's results as files, and files of others' results into a store.

Nothing of a file is believed before all files are read and checked; then all of them go into the store, or nothing
does. Files of test embeddings go along where they are asked for, or lie beside.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

import numpy as np

from benchmark.errors import BenchmarkError, words_of
from benchmark.stores import open_store, refuse_unrecorded
from benchmark.training.embeddings import EmbeddingsUnavailable, Matrix, load_embeddings, save_embeddings, stored_place
from protocols.catalogue import CATALOGUE
from results.errors import ResultsError
from results.exchange.export import Export, embeddings_beside, exports, file_name, write_export
from results.exchange.merging import Collected, collect, export_files
from results.record import FoldRecord, Identity, Record
from results.store import Merged, Store
from results.whole_file import check_folder


@dataclass(frozen=True, kw_only=True)
class Written:
    """Files that an export wrote, and what it left out."""

    files: Mapping[Path, Export]
    left_out: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Imported:
    """What an import took."""

    files: Mapping[Path, Export]
    merged: Merged
    n_duplicates: int  # records that were in several of the files
    n_embeddings: int  # files of test embeddings that the store did not have
    left_out: tuple[str, ...]


def export_store(store: Store, address: str, folder: Path, methods: Sequence[str], with_embeddings: bool) -> Written:
    """Write all whole runs and searches of a store, or of some methods there, a file for each subject.

    Raises:
        BenchmarkError: if there is nothing.
        ResultsError: if a method is not there, a record does not hold up, or a file cannot be written.
    """
    refuse_unrecorded(store, methods)
    made, left_out = exports(
        (record for record in store.records() if not methods or record.identity.method in methods),
        (study for study in store.studies() if not methods or study.method in methods),
    )
    if not made:
        raise BenchmarkError(f"{store.name}: {left_out[0] if left_out else 'nothing is recorded there yet'}.")
    check_folder(folder)
    files = {}
    for export in made:
        path = folder / file_name(export)
        hashes: dict[str, str] = {}
        if with_embeddings:
            hashes, lacking = _write_embeddings(export.records, store, address, embeddings_beside(path))
            left_out += lacking
        write_export(export.records, export.studies, path, hashes)
        files[path] = replace(export, embeddings=hashes)
    return Written(files=files, left_out=tuple(left_out))


def import_exports(paths: Iterable[Path], address: str) -> Imported:
    """Take what is in some exports into a store; it is opened, or made, once all of them have passed.

    Raises:
        ResultsError: if a file fails a check, or files or store contradict each other. Nothing is taken then.
    """
    collected = read_checked(paths)
    beside, left_out = _embeddings_of(collected)
    for path, digest in beside.values():
        _matrix(path, digest)
    with open_store(address) as store:
        merged = store.merge(collected.records, collected.studies)
        n_embeddings = _keep_embeddings(beside, store, address) if beside else 0
    return Imported(
        files=collected.exports,
        merged=merged,
        n_duplicates=collected.n_duplicates,
        n_embeddings=n_embeddings,
        left_out=tuple(left_out),
    )


def read_checked(paths: Iterable[Path]) -> Collected:
    """The content of files and folders of exports, once all of them have passed all checks.

    Raises:
        ResultsError: as `collect`; or if records name a published protocol and hold other values.
    """
    collected = collect(export_files(paths))
    for path, export in collected.exports.items():
        for record in export.records:
            _refuse_forged_protocol(record.identity, path)
    return collected


def is_published(identity: Identity) -> bool:
    """Whether the protocol is one that this release publishes, rather than one that the file alone carries."""
    known = CATALOGUE.get(identity.protocol["title"])
    return known is not None and known.digest() == identity.protocol["digest"]


def _refuse_forged_protocol(identity: Identity, path: Path) -> None:
    title, digest = identity.protocol["title"], identity.protocol["digest"]
    if title in CATALOGUE and not is_published(identity):
        raise ResultsError(
            f"{path}: holds results under {title} with the fingerprint {digest}; the published {title} has "
            f"{CATALOGUE[title].digest()}. They were made under other rules, or changed by hand."
        )


def _write_embeddings(
    records: Sequence[Record], store: Store, address: str, folder: Path
) -> tuple[dict[str, str], list[str]]:
    """Put the test embeddings of the final folds into a folder; their hashes, and what is not there."""
    place, hashes, lacking = stored_place(store, address), {}, []
    for record in records:
        if not isinstance(record, FoldRecord) or record.test is None:
            continue
        try:
            found = load_embeddings(place, record.id)
        except EmbeddingsUnavailable as error:
            lacking.append(str(error))
            continue
        try:
            save_embeddings(folder, record.id, found)
            hashes[record.id] = sha256((folder / f"{record.id}.npy").read_bytes()).hexdigest()
        except OSError as error:
            raise ResultsError(f"{folder}: cannot be written ({words_of(error)}); choose another.") from None
    return hashes, lacking


def _embeddings_of(collected: Collected) -> tuple[dict[str, tuple[Path, str]], list[str]]:
    """The files of embeddings beside the exports, with the hashes that they must have; and what is missing."""
    found, lacking = {}, []
    for path, export in collected.exports.items():
        folder = embeddings_beside(path)
        gone = [name for name in export.embeddings if not (folder / f"{name}.npy").is_file()]
        found.update({
            name: (folder / f"{name}.npy", digest) for name, digest in export.embeddings.items() if name not in gone
        })  # fmt: skip
        if gone:
            lacking.append(f"{folder}: {len(gone)} of {len(export.embeddings)} files of test embeddings are not there")
    return found, lacking


def _matrix(path: Path, digest: str) -> Matrix:
    """The embeddings in a file that must have this hash."""
    try:
        held = sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise ResultsError(f"{path}: cannot be read ({words_of(error)}).") from None
    if held != digest:
        raise ResultsError(f"{path}: is not the file that was exported; its SHA-256 is {held}, wanted {digest}.")
    found = load_embeddings(path.parent, path.stem)
    if found.dtype != np.float32 or found.ndim != 2:
        raise ResultsError(f"{path}: holds {found.dtype} {found.shape}; wanted (N, D) float32.")
    return found


def _keep_embeddings(beside: Mapping[str, tuple[Path, str]], store: Store, address: str) -> int:
    place, n_new = stored_place(store, address), 0
    for name, (path, digest) in beside.items():
        try:
            load_embeddings(place, name)
        except EmbeddingsUnavailable:
            save_embeddings(place, name, _matrix(path, digest))
            n_new += 1
    return n_new
