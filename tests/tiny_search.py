"""A tiny model for tests of searches, and reference searches written from the definitions."""

import math
from typing import NamedTuple

import torch
from tiny_attention import attention_config
from tiny_models import tiny_model
from torch import Tensor

from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.search.config import BeamConfig, DecodingConfig, Hypothesis
from seq2seq.search.searches import decoding_config_types
from seq2seq.special_tokens import BOS, EOS, PAD

# B sentences, K rows of each, R = B * K, S source length, H hidden, V vocabulary, N heads
NUM_HEADS = 2
HIDDEN_SIZE = 3


class FakeMemory(NamedTuple):
    states: Tensor  # (B, S, H)
    source_mask: Tensor  # (B, S)

    def select(self, sentences: Tensor) -> "FakeMemory":
        return FakeMemory(*(part.index_select(0, sentences) for part in self))


class FakeState(NamedTuple):
    hidden: Tensor  # (R, H)

    def select(self, rows: Tensor) -> "FakeState":
        return FakeState(self.hidden.index_select(0, rows))


class FakeStep(NamedTuple):
    logits: Tensor
    state: FakeState
    attention_weights: Tensor


class FakeModel:
    """A random recurrent model with attention; it is its own decoder and counts its rows."""

    training = False

    def __init__(self, *, vocabulary_size: int, seed: int, temperature: float = 0.5) -> None:
        generator = torch.Generator().manual_seed(seed)

        def random(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator)

        self.vocabulary_size = vocabulary_size
        self.temperature = temperature
        self.embedding = random(vocabulary_size, HIDDEN_SIZE)
        self.recurrent = random(HIDDEN_SIZE, HIDDEN_SIZE)
        self.heads = random(NUM_HEADS, HIDDEN_SIZE, HIDDEN_SIZE)
        self.output = random(HIDDEN_SIZE, vocabulary_size)
        self.rows_stepped: list[int] = []

    @property
    def decoder(self) -> "FakeModel":
        return self

    def encode(self, source_ids: Tensor, source_mask: Tensor) -> tuple[FakeMemory, FakeState]:
        states = self.embedding[source_ids % self.vocabulary_size]
        states = states * source_mask.unsqueeze(-1)
        return FakeMemory(states, source_mask), FakeState(states.sum(dim=1))

    def step(self, state: FakeState, previous_ids: Tensor, memory: FakeMemory) -> FakeStep:
        num_rows = len(previous_ids)
        num_sentences = len(memory.source_mask)
        assert num_rows % num_sentences == 0
        self.rows_stepped.append(num_rows)
        repeats = num_rows // num_sentences
        states = memory.states.repeat_interleave(repeats, dim=0)
        mask = memory.source_mask.repeat_interleave(repeats, dim=0).unsqueeze(1)
        queries = torch.einsum("rh,nhk->rnk", state.hidden, self.heads)
        scores = torch.einsum("rnk,rsk->rns", queries, states)
        weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=-1)
        context = (weights @ states).mean(dim=1)
        hidden = torch.tanh(state.hidden @ self.recurrent + self.embedding[previous_ids] + context)
        return FakeStep(hidden @ self.output / self.temperature, FakeState(hidden), weights)


class TableModel(FakeModel):
    """A model whose logits depend on the length alone, given as a table."""

    def __init__(self, table: list[list[float]]) -> None:
        super().__init__(vocabulary_size=len(table[0]), seed=1)
        self.table = torch.tensor(table)

    def encode(self, source_ids: Tensor, source_mask: Tensor) -> tuple[FakeMemory, FakeState]:
        memory, state = super().encode(source_ids, source_mask)
        return memory, FakeState(torch.zeros_like(state.hidden))

    def step(self, state: FakeState, previous_ids: Tensor, memory: FakeMemory) -> FakeStep:
        step = super().step(state, previous_ids, memory)
        logits = self.table[state.hidden[:, 0].long()]
        return FakeStep(logits, FakeState(state.hidden + 1), step.attention_weights)


class KnownOutput(NamedTuple):
    """The scores and attention weights of a known output."""

    log_probability: float
    attention_weights: Tensor  # (N, T, S)
    by_token: list[float]


def score_known(model: FakeModel, source: list[int], output: list[int]) -> KnownOutput:
    """Score a known output, which may end with EOS, one token at a time."""
    ids = torch.tensor([source])
    memory, state = model.encode(ids, torch.ones_like(ids, dtype=torch.bool))
    by_token, weights, previous = [], [], BOS
    for token in output:
        step = model.decoder.step(state, torch.tensor([previous]), memory)
        by_token.append(step.logits[0].double().log_softmax(dim=-1)[token].item())
        weights.append(step.attention_weights[0])
        state, previous = step.state, token
    return KnownOutput(sum(by_token), torch.stack(weights, dim=1), by_token)


