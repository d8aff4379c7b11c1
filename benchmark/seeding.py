"""Randomness by purpose: every stream is derived from a seed and a name, so adding one stream shifts no other."""

import random
from hashlib import sha256
from typing import Any

import numpy as np
import torch


def derived_seed(seed: int, purpose: str) -> int:
    """A 32-bit seed for one purpose."""
    return int.from_bytes(sha256(f"{seed}/{purpose}".encode()).digest()[:4], "big")


def stream(seed: int, purpose: str) -> torch.Generator:
    """A CPU generator for one purpose."""
    return torch.Generator().manual_seed(derived_seed(seed, purpose))


def global_streams(device: str) -> dict[str, Any]:
    """Where the global generators of torch, NumPy and Python stand, as plain values."""
    kind, keys, *position = np.random.get_state(legacy=True)
    return {
        "torch": torch.get_rng_state(),
        "cuda": torch.cuda.get_rng_state(device) if device.startswith("cuda") else None,
        "numpy": (kind, np.asarray(keys).tolist(), *position),
        "python": random.getstate(),
    }


def set_global_streams(found: dict[str, Any], device: str) -> None:
    """Set them to where `global_streams` found them."""
    torch.set_rng_state(found["torch"])
    if device.startswith("cuda"):
        torch.cuda.set_rng_state(found["cuda"], device)
    np.random.set_state(found["numpy"])
    random.setstate(found["python"])
