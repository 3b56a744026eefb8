"""Words that a translation must begin with, or must not hold, as the tokens that a search heeds."""

import logging
import re
from collections.abc import Iterable, Sequence

from seq2seq.data.tokenizers.base import Tokenizer
from seq2seq.inference.translation import EncodedLine, Translation
from seq2seq.search import DecodingConfig
from seq2seq.special_tokens import UNK

logger = logging.getLogger(__name__)


class PrefixError(ValueError):
    """A prefix that no translation can begin with."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(f"prefix {index + 1} {reason}")
        self.index = index
        """which of the prefixes, from 0"""
        self.reason = reason
        """follows the prefix's name in a message"""


class Prefixes:
    """What each translation begins with; counts those that cannot be had as they are."""

    def __init__(self, tokenizer: Tokenizer, decoding: DecodingConfig) -> None:
        self._tokenizer = tokenizer
        self._decoding = decoding
        self._num_lines = self._num_unknown = self._num_useless = 0

    def encode(self, prefixes: Sequence[str], sources: Sequence[EncodedLine]) -> list[list[int]]:
        """Return the tokens of each prefix; whitespace around it is left out.

        Args:
            prefixes: one for each source; one without text leaves its translation free.
            sources: those that follow the ones of the call before.

        Raises:
            PrefixError: one is longer than the translation may be.
        """
        id_rows = self._tokenizer.encode([prefix.strip() for prefix in prefixes])
        for ids, source in zip(id_rows, sources, strict=True):
            self._num_lines += 1
            longest = self._decoding.longest(len(source.ids) + 1)
            if source.ids and len(ids) > longest:
                raise PrefixError(
                    self._num_lines - 1,
                    f"has {len(ids)} tokens, but the translation at most {longest}; shorten it, "
                    f"or raise decoding.max_length_offset={self._decoding.max_length_offset}",
                )
            self._num_unknown += UNK in ids
            self._num_useless += bool(ids) and not source.ids
        return id_rows

    def report(self) -> None:
        """Warn of the prefixes that were counted."""
        if self._num_unknown:
            logger.warning(
                "%d of %d prefixes hold what the model's vocabulary lacks, which is written as "
                "unknown tokens; use other words",
                self._num_unknown,
                self._num_lines,
            )
        if self._num_useless:
            logger.warning(
                "%d of %d prefixes belong to lines without text, whose translations are empty",
                self._num_useless,
                self._num_lines,
            )


class Forbidden:
    """Phrases that no translation is to hold.

    A search is kept from the tokens that a phrase is cut into where it begins a word. That blocks
    longer words of the same beginning too, and it leaves the same letters in other tokens: a
    warning counts the translations that hold a phrase all the same.
    """

    def __init__(self, phrases: Iterable[str], tokenizer: Tokenizer) -> None:
        """Cut the phrases into tokens.

        Raises:
            ValueError: one is empty.
        """
        texts = [phrase.strip() for phrase in phrases]
        if "" in texts:
            raise ValueError(
                f"forbidden phrase {texts.index('') + 1} is empty, which every translation holds; "
                "remove it"
            )
        id_rows = tokenizer.encode(texts)
        self.id_rows = [ids for ids in id_rows if UNK not in ids]
        """for a search"""
        if len(self.id_rows) < len(texts):
            logger.warning(
                "%d of %d forbidden phrases hold what the model's vocabulary lacks, so that it "
                "cannot write them anyway",
                len(texts) - len(self.id_rows),
                len(texts),
            )
        # Where a word begins in a text, the phrases are tried one after another.
        choices = "|".join(map(re.escape, texts))
        self._pattern = re.compile(rf"(?<!\w)(?:{choices})(?!\w)") if texts else None
        self._num_translations = self._num_holding = 0

    def watch(self, translation: Translation) -> None:
        """Count a translation, and whether it holds a phrase."""
        self._num_translations += 1
        if self._pattern is not None:
            texts = (found.text for found in translation.hypotheses)
            self._num_holding += any(self._pattern.search(text) for text in texts)

    def report(self) -> None:
        """Warn of the translations that hold a phrase."""
        if self._num_holding:
            logger.warning(
                "%d of %d translations hold a forbidden phrase, cut into other tokens or forced; "
                "forbid more of it, or its beginning",
                self._num_holding,
                self._num_translations,
            )
