"""From a checkpoint to translations: sentences in, sentences out, in their order."""

# B batch, N heads, T target length, S source length

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.alignment import Links, argmax_links, word_weights
from seq2seq.data.tokenizer import EOS, PAD, TokenizerPair
from seq2seq.model import Seq2Seq
from seq2seq.search import DecodingConfig, Hypothesis, search
from seq2seq.training.checkpoint import load_checkpoint
from seq2seq.training.config import Device, Precision
from seq2seq.training.precision import Numerics, choose_numerics

logger = logging.getLogger(__name__)

WINDOW = 64
"""batches whose sentences are sorted by length together"""
LONG_SENTENCE = 100
"""pieces; a batch of longer sentences holds fewer of them, so that memory stays bounded"""


class TranslatedHypothesis(NamedTuple):
    """One translation of a sentence."""

    text: str
    """one line, detokenised"""
    score: float
    """what hypotheses are ranked by: the log-probability, normalised as configured"""
    log_probability: float
    finished: bool
    """it ended by itself; else it ran into the length limit"""
    ids: list[int]
    """of its pieces, without EOS"""
    pieces: list[str]
    """a label for each row of the weights, that of EOS included"""
    weights: Tensor
    """attention (N, T, S) on the CPU"""


class Translation(NamedTuple):
    """A sentence and its translations."""

    source: str
    source_ids: list[int]
    """of its pieces, without EOS"""
    source_pieces: list[str]
    """a label for each column of the weights, that of EOS included"""
    hypotheses: list[TranslatedHypothesis]
    """the best first; never empty"""


def _always() -> bool:
    return True


