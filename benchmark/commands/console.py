"""What every command prints through, and the exit codes it may leave with."""

import json
import sys

from rich.console import Console

# 1 is a negative verdict; 2 a usage or data error; 3 interrupted, the same command goes on; 4 some jobs failed.
DONE, NEGATIVE, USAGE, INTERRUPTED, JOBS_FAILED = 0, 1, 2, 3, 4

console = Console()
errors = Console(stderr=True)


def print_json(value: object) -> None:
    """Strict JSON on standard output."""
    sys.stdout.write(json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def say_error(text: str) -> None:
    """One line on standard error, as it is."""
    errors.print(text, markup=False, highlight=False, soft_wrap=True)
