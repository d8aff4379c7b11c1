"""What must be equal for numbers to stand in one table."""

from typing import NamedTuple


class Comparison(NamedTuple):
    """The three fingerprints that records of one comparison share."""

    protocol_digest: str
    dataset_hash: str
    split_digest: str
