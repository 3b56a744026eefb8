"""The searches of a torch model: `search` and the registry of searches, the model as an engine of
the loop, and sampling from its distribution."""

# B sentences, K hypotheses of each before a step and W after it, R = B * K rows, S source length,
# C candidates, T target length, V vocabulary, N heads

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from seq2seq.registry import Registry
from seq2seq.runtime.kernels.operations import stable_max, stable_topk, stable_topk_of_sums
from seq2seq.runtime.numerics import derive_seed
from seq2seq.search.config import (
    BeamConfig,
    DecodingConfig,
    GreedyConfig,
    Hypothesis,
    MbrConfig,
    SamplingConfig,
)
from seq2seq.search.constraints import Constraints, build_constraints
from seq2seq.search.loop import Booleans, Floats, Hypotheses, Integers, Step, beam_search

_Selected = TypeVar("_Selected")


class Entries(Protocol):
    """Something with an entry for each sentence or row: a memory or a decoder state."""

    def select(self: _Selected, rows: Tensor, /) -> _Selected:
        """Return the entries of the given rows, in the given order."""


class DecoderStep(Protocol):
    """The result of one decoder step."""

    @property
    def logits(self) -> Tensor:
        """Return the logits of the next token, (R, V)."""

    @property
    def state(self) -> Entries:
        """Return the state of R rows after this step."""

    @property
    def attention_weights(self) -> Tensor:
        """Return the attention weights, (R, N, S)."""


class StepDecoder(Protocol):
    """A decoder that predicts the next token of each row."""

    @property
    def step(self) -> Callable[..., DecoderStep]:
        """Return the step function: `step(state, previous_ids, memory)` with ids (R,).

        R is a multiple of B; the rows of a sentence are adjacent.
        """


class SearchedModel(Protocol):
    """A model that encodes sources and predicts their translations token by token."""

    training: bool

    @property
    def decoder(self) -> StepDecoder: ...

    def encode(self, source_ids: Tensor, source_mask: Tensor) -> tuple[Entries, Entries]:
        """Return the memory and the first state of B sentences; ids and mask are (B, S)."""


SEARCHES = Registry[Callable[..., Hypotheses]]("search")
"""Searches by name: functions of an engine and a config."""
register_search = SEARCHES.register


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
        KeyError: The search is not registered.
        FloatingPointError: A probability is NaN, or every token of a hypothesis is impossible.
        ValueError: A coverage penalty is used with a model without attention.

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


class _Memory(NamedTuple):
    """What the model remembers of the sentences."""

    content: Entries
    device: torch.device

    def select(self, kept: Integers) -> "_Memory":
        indices = torch.from_numpy(kept).to(self.device)
        return _Memory(self.content.select(indices), self.device)


class _Rows(NamedTuple):
    """The state of the decoder, the constraints, and the numbers that samples draw with."""

    state: Entries
    constraints: Constraints
    numbers: Tensor  # (R, tokens to come), or (R, 0)

    def select(self, rows: Integers) -> "_Rows":
        indices = torch.from_numpy(rows).to(self.numbers.device)
        numbers = self.numbers[indices] if self.numbers.shape[1] else self.numbers
        return _Rows(self.state.select(indices), self.constraints.select(indices), numbers)


