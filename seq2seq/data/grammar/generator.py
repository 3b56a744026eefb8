"""Draw sentence pairs with their word links from a grammar.

A grammar becomes a graph before anything is drawn. A choice is a category with a value for each of
its features; its options are the rules that fit, each with a value for each of its variables. An
option names the rows from which its words are drawn and the choices that expand its phrases, so a
sentence is one walk from the choice of the category `Sentence`.
"""

import random
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, partial
from itertools import accumulate, groupby, product
from math import prod
from operator import attrgetter
from typing import NamedTuple

from seq2seq.data.corpus import Pair
from seq2seq.data.grammar.grammar import START, Form, Grammar, Phrase, Row, Rule, Value, Word

_MARKS = frozenset(".,?!;")
"""Punctuation marks; each is joined to the word before it."""
_MAX_COMBINATIONS = 10_000
"""Most combinations of feature values in one rule; each becomes an option."""
_MAX_RULES = 200
"""Most rules in a sentence; a recursive grammar may need more, and is then drawn from again."""
_MAX_TRIES = 100

_Key = tuple[str, tuple[str | None, ...]]
"""A category with a value for each of its features; None allows any value."""
# Words, each with the number of the expansion that wrote it and the groups of its rule.
# Plain tuples, because a corpus creates half a million of them.
_Words = list[tuple[str, int, tuple[str, ...]]]


class PairGenerator:
    """Generator of pairs in two languages of a grammar.

    Example:
        >>> from seq2seq.data.grammar.grammar import parse_grammar
        >>> text = "languages: de en\\nSentence: guten~1 Tag~2 . | good~1 day~2 ."
        >>> grammar = parse_grammar(text.replace("Tag", '"Tag"'), path="toy.grammar")
        >>> pair = PairGenerator(grammar, source="de", target="en").draw(random.Random(1))
        >>> pair.source, pair.target, sorted(pair.links)
        ('Guten Tag.', 'Good day.', [(0, 0), (1, 1)])
    """

    def __init__(self, grammar: Grammar, *, source: str, target: str) -> None:
        for key, language in (("source", source), ("target", target)):
            if language not in grammar.languages:
                raise ValueError(
                    f"data.{key}={language}: {grammar.path} has the languages "
                    f"{', '.join(grammar.languages)}; choose one of them, "
                    "or add a column for it to the file"
                )
        self._path = grammar.path
        self._languages = (grammar.languages.index(source), grammar.languages.index(target))
        self._start = build_choices(grammar)

    def draw(self, rng: random.Random) -> Pair:
        """Draw a pair; the same random state gives the same sentence in any two languages.

        Raises:
            ValueError: The rules are so recursive that sentences hardly ever end.
        """
        for _ in range(_MAX_TRIES):
            try:
                source, target = _Derivation(self._languages, rng).expand(self._start)
            except _TooLongError:
                continue
            return _pair(source, target)
        raise ValueError(
            f"{self._path}: {_MAX_TRIES} sentences in a row grew past {_MAX_RULES} rules; "
            "give more weight to the rules that do not contain themselves"
        )


class _TooLongError(Exception):
    pass


class _Derivation:
    """The expansion of one sentence."""

    def __init__(self, languages: tuple[int, int], rng: random.Random) -> None:
        self._languages = languages
        self._random = rng.random  # only random() is the same in every version of Python
        self._num_rules = 0

    def expand(self, choice: "Choice") -> tuple[_Words, _Words]:
        """Draw an option and return its words on both sides."""
        self._num_rules += 1
        if self._num_rules > _MAX_RULES:
            raise _TooLongError
        number = self._num_rules
        option = self._draw_option(choice)
        rows = {name: self._draw_row(rows) for name, rows in option.words.items()}
        phrases = {name: self.expand(phrase) for name, phrase in option.phrases.items()}
        sides: tuple[_Words, _Words] = ([], [])
        for side, (language, words) in enumerate(zip(self._languages, sides, strict=True)):
            for item in option.sides[language]:
                if isinstance(item, Phrase):
                    words.extend(phrases[item.name][side])
                elif text := _spell(item, rows, language):
                    words.append((text, number, item.groups))
        return sides

    def _draw_option(self, choice: "Choice") -> "Option":
        if len(choice.options) == 1:
            return choice.options[0]
        index = bisect_right(choice.sums, self._random() * choice.sums[-1])
        return choice.options[min(index, len(choice.options) - 1)]

    def _draw_row(self, rows: list[Row]) -> Row:
        return rows[0] if len(rows) == 1 else rows[int(self._random() * len(rows))]


