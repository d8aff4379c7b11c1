"""What every command prints through, and the exit codes it may leave with."""

import json
import re
import sys

from rich.console import Console

# 1 is a negative verdict; 2 a usage or data error; 3 interrupted, the same command goes on; 4 some jobs failed.
DONE, NEGATIVE, USAGE, INTERRUPTED, JOBS_FAILED = 0, 1, 2, 3, 4

CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but tab and newline

console = Console()
errors = Console(stderr=True)


def print_json(value: object) -> None:
    """Strict JSON on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def harmless(text: str) -> str:
    """A text without the characters that a terminal obeys: classes, files and methods are named by anybody."""
    return CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)


def say(text: str, to: Console = console) -> None:
    """A text as it is: no markup, no colour, no line broken."""
    to.print(harmless(text), markup=False, highlight=False, soft_wrap=True)


def say_error(text: str) -> None:
    """The same on standard error."""
    say(text, errors)
