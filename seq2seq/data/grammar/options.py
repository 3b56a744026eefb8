"""Compile the rules of a grammar into steps that are fast to execute."""

from collections.abc import Mapping
from math import prod
from typing import NamedTuple

from seq2seq.data.grammar.candidates import Candidate, Key, find_candidates
from seq2seq.data.grammar.grammar import Form, Grammar, Location, Phrase, Row, Value, Word


class FormPart(NamedTuple):
    """Column of a word that was drawn."""

    word: int
    column: int


class Step(NamedTuple):
    """Insert an expanded phrase or write a word."""

    phrase: int | None
    """Index of the phrase; None writes a word."""
    parts: tuple[str | FormPart, ...]
    groups: tuple[int, ...]
    """Groups of the word; it is linked with words of other languages that share one of them."""


class Option(NamedTuple):
    """A candidate in the order of execution: draw words, expand phrases, take the steps."""

    weight: float
    phrases: tuple[int, ...]
    """Number of the choice of each phrase."""
    words: tuple[tuple[Row, ...], ...]
    """Rows from which each word is drawn."""
    num_groups: int
    sides: tuple[tuple[Step, ...], ...]
    """Steps of each language."""


def find_choices(grammar: Grammar) -> list[list[Option]]:
    """Return the options of every choice in a sentence; choice 0 is the sentence itself.

    Raises:
        ValueError: No sentence can use some rule or word, or a form does not exist.
    """
    candidates = find_candidates(grammar)
    numbers = {key: number for number, key in enumerate(candidates)}
    return [
        [
            _compile(grammar, candidate, weight=weight, numbers=numbers)
            for candidate, weight in zip(alternatives, _weights(grammar, alternatives), strict=True)
        ]
        for alternatives in candidates.values()
    ]


def _weights(grammar: Grammar, candidates: list[Candidate]) -> list[float]:
    """Distribute the weight of each rule over its candidates by the weights of their values."""
    shares = [
        prod(grammar.value_weights[value] for value in candidate.values.values())
        for candidate in candidates
    ]
    totals: dict[Location, float] = {}
    for candidate, share in zip(candidates, shares, strict=True):
        location = candidate.rule.location
        totals[location] = totals.get(location, 0.0) + share
    return [
        candidate.rule.weight * share / totals[candidate.rule.location]
        for candidate, share in zip(candidates, shares, strict=True)
    ]


def _compile(
    grammar: Grammar, candidate: Candidate, *, weight: float, numbers: Mapping[Key, int]
) -> Option:
    phrases, words = list(candidate.keys), list(candidate.rows)
    groups: dict[str, int] = {}

    def compile_part(part: str | Form | Value, language: int) -> str | FormPart:
        if isinstance(part, str):
            return part
        if isinstance(part, Value):
            return candidate.values[part.variable]
        return FormPart(words.index(part.mention), _column(grammar, candidate, part, language))

    def step(item: Word | Phrase, language: int) -> Step:
        if isinstance(item, Phrase):
            return Step(phrase=phrases.index(item.mention), parts=(), groups=())
        return Step(
            phrase=None,
            parts=tuple(compile_part(part, language) for part in item.parts),
            groups=tuple(groups.setdefault(name, len(groups)) for name in item.groups),
        )

    sides = tuple(
        tuple(step(item, language) for item in side)
        for language, side in enumerate(candidate.rule.sides)
    )
    return Option(
        weight=weight,
        phrases=tuple(numbers[key] for key in candidate.keys.values()),
        words=tuple(candidate.rows.values()),
        num_groups=len(groups),
        sides=sides,
    )


def _column(grammar: Grammar, candidate: Candidate, form: Form, language: int) -> int:
    table = grammar.tables[candidate.rule.mentions[form.mention].category]
    labels = frozenset(candidate.values.get(label, label) for label in form.labels)
    try:
        column = table.column(language, labels)
    except LookupError as error:
        raise candidate.rule.location.error(f"{error.args[0]}; name one more label") from error
    if column is None:
        raise candidate.rule.location.error(
            f"{form.mention}.{'.'.join(sorted(labels))}: no column of {table.category} fits "
            f"for {grammar.languages[language]}; name another form, or add the column *"
        )
    return column
