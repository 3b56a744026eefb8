"""Describe an update for which the memory of a GPU was too small."""

from collections.abc import Sequence

from seq2seq.config.training import TrainingConfig
from seq2seq.data import Batch
from seq2seq.runtime.device_memory import OnOutOfMemory


def describe_shortage(batches: Sequence[Batch], update: int, config: TrainingConfig) -> str:
    """Return one line that names the batches of an update, their tokens and the keys to change.

    Args:
        batches: The batches of this process.
        update: Number of the update, from 1.
        config: The training configuration.
    """
    sizes = " and ".join(map(_describe, batches))
    size = f"training.batching.size={config.batching.size}"
    ways = (
        f"lower {size}, with a higher training.accumulation={config.accumulation} for updates of "
        "the same size, or data.max_length"
    )
    if config.on_out_of_memory is OnOutOfMemory.stop:
        ways += ", or leave such updates out with training.on_out_of_memory=skip"
    return f"update {update}: the memory of a GPU is too small; this process has {sizes}; {ways}"


def _describe(batch: Batch) -> str:
    sides = []
    for name, ids in (("source", batch.source_ids), ("target", batch.target_ids)):
        rows, length = ids.shape
        sides.append(f"{rows} x {length} {name} tokens")
    first = int(batch.indices[0]) + 1
    return f"a batch of {' and '.join(sides)}, which begins with training pair {first}"
