"""Greedy search and sampling: choose one token per step and hypothesis."""

# B sentences still searched, W hypotheses of each, R = B * W rows, S source length,
# C candidates, V vocabulary

import torch
from torch import Tensor

from seq2seq.runtime.numerics import derive_seed
from seq2seq.search.config import GreedyConfig, Hypothesis, SamplingConfig
from seq2seq.search.constraints import Constraints
from seq2seq.search.loop import Hypotheses, Search, SearchedModel
from seq2seq.search.top_k import stable_topk


def greedy_search(
    model: SearchedModel,
    source_ids: Tensor,
    source_mask: Tensor,
    config: GreedyConfig,
    constraints: Constraints,
) -> Hypotheses:
    """Return one hypothesis for each sentence; the lower id wins among equally probable tokens.

    `search` calls this function with a `GreedyConfig` and describes the arguments.
    """
    return Search(config, source_mask).run(model, source_ids, source_mask, constraints)


class _Sampling(Search):
    """Draws the tokens of each hypothesis from the model's distribution."""

    def __init__(self, config: SamplingConfig, source_ids: Tensor, source_mask: Tensor) -> None:
        super().__init__(config, source_mask, width=config.num_samples)
        self._config = config
        sources = [ids[mask].tolist() for ids, mask in zip(source_ids, source_mask, strict=True)]
        self._uniforms = _uniforms(config, sources, self.limits).to(source_ids.device)

    def choose(
        self, log_probabilities: Tensor, sentences: Tensor, length: int
    ) -> tuple[Tensor, Tensor]:
        """Draw tokens by inverting the distribution function of the candidates."""
        probabilities, candidates = _candidates(self._config, log_probabilities)
        cumulative = probabilities.cumsum(dim=1)
        numbers = self._uniforms[sentences, :, length - 1].flatten().unsqueeze(1)  # (R, 1)
        # The numbers are above 0, so no candidate with probability 0 is drawn.
        places = torch.searchsorted(cumulative, numbers * cumulative[:, -1:])
        # The index is out of range only if probabilities are NaN; the history then raises.
        tokens = candidates.gather(1, places.clamp(max=cumulative.shape[1] - 1))
        return log_probabilities.gather(1, tokens).squeeze(1), tokens.squeeze(1)


def sampling_search(
    model: SearchedModel,
    source_ids: Tensor,
    source_mask: Tensor,
    config: SamplingConfig,
    constraints: Constraints,
) -> Hypotheses:
    """Return the `n_best` best distinct hypotheses of `num_samples` samples of each sentence.

    Samples may be equal, so a sentence may have fewer than `n_best`. Finished hypotheses come
    first; then the order is by log-probability, without the temperature. Ties keep the order of
    sampling. The random numbers depend only on `config.seed` and the ids of the sentence, not on
    its place in the batch.

    `search` calls this function with a `SamplingConfig` and describes the arguments.
    """
    search = _Sampling(config, source_ids, source_mask)
    found = search.run(model, source_ids, source_mask, constraints)
    return [_best_distinct(samples)[: config.n_best] for samples in found]


def _uniforms(config: SamplingConfig, sources: list[list[int]], limits: list[int]) -> Tensor:
    """Return a uniform number in (0, 1] for each token of each sample, (B, W, longest limit)."""
    uniforms = torch.ones(len(sources), config.num_samples, max(limits), dtype=torch.float64)
    for row, (source, limit) in enumerate(zip(sources, limits, strict=True)):
        for sample in range(config.num_samples):
            seed = derive_seed(config.seed, "sample", sample, *source)
            generator = torch.Generator().manual_seed(seed)
            drawn = torch.rand(limit, generator=generator, dtype=torch.float64)
            uniforms[row, sample, :limit] = 1 - drawn
    return uniforms


def _candidates(config: SamplingConfig, log_probabilities: Tensor) -> tuple[Tensor, Tensor]:
    """Return unnormalized probabilities and ids of the tokens to sample from, (R, C).

    The temperature is applied first, then top k, then top p to the rest.
    """
    vocabulary_size = log_probabilities.shape[1]
    # The largest value becomes 0, so no temperature can make all values -inf.
    values = log_probabilities.double() - log_probabilities.amax(dim=1, keepdim=True)
    values = values / config.temperature
    candidates = torch.arange(vocabulary_size, device=values.device).expand_as(values)
    if config.top_k > 0 or config.top_p < 1:
        values, candidates = stable_topk(values, config.top_k or vocabulary_size)
    probabilities = values.softmax(dim=1)
    if config.top_p < 1:
        before = probabilities.cumsum(dim=1) - probabilities
        probabilities = probabilities.masked_fill(before >= config.top_p, 0)
    return probabilities, candidates


def _best_distinct(samples: list[Hypothesis]) -> list[Hypothesis]:
    """Return distinct samples, finished ones first, then by score."""
    distinct: dict[tuple[int, ...], Hypothesis] = {}
    for sample in samples:
        distinct.setdefault((sample.finished, *sample.ids), sample)
    return sorted(distinct.values(), key=lambda sample: (not sample.finished, -sample.score))
