"""Make a corpus from raw text, clean and split: `seq2seq-prepare input=[all.de,all.en]
output=my`."""

import shlex
import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Annotated, NamedTuple

from seq2seq.checks import counted, visible
from seq2seq.runtime.process import imports_in_one_line

with imports_in_one_line():
    from seq2seq.checks import Config, Count, FilePath, FilePaths, Name, Range
    from seq2seq.cli.command_line import run_command
    from seq2seq.data.bitexts import Row, read_bitext
    from seq2seq.data.quality import FAULTS, MARKUP, PairRules, clean, guess_language, hash_text
    from seq2seq.files.atomic import whole_files
    from seq2seq.files.paths import expand_home

_HELD_OUT, _MOST_HELD_OUT = 0.05, 1000
"""Default share of the pairs for each held-out set, and its maximum number of pairs."""
_TYPICAL = 10_000
"""Number of pairs, from all parts of the text, from which the rules learn what is typical."""
_SPACING = "unusual spaces, invisible characters or decomposed letters"
_SETS, _DROPPED = ("train", "valid", "test"), "dropped.tsv"
_EXAMPLE = 32
"""Number of characters of an example."""


class Markup(Enum):
    """The treatment of tags and entities of HTML."""

    remove = "remove"
    """Tags are removed, and entities become their characters."""
    keep = "keep"
    """Tags and entities stay, for example in the messages of programs."""


@dataclass(kw_only=True, slots=True, repr=False)
class PrepareConfig(Config):
    """The configuration of the command."""

    input: FilePaths
    """A source and a target file, or files in .tsv, .csv, .tmx, .xlf, .xliff and .po; each may be
    gzipped (.gz)."""
    output: FilePath | None
    """Directory to write the corpus to; its files must not exist yet. None only with `check`."""
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
    keep: list[str]
    """Kinds of faulty pairs to keep: long, ratio, equal, swapped, language, numbers, duplicate; by
    default, all are dropped."""
    max_characters: Count
    """Maximum number of characters on a side."""
    max_ratio: Annotated[float, Range(above=1)]
    """Maximum ratio of the lengths of both sides, relative to the typical ratio in the text."""

    def __post_init__(self) -> None:
        Config.__post_init__(self)
        choices = ("long", "ratio", "equal", "swapped", "language", "numbers", "duplicate")
        for name in self.keep:
            if name not in choices:
                raise ValueError(f"keep={name}: it must be one of: {', '.join(choices)}")


class Kept(NamedTuple):
    """A pair of the corpus, and a hash of each side, which near duplicates of the side share."""

    source: str
    target: str
    hashes: tuple[int, int]


@dataclass
class Prepared:
    """The rows of a text after cleaning; each row is in `kept` or in `dropped`."""

    kept: list[Kept] = field(default_factory=list)
    dropped: list[Row] = field(default_factory=list)
    """Rows with their faults."""
    changed: dict[str, list[Row]] = field(default_factory=dict)
    """Rows that `clean` changed, by the kind of change."""


def main() -> None:
    """Run the command with the arguments of this process."""
    run_command("prepare", PrepareConfig, prepare)


def prepare(config: PrepareConfig) -> None:
    """Read pairs, clean them, drop the faulty ones, split the rest, and print what was done.

    Raises:
        ValueError: The text cannot be read or split, or an output exists.
        OSError: A file cannot be read or written.
    """
    if config.output is None and not config.check:
        raise ValueError("output needs a value; give output=DIRECTORY, or check=true for a report")
    paths = [expand_home(path, key="input") for path in config.input]
    source, target, rows = read_bitext(
        paths, columns=config.columns, source=config.source, target=config.target
    )
    if not rows:
        raise ValueError(f"input={','.join(config.input)}: there is no text")
    source, target = _languages(source, target, rows)
    endings = (source, target) if source != target else ("source", "target")
    folder = None
    if config.output is not None and not config.check:
        folder = expand_home(config.output, key="output")
        _check_output(folder, endings)
    print(f"{counted(len(rows), 'pair')}, {source} to {target} (source= and target= set these)")
    rules = PairRules(
        source, target, config.max_characters, config.max_ratio, frozenset(config.keep)
    )
    prepared = apply_rules(rows, rules, keeps_markup=config.markup is Markup.keep)
    print(_report(prepared, rules) or "nothing to clean or drop")
    if not prepared.kept:
        raise ValueError("no pair is left; look at the faults above, and at columns= and keep=")
    sets = split(prepared.kept, valid=config.valid, test=config.test)
    if folder is None:
        return
    _write(folder, sets, endings, prepared.dropped)
    names = {name: [f"{config.output}/{name}.{each}" for each in endings] for name in sets}
    for name, pairs in sets.items():
        print(f"wrote {' and '.join(names[name])}: {counted(len(pairs), 'pair')}")
    print(f"wrote {config.output}/{_DROPPED}: {counted(len(prepared.dropped), 'pair')}")
    keys = [f"data.{name}=[{','.join(each)}]" for name, each in names.items()]
    if source == target:
        keys += [f"data.source={source}", f"data.target={target}"]
    print(f"Next: {shlex.join(['python', 'train.py', 'data=files', *keys])}")


