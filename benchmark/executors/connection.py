"""A connection to the scheduler of a Dask cluster: who is there, and calls to one worker each."""

import json
import logging
import secrets
import threading
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from distributed import Client
from distributed import Future as Reply

from benchmark.errors import BenchmarkError
from benchmark.training.failure import one_line

ANSWER_S = 15.0  # for what takes no time


class Connection:
    """An open connection. `answered` is set whenever a call has its answer."""

    def __init__(self, scheduler: str | Path, answered: threading.Event) -> None:
        """Connect to an address, or to the one in a scheduler's file.

        Raises:
            BenchmarkError: if no scheduler answers there.
        """
        for name in ("distributed", "distributed.client", "distributed.core", "tornado.application"):
            logging.getLogger(name).setLevel(logging.CRITICAL)  # what matters is said by who holds the connection
        warnings.filterwarnings("ignore", "Sending large graph")  # the list of all images, once a worker
        address = _address(scheduler)
        self._answered = answered
        try:
            self._client = Client(address, timeout=ANSWER_S, set_as_default=False)
        except (OSError, ValueError) as error:
            raise BenchmarkError(
                f"no Dask scheduler answers at {address} ({one_line(error)}); `dask scheduler` starts one and tells "
                "its address."
            ) from None

    def workers(self) -> dict[str, str]:
        """The state of each worker, by its address: "running" and others.

        Raises:
            OSError: if the scheduler is away.
        """
        if self._client.status != "running":
            raise OSError("the connection is lost")
        try:
            found = self._client.sync(self._client.scheduler.identity, callback_timeout=ANSWER_S)
        except RuntimeError as error:  # of a loop that was closed
            raise OSError(str(error)) from error
        return {address: told["status"] for address, told in found["workers"].items()}

    def ask(self, address: str, fn: Callable[..., Any], *args: Any, key: str = "ask") -> Reply:
        """Call a function in that worker, and in no other."""
        reply = self._client.submit(
            fn,
            *args,
            key=f"mlrc-{key}-{secrets.token_hex(8)}",
            workers=[address],
            allow_other_workers=False,
            pure=False,
        )
        reply.add_done_callback(lambda _: self._answered.set())
        return reply

    def close(self) -> None:
        """Close it, whatever state it is in."""
        with suppress(Exception):
            self._client.close(timeout=2)


def _address(scheduler: str | Path) -> str:
    """The scheduler's address, out of its file where that is what was named.

    Raises:
        BenchmarkError: if the file is not there, or holds none.
    """
    if isinstance(scheduler, str):
        return scheduler
    try:
        return str(json.loads(scheduler.read_text(encoding="utf-8"))["address"])
    except OSError as error:
        raise BenchmarkError(
            f"--scheduler-file {scheduler}: {error.strerror}; `dask scheduler --scheduler-file {scheduler}` writes it."
        ) from None
    except (ValueError, TypeError, KeyError):
        raise BenchmarkError(f"--scheduler-file {scheduler}: holds no address; it is not a Dask scheduler's.") from None
