"""Draw sentence pairs with their word links from a grammar."""

import random
from bisect import bisect_right
from itertools import accumulate
from typing import NamedTuple

from seq2seq.data.corpus import Pair
from seq2seq.data.grammar.grammar import MARKS, Grammar, Row
from seq2seq.data.grammar.options import FormPart, Option, find_choices

_MAX_RULES = 200
"""Limit for a sentence; a recursive grammar may exceed it, and the sentence is drawn again."""
_MAX_TRIES = 100


class PairGenerator:
    """Generator of pairs in two languages of a grammar.

    Example:
        >>> from seq2seq.data.grammar.parser import parse_grammar
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
        self._choices = [
            _Choice(options, list(accumulate(option.weight for option in options)))
            for options in find_choices(grammar)
        ]

    def draw(self, rng: random.Random) -> Pair:
        """Draw a pair; a random state gives the same sentence in whichever two languages.

        Raises:
            ValueError: The rules are so recursive that sentences hardly ever end.
        """
        for _ in range(_MAX_TRIES):
            derivation = _Derivation(self._choices, self._languages, rng)
            try:
                source, target = derivation.expand(0)
            except _TooLongError:
                continue
            return _pair(source, target)
        raise ValueError(
            f"{self._path}: {_MAX_TRIES} sentences in a row grew past {_MAX_RULES} rules; "
            "give more weight to the rules that do not contain themselves"
        )


class _TooLongError(Exception):
    pass


class _Choice(NamedTuple):
    options: list[Option]
    sums: list[float]
    """Cumulative sums of the weights of the options."""


# Words, each with the number of the first group of its rule and its groups within the rule.
# Plain tuples, because a corpus creates half a million of them.
_Words = list[tuple[str, int, tuple[int, ...]]]


class _Derivation:
    """The expansion of one sentence, which numbers its groups of linked words."""

    def __init__(
        self, choices: list[_Choice], languages: tuple[int, int], rng: random.Random
    ) -> None:
        self._choices = choices
        self._languages = languages
        self._rng = rng
        self._num_rules = 0
        self._num_groups = 0

    def expand(self, number: int) -> tuple[_Words, _Words]:
        """Expand the choice with this number; return the words of both sides."""
        option = self._draw_option(self._choices[number])
        first_group = self._num_groups
        self._num_groups += option.num_groups
        rows = [self._draw_row(rows) for rows in option.words]
        phrases = [self.expand(choice) for choice in option.phrases]
        sides: tuple[_Words, _Words] = ([], [])
        for side, (language, words) in enumerate(zip(self._languages, sides, strict=True)):
            forms = [row.forms[language] for row in rows]
            for phrase, parts, groups in option.sides[language]:
                if phrase is not None:
                    words.extend(phrases[phrase][side])
                elif text := _spell(parts, forms):
                    words.append((text, first_group, groups))
        return sides

    def _draw_option(self, choice: _Choice) -> Option:
        self._num_rules += 1
        if self._num_rules > _MAX_RULES:
            raise _TooLongError
        if len(choice.options) == 1:
            return choice.options[0]
        # Only random() gives the same numbers in every version of Python.
        index = bisect_right(choice.sums, self._rng.random() * choice.sums[-1])
        return choice.options[min(index, len(choice.options) - 1)]

    def _draw_row(self, rows: tuple[Row, ...]) -> Row:
        return rows[0] if len(rows) == 1 else rows[int(self._rng.random() * len(rows))]


def _spell(parts: tuple[str | FormPart, ...], forms: list[tuple[str, ...]]) -> str:
    text = ""
    for part in parts:
        if isinstance(part, str):
            text += part
        else:
            word, column = part
            text += forms[word][column]
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


def _write(side: _Words) -> tuple[str, dict[int, list[int]]]:
    """Return the text, and the indices of its words in each group."""
    words: list[str] = []
    groups: dict[int, list[int]] = {}
    for text, first_group, word_groups in side:
        if text not in MARKS:
            for group in word_groups:
                groups.setdefault(first_group + group, []).append(len(words))
            words.append(text)
        elif words:
            words[-1] = words[-1].removesuffix(",") + text
    sentence = " ".join(words)
    return sentence[:1].upper() + sentence[1:], groups
