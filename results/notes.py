"""Notes: what a store remembers beside records and searches, a JSON value for each name of a kind.

What a store began with may so be compared with what it is asked to go on with. Notes lie in the table that holds the
schema's number: an older release of the package leaves them alone.
"""

import json
from hashlib import sha256
from typing import Any, Literal

from sqlalchemy import Connection, insert, select, update

from results.schema import META

Kind = Literal["suite", "data", "embeddings"]


def read(connection: Connection, kind: Kind, name: str) -> Any:
    """The note, or None."""
    text = connection.scalar(select(META.c.value).where(META.c.key == _key(kind, name)))
    return None if text is None else json.loads(text)["note"]


def put(connection: Connection, kind: Kind, name: str, value: Any) -> None:
    """Write the note, in place of one of that name."""
    text = json.dumps({"name": name, "note": value}, sort_keys=True, allow_nan=False)
    row = META.c.key == _key(kind, name)
    if not connection.execute(update(META).where(row).values(value=text)).rowcount:
        connection.execute(insert(META).values(key=_key(kind, name), value=text))


def _key(kind: Kind, name: str) -> str:
    return f"{kind}/{sha256(name.encode()).hexdigest()[:32]}"  # the column is short, and names are paths
