"""Read a grammar file; data/german-english.grammar explains the notation."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from seq2seq.data.grammar.grammar import START, Grammar, Location, Row, Rule, Table
from seq2seq.data.grammar.rule import Declarations, parse_rule
from seq2seq.files.text import BYTE_ORDER_MARK

MAX_BYTES = 1 << 20
"""Limit of a grammar file; the bundled one has 20 thousand bytes."""
_NAME = re.compile(r"[a-z][a-z_]*")
_SHOWN = 60
"""Characters of a line in a message."""
_VALUE = re.compile(r"(\w+)(?:\*([1-9][0-9]*))?")
_HEAD = re.compile(r"([A-Z][A-Za-z]*)\s*(?:\[([^\[\]]*)\])?\s*(?:\*([0-9]+))?")


def read_grammar(path: Path) -> Grammar:
    """Read and check a grammar file.

    Raises:
        ValueError: The file has an error; the message names its line.
        OSError: The file cannot be read.
    """
    with path.open("rb") as file:
        content = file.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ValueError(
            f"{path} has more than {MAX_BYTES:,} bytes, the limit of a grammar; remove rules and "
            "words, or check that it is one"
        )
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise Location(str(path), line).error("not UTF-8; save the file as UTF-8") from error
    return parse_grammar(text, path=str(path))


def parse_grammar(text: str, *, path: str) -> Grammar:
    """Parse the text of a grammar file; `path` appears in messages only."""
    declarations = Declarations()
    rule_statements: list[_Statement] = []
    for statement in _statements(text, path):
        if statement.keyword == "languages":
            _declare_languages(declarations, statement)
        elif not declarations.languages:
            raise statement.location.error("the languages must come first: languages: de en")
        elif statement.keyword == "feature":
            _declare_feature(declarations, statement)
        elif statement.keyword == "words":
            _declare_table(declarations, statement)
        else:
            _declare_category(declarations, statement)
            rule_statements.append(statement)
    rules: dict[str, list[Rule]] = {}
    for statement in rule_statements:
        category, specs, weight = _parse_head(statement)
        rule = parse_rule(
            statement.body,
            declarations=declarations,
            location=statement.location,
            category=category,
            specs=specs,
            weight=weight,
        )
        rules.setdefault(category, []).append(rule)
    if START not in rules:
        raise Location(path, 1).error(
            f"no rule for {START}; every sentence grows from a rule of it"
        )
    return Grammar(
        path=path,
        text=text,
        languages=declarations.languages,
        value_weights=declarations.value_weights,
        signatures=declarations.signatures,
        rules={category: tuple(alternatives) for category, alternatives in rules.items()},
        tables=declarations.tables,
    )


@dataclass(slots=True)
class _Statement:
    location: Location
    keyword: str
    head: str
    body: str
    rows: list[tuple[Location, str]] = field(default_factory=list)


def _statements(text: str, path: str) -> Iterator[_Statement]:
    statement: _Statement | None = None
    # Lines end at \n only, which gives the line numbers of an editor.
    for number, line in enumerate(text.removeprefix(BYTE_ORDER_MARK).split("\n"), start=1):
        location, content = Location(path, number), line.split("#")[0].rstrip()
        if "\0" in content:
            raise location.error("a NUL character; a grammar is a text file")
        if not content.strip():
            continue
        if not content[0].isspace():
            if statement is not None:
                yield statement
            statement = _begin_statement(location, content)
        elif statement is None:
            raise location.error("the first line is indented; an indented line continues another")
        elif statement.keyword == "words":
            statement.rows.append((location, content))
        else:
            statement.body += " " + content.strip()
    if statement is not None:
        yield statement


def _begin_statement(location: Location, content: str) -> _Statement:
    head, colon, body = content.partition(":")
    if not colon:
        shown = content if len(content) <= _SHOWN else f"{content[:_SHOWN]}..."
        raise location.error(f"no colon after {shown!r}; a rule is written Head: side | side")
    keyword, _, rest = head.strip().partition(" ")
    if keyword in ("languages", "feature", "words"):
        return _Statement(location, keyword, rest.strip(), body.strip())
    return _Statement(location, "", head.strip(), body.strip())


def _declare_languages(declarations: Declarations, statement: _Statement) -> None:
    languages = tuple(statement.body.split())
    if declarations.languages or len(languages) < 2 or len(set(languages)) < len(languages):
        raise statement.location.error("one line must name two languages or more: languages: de en")
    declarations.languages = languages


def _declare_feature(declarations: Declarations, statement: _Statement) -> None:
    name, matches = statement.head, [_VALUE.fullmatch(text) for text in statement.body.split()]
    weights = {match[1]: float(match[2] or 1) for match in matches if match is not None}
    if not _NAME.fullmatch(name) or not matches or len(weights) < len(matches):
        raise statement.location.error("a feature is written feature name: value value*weight")
    for word in (name, *weights):
        if word in declarations.features or word in declarations.feature_of:
            raise statement.location.error(
                f"{word!r} is a feature or a value already; all of them need different names"
            )
        if word in weights:
            declarations.feature_of[word] = name
    declarations.features[name] = tuple(weights)
    declarations.value_weights.update(weights)


def _declare_category(declarations: Declarations, statement: _Statement) -> None:
    category, specs, _ = _parse_head(statement)
    features = tuple(declarations.feature(spec, location=statement.location) for spec in specs)
    if category in declarations.tables:
        raise statement.location.error(
            f"{category} is a table of words already; give the rule another head"
        )
    known = declarations.signatures.setdefault(category, features)
    if sorted(known) != sorted(features):
        raise statement.location.error(
            f"{category}[{' '.join(features)}] differs from its first rule, "
            f"{category}[{' '.join(known)}]; all its rules must name the same features"
        )


def _parse_head(statement: _Statement) -> tuple[str, list[str], float]:
    match = _HEAD.fullmatch(statement.head)
    if match is None:
        raise statement.location.error(
            f"{statement.head!r} is not a head; write languages, feature, words or "
            "Head[feature feature] *weight before the colon"
        )
    category, specs, weight = match.groups()
    if weight is not None and int(weight) == 0:
        raise statement.location.error(
            "the weight *0 must be at least 1; comment the rule out with #"
        )
    return category, (specs or "").split(), float(weight or 1)


def _declare_table(declarations: Declarations, statement: _Statement) -> None:
    location = statement.location
    category, features, _ = _parse_head(statement)
    for name in features:
        if name not in declarations.features:
            raise location.error(
                f"{name!r} is not a feature; declare it: feature {name}: value value"
            )
    if category in declarations.signatures:
        raise location.error(f"{category} has rules or a table already; choose another name")
    if not statement.rows:
        raise location.error(f"the table {category} has no words; indent its rows below it")
    columns = tuple(
        tuple(frozenset() if label == "*" else frozenset(label.split(".")) for label in side)
        for side in _cells(declarations, statement.body, location=location)
    )
    declarations.signatures[category] = tuple(features)
    declarations.tables[category] = Table(
        location=location,
        category=category,
        columns=columns,
        rows=tuple(
            _parse_row(declarations, *line, category=category, columns=columns)
            for line in statement.rows
        ),
    )


def _parse_row(
    declarations: Declarations,
    location: Location,
    text: str,
    *,
    category: str,
    columns: tuple[tuple[frozenset[str], ...], ...],
) -> Row:
    features = declarations.signatures[category]
    head, _, body = text.rpartition(":") if features else ("", "", text)
    specs = head.split()
    if len(specs) != len(features):
        raise location.error(
            f"{len(specs)} values before the colon, but {category} has the features "
            f"{', '.join(features)}; write one value for each, m/n for several"
        )
    for spec, feature in zip(specs, features, strict=True):
        if declarations.feature(spec, location=location) != feature:
            raise location.error(
                f"{spec} is not a value of {feature}; one of: "
                f"{', '.join(declarations.features[feature])}"
            )
    forms = _cells(declarations, body, location=location)
    for language, side, labels in zip(declarations.languages, forms, columns, strict=True):
        if len(side) != len(labels):
            raise location.error(
                f"{len(side)} forms for {language}, but {category} has {len(labels)} columns "
                "there; write - for no word"
            )
    return Row(
        location=location,
        values=tuple(declarations.domain(spec) for spec in specs),
        forms=tuple(tuple("" if form == "-" else form for form in side) for side in forms),
    )


def _cells(declarations: Declarations, text: str, *, location: Location) -> list[list[str]]:
    sides = [side.split() for side in text.split("|")]
    declarations.check_sides(len(sides), location=location)
    return sides
