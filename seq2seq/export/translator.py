"""Translate with an exported model: onnxruntime and sentencepiece, without torch."""

from collections.abc import Sequence
from functools import cached_property, partial
from pathlib import Path

import numpy as np
from sentencepiece import SentencePieceProcessor

from seq2seq.evaluation.confidence import Confidence
from seq2seq.export.folder import SOURCE, TARGET, Runtime, check_decoding, read_runtime
from seq2seq.export.search import GraphEngine, Graphs
from seq2seq.files.paths import reading
from seq2seq.inference.lines import MOST_WORKERS, LineTranslator, map_in_workers
from seq2seq.inference.tally import StreamCounts
from seq2seq.inference.translations import EncodedLine
from seq2seq.search.config import BeamConfig, DecodingConfig, Hypothesis
from seq2seq.search.loop import beam_search
from seq2seq.text.rules import TextRules


class OnnxTranslator(LineTranslator):
    """Translates as `seq2seq.Translator` does, with a model that seq2seq-export wrote.

    In fp32, neither the other sentences nor the batch size changes a translation, unless the scores
    of two candidates differ only by rounding. In int8 they may, because the values of a whole batch
    share one scale.
    """

    def __init__(self, folder: Path, runtime: Runtime, *, threads: int) -> None:
        source, target = (
            SubwordTokenizer(folder / name, runtime.rules) for name in (SOURCE, TARGET)
        )
        super().__init__(
            (source, target),
            decoding=runtime.decoding,
            tags=runtime.tags,
            habits=runtime.habits,
            weights=np.zeros((runtime.num_heads, 1, 1), np.float32),
            confidence=Confidence(**runtime.confidence) if runtime.confidence else None,
        )
        self.graphs = Graphs(folder, vocabulary_size=len(target), symbols=runtime.symbols)
        self._map = partial(map_in_workers, num_threads=threads)
        self._num_workers = min(threads, MOST_WORKERS)

    @classmethod
    def load(cls, folder: str | Path, *, threads: int = 1) -> "OnnxTranslator":
        """Load a folder that seq2seq-export wrote.

        Args:
            folder: Path of the folder.
            threads: Number of batches that are translated at once, up to eight, each by one
                thread. The products of a step are too small to be split over threads.

        Raises:
            FileNotFoundError: There is no such folder.
            ValueError: The folder was not exported, or is damaged.
        """
        path = Path(folder).expanduser()
        runtime = read_runtime(path)
        shortest = BeamConfig(max_length_ratio=0.0, max_length_offset=2)
        with reading(path):
            translator = cls(path, runtime, threads=threads)
            unreported = StreamCounts((), shortest)
            list(translator.translate(["a"], shortest, split="never", counts=unreported))
        return translator

    def _search(
        self, sources: Sequence[EncodedLine], decoding: DecodingConfig, way_out: str
    ) -> list[list[Hypothesis]]:
        check_decoding(decoding)
        numbers = [source.num_symbols for source in sources]
        engine = GraphEngine(self.graphs, [source.ids for source in sources], numbers)
        return beam_search(engine, decoding.candidates())


class SubwordTokenizer:
    """Text to token ids and back; see `Tokenizer` in seq2seq.data."""

    def __init__(self, path: Path, rules: TextRules) -> None:
        self.rules = rules
        self._processor = SentencePieceProcessor(model_file=str(path))

    def __len__(self) -> int:
        return len(self._processor)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        ids: list[list[int]] = self._processor.encode(list(map(self.rules.encoded, lines)))
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        text: str = self._processor.decode(list(ids))
        return self.rules.decoded(text)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return [self._pieces[i] for i in ids]

    @cached_property
    def _pieces(self) -> list[str]:
        """Return all tokens; asking sentencepiece for each token would be slower."""
        pieces: list[str] = self._processor.id_to_piece([*range(len(self))])
        return list(map(self.rules.decoded, pieces))
