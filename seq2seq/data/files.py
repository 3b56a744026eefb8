"""The corpora of `data=files`: text files of the user, checked, read and joined."""

import hashlib
import logging
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from seq2seq.checks import counted
from seq2seq.data.config import DataConfig, FilesConfig, FileSet, read_file_sets
from seq2seq.data.corpus import Corpora, Corpus, Pair, register_data, sha256
from seq2seq.files.links import GoldLinks, check_links, parse_links
from seq2seq.files.paths import expand_home, file_sha256
from seq2seq.files.text import (
    MAX_LINE,
    check_is_plain,
    check_length,
    count_lines,
    decode_line,
    is_gzip,
    open_text,
    unpacked_name,
)
from seq2seq.text.rules import is_blank, split_words

logger = logging.getLogger(__name__)

_LANGUAGE = re.compile("(?!src|tgt|trg|txt|tsv|csv|ref|hyp|tok|raw)[a-z]{2,3}([-_][A-Za-z0-9]+)*")
"""Pattern of a language code, such as de, deu or zh-Hant, but not of a usual file extension."""
_OTHER_TABLES = (
    "for tables with other columns and for formats such as .csv, .tmx, .xlf and .po, use "
    "seq2seq-prepare"
)


def check_files(name: str, paths: Sequence[Path]) -> int:
    """Return the number of lines of each file of a corpus.

    Args:
        name: Name of the corpus, as in `Corpus.name`.
        paths: The files, as `read_files` takes them.

    Raises:
        OSError: A file cannot be read.
        ValueError: A file is damaged, UTF-16 or not plain text, or the numbers of lines differ.
    """
    for path in paths:
        path.stat()
        if not path.is_file():
            raise ValueError(
                f"data.{name}={path} is not a regular file; it is read more than once, so give a "
                "file"
            )
    counts = [count_lines(path, name=f"data.{name}={path}") for path in paths]
    for path, count in zip(paths, counts, strict=True):
        if count != counts[0]:
            raise ValueError(
                f"data.{name}={paths[0]}: {counted(counts[0], 'line')} but {path} has {count}; "
                "a parallel corpus needs one line per sentence in each file"
            )
    return counts[0]


def check_same_order(train: Sequence[FileSet], to_score: Sequence[FileSet]) -> None:
    """Check that the files to score name source and target in the same order as the training files.

    The differing parts of two names tell which language is the source: de and en for [a.de,a.en]
    and for [a.de.txt,a.en.txt]. A single file with two columns is not checked.

    Raises:
        ValueError: A set to score goes from en to de, but training goes only from de to en.
    """
    directions = {_direction(files): files for files in train}
    for files in to_score:
        direction = source, target = _direction(files)
        opposite = directions.get((target, source))
        if opposite is not None and direction not in directions:
            raise ValueError(
                f"{files} goes from {source} to {target}, but {opposite} from {target} to {source};"
                " give the source first in both, or rename the files if their names are wrong"
            )


def _direction(files: FileSet) -> tuple[str, str]:
    """Return the parts, such as de and en, that only one of two file names has; "" if unknown."""
    source, target = (
        unpacked_name(Path(path)).split(".")[1:] for path in (files.paths[0], files.paths[:2][-1])
    )
    only_source, only_target = (
        ".".join(part for part in names if part not in others)
        for names, others in ((source, target), (target, source))
    )
    return (only_source, only_target) if only_source and only_target else ("", "")


def languages_of_files(*values: object) -> dict[str, str]:
    """Return the language codes that the names of all source and of all target files end in.

    A side whose names end in no code, or in several, is called "source" or "target".

    Args:
        values: Values of `data.train`, `data.valid` and `data.test`; see `read_file_sets`.

    Raises:
        ValueError: A value has a different form.

    Example:
        >>> languages_of_files(["a.de.gz", "a.en.gz"], ["b.de", "b.en"], ["c.tsv"])
        {'source': 'de', 'target': 'en'}
        >>> languages_of_files({"one": ["a.de", "a.en"], "two": ["a.fr", "a.en"]})
        {'source': 'source', 'target': 'en'}
    """
    sets = [each for value in values for each in read_file_sets("data", value)]
    found = {}
    for side, name in enumerate(("source", "target")):
        endings = {_direction(each)[side].split(".")[-1] for each in sets}
        codes = list(filter(_LANGUAGE.fullmatch, endings))
        found[name] = codes[0] if len(codes) == 1 else name
    return found


