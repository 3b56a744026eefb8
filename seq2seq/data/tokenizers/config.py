"""Configurations of tokenizers."""

from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated

from seq2seq.checks import Config, Count, Mark, Range, VocabularySize, Weight
from seq2seq.special_tokens import SPECIAL_TOKENS

SAMPLING_KEYS = ("sampling_alpha", "sampling_nbest")
"""Keys of `SentencePieceConfig` that do not change the tokenizers."""
_COVERAGE = Range(0.98, 1, hint="the range of SentencePiece")


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


@dataclass(kw_only=True, slots=True, repr=False)
class TokenizerConfig(Config, section="tokenizer", marks=(Mark.fixed,)):
    """Configuration that all tokenizers share."""

    name: Annotated[str, Mark.fixed, Mark.model]
    """Kind of tokenizer: "bpe", "characters", "unigram" or "words"."""
    vocabulary_size: VocabularySize
    """Maximum number of tokens in a vocabulary, including the special ones and symbols."""
    # Off unless given.
    user_symbols: list[str] = field(default_factory=list)
    """Texts that are one token each wherever they stand, such as "<2de>"."""

    def __post_init__(self) -> None:
        Config.__post_init__(self)
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


@dataclass(kw_only=True, slots=True, repr=False)
class SentencePieceConfig(TokenizerConfig):
    """Sub-words by SentencePiece, which restore the text exactly unless it is normalised."""

    model_type: SentencePieceModel
    """Set by the choice of the tokenizer."""
    joint: bool
    """One vocabulary for both languages."""
    character_coverage: Annotated[float, _COVERAGE]
    """Share of the characters of the text that get a token of their own, in [0.98, 1]."""
    max_training_lines: Annotated[int, Range(1, 1_000_000_000)]
    """A longer text is sampled at random down to this number of lines."""
    # Off unless given.
    normalization: Normalization = Normalization.identity
    """Change of the characters of source and target."""
    sampling_alpha: Annotated[Weight, Mark.named] = 0.0
    """Segmentations of the training text are drawn anew for each epoch if it is above 0.

    BPE: probability of leaving out a merge. Unigram: exponent of the probabilities of the
    segmentations; the smaller it is, the more they vary.
    """
    sampling_nbest: Annotated[int, Mark.named] = -1
    """Number of best segmentations to draw from, for unigram models; -1 draws from all."""

    def __post_init__(self) -> None:
        TokenizerConfig.__post_init__(self)
        alpha, nbest = self.sampling_alpha, self.sampling_nbest
        is_bpe = self.model_type is SentencePieceModel.bpe
        if is_bpe and alpha > 1:
            raise ValueError(
                f"tokenizer.sampling_alpha={alpha} is a probability with BPE and must be at most 1"
            )
        if nbest != -1 and nbest < 2:
            raise ValueError(f"tokenizer.sampling_nbest={nbest} must be -1, for all, or at least 2")
        if nbest != -1 and is_bpe:
            raise ValueError(
                f"tokenizer.sampling_nbest={nbest} is for unigram models; BPE has no list of best "
                "segmentations: remove it, or choose tokenizer=unigram"
            )


@dataclass(kw_only=True, slots=True, repr=False)
class WordsConfig(TokenizerConfig):
    """Words as torchtext's `get_tokenizer` splits them."""

    source_tokenizer: str
    """Name of a tokenizer: "basic_english", "moses", "spacy" or "toktok"."""
    target_tokenizer: str
    """See `source_tokenizer`."""
    source_language: str
    """Language code; moses uses its English rules for a language that it has none for."""
    target_language: str
    """See `source_language`."""
    min_frequency: Count
    """Rarer words are unknown."""
    lowercase: bool
    """Make the text lower case."""


@dataclass(kw_only=True, slots=True, repr=False)
class CharactersConfig(TokenizerConfig):
    """Single characters."""

    min_frequency: Count
    """Rarer characters are unknown."""
