"""Published hyper-parameters, 515 values in `hyperparameters.csv`, in our names and units; `SOURCES.md` says whence.

A set of values has a method and a key, "source:data set", as `--published` takes it. Values that the paper leaves to
its protocol, such as the learning rate of proxies in CCP's, are absent.
"""

import csv
from functools import cache
from importlib.resources import files

from results.record import Value


@cache
def published_hyperparameters() -> dict[tuple[str, str], dict[str, Value]]:
    """By method and key, in the order of the papers: the values by name."""
    text = files(__package__).joinpath("hyperparameters.csv").read_text(encoding="utf-8")
    found: dict[tuple[str, str], dict[str, Value]] = {}
    for row in csv.DictReader(text.splitlines()):
        value: Value = float(row["value"])
        found.setdefault((row["method"], row["key"]), {})[row["parameter"]] = value
    return found


def published_keys(method: str, hyperparameters: dict[str, Value]) -> list[str]:
    """The keys under which a paper has these very values; a learning rate that the protocol fixes may be absent."""
    return [
        key
        for (name, key), values in published_hyperparameters().items()
        if name == method
        and {**values, **hyperparameters} == values
        and values.keys() - hyperparameters.keys() <= {"w_lr"}
    ]
