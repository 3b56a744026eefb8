"""Translate lines: batch the sentences of many lines, and give each line its own again."""

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from seq2seq.evaluation.confidence import Confidence
from seq2seq.inference.tally import StreamCounts
from seq2seq.inference.translations import (
    EncodedLine,
    EncodedPair,
    TextTokenizer,
    TranslatedSentence,
    Translation,
    encode_segments,
    encode_targets,
    make_sentence,
)
from seq2seq.search.config import DecodingConfig, Hypothesis
from seq2seq.special_tokens import UNK
from seq2seq.text.layer import VERY_LONG, Segment, TextLayer
from seq2seq.text.sentences import Split

if TYPE_CHECKING:
    from torch import Tensor

logger = logging.getLogger(__name__)

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
Batch = Sequence[EncodedPair]
_MapBatches = Callable[..., Iterator[list[TranslatedSentence]]]

LONG_SENTENCE = 100
"""Number of tokens; a batch of longer sentences gets fewer sentences, to bound memory."""
BATCHES_PER_WINDOW = 64
"""Number of batches whose sentences are sorted by length together."""
MOST_WORKERS = 8
"""Maximum number of worker threads; more threads would mostly wait for the interpreter's lock."""


class Line(NamedTuple):
    """A line of a stream, with its pieces."""

    place: int
    """Index of the line in its stream."""
    text: str
    target: str
    """Translation to score; empty if the line is to be translated."""
    segments: Sequence[Segment]


