"""Put words of the source in the place of unknown tokens: translated by a dictionary or copied."""

import logging
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, groupby, islice

from seq2seq.data.tokenizers.base import SPACE_LABEL, UNKNOWN_SURFACE, Tokenizer
from seq2seq.evaluation.alignment import word_weights
from seq2seq.inference.translation import TranslatedHypothesis, Translation
from seq2seq.inference.translator import Translator
from seq2seq.special_tokens import UNK

logger = logging.getLogger(__name__)


class UnknownWords:
    """Gives each unknown token the source word of most attention (Luong et al. 2015b, sec. 3).

    That word is looked up in the dictionary as it stands, then in lower case, and copied where it
    is not found. A word ends at whitespace and at punctuation. Only texts change, and with them
    which word a token belongs to: tokens, scores and attention stay as the search found them.
    """

    def __init__(self, translator: Translator, *, dictionary: Mapping[str, str]) -> None:
        """Take tokenizers from the translator.

        Raises:
            ValueError: its model has no attention.
        """
        if translator.num_heads == 0:
            raise ValueError(
                "unknown_words=copy needs attention, of which this model has none; choose "
                "unknown_words=keep"
            )
        self._source, self._target = translator.tokenizers
        self._dictionary = dictionary
        self._num_translated = self._num_copied = self._num_kept = 0

    def replace(self, translation: Translation) -> Translation:
        """Replace what is unknown in every hypothesis, and count it."""
        hypotheses = [
            self._replace(translation, found) if UNK in found.ids else found
            for found in translation.hypotheses
        ]
        return translation._replace(hypotheses=hypotheses)

    def report(self) -> None:
        """Log what was counted."""
        num_replaced = self._num_translated + self._num_copied
        if num_replaced:
            logger.info(
                "%d unknown words were replaced: %d through the dictionary, %d by copies of "
                "source words",
                num_replaced,
                self._num_translated,
                self._num_copied,
            )
        if self._num_kept:
            logger.warning(
                "%d unknown words stay as %s, as no source word has attention there",
                self._num_kept,
                UNKNOWN_SURFACE,
            )

    def _replace(
        self, translation: Translation, found: TranslatedHypothesis
    ) -> TranslatedHypothesis:
        words = self._attended_words(translation, found)
        # A known token may be written like an unknown one.
        labels = self._target.tokens(found.ids)
        signs: list[str | None] = []
        for token, label, word in zip(found.ids, labels, words, strict=True):
            signs += [word] if token == UNK else [None] * label.count(UNKNOWN_SURFACE)
        first, *others = found.text.split(UNKNOWN_SURFACE)
        assert len(signs) == len(others), "a text shows all that its tokens show"
        parts = [UNKNOWN_SURFACE if sign is None else sign for sign in signs]
        text = first + "".join(part + other for part, other in zip(parts, others, strict=True))
        # Tokens would be looked for in words that they do not make up.
        starts = _word_starts(found.text, parts)
        owners = self._target.words(found.text, found.ids)
        return found._replace(text=text, words=[starts[owner] for owner in owners])

    def _attended_words(
        self, translation: Translation, found: TranslatedHypothesis
    ) -> list[str | None]:
        """Return what takes the place of each token; None for known ones and where nothing can."""
        ids, source_ids = found.ids, translation.source_ids
        owners = self._source.words(translation.source, source_ids)
        by_word = word_weights(
            found.attention_weights, owners, range(len(ids)), target_tokens=self._target.tokens(ids)
        )
        by_token = found.attention_weights.mean(dim=0)
        units = _units(translation.source, source_ids, owners, tokenizer=self._source)
        words: list[str | None] = [None] * len(ids)
        for place in (place for place, token in enumerate(ids) if token == UNK):
            if by_word[place].max() <= 0:
                self._num_kept += 1
                continue
            word = int(by_word[place].argmax())
            tokens = [token for token, owner in enumerate(owners) if owner == word]
            words[place] = self._look_up(
                units[max(tokens, key=lambda p: float(by_token[place, p]))]
            )
        return words

    def _look_up(self, word: str) -> str:
        for form in (word, word.lower()):
            if form in self._dictionary:
                self._num_translated += 1
                return self._dictionary[form]
        self._num_copied += 1
        return word


def read_dictionary(lines: Iterable[str], *, name: str) -> dict[str, str]:
    """Read lines of a source word, a tab and a target word.

    Args:
        lines: of a file.
        name: of the file, for messages.

    Raises:
        ValueError: a line is something else, or a source word stands there twice.
    """
    dictionary: dict[str, str] = {}
    for number, line in enumerate(lines, start=1):
        words = [word.strip() for word in line.split("\t")]
        if len(words) != 2 or not all(words):
            raise ValueError(
                f"{name}:{number}: {line!r} is no entry; write a source word, a tab and a target "
                "word"
            )
        source, target = words
        if source in dictionary:
            raise ValueError(
                f"{name}:{number}: {source!r} is in the dictionary already; keep one of its lines"
            )
        dictionary[source] = target
    return dictionary


def _word_starts(text: str, parts: Iterable[str]) -> list[int]:
    """Return the place of each word when all unknown signs of a text have given way to parts."""
    remaining = iter(parts)
    starts = [0]
    for word in text.split():
        in_word = islice(remaining, word.count(UNKNOWN_SURFACE))
        starts.append(starts[-1] + 1 + sum(len(part.split()) - 1 for part in in_word))
    return starts


def _units(
    text: str, ids: Sequence[int], owners: Sequence[int], *, tokenizer: Tokenizer
) -> list[str]:
    """Return for each source token the word that is copied where the token is attended to.

    Of an unknown token or of punctuation that is what the token covers; of any other all tokens
    around it up to those.
    """
    units: list[str] = []
    labels = tokenizer.tokens(ids)
    words = text.split()
    for owner, group in groupby(range(len(ids)), key=owners.__getitem__):
        tokens = list(group)
        surfaces = _surfaces(
            words[owner],
            [None if ids[p] == UNK else labels[p].strip(SPACE_LABEL) for p in tokens],
        )
        stops = [
            ids[token] == UNK or not any(map(str.isalnum, surface))
            for token, surface in zip(tokens, surfaces, strict=True)
        ]
        for is_stop, run in groupby(zip(stops, surfaces, strict=True), key=lambda each: each[0]):
            run_surfaces = [surface for _, surface in run]
            joined = "".join(run_surfaces)
            units += run_surfaces if is_stop else [joined] * len(run_surfaces)
    # A token that covers nothing, as a space alone, stands for its whole word.
    return [unit or words[owner] for unit, owner in zip(units, owners, strict=True)]


def _surfaces(word: str, labels: Sequence[str | None]) -> list[str]:
    """Return the characters of each token of a word; one without a label has those between."""
    lower = word.lower()
    # Tokenizers may change the case; where a letter becomes two, none is changed here.
    letters = lower if len(lower) == len(word) else word
    spans: list[tuple[int, int] | None] = []
    position = 0
    for label in labels:
        start = -1 if label is None else letters.find(label.lower(), position)
        if label is None or start < 0:
            spans.append(None)
            continue
        position = start + len(label)
        spans.append((start, position))
    begins = accumulate(spans, lambda begin, span: span[1] if span else begin, initial=0)
    ends = accumulate(
        reversed(spans[1:]), lambda end, span: span[0] if span else end, initial=len(word)
    )
    gaps = zip(begins, [*ends][::-1], strict=False)
    return [word[slice(*(span or gap))] for span, gap in zip(spans, gaps, strict=True)]
