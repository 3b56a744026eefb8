"""Make a corpus from raw text, clean and split: `seq2seq-prepare input=[all.de,all.en]
output=my`."""

import contextlib
import logging
import pickle
import re
import shlex
import tempfile
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import InitVar, dataclass, field
from enum import Enum
from itertools import chain, islice
from pathlib import Path
from typing import IO, Annotated

from seq2seq.checks import counted, visible
from seq2seq.runtime.process import imports_in_one_line

with imports_in_one_line():
    import numpy as np
    import numpy.typing as npt
    from tqdm import tqdm

    from seq2seq.checks import Config, FilePath, FilePaths, Name, OneOf, Range
    from seq2seq.cli.command_line import run_command
    from seq2seq.config.composition import quote_value
    from seq2seq.data.bitexts import Row, read_bitext
    from seq2seq.data.memories import Languages
    from seq2seq.data.quality import (
        FAULTS,
        MARKUP,
        PairRules,
        clean,
        guess_language,
        hash_exactly,
        hash_text,
        oddness,
    )
    from seq2seq.files.atomic import create_file, whole_folder
    from seq2seq.files.paths import check_is_free, expand_home, expand_patterns, nearest_existing

logger = logging.getLogger(__name__)

_HELD_OUT, _MOST_HELD_OUT = 0.05, 1000
"""Default share of the pairs for each held-out set, and its maximum number of pairs."""
_TYPICAL = 10_000
"""Number of pairs, from all parts of the text, from which the rules learn what is typical."""
_MOST_UNDECODED = 0.2
"""Share of rows that are not UTF-8 above which the whole text has another encoding."""
_SPLIT = re.compile(
    r"\w [.,\u3001\u3002\uff0c](?: |\Z)|\w '(?:d|ll|m|re|s|t|ve)\b| @-@ |@@ |(?:\A| )\u2581\w"
)
_MOST_SPLIT = 0.2
"""The traces of a tokenizer, and the share of pairs with them above which they are named."""
_CHANGES = {
    **MARKUP,
    "breaks": "line breaks, which became spaces",
    "spaces": "unusual spaces, invisible characters or decomposed letters",
}
_FAULTS = list(FAULTS)
_KEEPABLE = ("header", "long", "ratio", "equal", "swapped", "language", "numbers", "duplicate")
_SETS, _DROPPED = ("train", "valid", "test"), "dropped.tsv"
_EXAMPLE = 32
"""Number of characters of an example."""
_LANGUAGE = re.compile(r"[^\W\d_][\w-]{0,39}")


class Markup(Enum):
    """The treatment of tags and entities of HTML."""

    remove = "remove"
    """Tags are removed, and entities become their characters."""
    keep = "keep"
    """Tags and entities stay, for example in the messages of programs, and so do texts that differ
    only in case or punctuation."""


@dataclass(kw_only=True, slots=True, repr=False)
class PrepareConfig(Config):
    """The configuration of the command."""

    input: FilePaths
    """A source and a target file, or files in .tsv, .csv, .jsonl, .xlsx, .ods, .tmx, .xlf, .xliff
    and .po; each may be compressed (.gz, .bz2, .xz, .zst). - is standard input."""
    output: FilePath | None
    """Directory to write the corpus to, new or empty. None only with `check`."""
    check: bool
    """Only report, and write nothing."""
    source: Name | None
    """Language of the sources; None: as two text files are named, or guessed from the text."""
    target: Name | None
    """Language of the targets; None: as for the sources."""
    columns: list[str]
    """Source and target column of a table, by number from 1 or by name."""
    valid: Annotated[int, Range(0)] | None
    """Number of pairs in the validation set; None: 5%, at most 1,000."""
    test: Annotated[int, Range(0)] | None
    """Number of pairs in the test set; None: 5%, at most 1,000."""
    markup: Markup
    keep: Annotated[list[str], OneOf(_KEEPABLE)]
    """Kinds of faulty pairs to keep, as a list; by default, all are dropped."""


