"""Configurations of parallel corpora."""

import math
from dataclasses import dataclass
from enum import Enum

from seq2seq.checks import check_not_negative, check_positive
from seq2seq.data.files.sets import FileSet, FileSets, read_file_sets


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
        check_not_negative("data", self, "seed")
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
    """The user's own text, plain or .gz: one corpus or several, as `read_file_sets` reads them.

    Source and target may have the same language code, as in paraphrasing or copying.
    """

    train: FileSets
    valid: FileSets
    test: FileSets
    """None: the run has no test set."""
    # Defaults are also the values of checkpoints that were written before the keys existed.
    root: str = "."
    """Directory that relative paths start from."""
    temperature: float = 1.0
    """Above 1, an epoch takes more of small corpora: n pairs count as n ** (1 / temperature)."""
    allow_tabs: bool = False
    """Whether lines of a source or a target file may contain tabs."""

    def __post_init__(self) -> None:
        DataConfig.__post_init__(self)
        _check_not_empty("root", self.root)
        for each in (*self.train_sets(), *self.valid_sets(), *self.test_sets()):
            self._check_paths(each)
        if not 1 <= self.temperature < math.inf:
            raise ValueError(f"data.temperature={self.temperature} must be a number of at least 1")
        if self.temperature != 1 and len(self.train_sets()) == 1:
            raise ValueError(
                f"data.temperature={self.temperature} mixes several corpora, but data.train is one"
            )

    def train_sets(self) -> list[FileSet]:
        """Return the training corpora."""
        return read_file_sets("data.train", self.train)

    def valid_sets(self) -> list[FileSet]:
        """Return the validation sets; the first one chooses the best checkpoint."""
        return _without_weights(read_file_sets("data.valid", self.valid))

    def test_sets(self) -> list[FileSet]:
        """Return the test set, if there is one."""
        if self.test is None:
            return []
        sets = read_file_sets("data.test", self.test)
        if len(sets) > 1:
            raise ValueError(
                f"data.test names {len(sets)} sets, but a run scores one; translate the others "
                "and score them with python -m seq2seq.cli.score"
            )
        return _without_weights(sets)

    def _check_paths(self, files: FileSet) -> None:
        key, paths = files.key, files.paths
        given = f"{key}=[{','.join(paths)}]"
        example = "my/" + key.split(".")[1]
        if len(paths) not in (1, 2) or not all(path.strip() for path in paths):
            raise ValueError(
                f"{given} must contain one or two paths; give a source and a target file, "
                f"{key}=[{example}.de,{example}.en], or one tab-separated file, "
                f"{key}=[{example}.tsv]"
            )
        tables = [path for path in paths if path.removesuffix(".gz").endswith(".tsv")]
        if len(paths) == 2 and tables and not self.allow_tabs:
            raise ValueError(
                f"{given}: {tables[0]} is a file of two columns, which is given alone: "
                f"{key}=[{tables[0]}]; give several as {key}=[[a.tsv],[b.tsv]], or set "
                "data.allow_tabs=true to read each as one side"
            )
        if len(paths) == 2 and paths[0] == paths[1] and self.source != self.target:
            raise ValueError(
                f"{given} names one file twice, for data.source={self.source} and "
                f"data.target={self.target}; give two files, or equal languages to learn to copy"
            )


def _without_weights(sets: list[FileSet]) -> list[FileSet]:
    for each in sets:
        if each.weight != 1:
            raise ValueError(f"{each.key}.weight={each.weight}: only data.train has weights")
    return sets


def _check_not_empty(key: str, value: str) -> None:
    if not value.strip():
        raise ValueError(f"data.{key}={value!r} must not be empty")


def _check_languages_differ(config: DataConfig) -> None:
    if config.source == config.target:
        raise ValueError(
            f"data.source={config.source} and data.target={config.target} must differ for "
            f"data={config.name}; give two language codes, such as data.source=de data.target=en"
        )
