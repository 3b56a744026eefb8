"""Work on several batches side by side, each on a processor of its own."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

_MOST = 8
"""workers; more would wait for each other's Python"""

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")


def side_by_side(function: Callable[[_Item], _Result], items: Sequence[_Item]) -> Iterator[_Result]:
    """Do what `map` does, with a thread for each of those that torch computes with.

    A step of a search is too small for its products to be shared: threads that meet after every
    one of them wait more than they work. Here each computes alone, which torch's kernels let it
    do since they run without the interpreter's lock. A single item is shared after all.

    Args:
        function: reads what it shares with its other calls, and changes none of it.
        items: of which as many are worked on at once as there are threads, up to eight. The
            results of all are kept until the caller takes them.
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
        torch.set_num_threads(num_threads)  # what threads of others begin with
