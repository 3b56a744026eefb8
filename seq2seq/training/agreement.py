"""Prepare the data in turn, and check that all processes of a run train on the same."""

import zlib
from collections.abc import Iterator

from seq2seq.checks import Mark
from seq2seq.config.schema import TrainConfig
from seq2seq.config.serialization import config_differences
from seq2seq.data import TokenizerPair, tokenizers_state
from seq2seq.data.batching import IdRows
from seq2seq.data.cache import digest
from seq2seq.runtime.distributed import Ranks, barrier, share_from_first
from seq2seq.training.preparation import EvaluationSet, PreparedData, prepare_data


def check_same_config(config: TrainConfig, ranks: Ranks) -> None:
    """Compare the configuration with that of the first process.

    Raises:
        ValueError: In a process that was started with another configuration.
    """
    differences = [
        str(difference)
        for difference in config_differences(share_from_first(config, ranks), config)
        if Mark.machine not in difference.marks
    ]
    if differences:
        raise ValueError(
            f"the configuration differs from that of the first process: {', '.join(differences)}; "
            "give all processes the same arguments"
        )


def prepare_in_turn(
    config: TrainConfig, tokenizers: TokenizerPair | None, ranks: Ranks
) -> PreparedData:
    """Prepare the data: in the first process, then in one of each machine, then in the others.

    The first process downloads the data and fills the cache. On a machine that shares no disk
    with it, the first process of that machine does.

    Args:
        config: The configuration.
        tokenizers: Tokenizers of a resumed run; None trains those of the configuration.
        ranks: The position of this process.

    Raises:
        ValueError: The data cannot be used, or differ from those of the first process.
        OSError: A file cannot be read or written.
    """
    own_turn = 0 if ranks.is_first else 1 if ranks.local_rank == 0 else 2
    for turn in range(3):
        if turn == own_turn:
            data = prepare_data(config, tokenizers)
        barrier(ranks)
    _check_same_data(data, ranks)
    return data


def _check_same_data(data: PreparedData, ranks: Ranks) -> None:
    if ranks.world_size == 1:
        return
    own = dict(_checksums(data))
    first = share_from_first(own, ranks)
    if differing := [name for name in own if own[name] != first.get(name)]:
        raise ValueError(
            f"{' and '.join(differing)} differ from those of the first process; copy its files of "
            "data and its data.cache_dir to this machine"
        )


def _checksums(data: PreparedData) -> Iterator[tuple[str, str]]:
    """Yield a checksum of each part of the data, by its name in messages."""
    yield "the training data", data.fingerprint
    yield "the tokenizers", digest(tokenizers_state(data.tokenizers))
    encoded = data.train.epoch(0)
    yield "the training ids", _ids_digest(encoded.source_rows, encoded.target_rows)
    yield "the validation data", _set_digest(data.valid)
    for name, other in data.other_valid.items():
        yield f"the validation data {name}", _set_digest(other)
    if data.test is not None:
        yield "the test data", _set_digest(data.test)


def _set_digest(data: EvaluationSet) -> str:
    ids = _ids_digest(data.encoded.source_rows, data.encoded.target_rows)
    return digest([ids, data.sources, data.references, *data.scoring_rule])


def _ids_digest(*sides: IdRows) -> str:
    return digest([[zlib.crc32(rows.ids.data), zlib.crc32(rows.offsets.data)] for rows in sides])