def _spell(word: "Spelling", rows: Mapping[str, Row], language: int) -> str:
    text = ""
    for part in word.parts:
        text += part if isinstance(part, str) else rows[part.word].forms[language][part.column]
    return text


def _pair(source: _Words, target: _Words) -> Pair:
    source_text, source_groups = _write(source)
    target_text, target_groups = _write(target)
    links = frozenset(
        (source_word, target_word)
        for group, source_words in source_groups.items()
        for source_word in source_words
        for target_word in target_groups.get(group, [])
    )
    return Pair(source_text, target_text, links)


def _write(side: _Words) -> tuple[str, dict[tuple[int, str], list[int]]]:
    """Return the text, and the indices of its words in each group."""
    words: list[str] = []
    groups: dict[tuple[int, str], list[int]] = {}
    for text, number, own_groups in side:
        if text not in _MARKS:
            for group in own_groups:
                groups.setdefault((number, group), []).append(len(words))
            words.append(text)
        elif words:
            words[-1] = words[-1].removesuffix(",") + text
    sentence = " ".join(words)
    return sentence[:1].upper() + sentence[1:], groups


class Cell(NamedTuple):
    """A form of a word that is drawn."""

    word: str
    column: int


class Spelling(NamedTuple):
    """A word to write."""

    parts: tuple[str | Cell, ...]
    groups: tuple[str, ...]
    """Groups of the word; it is linked with words of other languages that share one of them."""


@dataclass(eq=False, slots=True)
class Choice:
    """A category with a value for each of its features."""

    options: list["Option"] = field(default_factory=list)
    sums: list[float] = field(default_factory=list)
    """Cumulative sums of the weights of the options."""
    is_finite: bool = False
    """Whether it can be expanded into words only."""


@dataclass(eq=False, kw_only=True, slots=True)
class Option:
    """A rule with a value for each of its variables."""

    rule: Rule
    values: Mapping[str, str]
    words: Mapping[str, list[Row]]
    """Rows from which each word is drawn."""
    phrases: Mapping[str, Choice]
    """Choice that expands each phrase."""
    sides: tuple[tuple[Phrase | Spelling, ...], ...] = ()
    """Phrases to insert and words to write, for each language."""

    def misfits(self) -> Iterator[str]:
        """Yield the names of words that have no row and phrases that never become words."""
        yield from (name for name, rows in self.words.items() if not rows)
        yield from (name for name, phrase in self.phrases.items() if not phrase.is_finite)


def build_choices(grammar: Grammar) -> Choice:
    """Return the choice of the sentence, which leads to all others.

    Raises:
        ValueError: No sentence can use some rule or word, or a form does not exist.
    """
    choices = _expand_all(grammar)
    _mark_finite(choices)
    tried = [option for choice in choices for option in choice.options]
    used = _reachable(choices[0])
    options = [option for choice in used for option in choice.options]
    _check_used(grammar, tried, options)
    for choice in used:
        choice.sums = list(accumulate(_weights(grammar, choice.options)))
    for option in options:
        option.sides = tuple(
            tuple(_resolve(grammar, option, item, language) for item in side)
            for language, side in enumerate(option.rule.sides)
        )
    return choices[0]


def _expand_all(grammar: Grammar) -> list[Choice]:
    """Return all choices that rules lead to; the first one is the sentence."""
    start: _Key = START, (None,) * len(grammar.signatures[START])
    choices: dict[_Key, Choice] = {start: Choice()}
    rows_of = cache(partial(_rows, grammar))
    waiting = [start]
    for category, wanted in waiting:  # grows while it is read
        for rule in grammar.rules[category]:
            for values in _combinations(rule, wanted):
                words, phrases = {}, {}
                for name, mention in rule.mentions.items():
                    key = _key(rule, name, values)
                    if mention.category in grammar.tables:
                        words[name] = rows_of(key)
                        continue
                    if key not in choices:
                        choices[key] = Choice()
                        waiting.append(key)
                    phrases[name] = choices[key]
                choices[category, wanted].options.append(
                    Option(rule=rule, values=values, words=words, phrases=phrases)
                )
    return list(choices.values())


