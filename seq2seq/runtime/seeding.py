"""Derive the seed of every random draw from the run's seed and the purpose of the draw."""

import hashlib
import json

_NUM_BYTES = 8


def derive_seed(seed: int, *purpose: str | int) -> int:
    """Return a seed in [0, 2**63) that depends only on the arguments.

    Args:
        seed: The run's seed.
        purpose: Name of what is drawn, and its epoch or update, as in
            `derive_seed(seed, "order", epoch)`.
    """
    # JSON distinguishes ("a", 1), ("a1",) and ("a", "1"). Unlike hash(), SHA-256 is the same in
    # every process and Python version.
    text = json.dumps([seed, *purpose])
    digest = hashlib.sha256(text.encode("ascii")).digest()
    return int.from_bytes(digest[:_NUM_BYTES], "big") >> 1