class LineTranslator(ABC):
    """Translates lines with the search of a model, which a subclass provides.

    Args:
        tokenizers: Source and target tokenizer.
        decoding: Default configuration of the search.
        tags: The tags of the training text, if every source began with one.
        habits: Habits of the training text, which decide whether lines are split into sentences.
        weights: Attention weights of a translation without text, (N, 1, 1).
        confidence: What the model's certainty says about the quality of a translation, if known.
    """

    def __init__(
        self,
        tokenizers: tuple[TextTokenizer, TextTokenizer],
        *,
        decoding: DecodingConfig,
        tags: Sequence[str],
        habits: Mapping[str, float],
        weights: "Tensor | Any",
        confidence: Confidence | None = None,
    ) -> None:
        self.tokenizers = tokenizers
        self.decoding = decoding
        self.tags = tags
        self.confidence = confidence
        self.text = TextLayer(tokenizers[0].rules, habits, count=self._count)
        self._empty = Hypothesis([], 0.0, 0.0, True, weights, [0.0])
        self._map: _MapBatches = map
        self._num_workers = 1
        """Number of batches that `_map` translates at once, and minimum number in a window."""

    @property
    def num_heads(self) -> int:
        """Return the number of attention heads of the model, or of all members of an ensemble."""
        return len(self._empty.attention_weights)

    def __call__(
        self,
        sentences: Sequence[str],
        decoding: DecodingConfig | None = None,
        *,
        batch_size: int = 64,
        split: Split | str = Split.auto,
    ) -> list[Translation]:
        """Translate a list of sentences as `translate` does."""
        return list(self.translate(sentences, decoding, batch_size=batch_size, split=split))

    def translate(
        self,
        lines: Iterable[str],
        decoding: DecodingConfig | None = None,
        *,
        batch_size: int = 64,
        split: Split | str = Split.auto,
        counts: StreamCounts | None = None,
    ) -> Iterator[Translation]:
        """Yield the translation of each line, in order.

        The sentences of a line are translated one by one, unless the model was trained on lines of
        several sentences. Text without words stays as it is. Lines of whitespace get an empty
        translation.

        Args:
            lines: Any number of lines; 64 batches at a time are read and sorted by length.
            decoding: Configuration of the search; None means the translator's default.
            batch_size: Sentences translated together.
            split: The lines to split into sentences.
            counts: Counts what deserves a warning; None logs the warnings at the end.

        Raises:
            FloatingPointError: The model gives probabilities that are not numbers.
            ValueError: An exported model does not support the search.
        """
        if isinstance(lines, str):
            raise TypeError(f"{lines!r} must be a list of strings; write translator([sentence])")
        decoding = decoding or self.decoding
        search_batch = partial(
            self.search_batch, decoding=decoding, way_out=f"lower batch_size={batch_size}"
        )

        def translate_batch(batch: Batch) -> list[TranslatedSentence]:
            return search_batch([pair.source for pair in batch])

        known = counts or StreamCounts(self.tags, decoding)
        pairs = ((line, "") for line in lines)
        yield from self._map_batches(pairs, Split(split), translate_batch, batch_size, known)
        if counts is None:
            known.report()

    def search_batch(
        self, sources: Sequence[EncodedLine], *, decoding: DecodingConfig, way_out: str
    ) -> list[TranslatedSentence]:
        """Translate a batch of encoded sentences; skip the model if there are no tokens.

        Args:
            sources: The sentences.
            decoding: Configuration of the search.
            way_out: Advice for the case that the batch does not fit into GPU memory.
        """
        if not any(source.ids for source in sources):
            return [self.known(source, source.model.line("")) for source in sources]
        found = self._search(sources, decoding, way_out)
        make = partial(
            make_sentence,
            tokenizers=self.tokenizers,
            n_best=getattr(decoding, "n_best", None),
            confidence=self.confidence if decoding.maximizes_probability else None,
        )
        return list(map(make, sources, found))

    @abstractmethod
    def _search(
        self, sources: Sequence[EncodedLine], decoding: DecodingConfig, way_out: str
    ) -> list[list[Hypothesis]]:
        """Return the hypotheses of a batch that has tokens; see `search_batch`."""

    def known(
        self, source: EncodedLine, text: str, hypothesis: Hypothesis | None = None
    ) -> TranslatedSentence:
        """Return a text as the only translation of a source; None is a text without tokens."""
        return make_sentence(
            source, [hypothesis or self._empty], tokenizers=self.tokenizers, texts=[text]
        )

    def _map_batches(
        self,
        pairs: Iterable[tuple[str, str]],
        split: Split,
        function: Callable[[Batch], list[TranslatedSentence]],
        batch_size: int,
        counts: StreamCounts,
    ) -> Iterator[Translation]:
        """Yield the translation of each line.

        Args:
            pairs: Lines, each with the translation to score or an empty text.
            split: The lines to split into sentences.
            function: Translates or scores a batch.
            batch_size: Sentences of a batch.
            counts: Gets the translations of the sentences; has a search unless they are known.
        """
        lines = (
            Line(place, line, target, self.text.segments(line, split))
            for place, (line, target) in enumerate(pairs)
        )
        for window in cut_windows(lines, batch_size, counts.has_more):
            encoded = self._encode(window)
            size = min(batch_size, math.ceil(len(encoded) / self._num_workers))
            batches = cut_batches([pair.length for pair in encoded], size)
            results = self._map(function, [[encoded[row] for row in rows] for rows in batches])
            found = in_order(batches, _announced(results, counts))
            for line in window:
                sentences = list(islice(found, len(line.segments)))
                counts.add_line(line.text, line.place, is_cut=line.segments[0].is_cut)
                for sentence in sentences:
                    counts.add(sentence, line.place)
                yield Translation(line.text, sentences)

    def _encode(self, window: Sequence[Line]) -> list[EncodedPair]:
        source_tokenizer, target_tokenizer = self.tokenizers
        sources = encode_segments(
            [each for line in window for each in line.segments], source_tokenizer
        )
        if not any(line.target for line in window):
            return list(map(EncodedPair, sources))
        targets = [line.target for line in window for _ in line.segments]
        return list(map(EncodedPair, sources, encode_targets(targets, sources, target_tokenizer)))

    def _count(self, text: str) -> tuple[int, int]:
        """Return the numbers of unknown and of all tokens of a text as the model reads it."""
        [ids] = self.tokenizers[0].encode([text])
        return ids.count(UNK), len(ids)


