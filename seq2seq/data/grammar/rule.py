"""Read one rule of a grammar: its head, and its side in each language."""

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import NoReturn

from seq2seq.data.grammar.config import (
    MARKS,
    Form,
    Mention,
    Phrase,
    Place,
    Rule,
    Table,
    Value,
    Word,
)

_TOKEN = re.compile(r'(?:\[[^\[\]]*\]|"[^"]*"|[^\s\[\]"])+')
_PIECE = re.compile(r'(?:\[[^\[\]]*\]|"[^"]*"|[^+\[\]"])+')
_MENTION = re.compile(r"(([A-Z][A-Za-z]*)[0-9]*)(\[[^\[\]]*\])?((?:\.\w+)*)")
_PLAIN = re.compile(r'[^\[\]<>"~|]+')


@dataclass(slots=True)
class Declarations:
    """What the rules of a file may refer to."""

    languages: tuple[str, ...] = ()
    features: dict[str, tuple[str, ...]] = field(default_factory=dict)
    feature_of: dict[str, str] = field(default_factory=dict)
    """the feature of each value"""
    value_weights: dict[str, float] = field(default_factory=dict)
    signatures: dict[str, tuple[str, ...]] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)

    def feature(self, spec: str, *, place: Place) -> str:
        """Return the feature that a name or a value such as number, number2, m, m/n is about."""
        found = {self._feature_of_word(word) for word in spec.split("/")}
        feature = found.pop()
        if feature is None or found:
            raise place.error(
                f"{spec!r} is no feature and no value of one; features: {', '.join(self.features)}"
            )
        return feature

    def domain(self, spec: str) -> tuple[str, ...]:
        """Return the values that the name or value allows."""
        values = tuple(word for word in spec.split("/") if word in self.feature_of)
        return values or self.features[_without_number(spec)]

    def check_sides(self, num_sides: int, *, place: Place) -> None:
        """Raise ValueError unless there is a side for each language."""
        if num_sides != len(self.languages):
            raise place.error(
                f"{num_sides} sides, but the languages are {', '.join(self.languages)}; "
                "write one side for each, with | between them"
            )

    def _feature_of_word(self, word: str) -> str | None:
        if word in self.feature_of:
            return self.feature_of[word]
        name = _without_number(word)
        return name if name in self.features else None


def parse_rule(
    body: str,
    *,
    declarations: Declarations,
    place: Place,
    category: str,
    specs: list[str],
    weight: float,
) -> Rule:
    """Parse what stands after the colon of a rule; `specs` are the features in its head."""
    reader = _RuleReader(declarations, place)
    head = reader.arguments(category, specs)
    texts = body.split("|")
    declarations.check_sides(len(texts), place=place)
    sides = tuple(reader.side(text, language) for language, text in enumerate(texts))
    reader.check_balance(sides)
    return Rule(
        place=place,
        category=category,
        head=tuple(variable for variable in head if variable is not None),
        domains=reader.domains,
        weight=weight,
        mentions=reader.mentions,
        sides=sides,
    )


