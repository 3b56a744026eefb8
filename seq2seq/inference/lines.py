"""Translate lines: split them into sentences, batch these, and join their translations."""

import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from seq2seq.evaluation.confidence import Confidence
from seq2seq.inference.tally import StreamCounts
from seq2seq.inference.translations import (
    EncodedLine,
    EncodedPair,
    TextTokenizer,
    TranslatedHypothesis,
    Translation,
    distinct,
    encode_lines,
    encode_targets,
    make_translation,
)
from seq2seq.search.config import DecodingConfig, Hypothesis
from seq2seq.special_tokens import EOS
from seq2seq.text.sentences import (
    Split,
    TextHabits,
    has_words,
    is_break,
    join_sentences,
    kept,
    split_marker,
    split_sentences,
)

if TYPE_CHECKING:
    from torch import Tensor

logger = logging.getLogger(__name__)

_Result = TypeVar("_Result")
Batch = Sequence[EncodedPair]
_MapBatches = Callable[..., Iterator[list[Translation]]]

VERY_LONG = 1000
"""Number of tokens; in longer sentences, time and memory grow with the square of the length."""
LONG_SENTENCE = 100
"""Number of tokens; a batch of longer sentences gets fewer sentences, to bound memory."""
BATCHES_PER_WINDOW = 64
"""Number of batches whose sentences are sorted by length together."""
_PART = 100
"""Maximum number of tokens in each part when a sentence of more than `VERY_LONG` tokens is cut."""
MOST_WEIGHTS = 1_000_000
"""Maximum number of attention weights per head in a joined translation."""


