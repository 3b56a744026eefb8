"""Configurations of parallel corpora and of tokenizers."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Annotated, Any, ClassVar, TypeGuard

from seq2seq.checks import (
    Config,
    Count,
    FilePath,
    Name,
    Positive,
    Range,
    VocabularySize,
    Weight,
    as_yaml,
    check_value,
)
from seq2seq.files.paths import reading
from seq2seq.special_tokens import SPECIAL_TOKENS
from seq2seq.text.patterns import PATTERNS
from seq2seq.text.rules import normalize

# OmegaConf has no type for "a list or a dictionary"; `read_file_sets` checks the value.
FileSets = Any

SAMPLING_KEY = "sampling_alpha"
"""Key of `SentencePieceConfig` that does not change the tokenizers."""


@dataclass(kw_only=True, slots=True, repr=False)
class DataConfig(Config, section="data"):
    """Configuration that all kinds of corpora share."""

    is_own_text: ClassVar[bool] = True
    """Whether the text is the user's own, so that its spans may be protected."""

    name: Name
    """Kind of corpus, such as "files", "grammar" or "multi30k"."""
    source: Name
    """Language code of the source; data=files takes it from the file extensions."""
    target: Name
    """Language code of the target; data=files takes it from the file extensions."""
    license: str = ""
    """License of the text, for the model card of an export."""
    cache_dir: FilePath = "data/cache"
    """Directory that caches tokenizers and token ids."""
    max_length: Count = 100
    """Maximum number of tokens on a side, without EOS; longer training pairs are skipped."""


@dataclass(kw_only=True, slots=True, repr=False)
class GrammarConfig(DataConfig):
    """The bundled corpus: German and English sentences of a grammar, with gold word links."""

    is_own_text: ClassVar[bool] = False
    num_train: Annotated[int, Range(1, 20_000)]
    """Number of training pairs; validation and test set have a tenth as many, at most 500."""

    def __post_init__(self) -> None:
        DataConfig.__post_init__(self)
        if {self.source, self.target} != {"de", "en"}:
            raise ValueError(
                f"data.source={self.source} and data.target={self.target}: the bundled corpus is "
                "German and English; give data.source=de data.target=en, or the other direction"
            )


@dataclass(kw_only=True, slots=True, repr=False)
class Multi30kConfig(DataConfig):
    """Multi30k: image captions in English, German, French and Czech."""

    is_own_text: ClassVar[bool] = False
    root: FilePath
    """Directory that relative paths start from; multi30k downloads missing files into it."""
    test: Name
    """Name of the test set."""


@dataclass(frozen=True, kw_only=True, slots=True)
class FileSet:
    """A parallel corpus in files."""

    key: str
    """Key of the corpus in messages: "data.train", or "data.train.news" if it is one of several."""
    name: str
    """Name of the corpus; "" if it is the only one."""
    paths: tuple[str, ...]
    """A source file, a target file and optionally a file of gold links; or one file with these
    columns."""
    weight: float = 1.0
    """Factor that multiplies the share of the corpus in an epoch; see `mix`."""
    tag: str | None = None
    """Symbol that precedes each source."""

    def __str__(self) -> str:
        return f"{self.key}=[{','.join(self.paths)}]"


@dataclass(kw_only=True, slots=True, repr=False)
class FilesConfig(DataConfig):
    """The user's own text, plain or .gz: one corpus or several, as `read_file_sets` reads them.

    Source and target may have the same language code, as in paraphrasing or copying.
    """

    train: FileSets
    """Files of the training set."""
    valid: FileSets
    """Files of the validation set."""
    # Optional keys, which are off or have the usual value by default.
    test: FileSets = None
    """Files of the test set; None: no test set."""
    root: FilePath = "."
    """Directory that relative paths start from; multi30k downloads missing files into it."""
    temperature: Annotated[float, Range(1)] = 1.0
    """Sampling temperature: a corpus of n pairs counts as n ** (1 / temperature). Above 1, small
    corpora get a larger share of an epoch."""

    def __post_init__(self) -> None:
        DataConfig.__post_init__(self)
        if len(self.test_sets()) > 1:
            raise ValueError(
                f"data.test names {len(self.test_sets())} sets, but a run scores one; translate "
                "the other sets and score the translations with python -m seq2seq.cli.score"
            )
        self.train_sets()
        self.valid_sets()

    def train_sets(self) -> list[FileSet]:
        """Return the training corpora."""
        return read_file_sets("data.train", self.train)

    def valid_sets(self) -> list[FileSet]:
        """Return the validation sets; the first set chooses the best checkpoint."""
        return read_file_sets("data.valid", self.valid)

    def test_sets(self) -> list[FileSet]:
        """Return the test set, if there is one."""
        return [] if self.test is None else read_file_sets("data.test", self.test)


