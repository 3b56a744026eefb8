"""The registry of searches, and the function `search` that selects one and runs it."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from seq2seq.registry import Registry
from seq2seq.search.config import (
    BeamConfig,
    DecodingConfig,
    GreedyConfig,
    MbrConfig,
    SamplingConfig,
)
from seq2seq.search.constraints import build_constraints
from seq2seq.search.loop import Hypotheses, beam_search
from seq2seq.search.torch_engine import SearchedModel, TorchEngine, sampling_search

SEARCHES = Registry[Callable[..., Hypotheses]]("search")
"""Searches by name: functions of an engine and a config."""
register_search = SEARCHES.register
register_search(GreedyConfig)(beam_search)
register_search(BeamConfig)(beam_search)
register_search(MbrConfig)(beam_search)
register_search(SamplingConfig)(sampling_search)


def decoding_config_types() -> dict[str, type[DecodingConfig]]:
    """Return the config type of every registered name.

    Example:
        >>> sorted(decoding_config_types())
        ['beam', 'greedy', 'mbr', 'sampling']
    """
    return SEARCHES.config_types()


@torch.inference_mode()
def search(
    model: SearchedModel,
    source_ids: Tensor,
    source_mask: Tensor,
    config: DecodingConfig,
    *,
    symbols: Sequence[int] = (),
    num_symbols: Sequence[int] = (),
) -> Hypotheses:
    """Translate a batch with the search that is registered for the type of `config`.

    On a CPU in fp32, a translation depends neither on the other sentences of the batch
    nor on padding, unless the scores of two hypotheses differ only by rounding. The last digits
    of a score may differ.

    Args:
        model: A model in evaluation mode, on the device of `source_ids`.
        source_ids: (B, S); each row ends with EOS and is padded on the right.
        source_mask: (B, S) bool, True = real token.
        config: Configuration of the search, such as `BeamConfig`.
        symbols: Ids of the symbols that a translation copies.
        num_symbols: Number n of symbols in each source, which are the first n of `symbols`. A
            hypothesis has each of these n once and no other symbol, unless it reaches the length
            limit.

    Returns:
        Hypotheses of each sentence, best first.

    Raises:
        ValueError: The search is not registered; a probability is NaN; every token of a hypothesis
            is impossible; a coverage penalty is used with a model without attention.

    Example:
        >>> from seq2seq import GreedyConfig, build_model, load_config
        >>> config = load_config("attention=dot")
        >>> model = build_model(config, source_vocabulary_size=9, target_vocabulary_size=9).eval()
        >>> ids = torch.tensor([[5, 6, 7, 3]])
        >>> one_token = GreedyConfig(max_length_ratio=0, max_length_offset=1)
        >>> [[best]] = search(model, ids, ids > 0, one_token)
        >>> best.attention_weights.shape
        torch.Size([1, 1, 4])
    """
    assert not model.training, "dropout would change the translation from call to call"
    if source_ids.shape[0] == 0:
        return []
    constraints = build_constraints(config, source_mask, symbols=symbols, num_symbols=num_symbols)
    engine = TorchEngine(model, source_ids, source_mask, constraints)
    found = SEARCHES.find(config)(engine, config)
    constraints.report()
    return [
        [
            each._replace(attention_weights=torch.from_numpy(each.attention_weights))
            for each in hypotheses
        ]
        for hypotheses in found
    ]
