"""Encode required prefixes and banned phrases as the token ids that a search obeys."""

import logging
import re
from collections.abc import Callable, Iterable, Sequence

from seq2seq.inference.results import EncodedLine, TextTokenizer, Translation, encode_targets
from seq2seq.inference.tally import Tally
from seq2seq.search.config import DecodingConfig
from seq2seq.special_tokens import UNK

logger = logging.getLogger(__name__)


class PrefixError(ValueError):
    """A prefix is longer than its translation may be."""

    def __init__(self, index: int, reason: str) -> None:
        super().__init__(f"prefix {index + 1} {reason}")
        self.index = index
        """Index of the prefix in the stream, from 0."""
        self.reason = reason
        """The message without the name of the prefix."""


def encode_prefixes(
    prefixes: Sequence[str],
    sources: Sequence[EncodedLine],
    *,
    tokenizer: TextTokenizer,
    decoding: DecodingConfig,
    count: Callable[[str, int], None],
    indices: Sequence[int],
) -> list[EncodedLine]:
    """Encode prefixes, without the whitespace around them.

    Args:
        prefixes: One for each source; an empty one leaves its translation free.
        sources: Source lines. The prefix of an empty line is dropped.
        tokenizer: The target tokenizer.
        decoding: The search, for its length limit.
        count: Called with `prefixes_useless` or `prefixes_unknown`, and with the index of the line
            of a prefix that has no effect or unknown tokens.
        indices: Index of the line of each prefix in the stream.

    Raises:
        PrefixError: A prefix is longer than its translation may be.
    """
    encoded = encode_targets([prefix.strip() for prefix in prefixes], sources, tokenizer)
    for row, (prefix, source) in enumerate(zip(encoded, sources, strict=True)):
        longest = decoding.longest(len(source.ids) + 1)
        if source.ids and len(prefix.ids) > longest:
            raise PrefixError(
                indices[row],
                f"has {len(prefix.ids)} tokens, but the translation may have at most {longest}; "
                f"shorten it, or raise decoding.max_length_offset={decoding.max_length_offset}",
            )
        if UNK in prefix.ids:
            count("prefixes_unknown", indices[row])
        if prefix.ids and not source.ids:
            count("prefixes_useless", indices[row])
            encoded[row] = EncodedLine("", [])
    return encoded


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
        tally = Tally()
        for number, ids in enumerate(id_rows, start=1):
            tally.count("banned", str(number), UNK in ids)
        if tally.numbers:
            logger.warning(
                "banned phrases with text outside the model's vocabulary, which it cannot write "
                "anyway: %d of %d%s",
                tally.numbers["banned"],
                len(texts),
                tally.where("banned"),
            )
        choices = "|".join(map(re.escape, texts))
        self._pattern = re.compile(rf"(?<!\w)(?:{choices})(?!\w)") if texts else None

    def occur_in(self, translation: Translation) -> bool:
        """Return whether a hypothesis contains a phrase."""
        pattern = self._pattern
        return pattern is not None and any(
            pattern.search(found.text) for found in translation.hypotheses
        )
