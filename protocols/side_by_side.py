"""Threads that work side by side, each with its share of the cores that torch has."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Given = TypeVar("Given")
Found = TypeVar("Found")


def side_by_side(work: Callable[[Given], Found], given: Iterable[Given], n_threads: int) -> Iterator[Found]:
    """`work` of each, in the order they are given in; the first error of one of them is raised."""
    if n_threads == 1:
        yield from map(work, given)
        return
    shared = torch.get_num_threads()
    try:
        with ThreadPoolExecutor(n_threads, initializer=torch.set_num_threads, initargs=(shared // n_threads,)) as pool:
            yield from pool.map(work, given)
    finally:
        torch.set_num_threads(shared)  # which threads of later on begin with: each of torch's sets that, too