def cut_windows(
    lines: Iterable[Line], batch_size: int, has_more: Callable[[], bool]
) -> Iterator[list[Line]]:
    """Cut a stream of any length into windows of lines.

    Args:
        lines: Lines; read one window at a time.
        batch_size: Sentences of a batch; a window has `BATCHES_PER_WINDOW` batches.
        has_more: Returns whether the next line is available; if not, a window ends.
    """
    window: list[Line] = []
    num_sentences = 0
    for line in lines:
        window.append(line)
        num_sentences += len(line.segments)
        if num_sentences >= BATCHES_PER_WINDOW * batch_size or not has_more():
            yield window
            window, num_sentences = [], 0
    if window:
        yield window


def cut_batches(lengths: Sequence[int], batch_size: int) -> list[list[int]]:
    """Cut a window into batches of bounded size and area, and return the rows of each.

    Short rows come first. Rows without tokens get separate batches, which need no model.

    Args:
        lengths: Number of tokens of each row.
        batch_size: Maximum number of rows of a batch.

    Example:
        >>> cut_batches([5, 1, 0, 3], batch_size=2)
        [[2], [1, 3], [0]]
    """
    if num_long := sum(length > VERY_LONG for length in lengths):
        logger.warning(
            "sentences of more than %s tokens: %d, the longest has %s; time and memory grow with "
            "the square of the length; split=always splits them",
            f"{VERY_LONG:,}",
            num_long,
            f"{max(lengths):,}",
        )
    batches: list[list[int]] = []
    batch: list[int] = []
    for row in sorted(range(len(lengths)), key=lengths.__getitem__):
        area = (len(batch) + 1) * lengths[row]
        is_first_with_tokens = lengths[row] > 0 and batch and lengths[batch[0]] == 0
        is_full = len(batch) == batch_size or area > batch_size * LONG_SENTENCE
        if not batches or is_full or is_first_with_tokens:
            batch = []
            batches.append(batch)
        batch.append(row)
    return batches


def in_order(
    batches: Iterable[Sequence[int]], results: Iterable[Iterable[_Result]]
) -> Iterator[_Result]:
    """Yield the results of batches in the order of their rows.

    A result is yielded as soon as the results of all rows before it are known.

    Args:
        batches: Rows of each batch.
        results: Results of each batch.

    Example:
        >>> list(in_order([[1, 2], [0]], ["bc", "a"]))
        ['a', 'b', 'c']
    """
    done: dict[int, _Result] = {}
    following = 0
    for rows, found in zip(batches, results, strict=True):
        done.update(zip(rows, found, strict=True))
        while following in done:
            yield done.pop(following)
            following += 1


def _announced(
    results: Iterable[list[TranslatedSentence]], counts: StreamCounts
) -> Iterator[list[TranslatedSentence]]:
    for sentences in results:
        counts.on_batch(sentences)
        yield sentences


def map_in_workers(
    function: Callable[[_Item], _Result],
    items: Sequence[_Item],
    *,
    num_threads: int,
    start: Callable[[int], object] = int,
) -> Iterator[_Result]:
    """Yield the result of each item, in order, computing several items at once in threads.

    Args:
        function: Function of one item; it must not change data that its calls share.
        items: Items to process. Results are kept until the caller takes them.
        num_threads: Number of items at once, but at most `MOST_WORKERS`. Without a second item or
            thread, the caller's thread computes.
        start: Called in each new thread, with its share of `num_threads`.
    """
    num_workers = min(num_threads, len(items), MOST_WORKERS)
    if num_workers < 2:
        yield from map(function, items)
        return
    share = num_threads // num_workers
    with ThreadPoolExecutor(num_workers, initializer=start, initargs=(share,)) as pool:
        yield from pool.map(function, items)