class SentenceSplitter:
    """Splits lines into the sentences that a model translates, and text that stays as it is.

    A line is normalized before it is split.

    Args:
        habits: Habits of the training text.
        split: The lines to split.
        normalize: Normalizes a line as the tokenizer does.
        num_tokens: Returns the number of tokens of a line.
        leading_symbols: Returns the start of a line that each of its sentences needs, such as a
            language tag.
    """

    def __init__(
        self,
        habits: TextHabits,
        *,
        split: Split = Split.auto,
        normalize: Callable[[str], str] = str,
        num_tokens: Callable[[str], int],
        leading_symbols: Callable[[str], str] = lambda line: "",
    ) -> None:
        self._is_active = split is not Split.never
        self._splits = split is Split.always or (self._is_active and habits.has_sentences)
        self._keeps_other_text = self._is_active and habits.keeps_other_text
        self.recases = self._is_active and not habits.reads_capitals
        """Whether text in capitals gets ordinary capitalization before it is translated."""
        self._normalize = normalize
        self._num_tokens = num_tokens
        self._leading_symbols = leading_symbols

    def stays(self, sentence: str) -> bool:
        """Return whether a sentence is not translated, because it has no words."""
        if not sentence.strip() or (self._splits and is_break(sentence)):
            return True
        return self._keeps_other_text and not has_words(sentence)

    def sentences(self, line: str) -> list[str]:
        """Return the sentences and markers of a line, or the whole line if it is not split."""
        return self._sentences(line) if self._splits else [line]

    def parts(self, line: str) -> tuple[list[str], bool]:
        """Return the sentences of a line, and whether the line or a sentence was too long."""
        if not self._is_active:
            return [line], False
        sentences = self.sentences(line)
        if not any(self._is_longer(sentence, VERY_LONG) for sentence in sentences):
            return sentences, False
        return [part for each in self._sentences(line) for part in self._cut(each, VERY_LONG)], True

    def _sentences(self, line: str) -> list[str]:
        line = self._normalize(line)
        start = self._leading_symbols(line)
        text = line[len(start) :]
        if not text.strip():
            return [line]
        sentences = split_sentences(text)
        if self._keeps_other_text:
            sentences = [part for each in sentences for part in split_marker(each) if part]
        if not start:
            return sentences
        start = start.lstrip()
        return [each if self.stays(each) else start + each for each in sentences]

    def _cut(self, sentence: str, most_tokens: int) -> list[str]:
        """Return the sentence, or its parts if it has too many tokens."""
        start = self._leading_symbols(sentence)
        text = sentence[len(start) :].strip()
        if len(text) < 2 or not self._is_longer(sentence, most_tokens):
            return [sentence]
        middle = max(text.find(" ", len(text) // 2), text.rfind(" ", 0, len(text) // 2))
        middle = middle if middle > 0 else len(text) // 2
        halves = (text[:middle], text[middle:])
        return [part for half in halves for part in self._cut(start + half.strip(), _PART)]

    def _is_longer(self, text: str, most_tokens: int) -> bool:
        # Counting tokens takes time, and hardly any line has more tokens than characters.
        return len(text) >= most_tokens and self._num_tokens(text) > most_tokens


class Sentence(NamedTuple):
    """A sentence of a line of a stream."""

    place: int
    """Index of the line in its stream."""
    line: str
    text: str
    target: str
    """Translation to score; empty if the sentence is to be translated."""


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
        habits: TextHabits,
        weights: "Tensor | Any",
        confidence: Confidence | None = None,
    ) -> None:
        self.tokenizers = tokenizers
        self.decoding = decoding
        self.tags = tags
        self.confidence = confidence
        self._habits = habits
        self._empty = Hypothesis([], 0.0, 0.0, True, weights, [0.0])
        self._map: _MapBatches = map
        self._num_workers = 1
        """Number of batches that `_map` translates at once, and minimum number in a window."""
        self._leading_symbols: Callable[[str], str] = lambda line: ""

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
        """Translate a list of sentences as `translate` does; raise TypeError for anything else."""
        lines = list(sentences)  # an iterator can be read only once
        if isinstance(sentences, str) or not all(isinstance(line, str) for line in lines):
            raise TypeError(
                f"sentences={sentences!r} must be a list of strings; write translator([sentence])"
            )
        return list(self.translate(lines, decoding, batch_size=batch_size, split=split))

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

        Lines of several sentences are split and their translations joined, unless the model was
        trained on such lines. Text without words stays as it is. Lines of whitespace get an empty
        translation.

        Args:
            lines: Any number of lines; 64 batches at a time are read and sorted by length.
            decoding: Configuration of the search; None means the translator's default.
            batch_size: Sentences translated together.
            split: The lines to split into sentences.
            counts: Counts what deserves a warning; None logs the warnings at the end.

        Raises:
            ValueError: The model gives probabilities that are not numbers, or an exported model
                does not support the search.
        """
        if isinstance(lines, str):
            raise TypeError(f"lines={lines!r} must be an iterable of lines; use translate([line])")
        decoding = decoding or self.decoding
        if not isinstance(decoding, DecodingConfig):
            raise TypeError(f"decoding={decoding!r} must be a configuration, such as BeamConfig()")
        search_batch = partial(
            self.search_batch, decoding=decoding, way_out=f"lower batch_size={batch_size}"
        )

        def translate_batch(batch: Batch) -> list[Translation]:
            return search_batch([pair.source for pair in batch])

        known = counts or StreamCounts(self.tags, decoding)
        pairs = ((line, "") for line in lines)
        yield from self._map_batches(
            pairs, self.splitter(split), translate_batch, batch_size, known
        )
        if counts is None:
            known.report()

    def search_batch(
        self, sources: Sequence[EncodedLine], *, decoding: DecodingConfig, way_out: str
    ) -> list[Translation]:
        """Translate a batch of encoded lines; skip the model if there are no tokens.

        Args:
            sources: The lines.
            decoding: Configuration of the search.
            way_out: Advice for the case that the batch does not fit into GPU memory.
        """
        if not any(source.ids for source in sources):
            return [self.known(source, kept(source.text)) for source in sources]
        found = self._search(sources, decoding, way_out)
        make = partial(
            make_translation,
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
    ) -> Translation:
        """Return a text as the only translation of a source; None is a text without tokens."""
        return make_translation(
            source, [hypothesis or self._empty], tokenizers=self.tokenizers, texts=[text]
        )

    def _map_batches(
        self,
        pairs: Iterable[tuple[str, str]],
        splitter: SentenceSplitter,
        function: Callable[[Batch], list[Translation]],
        batch_size: int,
        counts: StreamCounts,
    ) -> Iterator[Translation]:
        """Yield the translation of each line.

        Args:
            pairs: Lines, each with the translation to score or an empty text.
            splitter: Splits the lines into sentences.
            function: Translates or scores a batch.
            batch_size: Sentences of a batch.
            counts: Gets the translations of the sentences; has a search unless they are known.
        """
        for window in cut_windows(pairs, splitter, batch_size, counts):
            sentences = [sentence for line in window for sentence in line]
            encoded = self._encode(sentences, splitter)
            size = min(batch_size, math.ceil(len(encoded) / self._num_workers))
            batches = cut_batches([pair.length for pair in encoded], size)
            results = self._map(function, [[encoded[row] for row in rows] for rows in batches])
            found = in_order(batches, _announced(results, counts))
            for line in window:
                parts = list(islice(found, len(line)))
                for part in parts:
                    counts.add(part, line[0].place)
                counts.add_line(line[0].line, line[0].place)
                yield join_translations(line[0].line, parts)

    def _encode(self, sentences: list[Sentence], splitter: SentenceSplitter) -> list[EncodedPair]:
        texts = [sentence.text for sentence in sentences]
        source_tokenizer, target_tokenizer = self.tokenizers
        sources = encode_lines(texts, source_tokenizer, splitter.stays, recases=splitter.recases)
        targets = [sentence.target for sentence in sentences]
        if not any(targets):
            return list(map(EncodedPair, sources))
        return list(map(EncodedPair, sources, encode_targets(targets, sources, target_tokenizer)))

    def splitter(self, split: Split | str) -> SentenceSplitter:
        """Return an object that splits lines into the sentences that the model translates."""
        return SentenceSplitter(
            self._habits,
            split=Split(split),
            normalize=self.tokenizers[0].rules.normalize,
            num_tokens=self.num_tokens,
            leading_symbols=self._leading_symbols,
        )

    def num_tokens(self, line: str) -> int:
        """Return the number of tokens of a source line."""
        [encoded] = encode_lines([line], self.tokenizers[0])
        return len(encoded.ids)


def cut_windows(
    lines: Iterable[tuple[str, str]],
    splitter: SentenceSplitter,
    batch_size: int,
    counts: StreamCounts,
) -> Iterator[list[list[Sentence]]]:
    """Cut a stream of any length into windows of lines, each with its sentences.

    Args:
        lines: Lines, each with the translation to score or an empty text; read one window at a
            time.
        splitter: Splits the lines.
        batch_size: Sentences of a batch; a window has `BATCHES_PER_WINDOW` batches.
        counts: Counts lines that are too long, and knows whether to wait for the next line.

    Raises:
        ValueError: The batch size is less than 1.
    """
    if batch_size < 1:
        raise ValueError(f"batch_size={batch_size} must be at least 1")
    window: list[list[Sentence]] = []
    num_sentences = 0
    for index, (line, target) in enumerate(lines):
        parts, was_too_long = splitter.parts(line)
        counts.count("split", index, was_too_long)
        window.append([Sentence(index, line, part, target) for part in parts])
        num_sentences += len(parts)
        if num_sentences >= BATCHES_PER_WINDOW * batch_size or not counts.has_more():
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
    results: Iterable[list[Translation]], counts: StreamCounts
) -> Iterator[list[Translation]]:
    for translations in results:
        counts.on_batch(translations)
        yield translations


def join_translations(line: str, parts: Sequence[Translation]) -> Translation:
    """Join the translations of a line's sentences into the translation of the line.

    The nth hypothesis joins the nth hypothesis of each sentence, or the last one if a sentence has
    fewer. No token attends to another sentence.
    """
    if len(parts) == 1:
        [part] = parts
        return part if part.source == line else part._replace(source=line)
    number = max(len(part.hypotheses) for part in parts)
    ranks = [[part.hypotheses[: rank + 1][-1] for part in parts] for rank in range(number)]
    return Translation(
        source=line,
        source_ids=[token for part in parts for token in (*part.source_ids, EOS)][:-1],
        source_tokens=[token for part in parts for token in part.source_tokens],
        hypotheses=distinct(map(_join_hypotheses, ranks)),
        parts=parts,
        confidence=next((part.confidence for part in parts if part.confidence), None),
    )


def has_attention(translation: Translation) -> bool:
    """Return whether a translation was short enough to keep its attention weights."""
    return 0 not in translation.best.attention_weights.shape[1:]


def _join_hypotheses(parts: Sequence[TranslatedHypothesis]) -> TranslatedHypothesis:
    ids = [token for part in parts for token in (*part.ids, *[EOS][: part.finished])]
    return TranslatedHypothesis(
        text=join_sentences(part.text for part in parts),
        score=sum(part.score for part in parts),
        log_probability=sum(part.log_probability for part in parts),
        finished=all(part.finished for part in parts),
        ids=ids[:-1] if parts[-1].finished else ids,
        tokens=[token for part in parts for token in part.tokens],
        attention_weights=_join_weights([part.attention_weights for part in parts]),
        token_log_probabilities=[value for part in parts for value in part.token_log_probabilities],
        parts=parts,
    )


def _join_weights(blocks: Sequence[Any]) -> Any:
    """Join the weights of the sentences along a diagonal; return no weights if there are too
    many."""
    heights, widths = ([block.shape[axis] for block in blocks] for axis in (1, 2))
    if sum(heights) * sum(widths) > MOST_WEIGHTS:
        return blocks[0][:, :0, :0]
    shape = (len(blocks[0]), sum(heights), sum(widths))
    is_tensor = hasattr(blocks[0], "new_zeros")
    joined = blocks[0].new_zeros(shape) if is_tensor else np.zeros(shape, blocks[0].dtype)
    row = column = 0
    for block, height, width in zip(blocks, heights, widths, strict=True):
        joined[:, row : row + height, column : column + width] = block
        row, column = row + height, column + width
    return joined
