"""Configurations of parallel corpora."""

from dataclasses import dataclass
from enum import Enum

from seq2seq.checks import check_positive


class OnInvalid(Enum):
    """Treatment of pairs that break a rule."""

    error = "error"
    """Stop with a message that names the file and the line."""
    skip = "skip"
    """Skip the pair; one warning for each corpus counts them."""


@dataclass(kw_only=True, slots=True)
class DataConfig:
    """Configuration that all kinds of corpora share.

    The fields from `vocabulary_size` to `dropout` are values that suit the corpus: the
    configurations of tokenizer, model and training read them unless they are given there.
    """

    name: str
    """Kind of corpus: "files", "grammar" or "multi30k"."""
    source: str
    """Language code of the source."""
    target: str
    """Language code of the target."""
    cache_dir: str
    """Directory of tokenizers and token ids."""
    vocabulary_size: int
    """Number of tokens."""
    max_epochs: int
    batch_tokens: int
    """Target tokens per batch."""
    learning_rate: float
    dropout: float
    max_length: int
    """Maximum number of tokens on a side, without EOS."""
    empty_lines: OnInvalid
    """Treatment of pairs with an empty side."""
    long_pairs: OnInvalid
    """Treatment of pairs longer than `max_length`."""
    invalid_utf8: OnInvalid
    """Treatment of pairs that are not UTF-8."""

    def __post_init__(self) -> None:
        for key in ("name", "source", "target", "cache_dir"):
            _check_not_empty(key, getattr(self, key))
        check_positive("data", self, "vocabulary_size", "max_epochs", "max_length")


@dataclass(kw_only=True, slots=True)
class GrammarConfig(DataConfig):
    """Pairs generated from a synchronous grammar, with their gold word links."""

    grammar: str | None
    """Path of the grammar file; None for the German-English grammar that ships with the package."""
    seed: int
    """Seed of the sentences that are drawn."""
    num_train: int
    num_valid: int
    num_test: int

    def __post_init__(self) -> None:
        # slots=True replaces the class, so super() without arguments would fail.
        DataConfig.__post_init__(self)
        _check_languages_differ(self)
        if self.grammar is not None:
            _check_not_empty("grammar", self.grammar)
        if self.seed < 0:
            raise ValueError(f"data.seed={self.seed} must be at least 0")
        check_positive("data", self, "num_train", "num_valid", "num_test")


@dataclass(kw_only=True, slots=True)
class Multi30kConfig(DataConfig):
    """Multi30k: image captions in English, German, French and Czech."""

    root: str
    """Directory of the files; missing files are downloaded into it."""
    base_url: str
    """Address of the directory that files are downloaded from."""
    test: str
    """Name of the test set."""

    def __post_init__(self) -> None:
        DataConfig.__post_init__(self)
        _check_languages_differ(self)
        for key in ("root", "base_url", "test"):
            _check_not_empty(key, getattr(self, key))


@dataclass(kw_only=True, slots=True)
class FilesConfig(DataConfig):
    """The user's own text: [source file, target file] or [file of two columns], plain or .gz.

    Source and target may have the same language code, as in paraphrasing or copying.
    """

    train: list[str]
    valid: list[str]
    test: list[str] | None
    """None: the run has no test set."""
    # The default is also the value of checkpoints that were written before the key existed.
    allow_tabs: bool = False
    """Whether lines of a source or a target file may contain tabs."""

    def __post_init__(self) -> None:
        DataConfig.__post_init__(self)
        for key in ("train", "valid", "test"):
            paths = getattr(self, key)
            if paths is not None:
                self._check_paths(key, paths)

    def _check_paths(self, key: str, paths: list[str]) -> None:
        given = f"data.{key}=[{','.join(paths)}]"
        if len(paths) not in (1, 2) or not all(path.strip() for path in paths):
            raise ValueError(
                f"{given} must contain one or two paths; give a source and a target file, "
                f"data.{key}=[my/{key}.de,my/{key}.en], or one tab-separated file, "
                f"data.{key}=[my/{key}.tsv]"
            )
        tables = [path for path in paths if path.removesuffix(".gz").endswith(".tsv")]
        if len(paths) == 2 and tables and not self.allow_tabs:
            raise ValueError(
                f"{given}: {tables[0]} is a file of two columns, which is given alone: "
                f"data.{key}=[{tables[0]}]; join several with cat, or set data.allow_tabs=true to "
                "read each as one side"
            )
        if len(paths) == 2 and paths[0] == paths[1] and self.source != self.target:
            raise ValueError(
                f"{given} names one file twice, for data.source={self.source} and "
                f"data.target={self.target}; give two files, or equal languages to learn to copy"
            )


def _check_not_empty(key: str, value: str) -> None:
    if not value.strip():
        raise ValueError(f"data.{key}={value!r} must not be empty")


def _check_languages_differ(config: DataConfig) -> None:
    if config.source == config.target:
        raise ValueError(
            f"data.source={config.source} and data.target={config.target} must differ for "
            f"data={config.name}; give two language codes, such as data.source=de data.target=en"
        )
