"""Configurations of tokenizers."""

import math
from dataclasses import dataclass
from enum import Enum

from seq2seq.checks import check_positive
from seq2seq.special_tokens import SPECIAL_TOKENS

SAMPLING_KEYS = ("sampling_alpha", "sampling_nbest")
"""Keys of `SentencePieceConfig` that do not change the tokenizers."""


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
    """Maximum number of tokens in a vocabulary, including the special ones."""

    def __post_init__(self) -> None:
        if self.vocabulary_size <= len(SPECIAL_TOKENS):
            raise ValueError(
                f"tokenizer.vocabulary_size={self.vocabulary_size} must be more than "
                f"{len(SPECIAL_TOKENS)}, the number of special tokens"
            )


@dataclass(kw_only=True, slots=True)
class SentencePieceConfig(TokenizerConfig):
    """Sub-words by SentencePiece, which restore the text exactly unless it is normalised."""

    model_type: SentencePieceModel
    joint: bool
    """One vocabulary for both languages."""
    character_coverage: float
    """Share of the characters of the text that get a token of their own, in (0, 1]."""
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
        if not 0 < self.character_coverage <= 1:
            raise ValueError(
                f"tokenizer.character_coverage={self.character_coverage} must lie in (0, 1]"
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
