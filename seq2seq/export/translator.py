"""Translate with an exported model: numpy, onnxruntime and sentencepiece, without torch."""

# B batch, K hypotheses of each sentence, R = B * K rows, S source length, T target length, N heads

from collections.abc import Callable, Iterable, Iterator, Sequence
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
from seq2seq.inference.tally import StreamCounts
from seq2seq.inference.windows import cut_batches, cut_windows, ignore, in_order
from seq2seq.search.config import BeamConfig, DecodingConfig, Hypothesis
from seq2seq.text.rules import TextRules
from seq2seq.text.sentences import Split, TextHabits


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
        self.tags = runtime.tags
        rules = TextRules(runtime.normalizes, runtime.patterns)
        source, target = (SubwordTokenizer(folder / name, rules) for name in (SOURCE, TARGET))
        self.tokenizers = source, target
        self.graphs = _Graphs(
            folder, vocabulary_size=len(target), symbols=runtime.symbols, threads=threads
        )
        weights = np.zeros((self.num_heads, 1, 1), np.float32)
        self._empty = Hypothesis([], 0.0, 0.0, True, weights, [0.0])

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
        shortest = BeamConfig(max_length_ratio=0.0, max_length_offset=2)
        try:
            translator = cls(path, runtime, threads=threads)
            list(translator.translate(["a"], shortest, counts=StreamCounts((), shortest)))
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
        """Translate a list of sentences as `translate` does; raise TypeError for anything else."""
        lines = check_sentences(sentences)
        return list(self.translate(lines, decoding, batch_size=batch_size, split=split))

    def translate(
        self,
        lines: Iterable[str],
        decoding: DecodingConfig | None = None,
        *,
        batch_size: int = 64,
        split: Split | str = Split.auto,
        on_translation: Callable[[Translation], None] = ignore,
        counts: StreamCounts | None = None,
    ) -> Iterator[Translation]:
        """Yield the translation of each line, in order, as `seq2seq.Translator` does.

        Args:
            lines: Any number of lines; 64 batches at a time are read and sorted by length.
            decoding: A `GreedyConfig` or `BeamConfig`; None uses that of runtime.json.
            batch_size: Sentences translated together.
            split: The lines to split into sentences.
            on_translation: Called with each translation as soon as it is known, in any order.
            counts: Counts of a longer stream that the lines are part of; with None, the warnings
                about these lines are logged at the end.

        Raises:
            ValueError: The search or one of its options is not one of an exported model.
        """
        decoding = decoding or self.decoding
        check_decoding(decoding)
        known = counts or StreamCounts(self.tags, decoding)
        splitter = self.splitter(split)
        sentences = SplitLines(((line, "") for line in lines), splitter, known.count)

        def translated() -> Iterator[Translation]:
            for window in cut_windows(sentences, batch_size):
                texts = [sentence.text for sentence in window]
                encoded = encode_lines(
                    texts, self.tokenizers[0], splitter.stays, recases=splitter.recases
                )
                batches = cut_batches([len(line.ids) for line in encoded], batch_size)
                found = (
                    self._translate_batch([encoded[row] for row in rows], decoding)
                    for rows in batches
                )
                translations = in_order(batches, found, on_translation)
                for sentence, translation in zip(window, translations, strict=True):
                    known.add(translation, sentence.line)
                    yield translation

        yield from sentences.join(translated())
        if counts is None:
            known.report()

    def _translate_batch(
        self, batch: list[EncodedLine], decoding: DecodingConfig
    ) -> list[Translation]:
        n_best = getattr(decoding, "n_best", None)
        make = partial(make_translation, tokenizers=self.tokenizers, n_best=n_best)
        if not batch[0].ids:  # no line of the batch has a token
            return [make(line, [self._empty], texts=[line.text.strip()]) for line in batch]
        found = search(
            self.graphs,
            [line.ids for line in batch],
            decoding.candidates(),
            num_symbols=[len(line.spans) for line in batch],
        )
        return list(map(make, batch, found))

    def splitter(self, split: Split | str) -> SentenceSplitter:
        """Return what splits lines into the sentences that the model translates."""

        def num_tokens(line: str) -> int:
            [encoded] = encode_lines([line], self.tokenizers[0])
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
