"""Seeds for every random draw, derived from the run's seed and what the draw is for."""

import hashlib
import json

_NUM_BYTES = 8


def derive_seed(seed: int, *purpose: str | int) -> int:
    """Return a seed in [0, 2**63) that depends on nothing but the arguments.

    Args:
        seed: the run's seed.
        purpose: what is drawn, and when, e.g. `derive_seed(seed, "order", epoch)`.
    """
    # JSON keeps ("a", 1) and ("a1",) and ("a", "1") apart; unlike hash() it is the same in
    # every process and Python version.
    text = json.dumps([seed, *purpose])
    digest = hashlib.sha256(text.encode("ascii")).digest()
    return int.from_bytes(digest[:_NUM_BYTES], "big") >> 1
