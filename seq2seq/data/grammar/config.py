"""What a synchronous grammar consists of, once its file is read."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

START = "Sentence"
"""the head that every sentence grows from"""
MARKS = frozenset(".,?!;")
"""plain words that stand at the word before them"""


class Place(NamedTuple):
    """A line of the grammar file."""

    path: str
    line: int

    def error(self, message: str) -> ValueError:
        """Return the error to raise about this line."""
        return ValueError(f"{self.path}:{self.line}: {message}")


class Form(NamedTuple):
    """A piece of a word: a form of a word from a table."""

    mention: str
    labels: tuple[str, ...]
    """labels of columns, or variables of the rule that stand for one"""


class Value(NamedTuple):
    """A piece of a word: the value of a variable."""

    variable: str


class Word(NamedTuple):
    """A word on a side of a rule; a string among its pieces is plain text."""

    pieces: tuple[str | Form | Value, ...]
    groups: tuple[str, ...]
    """it is linked with the words of the other sides that share one of these"""


class Phrase(NamedTuple):
    """A place on a side of a rule where another rule is put in."""

    mention: str


class Mention(NamedTuple):
    """A category in the body of a rule."""

    category: str
    arguments: tuple[str | None, ...]
    """the rule's variable for each feature of the category; None: any value"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """A category and what it may consist of, in every language."""

    place: Place
    category: str
    head: tuple[str, ...]
    """the variable for each feature of the category"""
    domains: Mapping[str, tuple[str, ...]]
    """the values that each variable may have"""
    weight: float
    mentions: Mapping[str, Mention]
    sides: tuple[tuple[Word | Phrase, ...], ...]
    """one for each language"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A word of a table: where it may stand and its forms."""

    place: Place
    values: tuple[tuple[str, ...], ...]
    """the values that each feature of the table may have"""
    forms: tuple[tuple[str, ...], ...]
    """for each language, one for each column; empty: no word"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Words that inflect alike."""

    place: Place
    category: str
    columns: tuple[tuple[frozenset[str], ...], ...]
    """for each language, the labels of each column"""
    rows: tuple[Row, ...]

    def column(self, language: int, labels: frozenset[str]) -> int | None:
        """Return the column with the most labels among those asked for, None if there is none.

        Raises:
            LookupError: two columns fit equally well.
        """
        columns = self.columns[language]
        fitting = sorted(
            (-len(column), index) for index, column in enumerate(columns) if column <= labels
        )
        if len(fitting) > 1 and fitting[0][0] == fitting[1][0]:
            raise LookupError(f"two columns of {self.category} fit {'.'.join(sorted(labels))}")
        return fitting[0][1] if fitting else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Grammar:
    """Rules and tables; a category has either rules or a table."""

    path: str
    text: str
    """of the file"""
    languages: tuple[str, ...]
    value_weights: Mapping[str, float]
    """how often each value of a feature is drawn"""
    signatures: Mapping[str, tuple[str, ...]]
    """the features of each category, in the order of its arguments"""
    rules: Mapping[str, tuple[Rule, ...]]
    tables: Mapping[str, Table]
