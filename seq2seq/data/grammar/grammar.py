"""Read a synchronous grammar: features, rules and tables of words in every language."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, NoReturn

from seq2seq.checks import counted
from seq2seq.files.text import BYTE_ORDER_MARK

if TYPE_CHECKING:
    from lark import Lark, Token, Tree, UnexpectedInput

START = "Sentence"
"""Category from which every sentence is expanded."""


class Location(NamedTuple):
    """A line of the grammar file."""

    path: str
    line: int

    def error(self, message: str) -> ValueError:
        """Return the error to raise about this line."""
        return ValueError(f"{self.path}:{self.line}: {message}")


class Form(NamedTuple):
    """Part of a word: a form of a word from a table."""

    word: str
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

    name: str


class Mention(NamedTuple):
    """A category that the body of a rule mentions."""

    category: str
    arguments: tuple[str | None, ...]
    """Variable of the rule for each feature of the category; None allows any value."""


@dataclass(eq=False, kw_only=True, slots=True)
class Rule:
    """An expansion of a category in every language."""

    location: Location
    category: str
    weight: float
    head: tuple[str, ...] = ()
    """Variable for each feature of the category."""
    domains: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Possible values of each variable."""
    mentions: dict[str, Mention] = field(default_factory=dict)
    sides: tuple[tuple[Word | Phrase, ...], ...] = ()
    """Words and phrases of each language."""


class Row(NamedTuple):
    """A word of a table: the values of its features and its forms."""

    location: Location
    values: tuple[tuple[str, ...], ...]
    """Possible values of each feature of the table."""
    forms: tuple[tuple[str, ...], ...]
    """One form for each language and column; "" for no word."""


class Table(NamedTuple):
    """Words with the same features and forms."""

    columns: tuple[tuple[frozenset[str], ...], ...]
    """Labels of each column, for each language."""
    rows: list[Row]


@dataclass(kw_only=True, slots=True)
class Grammar:
    """Rules and tables; a category has either rules or a table."""

    path: str
    text: str
    """Text of the file."""
    languages: tuple[str, ...] = ()
    features: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Values of each feature."""
    weights: dict[str, float] = field(default_factory=dict)
    """Relative frequency of each value of a feature."""
    signatures: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Features of each category, in the order of its arguments."""
    rules: dict[str, list[Rule]] = field(default_factory=dict)
    tables: dict[str, Table] = field(default_factory=dict)


