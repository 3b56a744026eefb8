"""Configurations of parallel corpora, and the corpora in files that they name."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

from seq2seq.checks import (
    Config,
    Count,
    FilePath,
    Mark,
    Name,
    Positive,
    Probability,
    Range,
    VocabularySize,
    as_yaml,
)
from seq2seq.data.tokenizers.config import check_symbol

# OmegaConf has no type for "a list or a dictionary"; `read_file_sets` checks the value.
if TYPE_CHECKING:
    FileSets = object
else:
    FileSets = Any

_KEYS = ("files", "weight", "tag")
_EXAMPLE = "{news: {files: [my/a.de,my/a.en], weight: 2}, talks: [my/b.tsv]}"


class OnInvalid(Enum):
    """Treatment of pairs that break a rule."""

    error = "error"
    """Stop with a message that names the file and the line."""
    skip = "skip"
    """Skip the pair; one warning for each corpus counts them."""


@dataclass(kw_only=True, slots=True, repr=False)
class DataConfig(Config, section="data", marks=(Mark.named,)):
    """Configuration that all kinds of corpora share.

    The fields from `vocabulary_size` to `dropout` are values that suit the corpus: the
    configurations of tokenizer, model and training read them unless they are given there.
    """

    name: Name
    """Kind of corpus: "files", "grammar" or "multi30k"."""
    source: Name
    """Language code of the source."""
    target: Annotated[Name, Mark.named, Mark.scores]
    """Language code of the target."""
    cache_dir: Annotated[FilePath, Mark.free, Mark.machine]
    """Directory of tokenizers and token ids."""
    # A resumed run compares the keys that refer to these five.
    vocabulary_size: Annotated[VocabularySize, Mark.free]
    """Number of tokens."""
    max_epochs: Annotated[Count, Mark.free]
    """Number of passes over the training text."""
    batch_tokens: Annotated[Count, Mark.free]
    """Target tokens per batch."""
    learning_rate: Annotated[Positive, Mark.free]
    """Highest learning rate."""
    dropout: Annotated[Probability, Mark.free]
    """Dropout of encoder and decoder."""
    max_length: Count
    """Maximum number of tokens on a side, without EOS."""
    empty_lines: OnInvalid
    """Treatment of pairs with an empty side."""
    long_pairs: OnInvalid
    """Treatment of pairs longer than `max_length`."""
    invalid_utf8: OnInvalid
    """Treatment of pairs that are not UTF-8."""


@dataclass(kw_only=True, slots=True, repr=False)
class GrammarConfig(DataConfig):
    """Pairs generated from a synchronous grammar, with their gold word links."""

    grammar: FilePath | None
    """Path of the grammar file; None for the German-English grammar that ships with the package."""
    seed: Annotated[int, Range(0)]
    """Seed of the sentences that are drawn."""
    num_train: Count
    """Number of training pairs."""
    num_valid: Count
    """Number of validation pairs."""
    num_test: Count
    """Number of test pairs."""

    def __post_init__(self) -> None:
        # slots=True replaces the class, so super() without arguments would fail.
        DataConfig.__post_init__(self)
        _check_languages_differ(self)


@dataclass(kw_only=True, slots=True, repr=False)
class Multi30kConfig(DataConfig):
    """Multi30k: image captions in English, German, French and Czech."""

    root: Annotated[FilePath, Mark.free, Mark.machine]
    """Directory of the files; missing files are downloaded into it."""
    base_url: Annotated[Name, Mark.free]
    """Address of the directory that files are downloaded from."""
    test: Annotated[Name, Mark.free]
    """Name of the test set."""

    def __post_init__(self) -> None:
        DataConfig.__post_init__(self)
        _check_languages_differ(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class FileSet:
    """A parallel corpus in files."""

    key: str
    """Key of the corpus in messages: "data.train", or "data.train.news" if it is one of several."""
    name: str
    """Name of the corpus; "" if it is the only one."""
    paths: tuple[str, ...]
    """A source and a target file, or one file of two columns."""
    weight: float = 1.0
    """Factor of the corpus's share of an epoch; see `mix`."""
    tag: str | None = None
    """Symbol that is put before each source."""


