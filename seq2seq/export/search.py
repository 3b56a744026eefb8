"""Greedy and beam search in numpy over an exported model; `seq2seq.search` describes the rules.

The page that translates in a browser follows this file line by line.
"""

# B sentences still searched, K hypotheses of each before a step and W after it, R = B * K rows,
# Q finished hypotheses that are kept, S source length, T target length, N heads, M symbols,
# V vocabulary

import math
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seq2seq.export.folder import ENCODER, STEP
from seq2seq.search.config import BeamConfig, DecodingConfig, EarlyStopping, Hypothesis
from seq2seq.special_tokens import BOS, EOS, PAD

_ROOT = -1
"""Cell before the first token of a hypothesis."""

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]
Arrays = list[NDArray[np.generic]]


class Step(NamedTuple):
    """The W best extensions of each sentence."""

    totals: Floats  # (B, W) log-probabilities, best first
    indices: Integers  # (B, W) indices into the K * V extensions of a sentence
    weights: Floats  # (R, N, S)
    states: list[Floats]  # (R, ...)


class Graphs:
    """The two graphs of a folder, which encode sources and extend hypotheses.

    Args:
        folder: The folder.
        vocabulary_size: Size of the target vocabulary.
        symbols: Target ids of the symbols that a translation copies, M of them.
    """

    def __init__(self, folder: Path, *, vocabulary_size: int, symbols: Sequence[int]) -> None:
        import onnxruntime  # an extra package

        self.vocabulary_size = vocabulary_size
        self.symbols = np.array(symbols, np.int64)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        self._encoder, self._step = (
            onnxruntime.InferenceSession(
                str(folder / name), options, providers=["CPUExecutionProvider"]
            )
            for name in (ENCODER, STEP)
        )
        self._inputs, self._outputs = (
            [each.name for each in arguments]
            for arguments in (self._step.get_inputs(), self._step.get_outputs())
        )

    def encode(self, source_ids: Integers, source_mask: Booleans) -> tuple[Arrays, list[Floats]]:
        """Encode sources; ids and mask are (B, S).

        Returns:
            The memory, arrays (B, ...) that every step reads, and the states before the first step,
            (B, ...).
        """
        feeds = {"source_ids": source_ids, "source_mask": source_mask}
        keys, values, *states = self._encoder.run(None, feeds)
        return [keys, values, source_mask], states

    def step(
        self,
        tokens: Integers,
        totals: Floats,
        width: int,
        memory: Arrays,
        missing: Booleans,
        states: list[Floats],
    ) -> Step:
        """Extend hypotheses by one token.

        Args:
            tokens: Last token of each hypothesis, (B, K).
            totals: Log-probabilities, (B, K); -inf: finished.
            width: Number of extensions of each sentence, W, at most K * V.
            memory: Memory of the sentences.
            missing: The symbols that each row still lacks, (R, M).
            states: States of the rows, (R, ...).
        """
        symbols = [missing] if len(self.symbols) else []
        inputs = [tokens, totals, np.empty(width, np.int64), *memory, *symbols, *states]
        feeds = dict(zip(self._inputs, inputs, strict=True))
        best, indices, weights, *new_states = self._step.run(self._outputs, feeds)
        return Step(best, indices, weights, new_states)


class _Cells(NamedTuple):
    """The tokens of one step and what they extend, (B, W) each."""

    tokens: Integers
    parents: Integers
    totals: Floats
    rows: Integers
    weights: Floats  # (R, N, S), indexed by the rows


