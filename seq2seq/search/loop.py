"""The search for translations, with any engine that encodes sources and extends hypotheses.

It loads without torch, because exported models are searched by it too. The page that translates in
a browser follows this file.
"""

# B sentences still searched, K hypotheses of each before a step and W after it, R = B * K rows,
# Q finished hypotheses that are kept, S source length, T target length, N heads, V vocabulary

from collections.abc import Sequence
from itertools import count, islice
from typing import Generic, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from seq2seq.search.config import BeamConfig, DecodingConfig, EarlyStopping, Hypothesis
from seq2seq.special_tokens import BOS, EOS

Floats = NDArray[np.float32]
Scores = NDArray[np.float64]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]
Hypotheses = list[list[Hypothesis]]
"""Hypotheses of each sentence, best first."""

JOINED_STEPS = 64
"""Number of steps whose attention weights are joined into one array."""
_ROOT = -1
"""Cell before the first token of a hypothesis."""
_Memory = TypeVar("_Memory", bound="Selectable")
_State = TypeVar("_State", bound="Selectable")
_Selected = TypeVar("_Selected")


class Selectable(Protocol):
    """Something with an entry for each sentence or row."""

    def select(self: _Selected, rows: Integers, /) -> _Selected:
        """Return the entries of the given rows, in the given order."""


class Step(NamedTuple, Generic[_State]):
    """The W best extensions of the hypotheses of each sentence."""

    totals: Floats  # (B, W) log-probabilities, best first
    places: Integers  # (B, W) which of the K hypotheses is extended
    tokens: Integers  # (B, W)
    weights: Floats  # (R, N, S) attention weights
    state: _State  # of the R rows


class Engine(Protocol[_Memory, _State]):
    """A model with the sources of a batch.

    A search passes back the memory and the state that it received, with entries chosen by `select`,
    and uses them for nothing else.
    """

    source_mask: Booleans
    """Real tokens of the sources, (B, S)."""

    def encode(self) -> tuple[_Memory, _State]:
        """Return the memory and the first state, with an entry for each sentence."""

    def step(
        self, tokens: Integers, totals: Floats, width: int, memory: _Memory, state: _State
    ) -> Step[_State]:
        """Return the best extensions of each sentence by one token.

        Args:
            tokens: Last token of each hypothesis, at first BOS, (B, K).
            totals: Log-probability of each hypothesis, (B, K); -inf: it is not extended.
            width: Largest number of extensions of a sentence, W. Ties go to the better hypothesis,
                then to the lower token.
            memory: Memory of the B sentences.
            state: State of the R rows.
        """


def beam_search(engine: Engine[_Memory, _State], config: DecodingConfig) -> Hypotheses:
    """Return the `n_best` best finished hypotheses of each sentence.

    Each step keeps the `beam_size` most probable extensions of the live hypotheses. An extension
    that ends with EOS is finished and occupies a place of the beam for this step only. A sentence
    stops by the rule `early_stopping` or at its length limit, and leaves the batch. If fewer than
    `n_best` are finished by then, live hypotheses come last, even with higher scores. Ties go to
    the hypothesis that finished first, then to the extension of the better hypothesis, then to the
    lower token id.

    Greedy search is a beam of one hypothesis, ranked by its log-probability.

    Args:
        engine: A model with the sources of a batch.
        config: A `BeamConfig`, or the length limits of a greedy search.

    Raises:
        FloatingPointError: A probability is NaN, or a sentence has no possible hypothesis.
    """
    beam = config if isinstance(config, BeamConfig) else BeamConfig(beam_size=1, length_penalty=0)
    is_exact = beam.early_stopping is EarlyStopping.exact
    lengths = engine.source_mask.sum(axis=1).tolist()
    limits = np.array([config.longest(length) for length in lengths])
    ranking = Ranking(beam, engine.source_mask, limits)
    finished = _Finished(len(lengths), beam.n_best if is_exact else beam.beam_size)
    history = _History()
    endings: list[list[tuple[int, float]]] = [[] for _ in lengths]

    memory, state = engine.encode()
    sentences = np.arange(len(lengths))
    tokens = np.full((len(lengths), 1), BOS)
    cells = np.full((len(lengths), 1), _ROOT)
    totals = np.zeros((len(lengths), 1), np.float32)
    has_ended = False
    for length in count(1):
        width = tokens.shape[1]
        step = engine.step(tokens, totals, beam.beam_size, memory, state)
        totals, tokens = step.totals, step.tokens
        rows = np.arange(0, cells.size, width)[:, None] + step.places
        cells = history.append(tokens, cells.take(rows), totals, rows, step.weights)
        ranking.attend(step.weights, rows)
        ended = tokens == EOS
        if ended.any():
            has_ended = True
            scores = ranking.scores(totals, length)
            finished.add(np.where(ended, scores, -np.inf), cells)
            totals = np.where(ended, np.float32(-np.inf), totals)
        goes_on = limits > length
        if has_ended:  # before that, a sentence ends at its length limit only
            last_score = finished.scores[:, -1]
            goes_on &= (
                ranking.bounds(totals, limits) > last_score
                if is_exact
                else (totals.max(axis=1) > -np.inf) & (last_score == -np.inf)
            )
        all_go_on = bool(goes_on.all())
        if not all_go_on:
            scores = np.where(totals > -np.inf, ranking.scores(totals, length), -np.inf)
            for index in np.flatnonzero(~goes_on):
                found = finished.endings(index, scores[index], cells[index])
                endings[sentences[index]] = found[: beam.n_best]
            kept = np.flatnonzero(goes_on)
            if not len(kept):
                break
            sentences, limits, tokens, cells = (
                part[kept] for part in (sentences, limits, tokens, cells)
            )
            totals, rows, memory = totals[kept], rows[kept], memory.select(kept)
            finished.select(kept)
            ranking.select(kept)
        state = step.state
        if beam.beam_size > 1 or not all_go_on:
            state = state.select(rows.ravel())
    return history.hypotheses(endings, lengths)


