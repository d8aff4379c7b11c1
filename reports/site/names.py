"""File names for whatever a thing is called: safe on every file system, readable, and no two alike.

A name that is a plain file name already stays as it is. Any other is cut down to plain letters and ends with a part of
the hash of what it was, so that it depends on nothing but itself.
"""

import re
from hashlib import sha256

LONGEST = 60  # characters
PLAIN = re.compile(r"[a-z0-9]+(?:[-.][a-z0-9]+)*")
RESERVED = {"con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))}  # by Windows


def file_stem(name: str) -> str:
    """`proxy-anchor` for itself, `script-alert-1-script-be33e0` for `<script>alert(1)</script>`."""
    if PLAIN.fullmatch(name) and len(name) <= LONGEST and name.partition(".")[0] not in RESERVED:
        return name
    return marked(name, name)


def marked(name: str, *content: str) -> str:
    """What is plain in a name, and a part of the hash of some content that tells it from others."""
    plain = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[: LONGEST - 10].strip("-")
    digest = sha256("/".join(content).encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return "-".join(filter(None, (plain, digest)))
