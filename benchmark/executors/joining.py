"""What a worker of a Dask cluster does: it joins a suite after its checks, then performs one job at a time.

A record goes from the worker to the store and not through the cluster. Before a worker joins, it must see what the
command sees: this package at the same version, the command's folder, the store, the place of the test embeddings, the
images and the weights of the trunk. A worker takes no part in two jobs at once, whatever its number of threads: the
random streams and the number of torch threads belong to the process.
"""

import os
import socket
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any

import torch

from benchmark.bench import Bench, check_graphs, default_device
from benchmark.errors import BenchmarkError
from benchmark.executors.worker import hold
from benchmark.jobs import Work
from benchmark.provenance import device_name, package, versions
from benchmark.training.checkpoint import remove_checkpoints
from benchmark.training.embeddings import check_place
from benchmark.training.failure import is_result
from protocols.datasets import load_dataset
from protocols.datasets.cache import PixelCache
from protocols.errors import ProtocolError
from protocols.trunks import build_trunk
from results.errors import ResultsError
from results.record import Record
from results.store import Store

SUITES_HELD = 2  # by one worker: two commands may share a cluster, and a bench keeps its images in memory
_LOOK_EVERY_S = 1.0


class NotJoined(Exception):
    """A job of a suite that this worker holds no more: it was started again, or has joined others since."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Offer:
    """All that a worker needs to join a suite."""

    token: str  # of this run of the command
    bench: Bench = field(repr=False)
    store: str = field(repr=False)  # its URL, with its password
    claim: str  # that the command holds in the store
    folder: Path  # where the command was started: names of files may be relative to it
    marker: Path | None  # a file in the folder of the test embeddings, where these lie in a folder
    variables: Mapping[str, str]  # of the environment


@dataclass(frozen=True, eq=False)
class _Suite:
    offer: Offer
    bench: Bench
    store: Store


_suites: OrderedDict[str, _Suite] = OrderedDict()  # the last one is in force
_turn = threading.Lock()


def told() -> dict[str, Any]:
    """What a worker says of itself before it is given anything that only this version of the package can read."""
    return {"package": package(), "host": socket.gethostname(), "versions": versions()}


def join(offer: Offer) -> str:
    """Check that this process sees what the command sees, and hold the suite; returns the device's name.

    Raises:
        BenchmarkError: what it does not see, with the way out.
    """
    with _turn:
        _enter(offer)
        bench = replace(offer.bench, device=default_device())  # the command may run where there is no GPU
        check_graphs(bench.cuda_graphs, bench.device)
        store = _open_store(offer)
        try:
            _check_artifacts(offer)
            _check_images(bench)
            build_trunk(bench.protocol.trunk, torch.Generator())
        except BaseException as error:
            store.close()
            if isinstance(error, ProtocolError):  # a data error is one
                raise BenchmarkError(str(error)) from None
            raise
        if before := _suites.pop(offer.token, None):
            before.store.close()
        _suites[offer.token] = _Suite(offer, bench, store)
        hold(bench)
        while len(_suites) > SUITES_HELD:
            _suites.popitem(last=False)[1].store.close()
        return device_name(bench.device)


def leave(token: str) -> None:
    """Let go of a suite and of its images."""
    with _turn:
        if suite := _suites.pop(token, None):
            suite.store.close()


def perform_here(token: str, fn: Callable[[Work], Record], work: Work) -> None:
    """Perform a job of a suite and keep its record in the store, unless it is there already.

    Raises:
        NotJoined: if this worker does not hold the suite.
    """
    with _turn:
        suite = _taken_up(token)
        found = suite.store.get(work.id)
        if found is not None and is_result(found):
            return  # by a worker that was thought lost
        with _EndsWithItsWorker():
            record = fn(work)
        suite.store.add(record)
        remove_checkpoints(suite.bench.checkpoints, [work.id])


def _taken_up(token: str) -> _Suite:
    if token not in _suites:
        raise NotJoined(token)
    in_force = next(reversed(_suites))
    suite = _suites[token]
    if in_force != token:
        _enter(suite.offer)
        hold(suite.bench)
        _suites.move_to_end(token)
    torch.set_num_threads(suite.bench.threads)  # a worker of several threads may have changed to another
    return suite


def _enter(offer: Offer) -> None:
    try:
        os.chdir(offer.folder)
    except OSError as error:
        raise BenchmarkError(
            f"the folder {offer.folder}, where the command was started, is not there ({error.strerror}); start it in a "
            "folder that every worker sees."
        ) from None
    os.environ.update(offer.variables)


def _open_store(offer: Offer) -> Store:
    try:
        store = Store.open(offer.store)
    except ResultsError as error:
        raise BenchmarkError(f"the store cannot be reached: {error}") from None
    if store.holder(offer.claim, stale_after_s=inf) is None:
        store.close()
        raise BenchmarkError(
            f"the store {store.name} is another one here than the command's; name a server by the address that every "
            "host knows it by, not as localhost."
        )
    return store


def _check_artifacts(offer: Offer) -> None:
    if offer.marker is not None and not offer.marker.exists():
        raise BenchmarkError(
            f"the folder of the test embeddings, {offer.marker.parent}, is not the command's; give --artifacts a place "
            "that every host sees."
        )
    check_place(offer.bench.place)


def _check_images(bench: Bench) -> None:
    """Compare all images, or the cache of them, which is all that jobs read where it is made.

    Raises:
        DataError: if they cannot be read.
        BenchmarkError: if they are others.
    """
    index = bench.index
    if bench.cache is not None:
        PixelCache(bench.cache, index, bench.protocol.transforms.resize_px)
        return
    found = load_dataset(index.location)
    if found.content_hash != index.content_hash:
        raise BenchmarkError(
            f"{index.location}: the images there have the hash {found.content_hash} and the command's have "
            f"{index.content_hash}; give --data a path under which every worker sees the same files."
        )


class _EndsWithItsWorker:
    """While a job runs: end this process when its worker leaves the cluster, as its place is taken by another."""

    def __enter__(self) -> None:
        from distributed import get_worker

        self._over = threading.Event()
        with suppress(ValueError):  # not in a worker
            self._worker = get_worker()
            threading.Thread(target=self._watch, daemon=True).start()

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def _watch(self) -> None:
        while not self._over.wait(_LOOK_EVERY_S):
            if self._worker.status.name in ("closing", "closed", "failed"):
                os._exit(1)
