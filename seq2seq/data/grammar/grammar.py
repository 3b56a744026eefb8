"""Parts of a synchronous grammar, as read from its file."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

START = "Sentence"
"""Head from which every sentence is expanded."""
MARKS = frozenset(".,?!;")
"""Punctuation marks, which are joined to the word before them."""


class Location(NamedTuple):
    """A line of the grammar file."""

    path: str
    line: int

    def error(self, message: str) -> ValueError:
        """Return the error to raise about this line."""
        return ValueError(f"{self.path}:{self.line}: {message}")


class Form(NamedTuple):
    """Part of a word: a form of a word from a table."""

    mention: str
    labels: tuple[str, ...]
    """Labels of columns, or variables of the rule whose values are labels."""


class Value(NamedTuple):
    """Part of a word: the value of a variable."""

    variable: str


class Word(NamedTuple):
    """A word on one side of a rule; strings among its parts are plain text."""

    parts: tuple[str | Form | Value, ...]
    groups: tuple[str, ...]
    """Groups of the word; it is linked with the words of other sides that share one of them."""


class Phrase(NamedTuple):
    """A position on one side of a rule that another rule expands."""

    mention: str


class Mention(NamedTuple):
    """A category that the body of a rule mentions."""

    category: str
    arguments: tuple[str | None, ...]
    """Variable of the rule for each feature of the category; None allows any value."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Rule:
    """An expansion of a category in every language."""

    location: Location
    category: str
    head: tuple[str, ...]
    """Variable for each feature of the category."""
    domains: Mapping[str, tuple[str, ...]]
    """Possible values of each variable."""
    weight: float
    mentions: Mapping[str, Mention]
    sides: tuple[tuple[Word | Phrase, ...], ...]
    """Words and phrases of each language."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """A word of a table: the values of its features and its forms."""

    location: Location
    values: tuple[tuple[str, ...], ...]
    """Possible values of each feature of the table."""
    forms: tuple[tuple[str, ...], ...]
    """One form for each language and column; "" for no word."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Table:
    """Words with the same features and forms."""

    location: Location
    category: str
    columns: tuple[tuple[frozenset[str], ...], ...]
    """Labels of each column, for each language."""
    rows: tuple[Row, ...]

    def column(self, language: int, labels: frozenset[str]) -> int | None:
        """Return the column with the most of the requested labels and no others, or None.

        Raises:
            LookupError: Two columns fit equally well.
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
    """Text of the file."""
    languages: tuple[str, ...]
    value_weights: Mapping[str, float]
    """Relative frequency of each value of a feature."""
    signatures: Mapping[str, tuple[str, ...]]
    """Features of each category, in the order of its arguments."""
    rules: Mapping[str, tuple[Rule, ...]]
    tables: Mapping[str, Table]
