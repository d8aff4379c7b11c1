"""Checkpoints: all that a killed job needs to go on, one file a job beside the store, written whole or not at all.

A job may write one after each of its validations. How often it does changes no bit of its record, so it waits until
writing has cost less than `SHARE` of its time. A file is read with `weights_only`, and only after its check sums have
been compared, which torch does not do. It is taken up only where the record would name the same versions, device,
threads and code as when it was written: elsewhere the last bits might differ. A file that cannot be taken up costs its
job a start from zero and nothing else.
"""

import os
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any
from zipfile import BadZipFile, ZipFile

import torch

from benchmark.bench import Bench
from benchmark.console import say_error
from benchmark.jobs import Job
from benchmark.provenance import provenance
from benchmark.training.failure import one_line
from benchmark.training.method_memory import CannotBeKept

VERSION = 2  # of the state
SHARE = 0.02  # of a job's time, at most, goes into its checkpoints after the first

State = dict[str, Any]  # tensors, numbers, strings, None and containers of them


class UnusableCheckpoint(Exception):
    """Why a checkpoint is not taken up."""


class Checkpoint:
    """The file of one job; on a bench without a place for checkpoints there is none."""

    def __init__(self, bench: Bench, job: Job) -> None:
        self._path = bench.checkpoints / f"{job.id}.pt" if bench.checkpoints else None
        self._device, self._method = torch.device(bench.device), job.method
        origin = asdict(provenance(bench, trunk_weights=""))  # those that the protocol names are part of the job's id
        self._kind = {"version": VERSION, "job": job.id, **origin.pop("versions"), **origin}
        del self._kind["created_at"]
        self._wait_until_s = 0.0

    def read(self) -> State | None:
        """The state that was written last, if there is any.

        Raises:
            UnusableCheckpoint: if the file is damaged or of another kind.
        """
        if self._path is None or not self._path.exists():
            return None
        try:
            with ZipFile(self._path) as file:
                if damaged := file.testzip():
                    raise BadZipFile(f"the check sum of {damaged} is wrong")
            found = torch.load(self._path, map_location=self._place, weights_only=True)
            kind, state = dict(found["kind"]), dict(found["state"])
        except Exception as error:  # zipfile, pickle and torch have many words for a damaged file
            raise UnusableCheckpoint(f"is damaged ({one_line(error)})") from error
        for name in sorted(kind.keys() | self._kind.keys()):
            if kind.get(name) != self._kind.get(name):
                raise UnusableCheckpoint(f"has {name} {kind.get(name)}, and this is {self._kind.get(name)}")
        return state

    def write(self, state: Callable[[], State]) -> None:
        """Put what `state` returns in the place of the last one, unless that was not long ago.

        A full disk, or a method whose memory cannot be kept, is said and changes nothing else.
        """
        began = time.perf_counter()
        if self._path is None or began < self._wait_until_s:
            return
        try:
            _save(self._path, {"kind": self._kind, "state": state()})
        except (OSError, RuntimeError) as error:  # torch's writer raises the second
            _say_once(f"{self._path.parent}: no checkpoint can be written ({one_line(error)}); jobs go on without.")
        except CannotBeKept as error:
            _say_once(f"{self._method}: its jobs leave no checkpoint, as {error} is no plain value that could be kept.")
        ended = time.perf_counter()
        self._wait_until_s = ended + (ended - began) / SHARE

    def discard(self, reason: UnusableCheckpoint) -> None:
        """Remove the file and say why."""
        if self._path is not None:
            say_error(f"{self._path}: this checkpoint {reason}; its job starts over.")
            remove_checkpoints(self._path.parent, [self._path.stem])

    def _place(self, storage: Any, location: str) -> Any:
        """What lay on an accelerator goes to the job's own, whichever of several it was."""
        return storage if location == "cpu" else storage.to(device=self._device)


def checkpoints_folder(embeddings: Path) -> Path:
    """Where the checkpoints of a store lie: beside the folder of its test embeddings."""
    return embeddings.with_suffix(".checkpoints")


def checkpointed_jobs(folder: Path | None) -> list[str]:
    """The ids of the jobs that left a checkpoint, or the beginning of one."""
    if folder is None:
        return []
    left = [path.name.split(".") for path in (*folder.glob("*.pt"), *folder.glob("*.partial"))]
    return sorted({job_id for job_id, *rest in left if rest != ["best", "pt"]})


def remove_checkpoints(folder: Path | None, job_ids: Iterable[str]) -> None:
    """Remove all that jobs wrote to go on from; their best weights stay."""
    if folder is None:
        return
    for job_id in job_ids:
        for path in (folder / f"{job_id}.pt", *folder.glob(f"{job_id}.*.partial")):
            with suppress(OSError):  # one that stays is swept by the next suite
                path.unlink(missing_ok=True)


def save_best_weights(folder: Path, job_id: str, weights: State) -> None:
    """Write the state dictionary of a model as `<folder>/<job id>.best.pt`.

    To have the model again, where `protocol` is the one of the job's record:

        model = build_model(protocol, torch.Generator())
        model.load_state_dict(torch.load(path, map_location="cpu", weights_only=True))
        model.eval()
    """
    _save(folder / f"{job_id}.best.pt", weights)


def _save(path: Path, value: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}.partial")
    try:
        torch.save(value, partial)
        # Nothing waits for the disk: a file that a power failure leaves half written is a damaged one.
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@cache
def _say_once(text: str) -> None:
    say_error(text)
