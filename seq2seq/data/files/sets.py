"""Read the values of data.train, data.valid and data.test: one corpus in files, or several."""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from seq2seq.checks import as_yaml
from seq2seq.data.tokenizers.config import check_symbol

# OmegaConf has no type for "a list or a dictionary"; `read_file_sets` checks the value.
if TYPE_CHECKING:
    FileSets = object
else:
    FileSets = Any

_KEYS = ("files", "weight", "tag")
_EXAMPLE = "{news: {files: [my/a.de,my/a.en], weight: 2}, talks: [my/b.tsv]}"


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
