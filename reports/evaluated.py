"""What the metrics of one comparison are over, in words: queries, those left out, and the sizes of their classes."""

from collections.abc import Iterable

from results.record import COUNTS, Record


def evaluated(records: Iterable[Record]) -> str:
    """`5,924 queries, none left out, R from 40 to 59`; "" where no record tells.

    One data set and split have one answer; records that differ in it are all told.
    """
    found = {
        tuple(audit[name] for name in COUNTS)
        for record in records
        if (audit := record.evaluation_audit) and all(type(audit.get(name)) is int for name in COUNTS)
    }
    return " or ".join(words(*counts) for counts in sorted(found))


def words(queries: int, left_out: int, smallest_r: int, largest_r: int) -> str:
    """One answer: `2,420 queries, none left out, R = 19`."""
    sizes = f"R = {smallest_r}" if smallest_r == largest_r else f"R from {smallest_r} to {largest_r}"
    return f"{queries:,} queries, {f'{left_out:,}' if left_out else 'none'} left out, {sizes}"
