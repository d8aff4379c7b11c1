"""Randomness by purpose: every stream is derived from a seed and a name, so adding one stream shifts no other."""

from hashlib import sha256

import torch


def derived_seed(seed: int, purpose: str) -> int:
    """A 32-bit seed for one purpose."""
    return int.from_bytes(sha256(f"{seed}/{purpose}".encode()).digest()[:4], "big")


def stream(seed: int, purpose: str) -> torch.Generator:
    """A CPU generator for one purpose."""
    return torch.Generator().manual_seed(derived_seed(seed, purpose))
