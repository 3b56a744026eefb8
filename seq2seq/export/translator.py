"""Translate with an exported model: numpy, onnxruntime and sentencepiece, without torch."""

# B batch, K hypotheses of each sentence, R = B * K rows, S source length, T target length, N heads

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seq2seq.export.folder import (
    ENCODER,
    SOURCE,
    STEP,
    TARGET,
    Runtime,
    check_decoding,
    read_runtime,
)
from seq2seq.export.search import Arrays, Floats, Hypothesis, Integers, Step, search
from seq2seq.export.tokenizers import SubwordTokenizer
from seq2seq.inference.results import TranslatedHypothesis, Translation
from seq2seq.search.config import BeamConfig, DecodingConfig
from seq2seq.special_tokens import EOS

_LONG_SENTENCE = 100
"""Tokens; a batch of longer sentences holds fewer of them, to bound memory."""


class OnnxTranslator:
    """Translates as `seq2seq.Translator` does, with a model that seq2seq-export wrote.

    In fp32 neither the other sentences nor the batch size change the text of a translation, unless
    two rivals are as close as rounding. In int8 they may, because the values of a whole batch share
    one scale.
    """

    def __init__(self, folder: Path, runtime: Runtime, *, threads: int) -> None:
        self.num_heads = runtime.num_heads
        self.decoding: DecodingConfig = runtime.decoding
        self.source_tokenizer = SubwordTokenizer(folder / SOURCE)
        self.target_tokenizer = SubwordTokenizer(folder / TARGET)
        size = len(self.target_tokenizer)
        self.graphs = _Graphs(folder, vocabulary_size=size, threads=threads)

    @classmethod
    def load(cls, folder: str | Path, *, threads: int = 1) -> "OnnxTranslator":
        """Load a folder that seq2seq-export wrote.

        Args:
            folder: Path of the folder.
            threads: CPU threads. The products of a step are small: with two threads, sentences are
                translated at most 1.15 times as fast for twice the processor time.

        Raises:
            FileNotFoundError: There is no such folder.
            ValueError: It was not exported, or is damaged.
        """
        path = Path(folder).expanduser()
        runtime = read_runtime(path)
        try:
            translator = cls(path, runtime, threads=threads)
            translator(["a"], BeamConfig(max_length_ratio=0.0, max_length_offset=2))
        except ModuleNotFoundError:
            raise
        # onnxruntime and sentencepiece have errors of their own, with several lines.
        except Exception as error:
            [reason, *_] = str(error).splitlines() or [type(error).__name__]
            raise ValueError(
                f"{path}: its graphs and tokenizers cannot translate ({reason}); "
                "export the model again"
            ) from error
        return translator

    def __call__(
        self,
        sentences: Sequence[str],
        decoding: DecodingConfig | None = None,
        *,
        batch_size: int = 64,
    ) -> list[Translation]:
        """Translate a list of sentences; lines of whitespace get an empty translation.

        Args:
            sentences: The sentences.
            decoding: A `GreedyConfig` or `BeamConfig`; None uses that of the checkpoint.
            batch_size: Sentences translated together.

        Raises:
            ValueError: The search or one of its options is not one of an exported model.
        """
        lines = list(sentences)
        if isinstance(sentences, str) or not all(isinstance(line, str) for line in lines):
            raise TypeError(
                f"sentences={sentences!r} must be a list of strings; write translator([sentence])"
            )
        if batch_size < 1:
            raise ValueError(f"batch_size={batch_size} must be at least 1")
        decoding = decoding or self.decoding
        check_decoding(decoding)
        encoded = self.source_tokenizer.encode(lines)
        sources = [ids if line.strip() else [] for line, ids in zip(lines, encoded, strict=True)]
        found = [self._empty()] * len(lines)
        for rows in _batches([len(ids) for ids in sources], batch_size):
            hypotheses = search(self.graphs, [sources[row] for row in rows], decoding)
            for row, best in zip(rows, hypotheses, strict=True):
                found[row] = best
        return list(map(self._translation, lines, sources, found))

    def _empty(self) -> list[Hypothesis]:
        """Return the hypotheses of a line without tokens, whose translation is certain."""
        weights = np.zeros((self.num_heads, 1, 1), np.float32)
        return [Hypothesis([], 0.0, 0.0, True, weights, [0.0])]

    def _translation(
        self, line: str, ids: list[int], hypotheses: Sequence[Hypothesis]
    ) -> Translation:
        target = self.target_tokenizer
        return Translation(
            source=line,
            source_ids=ids,
            source_tokens=self.source_tokenizer.tokens([*ids, EOS]),
            hypotheses=[
                TranslatedHypothesis(
                    text=target.decode(found.ids).replace("\n", " "),  # one line
                    score=found.score,
                    log_probability=found.log_probability,
                    finished=found.finished,
                    ids=found.ids,
                    tokens=target.tokens([*found.ids, EOS] if found.finished else found.ids),
                    attention_weights=found.attention_weights,
                    token_log_probabilities=found.token_log_probabilities,
                )
                for found in hypotheses
            ],
        )


class _Graphs:
    """The two graphs as the model that the search calls."""

    def __init__(self, folder: Path, *, vocabulary_size: int, threads: int) -> None:
        import onnxruntime  # an extra package

        self.vocabulary_size = vocabulary_size
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = threads
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

    def encode(
        self, source_ids: Integers, source_mask: NDArray[np.bool_]
    ) -> tuple[Arrays, list[Floats]]:
        """Encode sources; ids and mask are (B, S)."""
        feeds = {"source_ids": source_ids, "source_mask": source_mask}
        keys, values, *states = self._encoder.run(None, feeds)
        return [keys, values, source_mask], states

    def step(
        self, tokens: Integers, totals: Floats, width: int, memory: Arrays, states: list[Floats]
    ) -> Step:
        """Extend hypotheses by one token."""
        inputs = [tokens, totals, np.empty(width, np.int64), *memory, *states]
        feeds = dict(zip(self._inputs, inputs, strict=True))
        best, indices, weights, *new_states = self._step.run(self._outputs, feeds)
        return Step(best, indices, weights, new_states)


def _batches(lengths: Sequence[int], size: int) -> Iterator[list[int]]:
    """Yield the indices of lines that have tokens in batches of bounded area, short lines first."""
    batch: list[int] = []
    for row in sorted(filter(lengths.__getitem__, range(len(lengths))), key=lengths.__getitem__):
        if len(batch) == size or (len(batch) + 1) * lengths[row] > size * _LONG_SENTENCE:
            if batch:
                yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch
