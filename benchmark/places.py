"""What a relative path of a suite file means: it lies beside the file, wherever the command is given.

Each function takes the file's folder and a value as it is written there, and returns what the command line would take.
"""

import re
from pathlib import Path

_FILE_IN_METHOD = re.compile(r"([^():][^()]*\.py):")  # also inside xbm(...)


def beside(folder: Path, text: str) -> str:
    """A path; an address such as s3://... is none."""
    return text if "://" in text or text.startswith("~") else str(folder / text)


def data_beside(folder: Path, text: str) -> str:
    """A data set: generated, a folder, or a name and a folder."""
    scheme, colon, path = text.partition(":")
    if scheme == "shapes":
        return text
    if not colon or len(scheme) == 1 or (folder / text).exists():  # one letter: a drive of Windows
        return beside(folder, text)
    return f"{scheme}:{beside(folder, path)}"


def store_beside(folder: Path, text: str) -> str:
    """A SQLite file, by its path or its URL; the URL of a server has no path of this host."""
    prefix = "sqlite:///"
    return prefix + beside(folder, text.removeprefix(prefix)) if text.startswith(prefix) else beside(folder, text)


def method_beside(folder: Path, text: str) -> str:
    """A method; only one of a user's own has a path."""
    return _FILE_IN_METHOD.sub(lambda found: f"{beside(folder, found[1])}:", text)
