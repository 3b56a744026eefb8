"""Greedy search and sampling: choose one token per step and hypothesis."""

# B sentences still searched, W hypotheses of each, R = B * W rows, S source length,
# C candidates, V vocabulary

from collections.abc import Callable
from functools import partial
from itertools import count
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.runtime.numerics import derive_seed
from seq2seq.search.config import GreedyConfig, Hypothesis, SamplingConfig
from seq2seq.search.constraints import Constraints
from seq2seq.search.interface import (
    ROOT,
    Ending,
    History,
    Hypotheses,
    SearchedModel,
    length_limits,
)
from seq2seq.special_tokens import BOS, EOS


class _Progress(NamedTuple):
    """The hypotheses of each sentence after a step."""

    sentences: Tensor  # (B,) indices in the batch
    limits: Tensor  # (B,) maximum lengths of the hypotheses
    tokens: Tensor  # (B, W) last token of each hypothesis
    cells: Tensor  # (B, W)
    log_probabilities: Tensor  # (B, W)
    live: Tensor  # (B, W) bool; an ended hypothesis waits for the others of its sentence

    def select(self, kept: Tensor) -> "_Progress":
        """Keep the given sentences."""
        return _Progress(*(part[kept] for part in self))


def stepwise_search(
    model: SearchedModel,
    source_ids: Tensor,
    source_mask: Tensor,
    constraints: Constraints,
    *,
    limits: list[int],
    width: int,
    choose: Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]],
) -> Hypotheses:
    """Return W hypotheses of each sentence, unsorted.

    A hypothesis ends with EOS or at the length limit of its sentence. A sentence leaves the batch
    when all of its hypotheses have ended.

    Args:
        model: As in `search`; so are the arguments up to `constraints`.
        limits: Length limit of each sentence.
        width: Number of hypotheses of a sentence, W.
        choose: Returns the log-probability and the id of the next token of each row, (R,). Its
            arguments are the log-probabilities (R, V), the indices in the batch of the sentences
            that the rows belong to, W rows each, (B,), and the length including this token.
    """
    memory, state = model.encode(source_ids, source_mask)
    progress = _start(torch.tensor(limits, device=source_ids.device), width=width)
    rows = progress.sentences.repeat_interleave(width)
    state, constraints = state.select(rows), constraints.select(rows)
    endings: list[list[Ending]] = [[] for _ in limits]
    history = History()
    for length in count(1):
        step = model.decoder.step(state, progress.tokens.flatten(), memory)
        live = progress.live.flatten()
        log_probabilities = constraints.log_probabilities(step.logits, live=live)
        chosen = choose(log_probabilities, progress.sentences, length)
        progress = _append(progress, *chosen, step.attention_weights, history)
        state, constraints = step.state, constraints.extend(progress.tokens.flatten())
        stays = progress.live.any(dim=1) & (progress.limits > length)
        if not stays.all():
            # A mask would make the host wait for a count at each use; computing indices waits only
            # once.
            _store_endings(progress.select((~stays).nonzero().squeeze(1)), endings)
            kept = stays.nonzero().squeeze(1)
            if not len(kept):
                break
            all_rows = torch.arange(len(rows), device=kept.device)
            rows = all_rows.view_as(progress.tokens)[kept].flatten()
            progress, memory = progress.select(kept), memory.select(kept)
            state, constraints = state.select(rows), constraints.select(rows)
    return history.hypotheses(endings, source_mask.sum(dim=1).tolist())


def _start(limits: Tensor, *, width: int) -> _Progress:
    """Return the empty hypotheses of each sentence."""
    sentences = torch.arange(len(limits), device=limits.device)
    zeros = torch.zeros_like(sentences).unsqueeze(1).expand(-1, width)  # (B, W)
    return _Progress(
        sentences=sentences,
        limits=limits,
        tokens=zeros + BOS,
        cells=zeros + ROOT,
        log_probabilities=zeros.float(),
        live=zeros == 0,
    )


def _append(
    progress: _Progress,
    log_probabilities: Tensor,
    tokens: Tensor,
    attention_weights: Tensor,
    history: History,
) -> _Progress:
    """Append the chosen tokens (R,) to the hypotheses."""
    tokens = tokens.view_as(progress.cells)
    totals = progress.log_probabilities + log_probabilities.view_as(progress.cells)
    cells = history.append(
        tokens,
        parents=progress.cells,
        rows=torch.arange(tokens.numel(), device=tokens.device).view_as(tokens),
        log_probabilities=totals,
        attention_weights=attention_weights,
    )
    return progress._replace(
        tokens=tokens,
        cells=torch.where(progress.live, cells, progress.cells),
        log_probabilities=torch.where(progress.live, totals, progress.log_probabilities),
        live=progress.live & (tokens != EOS),
    )