class Translator:
    """Translates with a model and its tokenizers."""

    def __init__(
        self,
        model: Seq2Seq,
        *,
        tokenizers: TokenizerPair,
        numerics: Numerics,
        decoding: DecodingConfig,
    ) -> None:
        self._model = model.to(numerics.device).eval()
        self._decoding = decoding
        self._tokenizers = tokenizers
        self._numerics = numerics

    @classmethod
    def load(
        cls,
        path: str | Path,
        *,
        device: Device = Device.auto,
        precision: Precision = Precision.fp32,
    ) -> "Translator":
        """Read a checkpoint, which is all that is needed; a directory means its best.pt.

        Raises:
            FileNotFoundError: there is no such file.
            ValueError: it is no checkpoint, or the device or precision is not to be had.
        """
        numerics = choose_numerics(device, precision)
        checkpoint = load_checkpoint(path)
        model = checkpoint.build_model()
        return cls(
            model,
            tokenizers=checkpoint.tokenizers,
            numerics=numerics,
            decoding=checkpoint.config.decoding,
        )

    @property
    def num_heads(self) -> int:
        """Return how many attention heads there are; without any there are no links."""
        return self._model.attention.num_heads

    def translate(
        self,
        lines: Iterable[str],
        decoding: DecodingConfig | None = None,
        *,
        batch_size: int = 64,
        has_more: Callable[[], bool] = _always,
    ) -> Iterator[Translation]:
        """Translate lines as they come, each to one translation, in their order.

        A window of lines is read, sorted by length and translated in batches; what stands next
        in order is yielded after each batch. A line without text is not given to the model.

        Args:
            lines: of any number; no more than a window of them is held.
            decoding: the search to use; None takes the one that the model was scored with.
            batch_size: sentences translated at once.
            has_more: says whether another line can be had without waiting; where not, the
                window ends and is translated.
        """
        decoding = decoding or self._decoding
        num_lines = num_cut = 0
        for window in _windows(lines, size=WINDOW * batch_size, has_more=has_more):
            for translation in self._translate_window(window, decoding, batch_size=batch_size):
                num_lines += 1
                num_cut += not translation.hypotheses[0].finished
                yield translation
        if num_cut:
            logger.warning(
                "%d of %d translations reached the length limit before their end; raise "
                "decoding.max_length_ratio=%s or decoding.max_length_offset=%s to let them go on",
                num_cut,
                num_lines,
                decoding.max_length_ratio,
                decoding.max_length_offset,
            )

    def links(self, translation: Translation, hypothesis: TranslatedHypothesis) -> Links:
        """Link each word of a hypothesis to the source word that attention prefers.

        Raises:
            ValueError: the model has no attention heads.
        """
        source, target = self._tokenizers
        if not hypothesis.ids:
            return frozenset()
        by_word = word_weights(
            hypothesis.weights,
            source.words(translation.source, translation.source_ids),
            target.words(hypothesis.text, hypothesis.ids),
            target_pieces=target.pieces(hypothesis.ids),
        )
        return argmax_links(by_word)

    def _translate_window(
        self, lines: list[str], decoding: DecodingConfig, *, batch_size: int
    ) -> Iterator[Translation]:
        id_rows = self._tokenizers.source.encode(lines)
        done: dict[int, Translation] = {}
        for row, (line, ids) in enumerate(zip(lines, id_rows, strict=True)):
            if not line.strip() or not ids:
                done[row] = self._empty(line)
        rows = sorted(set(range(len(lines))) - set(done), key=lambda row: (len(id_rows[row]), row))
        following = 0
        for batch in [*_batches(rows, [len(ids) for ids in id_rows], batch_size), []]:
            found = self._search([id_rows[row] for row in batch], decoding) if batch else []
            for row, hypotheses in zip(batch, found, strict=True):
                done[row] = self._translation(lines[row], id_rows[row], hypotheses)
            while following in done:
                yield done.pop(following)
                following += 1

    def _search(self, id_rows: list[list[int]], decoding: DecodingConfig) -> list[list[Hypothesis]]:
        source_ids, source_mask = _pad(id_rows)
        device = self._numerics.device
        with self._numerics.autocast():
            return search(self._model, source_ids.to(device), source_mask.to(device), decoding)

    def _translation(
        self, line: str, source_ids: list[int], hypotheses: list[Hypothesis]
    ) -> Translation:
        source, target = self._tokenizers
        return Translation(
            source=line,
            source_ids=source_ids,
            source_pieces=source.pieces([*source_ids, EOS]),
            hypotheses=[
                TranslatedHypothesis(
                    # Whatever the model says, a translation is one line.
                    text=target.decode(found.ids).replace("\n", " "),
                    score=found.score,
                    log_probability=found.log_probability,
                    finished=found.finished,
                    ids=found.ids,
                    pieces=target.pieces([*found.ids, EOS] if found.finished else found.ids),
                    weights=found.weights,
                )
                for found in hypotheses
            ],
        )

    def _empty(self, line: str) -> Translation:
        """Return the translation of nothing, which is certain to be nothing."""
        nothing = Hypothesis(
            ids=[],
            score=0.0,
            log_probability=0.0,
            finished=True,
            weights=torch.zeros(self.num_heads, 1, 1),
        )
        return self._translation(line, [], [nothing])


def _windows(
    lines: Iterable[str], *, size: int, has_more: Callable[[], bool]
) -> Iterator[list[str]]:
    window: list[str] = []
    for line in lines:
        window.append(line)
        if len(window) == size or not has_more():
            yield window
            window = []
    if window:
        yield window


def _batches(rows: Sequence[int], lengths: Sequence[int], size: int) -> Iterator[list[int]]:
    """Cut rows that are sorted by length into batches of bounded size and area."""
    batch: list[int] = []
    for row in rows:
        if len(batch) == size or (len(batch) + 1) * lengths[row] > size * LONG_SENTENCE:
            if batch:
                yield batch
            batch = []
        batch.append(row)
    if batch:
        yield batch


def _pad(id_rows: list[list[int]]) -> tuple[Tensor, Tensor]:
    """Return ids with EOS (B, S) and their mask (B, S)."""
    lengths = torch.tensor([len(ids) + 1 for ids in id_rows])
    longest = int(lengths.max())
    ids = [[*ids, EOS] + [PAD] * (longest - len(ids) - 1) for ids in id_rows]
    return torch.tensor(ids), torch.arange(longest) < lengths.unsqueeze(1)
