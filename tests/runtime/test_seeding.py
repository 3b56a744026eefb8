"""Seeds follow from the run's seed and the purpose, the same on every machine."""

import hashlib
import subprocess
import sys
from itertools import combinations

import numpy as np
import torch

from seq2seq.runtime.seeding import derive_seed


def test_a_seed_is_the_hash_of_its_arguments() -> None:
    digest = hashlib.sha256(b'[7, "order", 3]').digest()

    seed = derive_seed(7, "order", 3)

    assert seed == int.from_bytes(digest[:8], "big") // 2


def test_another_process_derives_the_same_seed() -> None:
    program = "from seq2seq.runtime.seeding import derive_seed; print(derive_seed(1, 'dropout', 5))"

    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert int(result.stdout) == derive_seed(1, "dropout", 5)


def test_different_purposes_give_different_seeds() -> None:
    seeds = [
        derive_seed(1),
        derive_seed(2),
        derive_seed(1, "a"),
        derive_seed(1, "a", 1),
        derive_seed(1, "a", "1"),
        derive_seed(1, "a1"),
        derive_seed(11, "a"),
        derive_seed(1, "a", 2),
        derive_seed(1, 2, "a"),
    ]

    assert all(left != right for left, right in combinations(seeds, 2))


def test_the_generators_take_every_seed() -> None:
    for number in range(200):
        seed = derive_seed(number, "any")

        assert 0 <= seed < 2**63
        torch.Generator().manual_seed(seed)
        np.random.default_rng(seed)