def read_file_sets(key: str, value: object) -> list[FileSet]:
    """Read one corpus or several from the value of a key.

    A corpus is a list of one to three paths, or a dictionary of `files`, `weight` and `tag`.
    Several corpora are a dictionary by name, or a list, in which the numbers are the names.

    Args:
        key: The key, for messages.
        value: Its value, of lists, dictionaries and plain values.

    Raises:
        ValueError: The value has a different form.

    Example:
        >>> [each] = read_file_sets("data.train", ["a.de", "a.en"])
        >>> each.paths
        ('a.de', 'a.en')
        >>> sets = read_file_sets("data.train", {"news": {"files": ["a.tsv"], "tag": "<2de>"}})
        >>> sets[0].name, sets[0].tag
        ('news', '<2de>')
    """
    if isinstance(value, Sequence) and not isinstance(value, str) and not _are_paths(value):
        value = dict(enumerate(value, start=1))
    if not isinstance(value, Mapping) or not value or "files" in value:
        return [_read(key, "", value)]
    for name in map(str, value):
        if not is_set_name(name):
            raise ValueError(
                f"{key}: {name!r} is not a name for a corpus; use letters, digits, '.', '_' and '-'"
            )
    return [_read(f"{key}.{name}", str(name), entry) for name, entry in value.items()]


def is_set_name(name: str) -> bool:
    """Return whether a corpus may have a name, which is part of the names of files."""
    return re.fullmatch(r"[\w.-]+", name) is not None


def _are_paths(value: object) -> TypeGuard[Sequence[str]]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        return False
    return all(isinstance(path, str) for path in value)


def _read(key: str, name: str, value: object) -> FileSet:
    entry: Mapping[str, Any] = value if isinstance(value, Mapping) else {"files": value}
    paths, weight, tag = entry.get("files"), entry.get("weight", 1.0), entry.get("tag")
    is_scored = key.startswith(("data.valid", "data.test"))
    keys = ("files", "tag") if is_scored else ("files", "tag", "weight")
    if unknown := [each for each in entry if each not in keys]:
        raise ValueError(f"unknown key '{key}.{unknown[0]}'; one of: {', '.join(keys)}")
    if not _are_paths(paths) or len(paths) not in (1, 2, 3) or not all(map(str.strip, paths)):
        raise ValueError(
            f"{key}={as_yaml(value)} must contain one to three paths; give a source and a "
            f"target file, {key}=[my/a.de,my/a.en], and perhaps a third of gold links, or one "
            f"tab-separated file, {key}=[my/a.tsv]"
        )
    check_value(f"{key}.weight", weight, Positive)
    if tag is not None:
        tag = check_symbol(tag, key=f"{key}.tag")
    return FileSet(key=key, name=name, paths=tuple(paths), weight=float(weight), tag=tag)


class Normalization(Enum):
    """Change of the characters of a text before it is split."""

    identity = "identity"
    """No change; decoding restores the text exactly."""
    nfc = "nfc"
    """Canonical composition, single spaces for all white space, none at the ends, and no invisible
    characters without a meaning, such as soft hyphens."""
    nmt_nfkc = "nmt_nfkc"
    """`nfc`, then NFKC by SentencePiece's rules: full-width letters become ordinary letters."""
    nmt_nfkc_cf = "nmt_nfkc_cf"
    """`nmt_nfkc` with case folding, which makes the text lower case."""