@dataclass(kw_only=True, slots=True, repr=False)
class FilesConfig(DataConfig):
    """The user's own text, plain or .gz: one corpus or several, as `read_file_sets` reads them.

    Source and target may have the same language code, as in paraphrasing or copying.
    """

    train: Annotated[FileSets, Mark.named, Mark.data]
    """Training files."""
    valid: FileSets
    """Validation files."""
    test: Annotated[FileSets, Mark.free]
    """None: the run has no test set."""
    # Off, or the usual value, unless they are given.
    root: Annotated[FilePath, Mark.free, Mark.machine] = "."
    """Directory that relative paths start from."""
    temperature: Annotated[float, Range(1)] = 1.0
    """Above 1, an epoch takes more of small corpora: n pairs count as n ** (1 / temperature)."""
    allow_tabs: Annotated[bool, Mark.free] = False
    """Whether lines of a source or a target file may contain tabs."""

    def __post_init__(self) -> None:
        DataConfig.__post_init__(self)
        for each in (*self.train_sets(), *self.valid_sets(), *self.test_sets()):
            self._check_paths(each)
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


def _check_languages_differ(config: DataConfig) -> None:
    if config.source == config.target:
        raise ValueError(
            f"data.source={config.source} and data.target={config.target} must differ for "
            f"data={config.name}; give two language codes, such as data.source=de data.target=en"
        )


def read_file_sets(key: str, value: object) -> list[FileSet]:
    """Read one corpus or several from the value of a key.

    A corpus is a list of one or two paths, or a dictionary of `files`, `weight` and `tag`. Several
    are a dictionary of named corpora, or a list of corpora, whose names are their numbers.

    Args:
        key: The key, for messages.
        value: Its value, of lists, dictionaries and plain values.

    Raises:
        ValueError: The value has another form.

    Example:
        >>> [each] = read_file_sets("data.train", ["a.de", "a.en"])
        >>> each.paths
        ('a.de', 'a.en')
        >>> sets = read_file_sets("data.train", {"news": {"files": ["a.tsv"], "tag": "<2de>"}})
        >>> sets[0].name, sets[0].tag
        ('news', '<2de>')
    """
    if _is_corpus(value):
        return [_read(key, "", value)]
    if isinstance(value, Mapping):
        named = [(str(name), entry) for name, entry in value.items()]
    elif isinstance(value, Sequence) and not isinstance(value, str):
        named = [(str(number), entry) for number, entry in enumerate(value, start=1)]
    else:
        raise ValueError(
            f"{key}={as_yaml(value)} must be a list; write it in brackets, '{key}=[...]'"
        )
    if not named:
        raise ValueError(f"{key}={value} names no corpus; give one, '{key}={_EXAMPLE}'")
    sets = []
    for name, entry in named:
        if not is_set_name(name):
            raise ValueError(
                f"{key}: {name!r} is no name of a corpus; use letters, digits, '.', '_' and '-'"
            )
        if not _is_corpus(entry):
            raise ValueError(
                f"{key}.{name}={as_yaml(entry)} is no corpus; give a list of one or two paths, or "
                f"several corpora, '{key}={_EXAMPLE}'"
            )
        sets.append(_read(f"{key}.{name}", name, entry))
    return sets


def is_set_name(name: str) -> bool:
    """Return whether a corpus may have a name, which is part of the names of files."""
    return re.fullmatch(r"[\w.-]+", name) is not None


def _is_corpus(value: object) -> bool:
    if isinstance(value, Mapping):
        return "files" in value
    if isinstance(value, str) or not isinstance(value, Sequence):
        return False
    return all(isinstance(each, str) for each in value)


def _read(key: str, name: str, value: object) -> FileSet:
    if isinstance(value, Sequence):
        return FileSet(key=key, name=name, paths=tuple(value))
    assert isinstance(value, Mapping)
    unknown = sorted(str(each) for each in value if each not in _KEYS)
    if unknown:
        raise ValueError(f"unknown key '{key}.{unknown[0]}'; one of: {', '.join(_KEYS)}")
    files = value["files"]
    if isinstance(files, Mapping) or not _is_corpus(files):
        raise ValueError(f"{key}.files={files} must be a list of one or two paths")
    weight, tag = value.get("weight", 1.0), value.get("tag")
    if isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 < weight < math.inf:
        shown = repr(weight) if isinstance(weight, str) else as_yaml(weight)
        raise ValueError(f"{key}.weight={shown} must be a number above 0")
    if tag is not None:
        if not isinstance(tag, str):
            raise ValueError(f"{key}.tag={as_yaml(tag)} must be a text, such as '<2de>'")
        check_symbol(tag, key=f"{key}.tag")
    return FileSet(key=key, name=name, paths=tuple(files), weight=float(weight), tag=tag)