class Spool:
    """The rows of a text in a file without a name, which disappears when the process ends."""

    def __init__(self, file: IO[bytes], rows: Iterable[Row]) -> None:
        """Write the rows to the file."""
        self._file = file
        self.num_rows = 0
        for row in tqdm(rows, desc="reading", unit=" pairs", disable=None):
            pickle.dump(tuple(row), file)
            self.num_rows += 1

    def rows(self, stop: int | None = None, *, task: str | None = None) -> Iterator[Row]:
        """Yield the rows before `stop`, with a progress bar if a task is named."""
        self._file.seek(0)
        numbers = range(self.num_rows if stop is None else stop)
        for _ in tqdm(numbers, desc=task, unit=" pairs", disable=None if task else True):
            yield Row(*pickle.load(self._file))

    def typical(self) -> list[Row]:
        """Return up to `_TYPICAL` rows from all parts of the text, without those that have a
        fault."""
        some = islice(self.rows(), 0, None, 1 + self.num_rows // _TYPICAL)
        return [row for row in some if row.fault is None]


@dataclass
class Judgement:
    """What is known of each row of a text, in 27 bytes."""

    num_rows: InitVar[int]
    faults: npt.NDArray[np.int8] = field(init=False)
    """Index in `_FAULTS`; -1 for a sound pair."""
    changes: npt.NDArray[np.uint8] = field(init=False)
    """Bit n is set for the n-th of `_CHANGES`."""
    hashes: npt.NDArray[np.int64] = field(init=False)
    """Hashes of the source and the target, which near duplicates share, and of the pair."""
    oddness: npt.NDArray[np.uint8] = field(init=False)

    def __post_init__(self, num_rows: int) -> None:
        self.faults = np.full(num_rows, -1, dtype=np.int8)
        self.changes, self.oddness = np.zeros((2, num_rows), dtype=np.uint8)
        self.hashes = np.zeros((3, num_rows), dtype=np.int64)


def main() -> None:
    """Run the command with the arguments of this process."""
    run_command("prepare", PrepareConfig, prepare)


def prepare(config: PrepareConfig) -> None:
    """Read pairs, clean them, drop the faulty ones, split the rest, and print what was done.

    Raises:
        ValueError: The text cannot be read or split, or the output exists.
        OSError: A file cannot be read or written.
    """
    folder = None if config.check else _output(config.output)
    languages = Languages(config.source, config.target)
    paths = [Path(path) for path in expand_patterns(config.input, key="input")]
    place = None if folder is None else nearest_existing(folder.parent)
    with tempfile.TemporaryFile(dir=place) as file:
        spool = Spool(file, read_bitext(paths, languages, columns=config.columns))
        if not spool.num_rows:
            raise ValueError(f"input={','.join(config.input)}: there is no text")
        source, target = _complete(languages, spool)
        pairs = counted(spool.num_rows, "pair")
        print(f"{pairs}, {source} to {target} (source= and target= set these)")
        rules = PairRules(source, target, frozenset(config.keep))
        judgement = judge(spool, rules, markup=config.markup)
        print("\n".join(_report(judgement, spool)) or "nothing to clean or drop")
        sets = split(judgement, valid=config.valid, test=config.test)
        if folder is not None:
            _write(folder, spool, judgement, sets, config.markup, (source, target))


def _output(output: str | None) -> Path:
    """Return the directory to write to; raise an error if it has content."""
    if output is None:
        raise ValueError("output needs a value; give output=DIRECTORY, or check=true for a report")
    folder = expand_home(output, key="output")
    check_is_free(folder, key="output")
    return folder


def _complete(languages: Languages, spool: Spool) -> tuple[str, str]:
    """Return the languages, those that are None guessed from the text."""
    rows = spool.typical()
    some = rows[:: 1 + len(rows) // 1000]
    found = (
        languages.source or guess_language(row.source for row in some) or "source",
        languages.target or guess_language(row.target for row in some) or "target",
    )
    for language in found:
        if not _LANGUAGE.fullmatch(language):
            raise ValueError(
                f"{visible(language)!r} cannot be a language, which ends the names of files; "
                "correct it in the file, or give source=CODE target=CODE"
            )
    return found


def _clean(row: Row, markup: Markup) -> tuple[str, str, int]:
    """Return both texts of a row after cleaning, and the bits of `Judgement.changes`."""
    sides = [clean(text, keeps_markup=markup is Markup.keep) for text in row[1:3]]
    (source, _), (target, _) = sides
    kinds = {kind for _, found in sides for kind in found}
    if any("\n" in text for text in row[1:3]):
        kinds.add("breaks")
    if not kinds and (source, target) != row[1:3]:
        kinds.add("spaces")
    return source, target, sum(1 << bit for bit, kind in enumerate(_CHANGES) if kind in kinds)


def judge(spool: Spool, rules: PairRules, *, markup: Markup) -> Judgement:
    """Find the fault of each row and the repetitions.

    Among near duplicates the most ordinary spelling stays; where markup stays, texts that differ
    only in case or punctuation are no duplicates.

    Args:
        spool: The rows.
        rules: Rules, which are fitted to the rows.
        markup: Treatment of markup.
    """
    pairs = [_clean(row, markup)[:2] for row in spool.typical()]
    rules.fit(pairs)
    num_split = sum(any(map(_SPLIT.search, pair)) for pair in pairs)
    if num_split > _MOST_SPLIT * len(pairs):
        logger.warning(
            '%.0f%% of the pairs seem to be split into tokens, as "it \'s", "dog .", "@@" or '
            '"▁dog"; join the tokens, because the model is to read ordinary text',
            100 * num_split / len(pairs),
        )
    judgement = Judgement(spool.num_rows)
    for index, row in enumerate(spool.rows(task="checking")):
        source, target, judgement.changes[index] = _clean(row, markup)
        fault = row.fault or rules.fault(source, target, is_first=row.is_first)
        if fault is not None:
            judgement.faults[index] = _FAULTS.index(fault)
            continue
        if row.is_first and rules.may_name_columns(source, target):
            logger.warning(
                "%s: %r and %r are read as a pair; if they name the columns, give columns=[%s,%s]",
                *(row.place, source, target, source, target),
            )
        pair = hash_exactly(f"{source}\0{target}")
        judgement.hashes[:, index] = hash_text(source), hash_text(target), pair
        judgement.oddness[index] = min(oddness(source) + oddness(target), 255)
    if "duplicate" not in rules.ignored:
        (rows,) = np.nonzero(judgement.faults < 0)
        keys = (
            judgement.hashes[:, rows][2:] if markup is Markup.keep else judgement.hashes[:2, rows]
        )
        order = np.lexsort((judgement.oddness[rows], *keys))
        repeats = (np.diff(keys[:, order], axis=1) == 0).all(axis=0)
        judgement.faults[rows[order[1:][repeats]]] = _FAULTS.index("duplicate")
    return judgement


def _report(judgement: Judgement, spool: Spool) -> Iterator[str]:
    """Yield each kind of cleaned and dropped pairs, with its count and first example."""
    is_kept = judgement.faults < 0
    kinds = [
        ("cleaned", text, is_kept & (judgement.changes >> bit & 1 == 1))
        for bit, text in enumerate(_CHANGES.values())
    ]
    kinds += [("dropped", FAULTS[name], judgement.faults == at) for at, name in enumerate(_FAULTS)]
    firsts = {int(rows.argmax()) for *_, rows in kinds if rows.any()}
    some = enumerate(spool.rows(max(firsts, default=-1) + 1))
    examples = {index: _example(row) for index, row in some if index in firsts}
    for what, text, rows in kinds:
        if rows.any():
            yield f"{what} {rows.sum():8,}  {text}\n{'':18}{examples[int(rows.argmax())]}"


def _example(row: Row) -> str:
    shown = (textwrap.shorten(text, _EXAMPLE, placeholder=" ...") for text in row[1:3])
    return visible(f"{Path(row.place).name}: {' | '.join(shown)}")


def split(judgement: Judgement, *, valid: int | None, test: int | None) -> npt.NDArray[np.int8]:
    """Split pairs into training, validation and test sets that share neither sources nor targets.

    A held-out pair has a source and a target that no other pair has, ignoring case, spaces and
    punctuation. A hash of the source chooses the held-out pairs, so adding text later moves hardly
    any pair from one set to another.

    Args:
        judgement: What is known of the rows.
        valid: Number of validation pairs; None: 5%, at most 1,000.
        test: Number of test pairs; None: 5%, at most 1,000.

    Returns:
        The index of the set of each row in `_SETS`; -1 for a dropped row.

    Raises:
        ValueError: No pair is left, or too few whose source and target no other pair has.
    """
    (rows,) = np.nonzero(judgement.faults < 0)
    undecoded = (judgement.faults == _FAULTS.index("encoding")).mean()
    if undecoded > _MOST_UNDECODED:
        raise ValueError(f"{undecoded:.0%} of the rows are not UTF-8; convert the whole text first")
    sides = judgement.hashes[:2, rows]
    is_free = np.ones(len(rows), dtype=np.bool_)
    for side in sides:
        _, places, counts = np.unique(side, return_inverse=True, return_counts=True)
        is_free &= counts[places] == 1
    default = min(_MOST_HELD_OUT, int(_HELD_OUT * len(rows)))
    sizes = [default if size is None else size for size in (valid, test)]
    num_free = int(is_free.sum())
    if sum(sizes) > num_free or sum(sizes) >= len(rows):
        raise ValueError(
            f"{counted(len(rows), 'pair')} left, {num_free:,} with a source and a target that no "
            f"other pair has: too few for valid={sizes[0]} and test={sizes[1]}; give lower "
            "numbers, or look at the faults above, and at columns= and keep="
        )
    held_out = rows[is_free][np.lexsort(sides[::-1, is_free])]
    sets = np.where(judgement.faults < 0, 0, -1).astype(np.int8)
    sets[held_out[: sizes[0]]] = 1
    sets[held_out[sizes[0] :][: sizes[1]]] = 2
    return sets


def _write(
    folder: Path,
    spool: Spool,
    judgement: Judgement,
    sets: npt.NDArray[np.int8],
    markup: Markup,
    languages: tuple[str, str],
) -> None:
    """Write all files or none, and print their names and the next command."""
    endings = languages if languages[0] != languages[1] else ("source", "target")
    sizes = {name: int((sets == index).sum()) for index, name in enumerate(_SETS)}
    names = {
        name: [f"{name}.{ending}" for ending in endings] for name, size in sizes.items() if size
    }
    spaces = str.maketrans("\t\r\n", "   ")
    with whole_folder(folder) as hidden, contextlib.ExitStack() as stack:
        files = {
            name: stack.enter_context(create_file(hidden / name, shown=folder / name))
            for name in chain(*names.values(), [_DROPPED])
        }
        for index, row in enumerate(spool.rows(task="writing")):
            if sets[index] < 0:
                cells = row.place, _FAULTS[judgement.faults[index]], *row[1:3]
                line = "\t".join(cell.translate(spaces) for cell in cells) + "\n"
                files[_DROPPED].write(line.encode("utf-8", "surrogateescape"))
                continue
            for name, text in zip(names[_SETS[sets[index]]], _clean(row, markup)[:2], strict=True):
                files[name].write(f"{text}\n".encode())
    paths = {name: [f"{folder}/{each}" for each in files] for name, files in names.items()}
    for name, written in paths.items():
        print(f"wrote {' and '.join(written)}: {counted(sizes[name], 'pair')}")
    print(f"wrote {folder}/{_DROPPED}: {counted(int((sets < 0).sum()), 'pair')}")
    keys = [f"data.{name}=[{','.join(map(_quoted, each))}]" for name, each in paths.items()]
    if languages[0] == languages[1]:
        keys += [f"data.source={languages[0]}", f"data.target={languages[1]}"]
    keys += [f"run_name={_quoted(folder.resolve().name)}", "training.max_minutes=30"]
    print(f"Next: {shlex.join(['python', 'train.py', 'experiment=best', 'data=files', *keys])}")


def _quoted(text: str) -> str:
    """Put quotes around a text of which Hydra might not read every character."""
    return text if re.fullmatch(r"(?!null\Z)[\w./-]+", text, re.ASCII) else quote_value(text)


if __name__ == "__main__":
    main()
