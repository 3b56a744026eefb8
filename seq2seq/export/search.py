"""The graphs of an exported model as the engine of a search: onnxruntime, without torch."""

# B sentences still searched, K hypotheses of each before a step and W after it, R = B * K rows,
# S source length, N heads, M symbols, V vocabulary

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seq2seq.export.folder import ENCODER, STEP
from seq2seq.search.loop import Booleans, Floats, Integers, Step
from seq2seq.special_tokens import EOS, PAD

Arrays = list[NDArray[np.generic]]


class GraphStep(NamedTuple):
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
        import onnxruntime  # slow, and only needed here

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
    ) -> GraphStep:
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
        return GraphStep(best, indices, weights, new_states)


class _Memory(NamedTuple):
    """The arrays of the sentences, (B, ...)."""

    arrays: Arrays

    def select(self, kept: Integers) -> "_Memory":
        return _Memory([each[kept] for each in self.arrays])


class _Rows(NamedTuple):
    """The states, and the symbols that each row still lacks, (R, M)."""

    states: list[Floats]  # (R, ...)
    missing: Booleans

    def select(self, rows: Integers) -> "_Rows":
        return _Rows([each.take(rows, axis=0) for each in self.states], self.missing[rows])


class GraphEngine:
    """The graphs of a model with the sources of a batch.

    Args:
        graphs: The graphs.
        sources: Ids of each sentence, without EOS.
        num_symbols: For each sentence, how many symbols its source contains.
    """

    def __init__(
        self, graphs: Graphs, sources: Sequence[Sequence[int]], num_symbols: Sequence[int] = ()
    ) -> None:
        self._graphs = graphs
        self._source_ids, self.source_mask = pad_sources(sources)
        numbers = np.array(num_symbols or [0] * len(sources))
        self._missing = np.arange(len(graphs.symbols)) < numbers[:, None]

    def encode(self) -> tuple[_Memory, _Rows]:
        memory, states = self._graphs.encode(self._source_ids, self.source_mask)
        return _Memory(memory), _Rows(states, self._missing)

    def step(
        self, tokens: Integers, totals: Floats, width: int, memory: _Memory, state: _Rows
    ) -> Step[_Rows]:
        missing = state.missing & (tokens.reshape(-1, 1) != self._graphs.symbols)
        size = self._graphs.vocabulary_size
        most = min(width, tokens.shape[1] * size)
        step = self._graphs.step(tokens, totals, most, memory.arrays, missing, state.states)
        places, tokens = np.divmod(step.indices, size)
        return Step(step.totals, places, tokens, step.weights, _Rows(step.states, missing))


def pad_sources(sources: Sequence[Sequence[int]]) -> tuple[Integers, Booleans]:
    """Return ids with EOS and their mask, (B, S)."""
    lengths = np.array([len(ids) + 1 for ids in sources])
    mask = np.arange(lengths.max()) < lengths[:, None]
    padded = np.full(mask.shape, PAD)
    padded[mask] = [token for ids in sources for token in (*ids, EOS)]
    return padded, mask
