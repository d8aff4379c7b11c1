"""Claims: who is at work on what, so that two runs of one suite share the work instead of doing it twice.

A claim is held by an owner that beats (says that it lives) every few seconds. It may be taken over when its owner is
dead: at once if its process is gone on this host, else when its last beat is older than a limit. A beat that
lies as far in the future is stale too, so a clock that was set back blocks nobody for ever. As clocks are set and those
of two hosts differ, an owner that seems silent is watched first: one that beats meanwhile lives. A claim only saves
work: if one is lost by mistake, two processes compute the same record and the store keeps the first.
"""

import os
import secrets
import socket
import time

from sqlalchemy import Connection, delete, insert, select, update

from results.comparison import Comparison
from results.schema import CLAIMS

STALE_AFTER_S = 60.0
WATCHED_S = 25.0  # longer than two beats
HOST = socket.gethostname()


class Watch:
    """For how long this process has seen claims without a beat, by a clock that nobody sets."""

    def __init__(self) -> None:
        """Nothing was seen yet."""
        self._seen: dict[str, tuple[str, float, float]] = {}

    def silent_s(self, name: str, owner: str, beat_at: float) -> float:
        """Seconds since this beat was first seen here; 0 for a new one."""
        seen, now = self._seen.get(name), time.monotonic()
        if seen is None or seen[:2] != (owner, beat_at):
            seen = self._seen[name] = owner, beat_at, now
        return now - seen[2]


def new_owner() -> str:
    """A name for one worker of this process: `host:pid:random`."""
    return f"{HOST}:{os.getpid()}:{secrets.token_hex(4)}"


def campaign_claim(comparison: Comparison, method: str, method_code: str) -> str:
    """The claim that is taken on all the work of a method in a comparison."""
    return "/".join((*comparison, method, method_code))


def take(
    connection: Connection, name: str, owner: str, stale_after_s: float, now: float, watch: Watch | None = None
) -> bool:
    """Whether `owner` holds the claim after this call; `now` is in seconds since 1970."""
    held = connection.execute(select(CLAIMS.c.owner, CLAIMS.c.beat_at).where(CLAIMS.c.name == name)).one_or_none()
    if held is None:
        connection.execute(insert(CLAIMS).values(name=name, owner=owner, beat_at=now))
        return True
    if held.owner != owner:
        silent_s = watch.silent_s(name, held.owner, held.beat_at) if watch else stale_after_s
        if not _is_stale(held.owner, held.beat_at, stale_after_s, now):
            return False
        if silent_s < min(stale_after_s, WATCHED_S) and not _is_dead(held.owner):
            return False
    as_seen = (CLAIMS.c.name == name) & (CLAIMS.c.owner == held.owner)
    if held.owner != owner:  # where the database lets two takers get here, or the owner beat just now, one finds 0 rows
        as_seen &= CLAIMS.c.beat_at == held.beat_at
    return connection.execute(update(CLAIMS).where(as_seen).values(owner=owner, beat_at=now)).rowcount == 1


def beat(connection: Connection, owner: str, now: float) -> int:
    """Renew all claims of an owner; returns how many it holds."""
    return connection.execute(update(CLAIMS).where(CLAIMS.c.owner == owner).values(beat_at=now)).rowcount


def release(connection: Connection, name: str, owner: str) -> None:
    """Give a claim back; one that somebody else holds stays."""
    connection.execute(delete(CLAIMS).where(CLAIMS.c.name == name, CLAIMS.c.owner == owner))


def holder(connection: Connection, name: str, stale_after_s: float, now: float) -> str | None:
    """The owner of a claim that is not stale."""
    held = connection.execute(select(CLAIMS.c.owner, CLAIMS.c.beat_at).where(CLAIMS.c.name == name)).one_or_none()
    return None if held is None or _is_stale(held.owner, held.beat_at, stale_after_s, now) else str(held.owner)


def _is_stale(owner: str, beat_at: float, stale_after_s: float, now: float) -> bool:
    return abs(now - beat_at) > stale_after_s or _is_dead(owner)


def _is_dead(owner: str) -> bool:
    """Whether the owner's process is known to be gone; False where it cannot be known."""
    host, _, process = owner.partition(":")
    pid = process.partition(":")[0]
    if host != HOST or not pid.isdecimal() or int(pid) == 0 or os.name == "nt":  # on Windows os.kill would kill it
        return False
    try:
        os.kill(int(pid), 0)  # signal 0 asks and sends nothing
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):  # it lives and belongs to somebody else; or was never a process id
        return False
    return False