def language_pairs(config: DataConfig) -> dict[tuple[str, str], str | None]:
    """Return the source and target languages that a model is trained on, with the tag to add.

    A pair of languages that also has sources without a tag needs no tag. Its tags mark kinds of
    text, such as back-translations.

    Raises:
        ValueError: Nothing tells the model which of several target languages to write.
    """
    if not isinstance(config, FilesConfig):
        return {(config.source, config.target): None}
    tags: dict[tuple[str, str], set[str | None]] = {}
    for each in config.train_sets():
        own = languages_of_files(list(each.paths))
        source = own["source"] if config.source == "source" else config.source
        target = own["target"] if config.target == "target" else config.target
        tags.setdefault((source, target), set()).add(each.tag)
    found = {pair: None if None in each else next(iter(each)) for pair, each in tags.items()}
    for pair, own_tags in tags.items():
        others = [each for each in found if each[0] == pair[0] and each != pair]
        if (None not in own_tags and len(own_tags) > 1) or (others and found[pair] is None):
            raise ValueError(
                f"the training corpora do not tell the target languages of {pair[0]} apart; give "
                "each language one tag and its own file names, such as a.de and a.fr"
            )
    return found


def join(name: str, parts: Sequence[tuple[Corpus, str | None]]) -> Corpus:
    """Join several corpora, one after the other, into one corpus.

    Args:
        name: Name of the joined corpus.
        parts: The corpora, each with the tag that is put before its sources, or None.
    """

    def lines() -> Iterator[Pair | None]:
        for index, (corpus, tag) in enumerate(parts):
            for pair in corpus.lines():
                yield pair and _tagged(pair, tag)._replace(part=index)

    return Corpus(
        name=name,
        num_lines=sum(corpus.num_lines for corpus, _ in parts),
        parts=tuple((corpus.path or corpus.name, corpus.num_lines) for corpus, _ in parts),
        fingerprint=sha256([[corpus.fingerprint, tag] for corpus, tag in parts]),
        lines=lines,
    )


def _tagged(pair: Pair, tag: str | None) -> Pair:
    """Return the pair with the tag as the first word of the source."""
    if tag is None:
        return pair
    links = pair.links and GoldLinks(
        *(frozenset((i + 1, j) for i, j in each) for each in pair.links)
    )
    return pair._replace(source=f"{tag} {pair.source}", links=links)


@register_data(FilesConfig, "files")
def load_files(config: FilesConfig) -> Corpora:
    """Open the files of the configuration as corpora.

    Raises:
        ValueError: The names of the files to score and of the training files suggest opposite
            directions, or a file is damaged.
        OSError: A file cannot be read.
    """
    first, *others = config.valid_sets()
    check_same_order(config.train_sets(), [first, *others, *config.test_sets()])
    corpora = Corpora(
        train=_load(config, "train", config.train_sets()),
        valid=_load(config, "valid", [first]),
        test=_load(config, "test", config.test_sets()) if config.test_sets() else None,
        other_valid={each.name: _load(config, f"valid.{each.name}", [each]) for each in others},
    )
    logger.info(
        "languages: %s to %s; data.source and data.target set them", config.source, config.target
    )
    return corpora


def _load(config: FilesConfig, name: str, sets: Sequence[FileSet]) -> Corpus:
    """Open the corpora of a key; several are joined."""
    parts = [(_open(config, each), each.tag) for each in sets]
    if len(parts) == 1 and sets[0].tag is None:
        return parts[0][0]
    return join(name, parts)


def _open(config: FilesConfig, files: FileSet) -> Corpus:
    root = expand_home(config.root, key="data.root")
    paths = [root / expand_home(path, key=files.key) for path in files.paths]
    if len({path.resolve() for path in paths[:2]}) < len(paths[:2]) and (
        config.source != config.target
    ):
        raise ValueError(
            f"{files} is both source and target; give two files or, to learn to copy, set "
            "data.source and data.target to the same language"
        )
    return read_files(
        files.key.removeprefix("data."),
        paths=paths,
        skips_invalid=files.key.startswith("data.train"),
    )


