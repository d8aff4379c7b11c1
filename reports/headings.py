"""Words for people: what metrics are called and how they are defined, runs by number, values, names safe to print."""

from collections.abc import Sequence

METRICS = {  # heading and definition; R = images of the query's class other than the query
    "precision_at_1": ("P@1", "share of queries whose nearest neighbour is of their class"),
    "r_precision": ("R-precision", "share of hits among the R nearest neighbours"),
    "map_at_r": ("MAP@R", "1/R x sum over ranks j <= R of the precision at j where the j-th neighbour is a hit"),
}
RECALL_AT = "recall_at_"  # and the K
RECALL = "R@K: share of queries with one of their class among the K nearest neighbours."


def metric_heading(metric: str) -> str:
    """`MAP@R` for `map_at_r`, `R@10` for `recall_at_10`; a name without a heading stands for itself."""
    if metric.startswith(RECALL_AT):
        return f"R@{metric.removeprefix(RECALL_AT)}"
    return METRICS[metric][0] if metric in METRICS else metric


def definitions(metrics: tuple[str, ...]) -> list[str]:
    """A sentence for each of the metrics; one for all recalls."""
    found = [f"{METRICS[name][0]}: {METRICS[name][1]}." for name in metrics if name in METRICS]
    return [*found, *([RECALL] if any(name.startswith(RECALL_AT) for name in metrics) else [])]


def numbered(noun: str, numbers: Sequence[int]) -> str:
    """`fold 2`, `folds 0, 2`, or `runs 2 to 10`; the numbers ascend."""
    first, last = numbers[0], numbers[-1]
    if len(numbers) > 2 and last - first == len(numbers) - 1:
        return f"{noun}s {first} to {last}"
    return f"{noun}{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def short(value: float | int | str | bool) -> str:
    """A hyper-parameter for people: four digits of a number; other values as they are."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def printable(text: str) -> str:
    """Text on one line without control characters: names come from files and from other people's records."""
    return "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text)