class Ranking:
    """Ranking by length and coverage (Wu et al. 2016, eq. 14).

    The score of a hypothesis Y is s(Y) = log P(Y) / lp(|Y|) + cp(Y), where lp is the length penalty
    and cp(Y) = b * sum_i log(min(sum_t p_ti, 1)). Here p_ti is the attention weight of source token
    i at target token t, averaged over heads; both include EOS. A source token without any attention
    counts as one with the smallest positive number, which keeps scores finite. With b = 0 no
    coverage is computed.

    Args:
        config: The configuration of the search.
        source_mask: (B, S).
        limits: Length limits of the sentences, (B,).
    """

    def __init__(self, config: BeamConfig, source_mask: Booleans, limits: Integers) -> None:
        self._config = config
        self._penalties = np.array([config.penalty(length) for length in range(limits.max() + 1)])
        # Padding counts as covered: its penalty is 0.
        self._coverage = np.expand_dims(~source_mask, 1).astype(np.float32)  # (B, K, S)

    def attend(self, attention_weights: Floats, rows: Integers) -> None:
        """Add the attention weights of a step, (R, N, S), to the rows that it extends, (B, W)."""
        if self._config.coverage_penalty == 0:
            return
        if attention_weights.shape[1] == 0:
            self._config.check_without_attention()
        coverage = self._coverage.reshape(-1, self._coverage.shape[2])
        self._coverage = (coverage + attention_weights.mean(axis=1))[rows]

    def scores(self, totals: Floats, length: int) -> Scores:
        """Return the scores of hypotheses of one length, (B, W)."""
        scores: Scores = totals.astype(np.float64) / self._penalties[length]
        if self._config.coverage_penalty == 0:
            return scores
        covered = self._coverage.clip(np.finfo(np.float32).tiny, 1).astype(np.float64)
        scores += self._config.coverage_penalty * np.log(covered).sum(axis=2)
        return scores

    def bounds(self, totals: Floats, limits: Integers) -> Scores:
        """Return an upper bound of the scores that live hypotheses can reach, (B,).

        Let a live hypothesis have log-probability L <= 0 and n tokens, and let Y extend it to m
        tokens, n < m <= limit. Then log P(Y) <= L, because each token adds at most 0. The length
        penalty lp(m) = ((5 + m) / 6) ** a is positive and does not decrease with m for a >= 0, so
        L / lp(m) <= L / lp(limit). The coverage penalty cp(Y) is at most 0: it sums logarithms of
        numbers of at most 1, times a weight of at least 0. Hence s(Y) <= log P(Y) / lp(m)
        <= L / lp(limit). The bound increases with L, so the most probable hypothesis bounds all.
        """
        bounds: Scores = totals.max(axis=1) / self._penalties[limits]
        return bounds

    def select(self, kept: Integers) -> None:
        """Keep the given sentences."""
        self._coverage = self._coverage[kept]


