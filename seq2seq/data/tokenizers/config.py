"""Configurations of tokenizers."""

import math
from dataclasses import dataclass, field
from enum import Enum

from seq2seq.checks import check_positive
from seq2seq.special_tokens import SPECIAL_TOKENS

SAMPLING_KEYS = ("sampling_alpha", "sampling_nbest")
"""Keys of `SentencePieceConfig` that do not change the tokenizers."""
_MIN_COVERAGE = 0.98


class SentencePieceModel(Enum):
    """Model by which SentencePiece chooses sub-words."""

    unigram = "unigram"
    """Unigram language model (Kudo 2018)."""
    bpe = "bpe"
    """Byte-pair encoding (Sennrich et al. 2016)."""


class Normalization(Enum):
    """Change of the characters of a text before it is split, by SentencePiece's rules."""

    identity = "identity"
    """None: decoding restores the text exactly."""
    nmt_nfkc = "nmt_nfkc"
    """Unicode NFKC, and spaces for other white space: full-width letters become ordinary ones."""
    nmt_nfkc_cf = "nmt_nfkc_cf"
    """The same and case folding, which makes the text lower case."""


@dataclass(kw_only=True, slots=True)
class TokenizerConfig:
    """Configuration that all tokenizers share."""

    name: str
    """Kind of tokenizer: "bpe", "characters", "unigram" or "words"."""
    vocabulary_size: int
    """Maximum number of tokens in a vocabulary, including the special ones and symbols."""
    # The default is also the value of checkpoints that were written before the key existed.
    user_symbols: list[str] = field(default_factory=list)
    """Texts that are one token each wherever they stand, such as "<2de>"."""

    def __post_init__(self) -> None:
        for symbol in self.user_symbols:
            check_symbol(symbol, key="tokenizer.user_symbols")
        if len(set(self.user_symbols)) < len(self.user_symbols):
            raise ValueError(
                f"tokenizer.user_symbols=[{','.join(self.user_symbols)}] names a symbol twice"
            )
        num_fixed = len(SPECIAL_TOKENS) + len(self.user_symbols)
        if self.vocabulary_size <= num_fixed:
            symbols = " and symbols" if self.user_symbols else ""
            raise ValueError(
                f"tokenizer.vocabulary_size={self.vocabulary_size} must be more than "
                f"{num_fixed}, the number of special tokens{symbols}"
            )


def check_symbol(symbol: str, *, key: str) -> None:
    """Raise ValueError unless a tokenizer can keep the text whole."""
    if not symbol or any(map(str.isspace, symbol)):
        raise ValueError(f"{key}: {symbol!r} must be a text without spaces, such as '<2de>'")
    if symbol in SPECIAL_TOKENS:
        raise ValueError(f"{key}: {symbol!r} is a special token; choose another text")


@dataclass(kw_only=True, slots=True)
class SentencePieceConfig(TokenizerConfig):
    """Sub-words by SentencePiece, which restore the text exactly unless it is normalised."""

    model_type: SentencePieceModel
    joint: bool
    """One vocabulary for both languages."""
    character_coverage: float
    """Share of the characters of the text that get a token of their own, in [0.98, 1]."""
    max_training_lines: int
    """A longer text is sampled at random down to this number of lines."""
    # The defaults are also the values of checkpoints that were written before the keys existed.
    normalization: Normalization = Normalization.identity
    """Change of the characters of source and target."""
    sampling_alpha: float = 0.0
    """Segmentations of the training text are drawn anew for each epoch if it is above 0.

    BPE: probability of leaving out a merge. Unigram: exponent of the probabilities of the
    segmentations; the smaller it is, the more they vary.
    """
    sampling_nbest: int = -1
    """Number of best segmentations to draw from, for unigram models; -1 draws from all."""

    def __post_init__(self) -> None:
        TokenizerConfig.__post_init__(self)
        check_positive("tokenizer", self, "max_training_lines")
        if not _MIN_COVERAGE <= self.character_coverage <= 1:
            raise ValueError(
                f"tokenizer.character_coverage={self.character_coverage} must lie in "
                f"[{_MIN_COVERAGE}, 1], the range of SentencePiece"
            )
        self._check_sampling()

    def _check_sampling(self) -> None:
        alpha, nbest = self.sampling_alpha, self.sampling_nbest
        is_bpe = self.model_type is SentencePieceModel.bpe
        if not 0 <= alpha < math.inf or (is_bpe and alpha > 1):
            limits = "from 0 to 1, a probability" if is_bpe else "of at least 0"
            raise ValueError(f"tokenizer.sampling_alpha={alpha} must be a number {limits}")
        if nbest != -1 and nbest < 2:
            raise ValueError(f"tokenizer.sampling_nbest={nbest} must be -1, for all, or at least 2")
        if nbest != -1 and is_bpe:
            raise ValueError(
                f"tokenizer.sampling_nbest={nbest} is for unigram models; BPE has no list of best "
                "segmentations: remove it, or choose tokenizer=unigram"
            )


@dataclass(kw_only=True, slots=True)
class WordsConfig(TokenizerConfig):
    """Words as torchtext's `get_tokenizer` splits them."""

    source_tokenizer: str
    """Name of a tokenizer: "basic_english", "moses", "spacy" or "toktok"."""
    target_tokenizer: str
    source_language: str
    """Language code; moses uses its English rules for a language that it has none for."""
    target_language: str
    min_frequency: int
    """Rarer words are unknown."""
    lowercase: bool

    def __post_init__(self) -> None:
        TokenizerConfig.__post_init__(self)
        check_positive("tokenizer", self, "min_frequency")


@dataclass(kw_only=True, slots=True)
class CharactersConfig(TokenizerConfig):
    """Single characters."""

    min_frequency: int
    """Rarer characters are unknown."""

    def __post_init__(self) -> None:
        TokenizerConfig.__post_init__(self)
        check_positive("tokenizer", self, "min_frequency")