class Task(NamedTuple):
    """A source sentence with the configuration of its search."""

    source: list[int]
    config: DecodingConfig

    @property
    def limit(self) -> int:
        ratio, offset = self.config.max_length_ratio, self.config.max_length_offset
        return math.floor(ratio * len(self.source)) + offset

    def following(self, produced: list[int], vocabulary_size: int) -> list[int]:
        """Return the allowed next tokens, by the definition of each constraint."""
        tokens = (token for token in range(vocabulary_size) if token not in (PAD, BOS))
        return [token for token in tokens if self._allows([*produced, token])] or [EOS]

    def _allows(self, output: list[int]) -> bool:
        config = self.config
        if output[-1] == EOS and len(output) < config.min_length:
            return False
        size = config.no_repeat_ngram
        grams = [tuple(output[at : at + size]) for at in range(len(output) - size + 1)]
        return size == 0 or grams[-1:] == [] or grams[-1] not in grams[:-1]


class Output(NamedTuple):
    """Tokens, including EOS if finished, with their log-probability and coverage."""

    ids: list[int]
    log_probability: float
    coverage: Tensor  # (S,) attention that each source token got

    @property
    def finished(self) -> bool:
        return self.ids[-1:] == [EOS]


def grow(model: FakeModel, task: Task, lived: list[tuple[Output, FakeState]]):
    """Return every extension of unfinished outputs by one token, with its state."""
    ids = torch.tensor([task.source])
    memory, _ = model.encode(ids, torch.ones_like(ids, dtype=torch.bool))
    grown = []
    for output, state in lived:
        step = model.step(state, torch.tensor([[BOS, *output.ids][-1]]), memory)
        log_probabilities = step.logits[0].double().log_softmax(dim=-1).tolist()
        coverage = output.coverage + step.attention_weights[0].mean(dim=0).double()
        for token in task.following(output.ids, len(log_probabilities)):
            total = output.log_probability + log_probabilities[token]
            grown.append((Output([*output.ids, token], total, coverage), step.state))
    return grown


def nothing(model: FakeModel, task: Task) -> list[tuple[Output, FakeState]]:
    ids = torch.tensor([task.source])
    _, state = model.encode(ids, torch.ones_like(ids, dtype=torch.bool))
    return [(Output([], 0.0, torch.zeros(len(task.source), dtype=torch.float64)), state)]


def score(output: Output, config: BeamConfig) -> float:
    """Score an output by equation 14 of Wu et al. 2016."""
    length = len(output.ids)
    penalty = (5 + length) ** config.length_penalty / 6**config.length_penalty
    coverage = sum(math.log(min(covered, 1.0)) for covered in output.coverage.tolist())
    return output.log_probability / penalty + config.coverage_penalty * coverage


def beam_by_definition(model: FakeModel, task: Task) -> list[Output]:
    """Search without an early stop, one hypothesis at a time; finished ones are returned first.

    A beam that is wide enough has all outputs that end with EOS or have the maximum length.
    """
    finished, live = [], nothing(model, task)
    for _ in range(task.limit):
        grown = sorted(grow(model, task, live), key=lambda entry: -entry[0].log_probability)
        grown = grown[: task.config.beam_size]
        finished += [output for output, _ in grown if output.finished]
        live = [entry for entry in grown if not entry[0].finished]
    found = finished + [output for output, _ in live]
    found.sort(key=lambda output: (not output.finished, -score(output, task.config)))
    return found[: task.config.n_best]


def pad(sources: list[list[int]], *, extra: int = 0) -> tuple[Tensor, Tensor]:
    """Return ids and mask of a batch, `extra` columns wider than it needs."""
    length = max(map(len, sources)) + extra
    ids = torch.tensor([source + [PAD] * (length - len(source)) for source in sources])
    lengths = torch.tensor([len(source) for source in sources])
    return ids, torch.arange(length) < lengths.unsqueeze(1)


def decoding(name: str, **changes: object) -> DecodingConfig:
    """Return the default config of a search with changes; short outputs unless asked."""
    short = {"max_length_ratio": 1.0, "max_length_offset": 2}
    return decoding_config_types()[name](**{**short, **changes})


def real_model(*, attention: str = "additive", form: str = "bahdanau") -> Seq2Seq:
    """Return a small real model with weights large enough for clear decisions."""
    return tiny_model(attention_config(attention), form, dtype=torch.float32).eval()


def with_end(hypothesis: Hypothesis) -> list[int]:
    """Return the ids of a hypothesis, with EOS if it is finished."""
    return [*hypothesis.ids, EOS] if hypothesis.finished else hypothesis.ids