def _languages(source: str | None, target: str | None, rows: Sequence[Row]) -> tuple[str, str]:
    """Return the languages, those that are None guessed from the text."""
    sound = [row for row in rows if row.fault is None]
    some = sound[:: 1 + len(sound) // 1000]
    source = source or guess_language(row.source for row in some) or "source"
    return source, target or guess_language(row.target for row in some) or "target"


def apply_rules(rows: Sequence[Row], rules: PairRules, *, keeps_markup: bool) -> Prepared:
    """Clean rows, and drop those with a fault.

    Args:
        rows: The rows.
        rules: Rules, which are fitted to the rows.
        keeps_markup: Whether tags and entities stay.
    """
    cleaned = [
        (clean(row.source, keeps_markup=keeps_markup), clean(row.target, keeps_markup=keeps_markup))
        for row in rows
    ]
    sound = [pair for row, pair in zip(rows, cleaned, strict=True) if row.fault is None]
    typical = sound[:: 1 + len(rows) // _TYPICAL]
    rules.fit([(source, target) for (source, _), (target, _) in typical])
    prepared, known = Prepared(), set[tuple[int, int]]()
    for place, (row, ((source, _), (target, _))) in enumerate(zip(rows, cleaned, strict=True)):
        fault = row.fault or rules.fault(source, target, is_first=row.place.endswith(":1"))
        hashes = hash_text(source), hash_text(target)
        if not fault and "duplicate" not in rules.ignored and hashes in known:
            fault = "duplicate"
        if fault:
            prepared.dropped.append(row._replace(fault=fault))
            continue
        known.add(hashes)
        prepared.kept.append(Kept(source, target, hashes))
        kinds = [kind for _, found in cleaned[place] for kind in found]
        if not kinds and (source, target) != row[1:3]:
            kinds = [_SPACING]
        for kind in dict.fromkeys(kinds):
            prepared.changed.setdefault(kind, []).append(row)
    return prepared


def split(kept: Sequence[Kept], *, valid: int | None, test: int | None) -> dict[str, list[Kept]]:
    """Split pairs into training, validation and test sets that share neither sources nor targets.

    A held-out pair has a source and a target that no other pair has, ignoring case, spaces and
    punctuation. A hash of the source chooses the held-out pairs, so adding text later moves hardly
    any pair from one set to another.

    Args:
        kept: The pairs, in order.
        valid: Number of validation pairs; None: 5%, at most 1,000.
        test: Number of test pairs; None: 5%, at most 1,000.

    Raises:
        ValueError: There are too few pairs whose source and target no other pair has.
    """
    counts = [Counter(each.hashes[side] for each in kept) for side in (0, 1)]
    free = [
        row
        for row, each in enumerate(kept)
        if counts[0][each.hashes[0]] == 1 == counts[1][each.hashes[1]]
    ]
    free.sort(key=lambda row: kept[row].hashes)
    default = min(_MOST_HELD_OUT, int(_HELD_OUT * len(kept)))
    sizes = {
        "valid": default if valid is None else valid,
        "test": default if test is None else test,
    }
    if sum(sizes.values()) > len(free) or sum(sizes.values()) >= len(kept):
        raise ValueError(
            f"{len(free):,} of {len(kept):,} pairs have a source and a target that no other pair "
            f"has, too few for valid={sizes['valid']} and test={sizes['test']}; give lower numbers"
        )
    names = dict.fromkeys(free[: sizes["valid"]], "valid")
    names |= dict.fromkeys(free[sizes["valid"] :][: sizes["test"]], "test")
    sets: dict[str, list[Kept]] = {name: [] for name in _SETS}
    for row, each in enumerate(kept):
        sets[names.get(row, "train")].append(each)
    return {name: pairs for name, pairs in sets.items() if pairs}


def _report(prepared: Prepared, rules: PairRules) -> str:
    """List the kinds of cleaned and dropped pairs, each with its count and first example."""
    faulty: dict[str | None, list[Row]] = {}
    for row in prepared.dropped:
        faulty.setdefault(row.fault, []).append(row)
    found = [("cleaned", MARKUP.get(kind, kind), each) for kind, each in prepared.changed.items()]
    found += [("dropped", rules.describe(kind), faulty[kind]) for kind in FAULTS if kind in faulty]
    return "\n".join(
        f"{what} {len(rows):8,}  {kind}\n{'':18}{_example(rows[0])}" for what, kind, rows in found
    )


def _example(row: Row) -> str:
    texts = (text.encode("utf-8", "replace").decode("utf-8") for text in row[1:3])
    shown = (textwrap.shorten(text, _EXAMPLE, placeholder=" ...") for text in texts)
    return visible(f"{Path(row.place).name}: {' | '.join(shown)}")


def _check_output(folder: Path, endings: tuple[str, str]) -> None:
    """Raise FileExistsError if the directory has a file with the name of an output."""
    names = [f"{name}.{ending}" for name in _SETS for ending in endings]
    for name in (*names, _DROPPED):
        if (folder / name).exists():
            raise FileExistsError(f"{folder / name} exists; give another output")


def _write(
    folder: Path,
    sets: dict[str, list[Kept]],
    endings: tuple[str, str],
    dropped: Sequence[Row],
) -> None:
    """Write all files or none; raise OSError if one cannot be written."""
    contents = {
        f"{name}.{ending}": "".join(f"{pair[side]}\n" for pair in pairs)
        for name, pairs in sets.items()
        for side, ending in enumerate(endings)
    }
    spaces = str.maketrans("\t\r\n", "   ")
    contents[_DROPPED] = "".join(
        "\t".join((row.place, row.fault or "", *(text.translate(spaces) for text in row[1:3])))
        + "\n"
        for row in dropped
    )
    folder.mkdir(parents=True, exist_ok=True)
    with whole_files() as new_file:
        for name, content in contents.items():
            new_file(folder / name).write(content.encode("utf-8", "surrogateescape"))


if __name__ == "__main__":
    main()
