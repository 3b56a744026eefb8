"""Translate with an exported model: numpy, onnxruntime and sentencepiece, without torch."""

# B batch, K hypotheses of each sentence, R = B * K rows, S source length, T target length, N heads

from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from seq2seq.export.folder import (
    ENCODER,
    SOURCE,
    STEP,
    TARGET,
    Runtime,
    check_decoding,
    read_runtime,
)
from seq2seq.export.search import Arrays, Booleans, Floats, Integers, Step, search
from seq2seq.export.tokenizers import SubwordTokenizer
from seq2seq.inference.results import (
    EncodedLine,
    Translation,
    check_sentences,
    encode_lines,
    make_translation,
)
from seq2seq.inference.sentence_splitting import SentenceSplitter, SplitLines
from seq2seq.inference.windows import cut_batches, in_order
from seq2seq.search.config import BeamConfig, DecodingConfig, Hypothesis
from seq2seq.text.habits import Split, TextHabits
from seq2seq.text.rules import TextRules


class OnnxTranslator:
    """Translates as `seq2seq.Translator` does, with a model that seq2seq-export wrote.

    In fp32 neither the other sentences nor the batch size change the text of a translation, unless
    two rivals are as close as rounding. In int8 they may, because the values of a whole batch share
    one scale.
    """

    def __init__(self, folder: Path, runtime: Runtime, *, threads: int) -> None:
        self.num_heads = runtime.num_heads
        self._habits = TextHabits(
            runtime.several_sentences, runtime.without_words, runtime.capitals
        )
        self.decoding: DecodingConfig = runtime.decoding
        rules = TextRules(runtime.normalizes, runtime.patterns)
        self.source_tokenizer = SubwordTokenizer(folder / SOURCE, rules)
        self.target_tokenizer = SubwordTokenizer(folder / TARGET, rules)
        self._tokenizers = self.source_tokenizer, self.target_tokenizer
        size = len(self.target_tokenizer)
        self.graphs = _Graphs(
            folder, vocabulary_size=size, symbols=runtime.symbols, threads=threads
        )

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
        # onnxruntime and sentencepiece raise their own errors, which have several lines.
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
        split: Split | str = Split.auto,
    ) -> list[Translation]:
        """Translate a list of sentences as `seq2seq.Translator` does.

        Args:
            sentences: The sentences.
            decoding: A `GreedyConfig` or `BeamConfig`; None uses that of runtime.json.
            batch_size: Sentences translated together.
            split: The lines to split into sentences.

        Raises:
            ValueError: The search or one of its options is not one of an exported model.
        """
        decoding = decoding or self.decoding
        check_decoding(decoding)
        if batch_size < 1:
            raise ValueError(f"batch_size={batch_size} must be at least 1")
        n_best = getattr(decoding, "n_best", None)
        make = partial(make_translation, tokenizers=self._tokenizers, n_best=n_best)
        weights = np.zeros((self.num_heads, 1, 1), np.float32)
        empty = [Hypothesis([], 0.0, 0.0, True, weights, [0.0])]

        def translate_batch(batch: list[EncodedLine]) -> list[Translation]:
            if not batch[0].ids:  # no line of the batch has a token
                return [make(line, empty, texts=[line.text.strip()]) for line in batch]
            found = search(
                self.graphs,
                [line.ids for line in batch],
                decoding.candidates(),
                num_symbols=[len(line.spans) for line in batch],
            )
            return list(map(make, batch, found))

        splitter = self.splitter(split)
        split_lines = SplitLines(((line, "") for line in check_sentences(sentences)), splitter)
        texts = [sentence.text for sentence in split_lines]
        lines = encode_lines(texts, self.source_tokenizer, splitter.stays, recases=splitter.recases)
        batches = cut_batches([len(line.ids) for line in lines], batch_size)
        found = (translate_batch([lines[row] for row in rows]) for rows in batches)
        return list(split_lines.join(in_order(batches, found)))

    def splitter(self, split: Split | str) -> SentenceSplitter:
        """Return what splits lines into the sentences that the model translates."""

        def num_tokens(line: str) -> int:
            [encoded] = encode_lines([line], self.source_tokenizer)
            return len(encoded.ids)

        return SentenceSplitter(self._habits, split=Split(split), num_tokens=num_tokens)


class _Graphs:
    """The two graphs as the model that the search calls."""

    def __init__(
        self, folder: Path, *, vocabulary_size: int, symbols: Sequence[int], threads: int
    ) -> None:
        import onnxruntime  # an extra package

        self.vocabulary_size = vocabulary_size
        self.symbols = np.array(symbols, np.int64)
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

    def encode(self, source_ids: Integers, source_mask: Booleans) -> tuple[Arrays, list[Floats]]:
        """Encode sources; ids and mask are (B, S)."""
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
        """Extend hypotheses by one token."""
        symbols = [missing] if len(self.symbols) else []
        inputs = [tokens, totals, np.empty(width, np.int64), *memory, *symbols, *states]
        feeds = dict(zip(self._inputs, inputs, strict=True))
        best, indices, weights, *new_states = self._step.run(self._outputs, feeds)
        return Step(best, indices, weights, new_states)
