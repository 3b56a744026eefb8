"""Encode required prefixes and banned phrases as the token ids that a search obeys."""

import logging
import re
from collections.abc import Iterable

from seq2seq.inference.tally import StreamCounts, named_lines
from seq2seq.inference.translations import EncodedPair, TextTokenizer, Translation
from seq2seq.special_tokens import UNK

logger = logging.getLogger(__name__)


class PrefixError(ValueError):
    """A prefix has more tokens than its translation may have."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(f"prefix {index + 1} {reason}")
        self.index = index
        """Index of the prefix in the stream, from 0."""
        self.reason = reason
        """Text of the message after the number of the prefix."""


def check_prefix(pair: EncodedPair, place: int, *, counts: StreamCounts) -> EncodedPair:
    """Check the prefix of a sentence; the prefix of an empty sentence is dropped.

    Args:
        pair: The sentence and its prefix; an empty prefix leaves the translation free.
        place: Index of the line in its stream.
        counts: Has the search and its length limit, and counts prefixes that have no effect or
            contain unknown tokens.

    Raises:
        PrefixError: The prefix has more tokens than its translation may have.
    """
    source, prefix = pair
    decoding = counts.decoding
    assert decoding is not None, "a known translation is no prefix"
    longest = decoding.longest(len(source.ids) + 1)
    if source.ids and len(prefix.ids) > longest:
        raise PrefixError(
            place,
            f"has {len(prefix.ids)} tokens, but the translation may have at most {longest}; "
            f"shorten it, or raise decoding.max_length_offset={decoding.max_length_offset}",
        )
    counts.count("prefixes_unknown", place, UNK in prefix.ids)
    if prefix.ids and not source.ids:
        counts.count("prefixes_useless", place)
        return EncodedPair(source)
    return pair


class BannedPhrases:
    """Phrases that no translation may contain.

    The search bans the token sequence that the tokenizer produces for a phrase at the beginning
    of a word. This also bans longer words with the same beginning, and it does not ban the same
    letters in other tokens; a warning counts translations that still contain a phrase.

    Attributes:
        id_rows: Token ids of each phrase, for a search.

    Example:
        >>> from seq2seq.data.tokenizers.words import CharacterTokenizer
        >>> BannedPhrases(["cab", "b"], CharacterTokenizer("abc")).id_rows
        [[6, 4, 5], [5]]
    """

    def __init__(self, phrases: Iterable[str], tokenizer: TextTokenizer) -> None:
        """Encode the phrases with the target tokenizer.

        Raises:
            ValueError: A phrase is empty.
        """
        texts = [phrase.strip() for phrase in phrases]
        if "" in texts:
            raise ValueError(
                f"banned_phrases: phrase {texts.index('') + 1} is empty, and every translation "
                "contains an empty phrase; remove it"
            )
        id_rows = tokenizer.encode(texts)
        self.id_rows = [ids for ids in id_rows if UNK not in ids]
        unknown = [str(number) for number, ids in enumerate(id_rows, start=1) if UNK in ids]
        if unknown:
            logger.warning(
                "banned phrases with text outside the model's vocabulary, which it cannot write "
                "anyway: %d of %d%s",
                len(unknown),
                len(texts),
                named_lines(unknown),
            )
        choices = "|".join(map(re.escape, texts))
        self._pattern = re.compile(rf"(?<!\w)(?:{choices})(?!\w)") if texts else None

    def occur_in(self, translation: Translation) -> bool:
        """Return whether a hypothesis contains a phrase."""
        pattern = self._pattern
        return pattern is not None and any(
            pattern.search(found.text) for found in translation.hypotheses
        )