class _RuleReader:
    """Collects the variables and mentions of one rule while its sides are read."""

    def __init__(self, declarations: Declarations, place: Place) -> None:
        self.domains: dict[str, tuple[str, ...]] = {}
        self.mentions: dict[str, Mention] = {}
        self._declarations = declarations
        self._place = place

    def arguments(self, category: str, specs: list[str]) -> tuple[str | None, ...]:
        """Return the variable for each feature of the category, None where `specs` has none."""
        variables: dict[str, str] = {}
        signature = self._declarations.signatures[category]
        for spec in specs:
            feature = self._declarations.feature(spec, place=self._place)
            if feature not in signature or feature in variables:
                self._fail(
                    f"{category}[{' '.join(specs)}]: {spec!r} is not wanted; "
                    f"{category} has the features: {', '.join(signature) or 'none'}"
                )
            # Two times m/n in a rule may be m here and n there; a name is the same everywhere.
            variable = f"{spec} {len(self.domains)}" if "/" in spec else spec
            self.domains[variable] = self._declarations.domain(spec)
            variables[feature] = variable
        return tuple(variables.get(feature) for feature in signature)

    def side(self, text: str, language: int) -> tuple[Word | Phrase, ...]:
        """Return the words and phrases of one side."""
        if _TOKEN.sub("", text).strip():
            self._fail(f"{text.strip()!r} has a bracket or quote without its partner; close it")
        tokens = [token for token in _TOKEN.findall(text) if token != "-"]
        return tuple(self._item(token, language) for token in tokens)

    def check_balance(self, sides: tuple[tuple[Word | Phrase, ...], ...]) -> None:
        """Raise ValueError unless every side has the same phrases and linked words."""
        for language, side in zip(self._declarations.languages, sides, strict=True):
            phrases = Counter(item.mention for item in side if isinstance(item, Phrase))
            groups = {group for item in side if isinstance(item, Word) for group in item.groups}
            for other in sides:
                for item in other:
                    self._check_item(item, language, phrases, groups)

    def _check_item(
        self, item: Word | Phrase, language: str, phrases: Counter[str], groups: set[str]
    ) -> None:
        if isinstance(item, Phrase):
            if phrases[item.mention] != 1:
                self._fail(
                    f"{item.mention} stands {phrases[item.mention]} times on the side of "
                    f"{language}; a phrase must stand once on every side"
                )
        elif not groups.issuperset(item.groups):
            group = next(group for group in item.groups if group not in groups)
            what = f"{group!r}" if group else "the plain words"
            self._fail(
                f"{what} on another side: nothing to link with on the side of {language}; "
                "write the translation there, or link with ~label on both sides"
            )

    def _item(self, token: str, language: int) -> Word | Phrase:
        if token in MARKS:
            return Word(pieces=(token,), groups=())
        text, tilde, group = token.partition("~")
        if tilde and not re.fullmatch(r"\w+", group):
            self._fail(f"{token!r}: after ~ comes a label of letters or digits")
        pieces = [self._piece(piece, language) for piece in _PIECE.findall(text)]
        phrases = [piece for piece in pieces if isinstance(piece, Phrase)]
        if phrases and (len(pieces) > 1 or tilde):
            self._fail(f"{token!r}: {phrases[0].mention} is a phrase; + and ~ are for words")
        if phrases:
            return phrases[0]
        words = tuple(piece for piece in pieces if not isinstance(piece, Phrase))
        own = dict.fromkeys(piece.mention for piece in words if isinstance(piece, Form))
        return Word(pieces=words, groups=(group,) if tilde else tuple(own) or ("",))

    def _piece(self, text: str, language: int) -> str | Form | Value | Phrase:
        if text.startswith('"') and text.endswith('"') and len(text) > 2:
            return text[1:-1]
        if text.startswith("<") and text.endswith(">"):
            return self._value(text[1:-1])
        match = _MENTION.fullmatch(text)
        if match is not None:
            name, category, specs, labels = match.groups()
            return self._mention(name, category, specs, labels.split(".")[1:])
        if text[0].isupper() or not _PLAIN.fullmatch(text):
            self._fail(
                f"{text!r} cannot be read (side of {self._declarations.languages[language]}); "
                'write NP[feature], Word.form, <feature>, a small word or a "Quoted" one'
            )
        return text

    def _value(self, name: str) -> Value:
        if _without_number(name) not in self._declarations.features:
            self._fail(f"<{name}>: {name!r} is no feature; < > hold a feature's name")
        self.domains.setdefault(name, self._declarations.domain(name))
        return Value(name)

    def _mention(
        self, name: str, category: str, specs: str | None, labels: list[str]
    ) -> Form | Phrase:
        declarations = self._declarations
        if category not in declarations.signatures:
            self._fail(
                f"unknown head {category!r}; add a rule or a table for it, "
                f'or quote it if it is a word: "{name}"'
            )
        if name not in self.mentions:
            arguments = self.arguments(category, (specs or "[]")[1:-1].split())
            self.mentions[name] = Mention(category, arguments)
        elif specs is not None:
            self._fail(f"{name}{specs}: the features stand at the first mention only; drop them")
        table = declarations.tables.get(category)
        if table is None:
            if labels:
                self._fail(f"{name}.{'.'.join(labels)}: {category} is no table, it has no forms")
            return Phrase(name)
        for label in labels:
            self._check_label(label, table)
        return Form(name, tuple(labels))

    def _check_label(self, label: str, table: Table) -> None:
        known = {known for columns in table.columns for column in columns for known in column}
        if _without_number(label) in self._declarations.features:
            self.domains.setdefault(label, self._declarations.domain(label))
        elif label not in known:
            self._fail(
                f"{table.category}.{label}: no such form; the table has: {', '.join(sorted(known))}"
            )

    def _fail(self, message: str) -> NoReturn:
        raise self._place.error(message)


def _without_number(name: str) -> str:
    return name.rstrip("0123456789")
