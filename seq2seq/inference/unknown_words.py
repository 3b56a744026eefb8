"""Replace unknown tokens by the source words that they attend to."""

from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from seq2seq.data.tokenizers.interface import Tokenizer
from seq2seq.evaluation.alignment import word_weights
from seq2seq.inference.results import TranslatedHypothesis, Translation, distinct
from seq2seq.inference.sentence_splitting import join_translations
from seq2seq.inference.tally import token_texts
from seq2seq.special_tokens import SPACE_LABEL, UNK, UNKNOWN_SURFACE
from seq2seq.text.rules import split_words

if TYPE_CHECKING:
    from seq2seq.inference.translator import Translator


class UnknownWords:
    """Replaces each unknown token by the source word with the most attention.

    This follows Luong et al. (2015b), section 3, without a dictionary. Words end at whitespace and
    at punctuation. Only texts change, and the words that tokens belong to; tokens, scores and
    attention do not.
    """

    def __init__(self, translator: "Translator", *, counts: Counter[str]) -> None:
        """Use the tokenizers of a translator.

        Args:
            translator: Its model needs attention.
            counts: Gets the numbers of replaced and kept words.

        Raises:
            ValueError: The model has no attention.
        """
        if translator.num_heads == 0:
            raise ValueError(
                "unknown_words=copy needs a model with attention, which this one lacks; choose "
                "unknown_words=keep"
            )
        self._source, self._target = translator.tokenizers
        self._counts = counts

    def replace(self, translation: Translation) -> Translation:
        """Return the translation with the unknown tokens of all hypotheses replaced.

        Raises:
            ValueError: The translation was scored and not found by a search.
        """
        if translation.parts:
            return join_translations(translation.source, list(map(self.replace, translation.parts)))
        hypotheses = (
            self._replace(translation, found) if UNK in found.ids else found
            for found in translation.hypotheses
        )
        return translation._replace(hypotheses=distinct(hypotheses))

    def _replace(
        self, translation: Translation, found: TranslatedHypothesis
    ) -> TranslatedHypothesis:
        words = self._attended_words(translation, found)
        # The text of a known token may contain the mark of an unknown token.
        labels = self._target.tokens(found.ids)
        marks: list[str | None] = []
        for token, label, word in zip(found.ids, labels, words, strict=True):
            marks += [word] if token == UNK else [None] * label.count(UNKNOWN_SURFACE)
        first, *others = found.text.split(UNKNOWN_SURFACE)
        if len(marks) != len(others):
            raise ValueError(
                "the text of a translation has no marks of its unknown tokens; replace them in "
                "translations of a search, not in those that were scored"
            )
        parts = [UNKNOWN_SURFACE if mark is None else mark for mark in marks]
        text = first + "".join(part + other for part, other in zip(parts, others, strict=True))
        # The tokenizer cannot assign tokens to words of the new text, which are as many.
        owners = self._target.words(found.text, found.ids, translation.spans)
        return found._replace(text=text, words=owners)

    def _attended_words(
        self, translation: Translation, found: TranslatedHypothesis
    ) -> list[str | None]:
        """Return the replacement of each token; None for known tokens or without attention."""
        ids, source_ids = found.ids, translation.source_ids
        owners = self._source.words(translation.source, source_ids, translation.spans)
        by_word = word_weights(
            found.attention_weights, owners, range(len(ids)), target_tokens=self._target.tokens(ids)
        )
        by_token = found.attention_weights.mean(dim=0)
        units = _units(translation.source, source_ids, owners, tokenizer=self._source)
        words: list[str | None] = [None] * len(ids)
        for row in (row for row, token in enumerate(ids) if token == UNK):
            if by_word[row].max() <= 0:
                self._counts["words_kept"] += 1
                continue
            word = int(by_word[row].argmax())
            columns = [column for column, owner in enumerate(owners) if owner == word]
            best = max(columns, key=lambda column: float(by_token[row, column]))
            words[row] = units[best]
            self._counts["words_copied"] += 1
        return words


def _units(
    text: str, ids: Sequence[int], owners: Sequence[int], *, tokenizer: Tokenizer
) -> list[str]:
    """Return for each source token the text to copy if the token has the most attention.

    For unknown tokens and punctuation this is the text of the token itself; for other tokens it
    includes their neighbors up to such a token.
    """
    units: list[str] = []
    labels = tokenizer.tokens(ids)
    words = split_words(text)
    for owner, group in groupby(range(len(ids)), key=owners.__getitem__):
        tokens = list(group)
        surfaces = token_texts(
            words[owner], [None if ids[i] == UNK else labels[i].strip(SPACE_LABEL) for i in tokens]
        )
        stops = [
            ids[token] == UNK or not any(map(str.isalnum, surface))
            for token, surface in zip(tokens, surfaces, strict=True)
        ]
        for is_stop, run in groupby(zip(stops, surfaces, strict=True), key=lambda pair: pair[0]):
            run_surfaces = [surface for _, surface in run]
            joined = "".join(run_surfaces)
            units += run_surfaces if is_stop else [joined] * len(run_surfaces)
    # A token without text, such as a space, copies its whole word.
    return [unit or words[owner] for unit, owner in zip(units, owners, strict=True)]
