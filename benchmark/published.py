"""A paper's hyper-parameters instead of a search: what `--published source:data set` means for each method."""

from benchmark.bench import Bench
from benchmark.errors import BenchmarkError
from benchmark.methods.entry import W_LR, MethodEntry, Value
from benchmark.methods.registry import check_hyperparameters
from protocols.errors import did_you_mean

_SHORT = {"cub": "cub200", "cars": "cars196"}  # data sets


def published_values(entry: MethodEntry, key: str, bench: Bench) -> dict[str, Value]:
    """The published values of a method; none for a method that has nothing to search.

    The learning rate of own weights is left out where the protocol fixes it.

    Raises:
        BenchmarkError: if the method has no values under this key, or they lack a learning rate that the protocol
            leaves open.
    """
    space = bench.space(entry)
    if not space:
        return {}
    source, _, rest = key.partition(":")
    dataset, dash, variant = rest.partition("-")
    found = entry.published.get(f"{source}:{_SHORT.get(dataset, dataset)}{dash}{variant}")
    if found is None:
        known = ", ".join(entry.published) or "none; search it, or leave the method out"
        hint = did_you_mean(key, entry.published)
        raise BenchmarkError(f"{entry.name}: no published values {key!r}.{hint} Published: {known}.")
    if W_LR in space and W_LR not in found:
        raise BenchmarkError(
            f"{entry.name}: {key} has no {W_LR}, which its paper's protocol fixes and {bench.protocol.title} does not. "
            "Choose --protocol ccp, or search it."
        )
    values = {name: value for name, value in found.items() if name in space}
    check_hyperparameters(entry, bench.fewest_classes, values)
    return values