def search(
    model: Graphs,
    sources: Sequence[Sequence[int]],
    config: DecodingConfig,
    *,
    num_symbols: Sequence[int] = (),
) -> list[list[Hypothesis]]:
    """Return the best hypotheses of each sentence, best first.

    Greedy search is a beam of one hypothesis, ranked by its log-probability.

    Args:
        model: The graphs.
        sources: Ids of each sentence, without EOS.
        config: Configuration that `check_decoding` accepts.
        num_symbols: For each sentence, how many symbols its source contains.

    Raises:
        ValueError: The probabilities of the model are not numbers.
    """
    if isinstance(config, BeamConfig):
        size, num_best, penalty = config.beam_size, config.n_best, config.penalty
        is_exact = config.early_stopping is EarlyStopping.exact
    else:
        size, num_best, penalty, is_exact = 1, 1, lambda length: 1.0, True
    source_ids, source_mask = pad_sources(sources)
    lengths = source_mask.sum(axis=1)
    limits = np.array([config.longest(int(length)) for length in lengths])
    penalties = np.array([penalty(length) for length in range(limits.max() + 1)])

    memory, states = model.encode(source_ids, source_mask)
    numbers = np.array(num_symbols or [0] * len(sources))
    missing = np.arange(len(model.symbols)) < numbers[:, None]
    sentences, largest = np.arange(len(sources)), penalties[limits]
    tokens = np.full((len(sources), 1), BOS)
    cells = np.full((len(sources), 1), _ROOT)
    totals = np.zeros((len(sources), 1), np.float32)
    num_kept = num_best if is_exact else size
    best_scores = np.full((len(sources), num_kept), -np.inf)
    best_cells = np.full((len(sources), num_kept), _ROOT)
    history: list[_Cells] = []
    num_cells = 0
    endings: list[list[tuple[int, float]]] = [[] for _ in sources]

    for length in count(1):
        width = tokens.shape[1]
        most = min(size, width * model.vocabulary_size)
        step = model.step(tokens, totals, most, memory, missing, states)
        totals = step.totals
        places, tokens = np.divmod(step.indices, model.vocabulary_size)
        rows = np.arange(0, cells.size, width)[:, None] + places
        parents = cells.take(rows)
        cells = np.arange(num_cells, num_cells + tokens.size).reshape(tokens.shape)
        num_cells += tokens.size
        history.append(_Cells(tokens, parents, totals, rows, step.weights))

        scores = totals / penalties[length]
        ended = tokens == EOS
        if ended.any():
            # Earlier hypotheses come first and the sort is stable, so they win ties.
            best_scores = np.hstack((best_scores, np.where(ended, scores, -np.inf)))
            order = np.argsort(-best_scores, axis=1, kind="stable")[:, :num_kept]
            best_scores = np.take_along_axis(best_scores, order, axis=1)
            best_cells = np.take_along_axis(np.hstack((best_cells, cells)), order, axis=1)
            totals = np.where(ended, np.float32(-np.inf), totals)

        if is_exact:  # no live hypothesis can score more than this
            goes_on = totals.max(axis=1) / largest > best_scores[:, -1]
        else:
            goes_on = (totals.max(axis=1) > -np.inf) & (best_scores[:, -1] == -np.inf)
        goes_on &= limits > length
        if not goes_on.all():
            live_scores = np.where(totals > -np.inf, scores, -np.inf)
            for index in np.flatnonzero(~goes_on):
                # Live hypotheses come last, even if their scores are higher.
                order = np.argsort(-live_scores[index], kind="stable")
                found = [*zip(best_cells[index], best_scores[index], strict=True)]
                found += zip(cells[index, order], live_scores[index, order], strict=True)
                endings[sentences[index]] = [
                    (int(cell), float(score)) for cell, score in found if score > -np.inf
                ][:num_best]
            kept = np.flatnonzero(goes_on)
            if not len(kept):
                break
            sentences, limits, largest = sentences[kept], limits[kept], largest[kept]
            tokens, cells, totals, rows = tokens[kept], cells[kept], totals[kept], rows[kept]
            best_scores, best_cells = best_scores[kept], best_cells[kept]
            memory = [part[kept] for part in memory]
        states = [state.take(rows.ravel(), axis=0) for state in step.states]
        missing = missing[rows.ravel()] & (tokens.reshape(-1, 1) != model.symbols)
    return _hypotheses(history, endings, lengths)


def pad_sources(sources: Sequence[Sequence[int]]) -> tuple[Integers, Booleans]:
    """Return ids with EOS and their mask, (B, S)."""
    lengths = np.array([len(ids) + 1 for ids in sources])
    mask = np.arange(lengths.max()) < lengths[:, None]
    padded = np.full(mask.shape, PAD)
    padded[mask] = [token for ids in sources for token in (*ids, EOS)]
    return padded, mask


def _hypotheses(
    history: Sequence[_Cells],
    endings: Sequence[Sequence[tuple[int, float]]],
    lengths: NDArray[np.integer],
) -> list[list[Hypothesis]]:
    """Trace each ending, a cell and a score, back to its first token."""
    tokens, parents, totals, rows = (
        np.concatenate(parts, axis=None).tolist()
        for parts in zip(*(cells[:4] for cells in history), strict=True)
    )
    if any(map(math.isnan, totals)):
        raise ValueError("the model's probabilities are not numbers (NaN); export the model again")
    if not all(endings):
        raise ValueError("the model gives every token the probability 0; export the model again")

    def hypothesis(cell: int, score: float, source_length: int) -> Hypothesis:
        path = []
        while cell != _ROOT:
            path.append(cell)
            cell = parents[cell]
        path.reverse()
        ids = [tokens[cell] for cell in path]
        by_token = np.diff([0.0, *(totals[cell] for cell in path)]).tolist()
        weights = [
            history[step].weights[rows[cell], :, :source_length] for step, cell in enumerate(path)
        ]
        finished = ids[-1] == EOS
        return Hypothesis(
            ids=ids[:-1] if finished else ids,
            score=score,
            log_probability=totals[path[-1]],
            finished=finished,
            attention_weights=np.stack(weights, axis=1),
            token_log_probabilities=by_token,
        )

    return [
        [hypothesis(cell, score, int(length)) for cell, score in ends]
        for ends, length in zip(endings, lengths, strict=True)
    ]