def read_grammar(path: Path) -> Grammar:
    """Read and check a grammar file.

    Raises:
        ValueError: The file has an error; the message names its line.
        OSError: The file cannot be read.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise Location(str(path), line).error("not UTF-8; save the file as UTF-8") from error
    return parse_grammar(text, path=str(path))


def parse_grammar(text: str, *, path: str) -> Grammar:
    """Parse the text of a grammar file; `path` appears in messages only."""
    reader = _Reader(Grammar(path=path, text=text))
    for statement in _parse(text, path).nodes:
        reader.declare(statement)
    # Rules may mention what is declared below them.
    for rule, sides in reader.bodies:
        reader.read_body(rule, sides)
    if START not in reader.grammar.rules:
        raise Location(path, 1).error(
            f"no rule for {START}; every sentence grows from a rule of it"
        )
    return reader.grammar


class _Node(NamedTuple):
    """A match of one rule of grammar.lark."""

    kind: str
    line: int
    """Of its first word; 0 if it has none."""
    texts: list[str]
    nodes: list["_Node"]


def _parse(text: str, path: str) -> _Node:
    # Imported here because lark takes long to load.
    from lark import UnexpectedInput

    plain = re.sub("#[^\n]*", "", text.removeprefix(BYTE_ORDER_MARK)) + "\n"
    try:
        return _node(_parser().parse(plain))
    except UnexpectedInput as error:
        found = plain[error.pos_in_stream or 0 :].split("\n")[0].strip()
        raise Location(path, error.line).error(
            f"unexpected {found or 'end of the line'!r:.50}; expected one of: "
            f"{', '.join(_expected(error))} (data/german-english.grammar explains the notation)"
        ) from None


@cache
def _parser() -> "Lark":
    from lark import Lark

    notation = Path(__file__).with_name("grammar.lark").read_text("utf-8")
    return Lark(notation, parser="lalr")


def _node(tree: "Tree[Token]") -> _Node:
    # Two tokens of lark with the same text are unequal if their types differ.
    texts = [str(child) for child in tree.children if isinstance(child, str)]
    nodes = [_node(child) for child in tree.children if not isinstance(child, str)]
    # lark's own positions of trees would take half as long again.
    token = tree.children[0] if tree.children else None
    first = token.line if isinstance(token, str) else None
    line = first or next((node.line for node in nodes if node.line), 0)
    return _Node(tree.data, line, texts, nodes)


def _expected(error: "UnexpectedInput") -> list[str]:
    names = getattr(error, "expected", None) or getattr(error, "allowed", None) or set()
    patterns = {each.name: each.pattern for each in _parser().terminals if each.name in names}
    return sorted(
        repr(pattern.value) if pattern.type == "str" else name.lower().strip("_")
        for name, pattern in patterns.items()
    )


class _Reader:
    """Fills a grammar from the statements of its file."""

    def __init__(self, grammar: Grammar) -> None:
        self.grammar = grammar
        self.bodies: list[tuple[Rule, list[_Node]]] = []
        """Rules and their sides, which may mention what is declared further down."""
        self._feature_of: dict[str, str] = {}
        self._place = Location(grammar.path, 1)

    def declare(self, statement: _Node) -> None:
        """Add a statement to the grammar, except the body of a rule."""
        self._place = self._place._replace(line=statement.line)
        if statement.kind == "languages":
            self.grammar.languages = tuple(statement.texts)
        elif statement.kind == "feature":
            self._declare_feature(*statement.texts, values=statement.nodes)
        elif statement.kind == "table":
            self._declare_table(*statement.nodes)
        else:
            self._declare_rule(*statement.nodes, weight=float("".join(statement.texts) or 1))

    def _declare_feature(self, feature: str, *, values: list[_Node]) -> None:
        names = [feature, *(value.texts[0] for value in values)]
        for name in names:
            if names.count(name) > 1 or name in {*self.grammar.features, *self._feature_of}:
                self._fail(f"{name!r} is already a feature or a value; choose another name")
        self.grammar.features[feature] = tuple(names[1:])
        self._feature_of.update(dict.fromkeys(names[1:], feature))
        for value in values:
            self.grammar.weights[value.texts[0]] = float("".join(value.texts[1:]) or 1)

    def _declare_table(self, head: _Node, columns: _Node, *rows: _Node) -> None:
        grammar, place = self.grammar, self._place
        category, *features = head.texts
        if category in grammar.signatures:
            self._fail(f"{category} has rules or a table already; choose another name")
        self._check_sides(columns.nodes)
        labels = tuple(
            tuple(frozenset(label.split(".")) - {"*"} for label in side.texts)
            for side in columns.nodes
        )
        grammar.signatures[category] = tuple(map(self._feature, features))
        table = grammar.tables[category] = Table(columns=labels, rows=[])
        for row in rows:
            self._place = place._replace(line=row.line or place.line)
            table.rows.append(self._row(category, row.nodes))

    def _row(self, category: str, nodes: list[_Node]) -> Row:
        features = self.grammar.signatures[category]
        specs = [spec for node in nodes if node.kind == "values" for spec in node.texts]
        if list(map(self._feature, specs)) != list(features):
            self._fail(
                f"{category} has the features {' '.join(features)!r}; write a value of each before "
                f"a colon, m/n for several, not {' '.join(specs)!r}"
            )
        sides = [node for node in nodes if node.kind == "cells"]
        self._check_sides(sides)
        columns = self.grammar.tables[category].columns
        for language, side, labels in zip(self.grammar.languages, sides, columns, strict=True):
            if len(side.texts) != len(labels):
                self._fail(
                    f"{counted(len(side.texts), 'form')} for {language}, but {category} has "
                    f"{counted(len(labels), 'column')} there; write - for no word"
                )
        return Row(
            location=self._place,
            values=tuple(map(self._domain, specs)),
            forms=tuple(
                tuple("" if text == "-" else text for text in each.texts) for each in sides
            ),
        )

    def _declare_rule(self, head: _Node, *sides: _Node, weight: float) -> None:
        grammar = self.grammar
        category, *specs = head.texts
        features = tuple(map(self._feature, specs))
        if category in grammar.tables:
            self._fail(f"{category} is a table of words already; give the rule another head")
        known = grammar.signatures.setdefault(category, features)
        if sorted(known) != sorted(features):
            self._fail(
                f"{category}[{' '.join(features)}] differs from its first rule, "
                f"{category}[{' '.join(known)}]; all its rules must name the same features"
            )
        self._check_sides(sides)
        rule = Rule(location=self._place, category=category, weight=weight)
        rule.head = tuple(filter(None, self._arguments(rule, category, specs)))
        grammar.rules.setdefault(category, []).append(rule)
        self.bodies.append((rule, list(sides)))

    def read_body(self, rule: Rule, sides: list[_Node]) -> None:
        """Add the words and phrases of each side to a rule."""
        self._place = rule.location
        rule.sides = tuple(tuple(self._item(rule, item) for item in side.nodes) for side in sides)
        for language, side in zip(self.grammar.languages, rule.sides, strict=True):
            phrases = [item.name for item in side if isinstance(item, Phrase)]
            groups = {name for item in side if isinstance(item, Word) for name in item.groups}
            for item in chain(*rule.sides):
                if isinstance(item, Phrase):
                    if phrases.count(item.name) != 1:
                        self._fail(f"{item.name} must appear once on the side of {language}")
                elif missing := set(item.groups) - groups:
                    name = missing.pop()
                    self._fail(
                        f"{repr(name) if name else 'the plain words'} on another side: nothing to "
                        f"link with on the side of {language}; write the translation there, or "
                        "link with ~label on both sides"
                    )

    def _item(self, rule: Rule, item: _Node) -> Word | Phrase:
        if item.kind == "mark":
            return Word(parts=tuple(item.texts), groups=())
        groups = tuple(label.removeprefix("~") for label in item.texts)
        parts = [self._part(rule, node) for node in item.nodes]
        words = tuple(part for part in parts if not isinstance(part, Phrase))
        for part in parts:
            if isinstance(part, Phrase):
                if len(parts) > 1 or groups:
                    self._fail(f"{part.name} is a phrase; + and ~ are for words")
                return part
        forms = dict.fromkeys(part.word for part in words if isinstance(part, Form))
        return Word(parts=words, groups=groups or tuple(forms) or ("",))

    def _part(self, rule: Rule, part: _Node) -> str | Form | Value | Phrase:
        if part.kind == "mention":
            return self._mention(rule, *part.texts, features=part.nodes)
        [text] = part.texts
        if part.kind == "plain":
            return text.strip('"')
        variable = text.strip("<>")
        self._feature(variable)
        rule.domains.setdefault(variable, self._domain(variable))
        return Value(variable)

    def _mention(self, rule: Rule, name: str, *forms: str, features: list[_Node]) -> Form | Phrase:
        grammar, category = self.grammar, _without_number(name)
        if category not in grammar.signatures:
            self._fail(
                f"unknown head {category!r}; add a rule or a table for it, "
                f'or quote it if it is a word: "{name}"'
            )
        if name not in rule.mentions:
            specs = [spec for node in features for spec in node.texts]
            rule.mentions[name] = Mention(category, self._arguments(rule, category, specs))
        elif features:
            self._fail(f"{name}: give features at the first mention only; drop these")
        labels = tuple(form.removeprefix(".") for form in forms)
        if category in grammar.tables:
            for label in labels:
                self._check_label(rule, category, label)
            return Form(name, labels)
        if labels:
            self._fail(f"{name}.{'.'.join(labels)}: {category} is not a table and has no forms")
        return Phrase(name)

    def _check_label(self, rule: Rule, category: str, label: str) -> None:
        known = {
            name
            for side in self.grammar.tables[category].columns
            for column in side
            for name in column
        }
        if _without_number(label) in self.grammar.features:
            rule.domains.setdefault(label, self._domain(label))
        elif label not in known:
            self._fail(
                f"{category}.{label}: no such form; the table has: {', '.join(sorted(known))}"
            )

    def _arguments(self, rule: Rule, category: str, specs: list[str]) -> tuple[str | None, ...]:
        """Return the variable for each feature of the category, None if `specs` lacks it."""
        variables: dict[str, str] = {}
        signature = self.grammar.signatures[category]
        for spec in specs:
            feature = self._feature(spec)
            if feature not in signature or feature in variables:
                self._fail(
                    f"{category}[{' '.join(specs)}]: {spec!r} does not belong here; "
                    f"{category} has the features: {', '.join(signature) or 'none'}"
                )
            # Each m/n in a rule has a value of its own; a name has one value in the whole rule.
            variable = f"{spec} {len(rule.domains)}" if "/" in spec else spec
            rule.domains[variable] = self._domain(spec)
            variables[feature] = variable
        return tuple(map(variables.get, signature))

    def _feature(self, spec: str) -> str:
        """Return the feature of a name or values, such as number, number2, m or m/n."""
        names = {self._feature_of.get(word, _without_number(word)) for word in spec.split("/")}
        feature = names.pop()
        if names or feature not in self.grammar.features:
            self._fail(
                f"{spec!r} is neither a feature nor a value of one; features: "
                f"{', '.join(self.grammar.features)}"
            )
        return feature

    def _domain(self, spec: str) -> tuple[str, ...]:
        """Return the values that a name or values allow."""
        values = tuple(word for word in spec.split("/") if word in self._feature_of)
        return values or self.grammar.features[_without_number(spec)]

    def _check_sides(self, sides: Sequence[_Node]) -> None:
        if len(sides) != len(self.grammar.languages):
            self._fail(
                f"{counted(len(sides), 'side')}, but the languages are "
                f"{', '.join(self.grammar.languages)}; write one side for each, with | between them"
            )

    def _fail(self, message: str) -> NoReturn:
        raise self._place.error(message)


def _without_number(name: str) -> str:
    return name.rstrip("0123456789")
