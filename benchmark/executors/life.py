"""The life of a worker process: its bench comes first, then calls, until the pipe is closed or its parent is gone."""

import multiprocessing
import os
import pickle
import signal
import threading
import traceback
from multiprocessing.connection import Connection

from benchmark.executors.worker import hold
from benchmark.training.failure import one_line


def live(pipe: Connection) -> None:
    """Take the bench, then one call after the other."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the whole group; the parent decides what it means
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        hold(pipe.recv())
        while True:
            pipe.send_bytes(_outcome(pipe.recv_bytes()))
    except EOFError:
        return


def _outcome(sent: bytes) -> bytes:
    try:
        return pickle.dumps((pickle.loads(sent)(), None))
    except Exception as error:
        error.add_note(f"In a worker:\n{traceback.format_exc()}")
        return pickle.dumps((None, _that_travels(error)))


def _that_travels(error: Exception) -> Exception:
    """The exception, or one of its text where it cannot be pickled."""
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        return RuntimeError(one_line(error))
    return error


def _end_with_parent() -> None:
    """A killed parent closes no pipe that other workers have inherited, so a worker would wait for work for ever."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