def _store_endings(progress: _Progress, endings: list[list[Ending]]) -> None:
    """Store the last cells of sentences whose hypotheses have all ended."""
    rows = zip(
        progress.sentences.tolist(),
        progress.cells.tolist(),
        progress.log_probabilities.tolist(),
        strict=True,
    )
    for sentence, cells, scores in rows:
        endings[sentence] = list(map(Ending, cells, scores))


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


def sampling_search(
    model: SearchedModel,
    source_ids: Tensor,
    source_mask: Tensor,
    config: SamplingConfig,
    constraints: Constraints,
) -> Hypotheses:
    """Return the `n_best` best distinct hypotheses of `num_samples` samples of each sentence.

    Samples may be equal, so a sentence may have fewer than `n_best`. Finished hypotheses come
    first, then those with a higher log-probability, without the temperature; ties keep the order
    of sampling. The random numbers of a sentence depend on `config.seed` and its ids alone, not on
    its place in the batch.

    `search` calls this function with a `SamplingConfig` and describes the arguments.
    """
    limits = length_limits(source_mask, config)
    sources = [ids[mask].tolist() for ids, mask in zip(source_ids, source_mask, strict=True)]
    uniforms = _uniforms(config, sources, limits).to(source_ids.device)
    found = stepwise_search(
        model,
        source_ids,
        source_mask,
        constraints,
        limits=limits,
        width=config.num_samples,
        choose=partial(_draw, config, uniforms),
    )
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


def _draw(
    config: SamplingConfig,
    uniforms: Tensor,
    log_probabilities: Tensor,
    sentences: Tensor,
    length: int,
) -> tuple[Tensor, Tensor]:
    """Draw tokens by inverting the distribution function of the candidates."""
    probabilities, candidates = _candidates(config, log_probabilities)
    cumulative = probabilities.cumsum(dim=1)
    numbers = uniforms[sentences, :, length - 1].flatten().unsqueeze(1)  # (R, 1)
    # The numbers are above 0, so no candidate with probability 0 is drawn.
    places = torch.searchsorted(cumulative, numbers * cumulative[:, -1:])
    # The index is out of range only if probabilities are NaN; the history then raises.
    tokens = candidates.gather(1, places.clamp(max=cumulative.shape[1] - 1))
    return log_probabilities.gather(1, tokens).squeeze(1), tokens.squeeze(1)


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


BLOCK = 64
"""Number of values whose maximum is computed first."""
_FEW_ROWS = 4
"""Below this number of rows, `torch.max` over whole rows is faster (measured)."""


def stable_max(values: Tensor) -> tuple[Tensor, Tensor]:
    """Return the largest value of each row and its lowest index.

    `torch.max` gives the same result but computes an index for every value. Computing it only
    within the first block with the largest maximum takes a third of the time for many rows.

    Args:
        values: (B, V).

    Returns:
        Values and indices, (B,).

    Example:
        >>> values, indices = stable_max(torch.tensor([[0.5, 2.0, 2.0]]))
        >>> values.tolist(), indices.tolist()
        ([2.0], [1])
    """
    if len(values) < _FEW_ROWS:
        return values.max(dim=1)
    blocks = block_maxima(values.unsqueeze(1)).max(dim=2).indices  # (B, 1)
    places = blocks * BLOCK + torch.arange(BLOCK, device=values.device)
    # Indices beyond the end repeat the last value; among equal values, the first is taken.
    places = places.clamp_(max=values.shape[1] - 1)
    largest, order = values.gather(1, places).max(dim=1, keepdim=True)
    return largest.squeeze(1), places.gather(1, order).squeeze(1)


def stable_topk(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k largest values of each row in descending order, ties by lower index.

    `torch.topk` guarantees neither which of equal values it returns nor their order. Here only
    values of -inf may come in any order.

    Args:
        values: (B, M).
        k: Number of values; more than M returns all.

    Returns:
        Values and indices, (B, min(k, M)).
    """
    if k >= values.shape[1]:
        return values.sort(dim=1, descending=True, stable=True)
    # The value after the last one shows whether equal values lie on both sides of the cut.
    largest, indices = values.topk(k + 1)
    torn = (largest[:, k - 1] == largest[:, k]) & (largest[:, k] > -torch.inf)
    indices = indices[:, :k].sort(dim=1).values
    largest, order = values.gather(1, indices).sort(dim=1, descending=True, stable=True)
    indices = indices.gather(1, order)
    if torn.any():
        whole, order = values[torn].sort(dim=1, descending=True, stable=True)
        largest[torn], indices[torn] = whole[:, :k], order[:, :k]
    return largest, indices


def block_maxima(values: Tensor) -> Tensor:
    """Return the maximum of every `BLOCK` values and of the rest, (B, W, V) -> (B, W, blocks)."""
    whole = values.shape[2] // BLOCK * BLOCK
    blocks = values[:, :, :whole].reshape(*values.shape[:2], -1, BLOCK)
    maxima = blocks.amax(dim=3)
    if whole == values.shape[2]:
        return maxima
    return torch.cat((maxima, values[:, :, whole:].amax(dim=2, keepdim=True)), dim=2)
