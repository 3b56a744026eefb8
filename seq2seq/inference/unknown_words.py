"""Replace the unknown words of a word model with the source words that they attend to."""

import re
from collections.abc import Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from seq2seq.data.tokenizers.interface import SymbolTokenizer, TokenizerPair, plain_tokenizer
from seq2seq.data.tokenizers.words import WordTokenizer
from seq2seq.inference.lines import join_translations
from seq2seq.inference.tally import token_texts
from seq2seq.inference.translations import TranslatedHypothesis, Translation, distinct
from seq2seq.special_tokens import UNK, UNKNOWN_SURFACE
from seq2seq.text.rules import split_words

if TYPE_CHECKING:
    from seq2seq.inference.translator import Translator


def check_copying(translator: "Translator") -> None:
    """Raise ValueError unless a translator's tokens are words and its model has attention."""
    for tokenizer in map(plain_tokenizer, translator.tokenizers):
        inner = tokenizer.inner if isinstance(tokenizer, SymbolTokenizer) else tokenizer
        if not isinstance(inner, WordTokenizer):
            raise ValueError(
                "unknown_words=copy needs a model with tokenizer=words; train with "
                "tokenizer.protect to copy numbers, codes and addresses"
            )
    if translator.num_heads == 0:
        raise ValueError(
            "unknown_words=copy needs a model with attention, which this one lacks; choose "
            "unknown_words=keep"
        )


def copy_unknown_words(translation: Translation, tokenizers: TokenizerPair) -> Translation:
    """Replace each unknown word with the source token that has the most attention.

    This follows Luong et al. (2015b), section 3, without a dictionary. Only texts change; tokens,
    scores and attention do not.
    """
    if translation.parts:
        parts = [copy_unknown_words(part, tokenizers) for part in translation.parts]
        return join_translations(translation.source, parts)
    texts = _source_texts(translation, tokenizers)

    def copied(found: TranslatedHypothesis) -> TranslatedHypothesis:
        weights = found.attention_weights.mean(dim=0)[:, : len(texts)]  # (T, S) without EOS
        highest, columns = (part.tolist() for part in weights.max(dim=1))
        marks = iter(
            texts[column] if token == UNK and high > 0 else UNKNOWN_SURFACE
            for token, label, high, column in zip(
                found.ids, found.tokens, highest, columns, strict=False
            )
            if token == UNK or label == UNKNOWN_SURFACE
        )
        text = re.sub(UNKNOWN_SURFACE, lambda mark: next(marks, mark[0]), found.text)
        # The tokenizer knows only the words of the old text; the new text has as many words.
        words = tokenizers.target.words(found.text, found.ids, translation.spans)
        return found._replace(text=text, words=words)

    hypotheses = (copied(each) if UNK in each.ids else each for each in translation.hypotheses)
    return translation._replace(hypotheses=distinct(hypotheses))


def _source_texts(translation: Translation, tokenizers: TokenizerPair) -> Sequence[str]:
    """Return the text of each source token, without EOS; a token without text gets its word's
    text."""
    ids, words = translation.source_ids, split_words(translation.source)
    owners = tokenizers.source.words(translation.source, ids, translation.spans)
    labels = [
        None if token == UNK else label
        for token, label in zip(ids, translation.source_tokens, strict=False)
    ]
    texts: list[str] = []
    for owner, tokens in groupby(zip(owners, labels, strict=True), key=lambda token: token[0]):
        of_word = token_texts(words[owner], [label for _, label in tokens])
        texts += [text or words[owner] for text in of_word]
    return texts
