"""Parse one rule of a grammar: its head, and its side in each language."""

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import NoReturn

from seq2seq.data.grammar.grammar import (
    MARKS,
    Form,
    Location,
    Mention,
    Phrase,
    Rule,
    Table,
    Value,
    Word,
)

_ITEM = re.compile(r'(?:\[[^\[\]]*\]|"[^"]*"|[^\s\[\]"])+')
_PART = re.compile(r'(?:\[[^\[\]]*\]|"[^"]*"|[^+\[\]"])+')
_MENTION = re.compile(r"(([A-Z][A-Za-z]*)[0-9]*)(\[[^\[\]]*\])?((?:\.\w+)*)")
_PLAIN = re.compile(r'[^\[\]<>"~|]+')


@dataclass(slots=True)
class Declarations:
    """Languages, features and tables that the rules of a file may refer to."""

    languages: tuple[str, ...] = ()
    features: dict[str, tuple[str, ...]] = field(default_factory=dict)
    feature_of: dict[str, str] = field(default_factory=dict)
    """Feature of each value."""
    value_weights: dict[str, float] = field(default_factory=dict)
    signatures: dict[str, tuple[str, ...]] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)

    def feature(self, spec: str, *, location: Location) -> str:
        """Return the feature of a name or value such as number, number2, m or m/n."""
        found = {self._feature_of_word(word) for word in spec.split("/")}
        feature = found.pop()
        if feature is None or found:
            raise location.error(
                f"{spec!r} is neither a feature nor a value of one; features: "
                f"{', '.join(self.features)}"
            )
        return feature

    def domain(self, spec: str) -> tuple[str, ...]:
        """Return the values that a name or value allows."""
        values = tuple(word for word in spec.split("/") if word in self.feature_of)
        return values or self.features[_without_number(spec)]

    def check_sides(self, num_sides: int, *, location: Location) -> None:
        """Raise ValueError unless there is a side for each language."""
        if num_sides != len(self.languages):
            raise location.error(
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
    location: Location,
    category: str,
    specs: list[str],
    weight: float,
) -> Rule:
    """Parse the body of a rule, after the colon; `specs` are the features in its head."""
    reader = _RuleReader(declarations, location)
    head = reader.arguments(category, specs)
    texts = body.split("|")
    declarations.check_sides(len(texts), location=location)
    sides = tuple(reader.side(text, language) for language, text in enumerate(texts))
    reader.check_balance(sides)
    return Rule(
        location=location,
        category=category,
        head=tuple(variable for variable in head if variable is not None),
        domains=reader.domains,
        weight=weight,
        mentions=reader.mentions,
        sides=sides,
    )


class _RuleReader:
    """Parser of one rule, which collects its variables and mentions."""

    def __init__(self, declarations: Declarations, location: Location) -> None:
        self.domains: dict[str, tuple[str, ...]] = {}
        self.mentions: dict[str, Mention] = {}
        self._declarations = declarations
        self._place = location

    def arguments(self, category: str, specs: list[str]) -> tuple[str | None, ...]:
        """Return the variable for each feature of the category, None if `specs` lacks it."""
        variables: dict[str, str] = {}
        signature = self._declarations.signatures[category]
        for spec in specs:
            feature = self._declarations.feature(spec, location=self._place)
            if feature not in signature or feature in variables:
                self._fail(
                    f"{category}[{' '.join(specs)}]: {spec!r} does not belong here; "
                    f"{category} has the features: {', '.join(signature) or 'none'}"
                )
            # Each m/n in a rule has a value of its own; a name has one value in the whole rule.
            variable = f"{spec} {len(self.domains)}" if "/" in spec else spec
            self.domains[variable] = self._declarations.domain(spec)
            variables[feature] = variable
        return tuple(variables.get(feature) for feature in signature)

    def side(self, text: str, language: int) -> tuple[Word | Phrase, ...]:
        """Return the words and phrases of one side."""
        if _ITEM.sub("", text).strip():
            self._fail(f"{text.strip()!r} has an unmatched bracket or quote; close it")
        return tuple(self._item(item, language) for item in _ITEM.findall(text) if item != "-")

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

    def _item(self, item: str, language: int) -> Word | Phrase:
        if item in MARKS:
            return Word(parts=(item,), groups=())
        text, tilde, group = item.partition("~")
        if tilde and not re.fullmatch(r"\w+", group):
            self._fail(f"{item!r}: a label of letters or digits must follow ~")
        parts = [self._part(part, language) for part in _PART.findall(text)]
        phrases = [part for part in parts if isinstance(part, Phrase)]
        if phrases and (len(parts) > 1 or tilde):
            self._fail(f"{item!r}: {phrases[0].mention} is a phrase; + and ~ are for words")
        if phrases:
            return phrases[0]
        words = tuple(part for part in parts if not isinstance(part, Phrase))
        own = dict.fromkeys(part.mention for part in words if isinstance(part, Form))
        return Word(parts=words, groups=(group,) if tilde else tuple(own) or ("",))

    def _part(self, text: str, language: int) -> str | Form | Value | Phrase:
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
            self._fail(f"<{name}>: {name!r} is not a feature; < > must contain the name of one")
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
                self._fail(f"{name}.{'.'.join(labels)}: {category} is not a table and has no forms")
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