class _Finished:
    """The best finished hypotheses of each sentence: their scores and last cells."""

    def __init__(self, num_sentences: int, num_kept: int) -> None:
        self.scores = np.full((num_sentences, num_kept), -np.inf)  # (B, Q) best first
        self.cells = np.full((num_sentences, num_kept), _ROOT)

    def add(self, scores: Scores, cells: Integers) -> None:
        """Add hypotheses (B, W); -inf marks those that have not ended."""
        joined = np.concatenate((self.scores, scores), axis=1)
        # Earlier hypotheses come first and the sort is stable, so they win ties.
        order = np.argsort(-joined, axis=1, kind="stable")[:, : self.scores.shape[1]]
        order += np.arange(0, joined.size, joined.shape[1])[:, None]  # take is fast on flat arrays
        self.scores = joined.take(order)
        self.cells = np.concatenate((self.cells, cells), axis=1).take(order)

    def endings(
        self, index: np.intp, live_scores: Scores, live_cells: Integers
    ) -> list[tuple[int, float]]:
        """Return the cells and scores of a sentence, best first.

        Live hypotheses come last, even if their scores are higher; -inf marks the other ones.
        """
        order = np.argsort(-live_scores, kind="stable")
        scores = [*self.scores[index].tolist(), *live_scores[order].tolist()]
        cells = [*self.cells[index].tolist(), *live_cells[order].tolist()]
        return [end for end in zip(cells, scores, strict=True) if end[1] > -np.inf]

    def select(self, kept: Integers) -> None:
        """Keep the given sentences."""
        self.scores, self.cells = self.scores[kept], self.cells[kept]


class _History:
    """All tokens of all hypotheses, each in a numbered cell that points to its parent.

    Sentences can leave the batch and hypotheses can be reordered without copying; paths are traced
    back once, when the search ends.
    """

    def __init__(self) -> None:
        self._steps: list[tuple[Integers, Integers, Floats, Integers]] = []
        self._weights: list[Floats] = []  # (R, N, S) of the latest steps
        self._joined: list[Floats] = []  # the same, of earlier steps
        self._num_cells = self._num_rows = 0

    def append(
        self,
        tokens: Integers,
        parents: Integers,
        totals: Floats,
        rows: Integers,
        weights: Floats,
    ) -> Integers:
        """Add the tokens of a step, and return the numbers of their cells, (B, W).

        Args:
            tokens: (B, W).
            parents: Cells that they extend, (B, W).
            totals: Log-probabilities of the hypotheses including these tokens, (B, W).
            rows: Rows that they extend, (B, W).
            weights: Attention weights of the rows, (R, N, S).
        """
        self._steps.append((tokens, parents, totals, rows + self._num_rows))
        # Each step frees large arrays; many small arrays between them would fragment memory (600
        # MB in a sentence of 1,044 tokens), so the small arrays are joined from time to time.
        self._weights.append(weights)
        if len(self._weights) == JOINED_STEPS:
            self._joined.append(np.concatenate(self._weights))
            self._weights.clear()
        first = self._num_cells
        self._num_cells += tokens.size
        self._num_rows += len(weights)
        return np.arange(first, self._num_cells).reshape(tokens.shape)

    def hypotheses(
        self, endings: Sequence[Sequence[tuple[int, float]]], lengths: Sequence[int]
    ) -> Hypotheses:
        """Trace each ending, a cell and a score, back to its first token.

        Args:
            endings: Endings of each sentence, best first.
            lengths: Length of each source, including EOS.

        Raises:
            FloatingPointError: A probability is NaN, or a sentence has no ending.
        """
        tokens, parents, totals, rows = (
            np.concatenate(parts, axis=None) for parts in zip(*self._steps, strict=True)
        )
        check_probabilities(all(endings) and not np.isnan(totals).any())
        links = parents.tolist()
        paths = [[_trace(cell, links) for cell, _ in ends] for ends in endings]
        used = [cell for of_sentence in paths for path in of_sentence for cell in path]
        ids = iter(tokens[used].tolist())
        # In float64, the error of a difference is 1e-7 of the total. ROOT is -1, the last one.
        before = np.append(totals, 0).astype(np.float64)
        by_token = iter((before[used] - before[parents[used]]).tolist())
        weights = np.concatenate([*self._joined, *self._weights])[rows[used]]  # (cells, N, S)
        first = 0

        def hypothesis(path: Sequence[int], score: float, length: int) -> Hypothesis:
            nonlocal first
            first, start = first + len(path), first
            own = [*islice(ids, len(path))]
            is_finished = own[-1] == EOS
            return Hypothesis(
                ids=own[:-1] if is_finished else own,
                score=score,
                log_probability=float(totals[path[-1]]),
                finished=is_finished,
                attention_weights=weights[start:first, :, :length].swapaxes(0, 1),
                token_log_probabilities=[*islice(by_token, len(path))],
            )

        return [
            [hypothesis(path, end[1], length) for path, end in zip(of, ends, strict=True)]
            for of, ends, length in zip(paths, endings, lengths, strict=True)
        ]


def check_probabilities(are_sound: bool) -> None:
    """Raise FloatingPointError if a model has no probabilities that can be used."""
    if not are_sound:
        raise FloatingPointError(
            "the model's probabilities are not numbers (NaN), or 0 for every token; compute in "
            "fp32, use an earlier checkpoint, or train with a lower learning rate"
        )


def _trace(cell: int, parents: Sequence[int]) -> list[int]:
    """Return the cells from the first token to the given one."""
    path = []
    while cell != _ROOT:
        path.append(cell)
        cell = parents[cell]
    return path[::-1]
