"""Process several items at once, one in each thread."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

_MOST = 8
"""Threads; more of them would mostly wait for the interpreter's lock."""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def map_in_threads(
    function: Callable[[_Item], _Result], items: Sequence[_Item]
) -> Iterator[_Result]:
    """Apply a function to each item as `map` does, with several items at once in threads.

    The products of one step of a search are too small to be split over torch's threads: waiting
    for each other would take longer than computing. Here each thread computes whole items, which
    works because torch's kernels release the interpreter's lock. A single item is computed with
    all of torch's threads.

    Args:
        function: Function of one item; it must not change data that its calls share.
        items: Items to process, as many at once as torch has threads, up to eight. Results are
            kept until the caller takes them.

    Yields:
        The results, in the order of the items.
    """
    num_threads = torch.get_num_threads()
    num_workers = min(num_threads, len(items), _MOST)
    if num_workers < 2:
        yield from map(function, items)
        return
    share = num_threads // num_workers
    try:
        with ThreadPoolExecutor(
            num_workers, initializer=torch.set_num_threads, initargs=(share,)
        ) as pool:
            yield from pool.map(function, items)
    finally:
        torch.set_num_threads(num_threads)  # new threads start with this number
