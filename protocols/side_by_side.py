"""Threads that work side by side, each with its share of the cores that torch has."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Given = TypeVar("Given")
Found = TypeVar("Found")


def side_by_side(work: Callable[[Given], Found], given: Iterable[Given], n_threads: int) -> list[Found]:
    """`work` of each, in the order they are given in; the first error of one of them is raised."""
    if n_threads == 1:
        return list(map(work, given))
    shared = torch.get_num_threads()
    of_each = max(1, shared // n_threads)
    try:
        with ThreadPoolExecutor(n_threads, initializer=torch.set_num_threads, initargs=(of_each,)) as pool:
            return list(pool.map(work, given))
    finally:
        torch.set_num_threads(shared)  # the pool's threads have set what any new thread begins with
