"""Characters as tokens: the smallest vocabulary and the longest sequences."""

import logging
from collections import Counter
from collections.abc import Sequence

from seq2seq.data.corpus import Corpus
from seq2seq.data.tokenizers.base import (
    SPACE_LABEL,
    UNKNOWN_SURFACE,
    TokenizerPair,
    TokenizerState,
    word_indices,
)
from seq2seq.data.tokenizers.config import CharactersConfig
from seq2seq.data.tokenizers.registry import register_tokenizer
from seq2seq.special_tokens import SPECIAL_TOKENS, UNK

logger = logging.getLogger(__name__)

KIND = "characters"


class CharacterTokenizer:
    """Tokenizer of single characters; characters outside its vocabulary are unknown.

    Example:
        >>> tokenizer = CharacterTokenizer(["a", "b"])
        >>> tokenizer.encode(["abba", "cab"])
        [[4, 5, 5, 4], [1, 4, 5]]
        >>> tokenizer.decode([4, 5, 3])
        'ab'
    """

    def __init__(self, characters: Sequence[str]) -> None:
        self._characters = list(characters)
        # Text of each id; PAD, BOS and EOS have none.
        self._surfaces = ["", UNKNOWN_SURFACE, "", "", *self._characters]
        self._ids = {
            character: i for i, character in enumerate(self._characters, start=len(SPECIAL_TOKENS))
        }

    @property
    def folds_case(self) -> bool:
        return False

    def __len__(self) -> int:
        return len(self._surfaces)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        find = self._ids.get
        return [[find(character, UNK) for character in line] for line in lines]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(self._surfaces[i] for i in ids)

    def tokens(self, ids: Sequence[int]) -> list[str]:
        labels = [*SPECIAL_TOKENS, *self._characters]
        return [labels[i].replace(" ", SPACE_LABEL) for i in ids]

    def words(self, text: str, ids: Sequence[int]) -> list[int]:
        return word_indices(text, [None if i == UNK else self._surfaces[i] for i in ids])

    def state(self) -> TokenizerState:
        return {"kind": KIND, "characters": list(self._characters)}


def _restore(state: TokenizerState) -> CharacterTokenizer:
    characters = state["characters"]
    assert isinstance(characters, list)
    return CharacterTokenizer(characters)


@register_tokenizer(CharactersConfig, kind=KIND, restore=_restore)
def _train(config: CharactersConfig, corpus: Corpus) -> TokenizerPair:
    source: Counter[str] = Counter()
    target: Counter[str] = Counter()
    for pair in corpus:
        source.update(pair.source)
        target.update(pair.target)
    return TokenizerPair(
        _choose(config, source, label=f"{corpus.name} (source)"),
        _choose(config, target, label=f"{corpus.name} (target)"),
    )


def _choose(config: CharactersConfig, counts: Counter[str], *, label: str) -> CharacterTokenizer:
    if not counts:
        raise ValueError(f"{label}: no text to train a tokenizer on; give a corpus with pairs")
    frequent = [character for character, count in counts.items() if count >= config.min_frequency]
    frequent.sort(key=lambda character: (-counts[character], character))
    kept = frequent[: config.vocabulary_size - len(SPECIAL_TOKENS)]
    num_unknown = counts.total() - sum(counts[character] for character in kept)
    logger.info(
        "%s: %d of %d different characters are in the vocabulary; %d of %d in the text are unknown",
        label,
        len(kept),
        len(counts),
        num_unknown,
        counts.total(),
    )
    return CharacterTokenizer(kept)