def read_files(name: str, *, paths: Sequence[Path], skips_invalid: bool = False) -> Corpus:
    r"""Return the pairs of a source and a target file, or of one file of tab-separated columns.

    A third file or column contains gold links; see `parse_links`. Files are UTF-8 text, plain or
    gzipped (.gz). Lines end at `\n` or `\r\n` only; a byte order mark at the start of a file is
    removed, and lines of white space count as empty.

    Args:
        name: Name of the corpus, as in `Corpus.name`.
        paths: A source file, a target file and perhaps a file of gold links; or one file with
            these columns, separated by tabs.
        skips_invalid: Skip pairs with an empty side, and pairs that are not UTF-8, as in training.
            Otherwise they are errors, because scores are for all pairs.

    Raises:
        OSError: A file cannot be read.
        ValueError: A file is damaged or UTF-16, or the numbers of lines differ.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> folder = TemporaryDirectory()
        >>> path = Path(folder.name, "pairs.tsv")
        >>> _ = path.write_text("ein Hund\ta dog\nzwei\ttwo\n")
        >>> corpus = read_files("train", paths=[path])
        >>> [(pair.source, pair.target) for pair in corpus]
        [('ein Hund', 'a dog'), ('zwei', 'two')]
        >>> folder.cleanup()
    """
    for path in paths[:2] if len(paths) > 1 else ():
        check_is_plain(path, name=f"data.{name}={path}")
    num_lines = check_files(name, paths)
    parts = [f"{is_gzip(path)} {file_sha256(path)}" for path in paths]
    return Corpus(
        name=name,
        num_lines=num_lines,
        fingerprint=hashlib.sha256("\n".join(parts).encode()).hexdigest(),
        lines=_Reader(name, paths, skips_invalid).lines,
        path=str(paths[0]),
    )


@dataclass
class _Reader:
    """Reader of the pairs of files, with the arguments of `read_files`."""

    name: str
    paths: Sequence[Path]
    skips_invalid: bool
    num_columns: int = 0
    """Number of sides in a line; 0 before the first line is read."""

    def lines(self) -> Iterator[Pair | None]:
        rows = zip(*(_read_lines(path) for path in self.paths), strict=True)
        for number, lines in enumerate(rows, start=1):
            try:
                pair = self._parse(lines, number=number)
            except _InvalidPairError:
                if not self.skips_invalid:
                    raise
                pair = None
            yield pair

    def _parse(self, lines: Sequence[bytes], *, number: int) -> Pair:
        sides = [
            _decode(line, path=path, number=number)
            for line, path in zip(lines, self.paths, strict=True)
        ]
        if len(sides) == 1 and sides[0].strip():
            sides = sides[0].split("\t")
            self.num_columns = self.num_columns or len(sides)
            if len(sides) not in (2, 3) or len(sides) != self.num_columns:
                raise ValueError(
                    f"{self.paths[0]}:{number}: {len(sides) - 1} tabs; every line needs "
                    "one, between source and target, or every line two, the second before gold "
                    f"links; or give one file for each side: [a.de,a.en]; {_OTHER_TABLES}"
                )
        for side, text, path in zip(
            ("source", "target"), sides, (self.paths[0], self.paths[:2][-1]), strict=False
        ):
            if is_blank(text):
                raise _InvalidPairError(
                    f"{path}:{number}: the {side} is empty; correct it, or remove the line from "
                    "each file"
                )
            if "\t" in text and number == 1 and len(self.paths) > 1:
                raise ValueError(
                    f"{path}:1: the {side} has a tab; give a tab-separated file alone, "
                    f"data.{self.name}=[{path}], or replace the tab with a space"
                )
        source, target, *texts = sides
        if not texts:
            return Pair(source=source, target=target)
        kind = "gold links" if self.paths[1:] else "the third column, gold links"
        where = f"{self.paths[-1]}:{number}: {kind}"
        links = parse_links(texts[0], where=where)
        check_links(links, len(split_words(source)), len(split_words(target)), where=where)
        return Pair(source=source, target=target, links=links)


class _InvalidPairError(ValueError):
    """A pair that is skipped in training."""


def _read_lines(path: Path) -> Iterator[bytes]:
    with open_text(path) as file:
        number = 0
        while line := file.readline(MAX_LINE + 1):
            number += 1
            size = len(line.removesuffix(b"\n"))
            check_length(size, most=MAX_LINE, name=path, number=number)
            yield line


def _decode(line: bytes, *, path: Path, number: int) -> str:
    try:
        return decode_line(line, number=number)
    except UnicodeDecodeError as error:
        raise _InvalidPairError(
            f"{path}:{number}: byte {error.start + 1} of the line, 0x{line[error.start]:02x}, "
            "is not UTF-8 (if the whole file has another encoding, convert it: "
            f"iconv -f CP1252 -t UTF-8 {path} > {path}.utf8); correct it"
        ) from error
