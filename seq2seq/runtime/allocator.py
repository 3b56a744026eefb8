"""Keep freed memory in the process, so that new tensors need not request it from the system."""

import ctypes
import sys

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # of mallopt(3), from malloc.h
_LARGEST = 32 << 20
"""Bytes; the largest mmap threshold that glibc accepts."""
_KEPT = (1 << 31) - 1
"""Bytes."""


def keep_freed_memory() -> None:
    """Allocate tensors of up to 32 MB from memory that earlier tensors have freed.

    By default glibc returns every large block to the system, which clears its pages before they are
    used again; a training update uses a gigabyte of them. Other C libraries are not changed.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGEST)
        mallopt(_TRIM_THRESHOLD, _KEPT)
        mallopt(_TOP_PAD, _LARGEST)
