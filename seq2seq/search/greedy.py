"""Greedy search: take the most probable token at each step."""

from torch import Tensor

from seq2seq.search.base import Hypotheses, length_limits, register_search
from seq2seq.search.config import GreedyConfig
from seq2seq.search.constraints import Constraints
from seq2seq.search.protocols import SearchedModel
from seq2seq.search.stepwise import stepwise_search
from seq2seq.search.topk import stable_max


@register_search(GreedyConfig)
def greedy_search(
    model: SearchedModel,
    source_ids: Tensor,
    source_mask: Tensor,
    config: GreedyConfig,
    constraints: Constraints,
) -> Hypotheses:
    """Return one hypothesis for each sentence; of equally probable tokens the lower id is taken.

    `search` calls this function with a `GreedyConfig` and describes the arguments.
    """
    return stepwise_search(
        model,
        source_ids,
        source_mask,
        constraints,
        limits=length_limits(source_mask, config),
        width=1,
        choose=lambda log_probabilities, *_: stable_max(log_probabilities),
    )
