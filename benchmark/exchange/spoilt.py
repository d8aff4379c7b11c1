"""Why a file of embeddings or labels cannot be read, in words that say how to mend it; looked for once reading failed.

A fault is what stands after "cannot be read as .csv" in a message, or "" where nothing is found.
"""

import csv
from pathlib import Path

UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")
SEPARATORS = {";": "semicolons", "\t": "tabs", ",": "commas", "|": "bars"}
OBJECTS = "it holds Python objects, which may run code and are not read; save with .astype(str) or as float32"


def numpy_fault(said: str) -> str:
    """Of a file that is no text, on which NumPy gave up with these words."""
    if "pickle" in said or "object" in said.lower():
        return f" ({OBJECTS})."
    if said.startswith("EOF") or "mmap length" in said or "reshape array" in said:
        return ": the file is cut off; save it again."
    return ""


def text_fault(path: Path, delimiter: str, are_numbers: bool) -> str:
    """Of a .csv or .tsv file: its encoding, its separator, a row of another length, a cell that is no number."""
    content = path.read_bytes()
    if content.startswith(UTF_16_MARKS) or b"\0" in content[:1000]:
        return ": it is UTF-16 text; save it as UTF-8."
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return f": it is no UTF-8 text (byte {error.start}); save it as UTF-8."
    if other := other_separator(text.partition("\n")[0], delimiter):
        return f": its columns are separated by {other}; save it with {SEPARATORS[delimiter]}."
    return _row_fault(text, delimiter) if are_numbers else ""


def other_separator(first_line: str, delimiter: str) -> str:
    """What separates the columns of a file whose first line has no separator that is wanted; "" if nothing does."""
    if delimiter in first_line:
        return ""
    return next((name for sign, name in SEPARATORS.items() if sign in first_line), "")


def _row_fault(text: str, delimiter: str) -> str:
    width = 0
    try:
        rows = csv.reader(text.splitlines(keepends=True), delimiter=delimiter, strict=True)
        for row in filter(None, rows):
            width = width or len(row)
            if len(row) != width:
                return f": line {rows.line_num} has {_columns(len(row))} and the first has {width}; mend the line."
            for column, cell in enumerate(row, 1):
                if not is_number(cell) and rows.line_num > 1:  # the first may be a heading
                    return f": line {rows.line_num}, column {column} is {cell!r:.60}; wanted a number, as 0.5."
    except csv.Error:
        pass
    return ""


def _columns(number: int) -> str:
    return f"{number} column{'s' if number != 1 else ''}"


def is_number(text: str) -> bool:
    """Whether a cell is a number as Python writes it."""
    try:
        float(text)
    except ValueError:
        return False
    return True
