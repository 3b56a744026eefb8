"""Let the C library keep the memory that tensors free, instead of asking the system for it anew."""

import ctypes
import sys

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # of mallopt(3), from malloc.h
_LARGEST = 32 << 20
"""bytes; what glibc takes at most for a threshold of mmap"""
_KEPT = (1 << 31) - 1
"""bytes"""


def keep_freed_memory() -> None:
    """Serve tensors of up to 32 MB from memory that earlier ones have freed.

    By default glibc gives every large block back to the system, which clears its pages when they
    are next touched; an update touches a gigabyte of them. Other C libraries are left alone.
    """
    if not sys.platform.startswith("linux"):
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGEST)
        mallopt(_TRIM_THRESHOLD, _KEPT)
        mallopt(_TOP_PAD, _LARGEST)
