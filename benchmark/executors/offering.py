"""What a command offers the workers of a Dask cluster, and who of them is refused at once."""

import os
import secrets
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmark.bench import Bench
from benchmark.executors.joining import Offer
from benchmark.provenance import package
from protocols.trunks import published_file
from results.claims import HOST
from results.store import Store


def offer_of(bench: Bench, store: Store) -> Offer:
    """The suite as workers elsewhere are to see it: with absolute paths."""
    token = secrets.token_hex(8)
    artifacts = bench.artifacts.absolute()
    bench = replace(
        bench,
        artifacts=artifacts,
        checkpoints=bench.checkpoints and bench.checkpoints.absolute(),
        cache=bench.cache and bench.cache.absolute(),
    )
    file = published_file(bench.protocol.trunk)
    names = [name for name in (file.variable if file else "", "MLRC_CACHE") if name in os.environ]
    return Offer(
        token=token,
        bench=bench,
        store=store.url,
        claim=f"dask/{token}",
        folder=Path.cwd(),
        marker=bench.place / f"{token}.marker" if isinstance(bench.place, Path) else None,
        variables={name: os.environ[name] for name in names},
    )


def unlike(told: Mapping[str, Any], store: Store) -> str | None:
    """Why a worker that tells this of itself cannot take part; None if it may, after its own checks."""
    if told["package"] != package():
        return f"it has mlrc-harness {told['package']} and this is {package()}; install the same version on both."
    if store.url.startswith("sqlite") and told["host"] != HOST:
        return (
            f"the store {store.name} is a SQLite file, which is safe on one host only, and this is {HOST}; give "
            "--store a postgresql+psycopg:// address."
        )
    return None