class TorchEngine:
    """A model of torch, or an ensemble, with the sources of a batch.

    Args:
        model: The model.
        source_ids: (B, S).
        source_mask: (B, S).
        constraints: Constraints on the tokens of each sentence.
    """

    def __init__(
        self,
        model: SearchedModel,
        source_ids: Tensor,
        source_mask: Tensor,
        constraints: Constraints,
    ) -> None:
        self.model, self.constraints = model, constraints
        self.sources = source_ids, source_mask
        self.source_mask: Booleans = source_mask.cpu().numpy()

    def encode(self) -> tuple[_Memory, _Rows]:
        memory, state = self.model.encode(*self.sources)
        device = self.sources[0].device
        return _Memory(memory, device), _Rows(
            state, self.constraints, torch.empty(0, 0, device=device)
        )

    def step(
        self, tokens: Integers, totals: Floats, width: int, memory: _Memory, state: _Rows
    ) -> Step[_Rows]:
        ids = torch.from_numpy(tokens).flatten().to(memory.device)
        before = torch.from_numpy(totals).to(memory.device)
        constraints = state.constraints.extend(ids)
        step = self.model.decoder.step(state.state, ids, memory.content)
        log_probabilities = constraints.log_probabilities(step.logits, totals=before.flatten())
        best, places, chosen = self.choose(log_probabilities, before, width, state.numbers)
        return Step(
            totals=best.cpu().numpy(),
            places=places.cpu().numpy(),
            tokens=chosen.cpu().numpy(),
            weights=step.attention_weights.float().cpu().numpy(),
            state=_Rows(step.state, constraints, state.numbers[:, 1:]),
        )

    def choose(
        self, log_probabilities: Tensor, totals: Tensor, width: int, numbers: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Choose the best extensions.

        Args:
            log_probabilities: Log-probabilities of the next tokens, (R, V).
            totals: Log-probabilities of the hypotheses, (B, K).
            width: Largest number of extensions of a sentence, W.
            numbers: Random numbers of each row, (R, tokens to come), if samples are drawn.

        Returns:
            Totals, places among the K hypotheses, and tokens of the extensions, (B, W).
        """
        if width == 1:
            values, tokens = stable_max(log_probabilities)
            return (
                totals + values.unsqueeze(1),
                torch.zeros_like(totals).long(),
                tokens.unsqueeze(1),
            )
        vocabulary_size = log_probabilities.shape[1]
        values = log_probabilities.view(*totals.shape, vocabulary_size)
        best, indices = stable_topk_of_sums(values, totals, width)
        return best, indices // vocabulary_size, indices % vocabulary_size


class _SamplingEngine(TorchEngine):
    """Draws the next token of each row; each source is there once for each of its samples."""

    def __init__(self, engine: TorchEngine, config: SamplingConfig) -> None:
        super().__init__(engine.model, *engine.sources, engine.constraints)
        self._config = config
        self._order = np.repeat(np.arange(len(self.source_mask)), config.num_samples)
        self.source_mask = self.source_mask[self._order]

    def encode(self) -> tuple[_Memory, _Rows]:
        memory, rows = super().encode()
        ids, mask = self.sources
        sources = [ids[mask].tolist() for ids, mask in zip(ids, mask, strict=True)]
        numbers = _uniforms(self._config, sources).to(ids.device)
        return memory.select(self._order), rows.select(self._order)._replace(numbers=numbers)

    def choose(
        self, log_probabilities: Tensor, totals: Tensor, width: int, numbers: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Draw tokens by inverting the distribution function of the candidates."""
        probabilities, candidates = _candidates(self._config, log_probabilities)
        cumulative = probabilities.cumsum(dim=1)
        # The numbers are above 0, so no candidate with probability 0 is drawn.
        places = torch.searchsorted(cumulative, numbers[:, :1] * cumulative[:, -1:])
        # The index is out of range only if probabilities are NaN, and the search then raises.
        tokens = candidates.gather(1, places.clamp(max=cumulative.shape[1] - 1))
        totals = totals + log_probabilities.gather(1, tokens)
        return totals, torch.zeros_like(tokens), tokens


def sampling_search(engine: TorchEngine, config: SamplingConfig) -> Hypotheses:
    """Return the `n_best` best distinct hypotheses of `num_samples` samples of each sentence.

    Samples may be equal, so a sentence may have fewer than `n_best`. Finished hypotheses come
    first; then the order is by log-probability, without the temperature. Ties keep the order of
    sampling. The random numbers depend only on `config.seed` and the ids of the sentence, not on
    its place in the batch.
    """
    found = beam_search(_SamplingEngine(engine, config), config)
    samples = [hypothesis for [hypothesis] in found]
    size = config.num_samples
    groups = [samples[first : first + size] for first in range(0, len(samples), size)]
    return [_best_distinct(group)[: config.n_best] for group in groups]


register_search(GreedyConfig)(beam_search)
register_search(BeamConfig)(beam_search)
register_search(MbrConfig)(beam_search)
register_search(SamplingConfig)(sampling_search)


def _uniforms(config: SamplingConfig, sources: list[list[int]]) -> Tensor:
    """Return a uniform number in (0, 1] for each token of each sample, (R, longest limit)."""
    limits = [config.longest(len(source)) for source in sources]
    rows = []
    for source, limit in zip(sources, limits, strict=True):
        for sample in range(config.num_samples):
            seed = derive_seed(config.seed, "sample", sample, *source)
            generator = torch.Generator().manual_seed(seed)
            drawn = torch.rand(limit, generator=generator, dtype=torch.float64)
            rows.append(functional.pad(1 - drawn, (0, max(limits) - limit), value=1))
    return torch.stack(rows)


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
