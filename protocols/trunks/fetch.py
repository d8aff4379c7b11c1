"""The published weight file of a trunk, fetched to where runs look for it: checked before it gets its name."""

from hashlib import file_digest
from pathlib import Path

from protocols import spec
from protocols.datasets.download import Watch, download
from protocols.disk import writable
from protocols.errors import ProtocolError
from protocols.trunks import published_file
from protocols.trunks.weights import hash_digits


def fetch_weights(trunk: spec.Trunk, watch: Watch) -> tuple[Path, bool]:
    """The file in the cache of PyTorch's hub that `trunk.weights` names, and whether it was fetched now.

    Raises:
        ProtocolError: if this trunk reads no file, or what its authors' address gives has another hash; nothing stays.
        DataError: as `protocols.datasets.download.download`.
    """
    file = published_file(trunk)
    if file is None:
        raise ProtocolError(f"trunk {trunk.name} with weights {trunk.weights!r} reads no file; nothing to fetch.")
    wanted, path = hash_digits(trunk.weights), file.cached
    if path.exists() and _hash(path).startswith(wanted):
        return path, False
    arrived = path.with_name(f"{path.name}.unchecked")
    with writable(path):
        path.parent.mkdir(parents=True, exist_ok=True)
    download(file.address, arrived, watch)
    found = _hash(arrived)
    if not found.startswith(wanted):
        _remove(arrived)
        raise ProtocolError(
            f"{file.address} gave a file with SHA-256 {found[:8]}; the protocol wants {trunk.weights!r}. Find "
            f"{file.name} elsewhere and give it with --weights."
        )
    arrived.replace(path)
    _remove(arrived)
    return path, True


def _remove(arrived: Path) -> None:
    """The file, if it is still there, and what was noted of its transfer."""
    for leftover in arrived.parent.glob(f"{arrived.name}*"):
        leftover.unlink()


def _hash(path: Path) -> str:
    with path.open("rb") as file:
        return file_digest(file, "sha256").hexdigest()
