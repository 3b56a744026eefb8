"""Turn the rules of a grammar into steps that are quick to carry out."""

from collections.abc import Mapping
from math import prod
from typing import NamedTuple

from seq2seq.data.grammar.candidates import Candidate, Key, find_candidates
from seq2seq.data.grammar.config import Form, Grammar, Phrase, Place, Row, Value, Word


class FormPiece(NamedTuple):
    """A form of a word that was drawn."""

    word: int
    column: int


class Step(NamedTuple):
    """Put in what a phrase has become, or write a word."""

    phrase: int | None
    """None: write a word"""
    pieces: tuple[str | FormPiece, ...]
    groups: tuple[int, ...]
    """the word is linked with those of the other languages that share one of these"""


class Option(NamedTuple):
    """A rule with values for its features: draw the words, expand the phrases, take the steps."""

    weight: float
    phrases: tuple[int, ...]
    """for each phrase, the number of its choice"""
    words: tuple[tuple[Row, ...], ...]
    """for each word, the rows to draw from"""
    num_groups: int
    sides: tuple[tuple[Step, ...], ...]
    """for each language"""


def find_choices(grammar: Grammar) -> list[list[Option]]:
    """Return the options of every choice that a sentence may need; choice 0 is the sentence.

    Raises:
        ValueError: a rule or word that no sentence can use, or a form that does not exist.
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
    """Share each rule's weight among its candidates by the weights of their values."""
    shares = [
        prod(grammar.value_weights[value] for value in candidate.values.values())
        for candidate in candidates
    ]
    totals: dict[Place, float] = {}
    for candidate, share in zip(candidates, shares, strict=True):
        place = candidate.rule.place
        totals[place] = totals.get(place, 0.0) + share
    return [
        candidate.rule.weight * share / totals[candidate.rule.place]
        for candidate, share in zip(candidates, shares, strict=True)
    ]


def _compile(
    grammar: Grammar, candidate: Candidate, *, weight: float, numbers: Mapping[Key, int]
) -> Option:
    phrases, words = list(candidate.keys), list(candidate.rows)
    groups: dict[str, int] = {}

    def piece(part: str | Form | Value, language: int) -> str | FormPiece:
        if isinstance(part, str):
            return part
        if isinstance(part, Value):
            return candidate.values[part.variable]
        return FormPiece(words.index(part.mention), _column(grammar, candidate, part, language))

    def step(item: Word | Phrase, language: int) -> Step:
        if isinstance(item, Phrase):
            return Step(phrase=phrases.index(item.mention), pieces=(), groups=())
        return Step(
            phrase=None,
            pieces=tuple(piece(part, language) for part in item.pieces),
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
        raise candidate.rule.place.error(f"{error.args[0]}; name one more label") from error
    if column is None:
        raise candidate.rule.place.error(
            f"{form.mention}.{'.'.join(sorted(labels))}: no column of {table.category} fits "
            f"for {grammar.languages[language]}; name another form, or add the column *"
        )
    return column