def _combinations(rule: Rule, wanted: tuple[str | None, ...]) -> Iterator[dict[str, str]]:
    """Yield the values of the variables of a rule that give its head the wanted values."""
    domains = dict(rule.domains)
    for variable, value in zip(rule.head, wanted, strict=True):
        if value is not None:
            domains[variable] = (value,) if value in domains[variable] else ()
    if prod(map(len, domains.values())) > _MAX_COMBINATIONS:
        raise rule.location.error(
            f"the rule has more than {_MAX_COMBINATIONS:,} combinations of values for its features "
            f"({len(domains)}); name fewer, or split the rule"
        )
    for combination in product(*domains.values()):
        yield dict(zip(domains, combination, strict=True))


def _key(rule: Rule, name: str, values: Mapping[str, str]) -> _Key:
    category, arguments = rule.mentions[name]
    return category, tuple(None if each is None else values[each] for each in arguments)


def _rows(grammar: Grammar, key: _Key) -> list[Row]:
    category, wanted = key
    return [
        row
        for row in grammar.tables[category].rows
        if all(
            value is None or value in allowed
            for value, allowed in zip(wanted, row.values, strict=True)
        )
    ]


def _mark_finite(choices: list[Choice]) -> None:
    grown = True
    while grown:
        grown = False
        for choice in choices:
            if not choice.is_finite and not all(any(each.misfits()) for each in choice.options):
                choice.is_finite = grown = True


def _reachable(start: Choice) -> list[Choice]:
    """Return the choices that the start leads to, and remove the options that never end."""
    used = {start: None}
    waiting = [start]
    for choice in waiting:  # grows while it is read
        choice.options = [option for option in choice.options if not any(option.misfits())]
        for option in choice.options:
            for phrase in option.phrases.values():
                if phrase not in used:
                    used[phrase] = None
                    waiting.append(phrase)
    return waiting


def _check_used(grammar: Grammar, tried: list[Option], used: list[Option]) -> None:
    """Raise ValueError if no sentence can use some rule or row."""
    locations = {option.rule.location for option in used}
    locations |= {row.location for option in used for rows in option.words.values() for row in rows}
    # Rules that never become words are the cause; unreachable ones are often the consequence.
    for option in tried:
        misfit = next(option.misfits(), None)
        if misfit is not None and option.rule.location not in locations:
            _, values = _key(option.rule, misfit, option.values)
            raise option.rule.location.error(
                f"unproductive rule of {option.rule.category}: nothing fits "
                f"{misfit}[{' '.join(filter(None, values))}]; "
                "add a rule or word for it, or correct the features here"
            )
    rows = {category: table.rows for category, table in grammar.tables.items()}
    for kind, parts_of in (("rule", grammar.rules), ("word", rows)):
        for category, parts in parts_of.items():
            for part in parts:
                if part.location not in locations:
                    raise part.location.error(
                        f"unreachable {kind} of {category}: no sentence asks for its features; "
                        f"mention {category} with them in a rule, or delete the {kind}"
                    )


def _weights(grammar: Grammar, options: list[Option]) -> Iterator[float]:
    """Distribute the weight of each rule over its options by the weights of their values."""
    for rule, group in groupby(options, key=attrgetter("rule")):
        shares = [
            prod(grammar.weights[each] for each in option.values.values()) for option in group
        ]
        yield from (rule.weight * share / sum(shares) for share in shares)


def _resolve(
    grammar: Grammar, option: Option, item: Word | Phrase, language: int
) -> Phrase | Spelling:
    """Replace variables by their values and labels by their column."""
    if isinstance(item, Phrase):
        return item
    parts: list[str | Cell] = []
    for part in item.parts:
        if isinstance(part, Value):
            parts.append(option.values[part.variable])
        elif isinstance(part, Form):
            parts.append(Cell(part.word, _column(grammar, option, part, language)))
        else:
            parts.append(part)
    return Spelling(tuple(parts), item.groups)


def _column(grammar: Grammar, option: Option, form: Form, language: int) -> int:
    """Return the column with the most of the labels of a form and no others."""
    category = option.rule.mentions[form.word].category
    labels = {option.values.get(label, label) for label in form.labels}
    fitting = sorted(
        (-len(column), index)
        for index, column in enumerate(grammar.tables[category].columns[language])
        if column <= labels
    )
    shown = ".".join(sorted(labels))
    if not fitting:
        raise option.rule.location.error(
            f"{form.word}.{shown}: no column of {category} fits for "
            f"{grammar.languages[language]}; name another form, or add the column *"
        )
    if len(fitting) > 1 and fitting[0][0] == fitting[1][0]:
        raise option.rule.location.error(
            f"two columns of {category} fit {shown}; name one more label"
        )
    return fitting[0][1]