@dataclass(kw_only=True, slots=True, repr=False)
class TokenizerConfig(Config, section="tokenizer"):
    """Configuration that all tokenizers share."""

    name: str
    """Kind of tokenizer: "bpe", "characters", "unigram" or "words"."""
    vocabulary_size: VocabularySize
    """Maximum number of tokens in a vocabulary, including the special ones and symbols."""
    # Optional keys, which are off by default.
    user_symbols: list[str] = field(default_factory=list)
    """Texts that are always one token, such as "<2de>"."""
    normalization: Normalization = Normalization.nfc
    """Unicode normalization of source and target."""
    protect: list[str] | None = None
    """Spans that a translation copies: tags, emails, urls, placeholders, codes, numbers, emoji, and
    regular expressions between slashes; null: with data=files, all kinds but those that the
    training text rewrites."""

    def __post_init__(self) -> None:
        Config.__post_init__(self)
        for pattern in self.protect or []:
            _check_protected(pattern)
        if self.normalization.name.startswith("nmt") and self.name not in ("bpe", "unigram"):
            raise ValueError(
                f"tokenizer.normalization={self.normalization.name} has rules of SentencePiece, "
                f"which tokenizer={self.name} does not use; choose nfc or identity"
            )
        for symbol in self.user_symbols:
            check_symbol(symbol, key="tokenizer.user_symbols")
        num_fixed = len(SPECIAL_TOKENS) + len(set(self.user_symbols))
        if self.vocabulary_size <= num_fixed:
            symbols = " and symbols" if self.user_symbols else ""
            raise ValueError(
                f"tokenizer.vocabulary_size={self.vocabulary_size} must be more than "
                f"{num_fixed}, the number of special tokens{symbols}"
            )


def _check_protected(name: str) -> None:
    """Raise ValueError unless a name is a kind of spans or a pattern that can match a span."""
    if name in PATTERNS:
        return
    expression = name[1:-1] if re.fullmatch("/.+/", name, re.DOTALL) else ""
    with reading(f"tokenizer.protect={name}"):
        re.compile(expression)
        pattern = re.compile(f"({expression})")  # a flag such as (?i) must not come later
    if pattern.groups > 1 or pattern.match(""):
        raise ValueError(
            f"tokenizer.protect: {name!r} is none of {', '.join(PATTERNS)}, and no regular "
            "expression between slashes, such as /ORD-[0-9]+/, that matches at least one "
            "character and has no groups but (?:...)"
        )


def check_symbol(symbol: object, *, key: str) -> str:
    """Return a text that a tokenizer can keep whole; raise ValueError for any other value."""
    is_word = isinstance(symbol, str) and symbol.split() == [symbol] == [normalize(symbol)]
    if not is_word or symbol in SPECIAL_TOKENS:
        raise ValueError(
            f"{key}: {symbol!r} must be a string without spaces and without invisible or "
            "decomposed characters, such as '<2de>', and no special token"
        )
    return str(symbol)


@dataclass(kw_only=True, slots=True, repr=False)
class SentencePieceConfig(TokenizerConfig):
    """Subwords by SentencePiece, which restore the text exactly unless it is normalized.

    The name is the segmentation model: "unigram", a unigram language model (Kudo 2018), or "bpe",
    byte-pair encoding (Sennrich et al. 2016).
    """

    joint: bool
    """Whether both languages share one vocabulary.

    The output layer has only the tokens that the target training text needs, and single characters.
    A token has the same id in both languages.
    """
    # Optional keys, which are off by default.
    sampling_alpha: Weight = 0.0
    """Strength of segmentation sampling; above 0, each epoch segments the training text
    differently. BPE: probability of leaving out a merge. Unigram: exponent of the segmentations'
    probabilities; smaller values give more variety."""

    def __post_init__(self) -> None:
        TokenizerConfig.__post_init__(self)
        if self.name == "bpe" and self.sampling_alpha > 1:
            raise ValueError(
                f"tokenizer.sampling_alpha={self.sampling_alpha} is a probability with BPE and "
                "must be at most 1"
            )


class Splitter(Enum):
    """Rules that split a line into words."""

    moses = "moses"
    """Moses' rules for the languages `data.source` and `data.target`; English rules for a language
    without rules."""
    basic_english = "basic_english"
    """torchtext's rules for the English side, in lower case; moses for the other side."""


@dataclass(kw_only=True, slots=True, repr=False)
class WordsConfig(TokenizerConfig):
    """Words, with marks where the text has no space."""

    splitter: Splitter
    """Rules that split a line into words."""
    min_frequency: Count
    """Minimum number of occurrences in the training text; rarer words or characters are unknown."""


@dataclass(kw_only=True, slots=True, repr=False)
class CharactersConfig(TokenizerConfig):
    """Single characters."""

    min_frequency: Count
    """Minimum number of occurrences in the training text; rarer words or characters are unknown."""
