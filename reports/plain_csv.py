"""CSV that a spreadsheet takes for what it is: numbers and texts, and nothing that it would compute.

A spreadsheet reads a cell that begins with = + - or @ as a formula, even from a file that a stranger sent. Methods,
classes and data sets are named by whoever made them, so such a text gets a ' in front, which spreadsheets hide; numbers
stay as they are.
"""

import pandas as pd

BEGIN_FORMULA = ("=", "+", "-", "@", "\t", "\r")


def csv_text(frame: pd.DataFrame) -> str:
    """A frame as CSV without its index; what does not exist is empty."""
    texts = frame.select_dtypes(exclude=["number", "bool"])
    plain = frame.copy()
    for name in texts:
        plain[name] = pd.Series([*map(_plain, texts[name])], index=frame.index, dtype=object)
    return plain.to_csv(index=False, lineterminator="\n")


def _plain(value: object) -> object:
    is_formula = isinstance(value, str) and value.startswith(BEGIN_FORMULA) and not _is_number(value)
    return f"'{value}" if is_formula else value


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
