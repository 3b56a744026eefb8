"""Read parallel text from a file per language or one file of two columns, plain or gzipped."""

import hashlib
import logging
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

from seq2seq.data.config import FilesConfig, OnInvalid
from seq2seq.data.corpus import Corpora, Pair, load_corpora
from seq2seq.files.paths import check_readable, expand_home
from seq2seq.files.text import decode_line, is_gzip, open_text

logger = logging.getLogger(__name__)

_CHUNK_SIZE = 1 << 20
"""Bytes."""
_INVALID_KINDS = {"empty_lines": "with an empty side", "invalid_utf8": "that are not UTF-8"}


@load_corpora.register
def load_files(config: FilesConfig) -> Corpora:
    """Open the files of the configuration as corpora."""
    train, valid, test = (
        TextFilesCorpus(
            name,
            paths=[expand_home(path, key=f"data.{name}") for path in paths],
            empty_lines=config.empty_lines,
            invalid_utf8=config.invalid_utf8,
        )
        for name, paths in (
            ("train", config.train),
            ("valid", config.valid),
            ("test", config.test),
        )
    )
    return Corpora(train=train, valid=valid, test=test)


class TextFilesCorpus:
    r"""Pairs from a source and a target file, or from one file of two tab-separated columns.

    Files are UTF-8 text, plain or gzipped (.gz). Lines end at `\n` or `\r\n` only; a byte order
    mark at the start of a file is removed, and lines of white space count as empty.

    Example:
        >>> from tempfile import TemporaryDirectory
        >>> folder = TemporaryDirectory()
        >>> path = Path(folder.name, "pairs.tsv")
        >>> _ = path.write_text("ein Hund\ta dog\nzwei\ttwo\n")
        >>> corpus = TextFilesCorpus(
        ...     "train", paths=[path], empty_lines=OnInvalid.skip, invalid_utf8=OnInvalid.error
        ... )
        >>> [(pair.source, pair.target) for pair in corpus]
        [('ein Hund', 'a dog'), ('zwei', 'two')]
        >>> folder.cleanup()
    """

    def __init__(
        self,
        name: str,
        *,
        paths: Sequence[Path],
        empty_lines: OnInvalid,
        invalid_utf8: OnInvalid,
    ) -> None:
        """Check that the files exist and have equally many lines.

        Args:
            name: "train", "valid" or "test".
            paths: A source and a target file, or one file with a tab between the two.
            empty_lines: Treatment of pairs with an empty side.
            invalid_utf8: Treatment of pairs that are not UTF-8.

        Raises:
            OSError: A file cannot be read.
            ValueError: A file is empty or damaged, or the numbers of lines differ.
        """
        self.name = name
        self._paths = tuple(paths)
        self._on_invalid = {"empty_lines": empty_lines, "invalid_utf8": invalid_utf8}
        self._fingerprint = ""
        self._reported = False
        self._num_lines = _check_files(name, self._paths)

    @property
    def num_lines(self) -> int:
        return self._num_lines

    @property
    def fingerprint(self) -> str:
        if not self._fingerprint:
            parts = [f"{is_gzip(path)} {file_sha256(path)}" for path in self._paths]
            parts += [f"{key}={choice.name}" for key, choice in self._on_invalid.items()]
            self._fingerprint = hashlib.sha256("\n".join(parts).encode()).hexdigest()
        return self._fingerprint

    def __iter__(self) -> Iterator[Pair]:
        return (pair for pair in self.lines() if pair is not None)

    def lines(self) -> Iterator[Pair | None]:
        """Yield the pair of each line, or None for a skipped line."""
        num_skipped: Counter[str] = Counter()
        num_pairs = 0
        rows = zip(*(_read_lines(path) for path in self._paths), strict=True)
        for number, lines in enumerate(rows, start=1):
            try:
                pair = _parse(lines, paths=self._paths, number=number)
            except _InvalidPairError as invalid:
                if self._on_invalid[invalid.key] is OnInvalid.error:
                    raise ValueError(str(invalid)) from invalid
                num_skipped[invalid.key] += 1
                yield None
                continue
            num_pairs += 1
            yield pair
        self._report(num_skipped, num_pairs=num_pairs)

    def _report(self, num_skipped: Counter[str], *, num_pairs: int) -> None:
        label = f"data.{self.name}={','.join(map(str, self._paths))}"
        if num_pairs == 0:
            raise ValueError(
                f"{label}: all {num_skipped.total()} pairs were skipped; "
                "check that the files contain UTF-8 text on both sides"
            )
        if self._reported:
            return
        self._reported = True
        for key, count in num_skipped.items():
            logger.warning(
                "%s: skipped %d of %d pairs %s (data.%s=skip)",
                label,
                count,
                num_pairs + num_skipped.total(),
                _INVALID_KINDS[key],
                key,
            )


def file_sha256(path: Path) -> str:
    """Return the SHA-256 of a file, in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_SIZE):
            digest.update(chunk)
    return digest.hexdigest()


class _InvalidPairError(Exception):
    """A pair that breaks the rule of a configuration key."""

    def __init__(self, message: str, *, key: str) -> None:
        super().__init__(f"{message}; correct it, or set data.{key}=skip to skip such pairs")
        self.key = key


def _check_files(name: str, paths: Sequence[Path]) -> int:
    """Return the number of lines of each file; raise ValueError if it differs."""
    for path in paths:
        check_readable(path, name=f"data.{name}={path}")
        if not path.is_file():
            raise ValueError(
                f"data.{name}={path} is not a regular file; give a file that can be read again"
            )
    counts = [_count_lines(path) for path in paths]
    if 0 in counts:
        raise ValueError(f"data.{name}={paths[counts.index(0)]}: the file is empty")
    if len(set(counts)) > 1:
        raise ValueError(
            f"data.{name}={paths[0]}: {counts[0]} lines but {paths[1]} has {counts[1]}; "
            "a parallel corpus needs one line per sentence in both files"
        )
    return counts[0]


def _count_lines(path: Path) -> int:
    """Return the number of lines; splitting the text into lines would take ten times as long."""
    num_ends, last = 0, b"\n"
    with open_text(path) as file:
        while chunk := file.read(_CHUNK_SIZE):
            num_ends += chunk.count(b"\n")
            last = chunk
    return num_ends + (not last.endswith(b"\n"))


def _read_lines(path: Path) -> Iterator[bytes]:
    with open_text(path) as file:
        yield from file


def _parse(lines: Sequence[bytes], *, paths: Sequence[Path], number: int) -> Pair:
    sides = [
        _decode(line, path=path, number=number) for line, path in zip(lines, paths, strict=True)
    ]
    if len(sides) == 1 and sides[0].strip():
        sides = sides[0].split("\t")
        if len(sides) != 2:
            raise ValueError(
                f"{paths[0]}:{number}: {len(sides) - 1} tabs; a line needs one, between source "
                "and target, or give a file of each: [a.de,a.en]"
            )
    for side, text in zip(("source", "target"), sides, strict=False):
        if not text.strip():
            path = paths[-1] if side == "target" else paths[0]
            raise _InvalidPairError(f"{path}:{number}: the {side} is empty", key="empty_lines")
    source, target = sides
    return Pair(source=source, target=target, links=None)


def _decode(line: bytes, *, path: Path, number: int) -> str:
    try:
        return decode_line(line, number=number)
    except UnicodeDecodeError as error:
        raise _InvalidPairError(
            f"{path}:{number}: byte {error.start + 1} of the line, 0x{line[error.start]:02x}, "
            "is not UTF-8",
            key="invalid_utf8",
        ) from error
