"""A new loss to start from: a file that works as it is, with its search space, and a test that passes as written.

The two files in `templates/` are Python that runs; only their names are replaced.
"""

import keyword
import re
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from benchmark.errors import BenchmarkError

TEMPLATES = Path(__file__).with_name("templates")
LONGEST = 60  # characters of a name

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclass(frozen=True, kw_only=True)
class NewLoss:
    """The files of a new loss."""

    loss: Path
    test: Path
    class_name: str

    @property
    def method(self) -> str:
        """What `mlrc` calls it."""
        return f"{self.loss.as_posix()}:{self.class_name}"


def new_loss(name: str, folder: Path) -> NewLoss:
    """Write the loss file and its test for a name such as `SoftMargin` or `soft_margin`.

    Raises:
        BenchmarkError: if the name is none for Python, would hide a module, or a file is there already or cannot be
            written.
    """
    class_name, stem = _names(name)
    found = NewLoss(loss=folder / f"{stem}.py", test=folder / f"test_{stem}.py", class_name=class_name)
    for path in (found.loss, found.test):
        if path.exists() or path.is_symlink():
            raise BenchmarkError(f"{path}: is there already and stays as it is; choose another name or --out.")
    texts = {
        found.loss: _filled("new_loss.py", class_name, stem),
        found.test: _filled("test_new_loss.py", class_name, stem),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in texts.items():
            with path.open("x", encoding="utf-8", newline="\n") as file:  # x: never over a file that came meanwhile
                file.write(text)
    except OSError as error:
        raise BenchmarkError(f"{folder}: cannot be written ({error.strerror}); choose another --out.") from None
    return found


def _names(name: str) -> tuple[str, str]:
    """`SoftMargin` and `soft_margin`, whichever was given."""
    if not _NAME.fullmatch(name) or len(name) > LONGEST:
        raise BenchmarkError(
            f"{name[:LONGEST]!r} cannot name a loss: wanted letters, digits and underscores, a letter first, at most "
            f"{LONGEST} characters, such as SoftMargin."
        )
    stem = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    stem = re.sub(r"_+", "_", stem).strip("_").lower()
    class_name = "".join(part[:1].upper() + part[1:] for part in name.split("_"))
    if keyword.iskeyword(stem) or keyword.iskeyword(class_name):
        raise BenchmarkError(f"{name!r} cannot name a loss: it is a word of Python. Choose another.")
    if stem in sys.stdlib_module_names or find_spec(stem) is not None:
        raise BenchmarkError(f"{name!r}: a file {stem}.py would hide the module {stem} of that name. Choose another.")
    if re.search(rf"\b{class_name}\b", _template("new_loss.py") + _template("test_new_loss.py")):
        raise BenchmarkError(f"{name!r}: the file itself uses {class_name} for something else. Choose another.")
    return class_name, stem


def _filled(template: str, class_name: str, stem: str) -> str:
    return _template(template).replace("NewLoss", class_name).replace("new_loss", stem)


def _template(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")
