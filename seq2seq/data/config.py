"""The data configurations: which parallel text to read and what to do with bad lines."""

from dataclasses import dataclass
from enum import Enum


class OnInvalid(Enum):
    """What happens to a pair that breaks a rule."""

    error = "error"
    """stop with a message that names the file and the line"""
    skip = "skip"
    """leave the pair out; one warning per corpus gives the count"""


@dataclass(kw_only=True, slots=True)
class DataConfig:
    """What every corpus has; `name` says which kind it is.

    The fields from `vocabulary_size` to `dropout` are what suits the corpus: tokenizer, model and
    training read them from here, so that choosing a corpus chooses them too.
    """

    name: str
    source: str
    """language code"""
    target: str
    """language code"""
    cache_dir: str
    """tokenizers and token ids are kept here"""
    vocabulary_size: int
    """tokens of the tokenizer"""
    max_epochs: int
    batch_tokens: int
    learning_rate: float
    dropout: float
    max_length: int
    """tokens a side, before the end of the sentence"""
    empty_lines: OnInvalid
    long_pairs: OnInvalid
    invalid_utf8: OnInvalid

    def __post_init__(self) -> None:
        for key in ("name", "source", "target", "cache_dir"):
            _check_not_empty(key, getattr(self, key))
        for key in ("vocabulary_size", "max_epochs", "max_length"):
            _check_at_least(key, getattr(self, key), minimum=1)
        if self.source == self.target:
            raise ValueError(
                f"data.source={self.source} and data.target={self.target} must differ; "
                "give two language codes, e.g. data.source=de data.target=en"
            )


@dataclass(kw_only=True, slots=True)
class GrammarConfig(DataConfig):
    """Pairs generated from a synchronous grammar, with their gold word links."""

    grammar: str | None
    """Path of the grammar file; None for the German-English grammar that ships with the package."""
    seed: int
    num_train: int
    num_valid: int
    num_test: int

    def __post_init__(self) -> None:
        # slots make dataclass rebuild the class, which breaks super() without arguments.
        DataConfig.__post_init__(self)
        if self.grammar is not None:
            _check_not_empty("grammar", self.grammar)
        _check_at_least("seed", self.seed, minimum=0)
        for key in ("num_train", "num_valid", "num_test"):
            _check_at_least(key, getattr(self, key), minimum=1)


@dataclass(kw_only=True, slots=True)
class Multi30kConfig(DataConfig):
    """Captions of photographs in English, German, French and Czech."""

    root: str
    """directory of the files; what is missing there is downloaded into it"""
    base_url: str
    """where the files are downloaded from"""
    test: str
    """name of the test set"""

    def __post_init__(self) -> None:
        DataConfig.__post_init__(self)
        for key in ("root", "base_url", "test"):
            _check_not_empty(key, getattr(self, key))


@dataclass(kw_only=True, slots=True)
class FilesConfig(DataConfig):
    """The user's own text: [source file, target file] or [file of two columns], plain or .gz."""

    train: list[str]
    valid: list[str]
    test: list[str]

    def __post_init__(self) -> None:
        DataConfig.__post_init__(self)
        for key, paths in (("train", self.train), ("valid", self.valid), ("test", self.test)):
            _check_paths(key, paths)


def _check_not_empty(key: str, value: str) -> None:
    if not value.strip():
        raise ValueError(f"data.{key}={value!r} must not be empty; give it on the command line")


def _check_at_least(key: str, value: int, *, minimum: int) -> None:
    if value < minimum:
        raise ValueError(f"data.{key}={value} must be at least {minimum}; give a larger number")


def _check_paths(key: str, paths: list[str]) -> None:
    rule = (
        "must hold one or two paths; give a source and a target file, "
        f"data.{key}=[my/{key}.de,my/{key}.en], or one tab-separated file, "
        f"data.{key}=[my/{key}.tsv]"
    )
    listed = ",".join(paths)
    if len(paths) not in (1, 2) or not all(path.strip() for path in paths):
        raise ValueError(f"data.{key}=[{listed}] {rule}")
    if len(paths) == 2 and paths[0] == paths[1]:
        raise ValueError(f"data.{key}=[{listed}] names one file twice; its two paths must differ")
