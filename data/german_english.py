"""Write german-english.tsv.gz, the bundled corpus, from the rules of german-english.grammar.

    python data/german_english.py

A line has a German sentence, its English translation and the links between their words in Pharaoh's
format, with tabs between them. The first 500 lines are the test set of `data=grammar`, the next 500
the validation set, the others the training set. No sentence occurs twice. The grammar file explains
its notation; what is not needed for it is not checked here.
"""

import gzip
import random
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import accumulate, product
from math import prod
from pathlib import Path
from typing import NamedTuple

GRAMMAR = Path(__file__).with_name("german-english.grammar")
CORPUS = Path(__file__).with_name("german-english.tsv.gz")
NUM_PAIRS = 21_000
SEED = 1
MARKS = frozenset(".,?")


class Form(NamedTuple):
    """Part of a word: a form of a word from a table, or without `name` the value of a variable."""

    name: str
    labels: tuple[str, ...]


class Word(NamedTuple):
    """A word in a rule; words of both sides with the same group are linked."""

    parts: list[str | Form]
    group: str


@dataclass(kw_only=True)
class Rule:
    """An expansion of a category; an item of a side is a word, or the name of a phrase."""

    weight: float
    head: dict[str, str] = field(default_factory=dict)
    """Variable for each feature; a variable has the same value in the whole rule."""
    domains: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Possible values of each variable."""
    mentions: dict[str, dict[str, str]] = field(default_factory=dict)
    """Variable for each feature of each phrase and word from a table that the rule names."""
    sides: list[list[str | Word]] = field(default_factory=list)


class Row(NamedTuple):
    """A word of a table: the possible values of its features, and its forms in both languages."""

    values: dict[str, tuple[str, ...]]
    forms: list[list[str]]


class Table(NamedTuple):
    """Words of the same features and forms; a column is a set of labels."""

    columns: list[list[set[str]]]
    rows: list[Row]


class Option(NamedTuple):
    """A rule with a value for each variable."""

    values: Mapping[str, str]
    rows: dict[str, list[Row]]
    phrases: dict[str, "Choice"]
    sides: list[list[str | Word]]


class Choice(NamedTuple):
    """The expansions of a category with certain values, and the sums of their weights so far."""

    options: list[Option]
    sums: list[float]


class Grammar:
    """Features, tables of words and rules, as read from the text of a grammar."""

    def __init__(self, text: str) -> None:
        self.features: dict[str, tuple[str, ...]] = {}
        self.feature_of: dict[str, str] = {}
        self.weights: dict[str, float] = {}
        self.tables: dict[str, Table] = {}
        self.rules: dict[str, list[Rule]] = {}
        bodies: list[tuple[Rule, str]] = []
        for statement in re.split(r"\n(?=\S)", re.sub("#.*", "", text).strip()):
            head, _, body = statement.partition(":")
            if head.startswith("feature "):
                self._read_feature(head.split()[1], body.split())
            elif head.startswith("words "):
                self._read_table(re.findall(r"\w+", head)[1:], body)
            elif head != "languages":
                category, specs, weight = re.findall(r"(\w+)(\[.*\])?\s*\*?(\d*)", head)[0]
                rule = Rule(weight=float(weight or 1))
                rule.head = self._variables(rule, specs)
                self.rules.setdefault(category, []).append(rule)
                bodies.append((rule, body))
        for rule, body in bodies:  # a rule names what is declared further down
            for side in body.split("|"):
                items = re.findall(r"(?:\[[^]]*\]|[^\s\[])+", side)
                rule.sides.append([self._item(rule, item) for item in items if item != "-"])

    def _read_feature(self, name: str, values: list[str]) -> None:
        weighted = [value.partition("*") for value in values]
        self.features[name] = tuple(value for value, _, _ in weighted)
        self.feature_of |= dict.fromkeys(self.features[name], name)
        self.weights |= {value: float(weight or 1) for value, _, weight in weighted}

    def _read_table(self, head: list[str], body: str) -> None:
        (category, *features), (labels, *lines) = head, body.strip().split("\n")
        columns = [
            [set(column.split(".")) - {"*"} for column in side.split()]
            for side in labels.split("|")
        ]
        rows = []
        for line in filter(str.strip, lines):
            values, _, forms = line.rpartition(":")
            specs = dict(zip(features, map(self._domain, values.split()), strict=True))
            cells = [[cell.strip("-") for cell in side.split()] for side in forms.split("|")]
            rows.append(Row(specs, cells))
        self.tables[category] = Table(columns, rows)

    def _item(self, rule: Rule, item: str) -> str | Word:
        item, _, label = item.partition("~")
        parts: list[str | Form] = []
        for part in item.split("+"):
            match = re.fullmatch(r"([A-Z]\w*)?(\[.*\])?((?:\.\w+)*)", part)
            if match and match[1]:
                name, specs, labels = match.groups()
                if name not in rule.mentions:
                    rule.mentions[name] = self._variables(rule, specs or "")
                if name.rstrip("2") not in self.tables:
                    return name
                parts.append(Form(name, tuple(labels.split(".")[1:])))
            elif part.startswith("<"):
                parts.append(Form("", (part.strip("<>"),)))
            else:
                parts.append(part.strip('"'))
        forms = [part for part in parts if isinstance(part, Form)]
        for variable in (label for form in forms for label in form.labels):
            if variable.rstrip("2") in self.features:
                rule.domains.setdefault(variable, self._domain(variable))
        return Word(parts, label or (forms[0].name if forms else ""))

    def _variables(self, rule: Rule, specs: str) -> dict[str, str]:
        variables = {}
        for spec in specs.strip("[]").split():
            # Each m/n in a rule has a value of its own.
            variable = f"{spec} {len(rule.domains)}" if "/" in spec else spec
            rule.domains[variable] = self._domain(spec)
            first = spec.split("/")[0]
            variables[self.feature_of.get(first, first.rstrip("2"))] = variable
        return variables

    def _domain(self, spec: str) -> tuple[str, ...]:
        """Return the values that a spec allows, such as number, number2, sg or m/n."""
        return self.features.get(spec.rstrip("2")) or tuple(spec.split("/"))

    @cache  # noqa: B019  there is one grammar
    def choice(self, category: str, wanted: frozenset[tuple[str, str]]) -> Choice:
        """Return what a category can become with the wanted values of features."""
        options: list[Option] = []
        weights: list[float] = []
        for rule in self.rules[category]:
            domains = dict(rule.domains)
            for feature, value in wanted:
                variable = rule.head[feature]
                domains[variable] = (value,) if value in domains[variable] else ()
            combinations = (
                dict(zip(domains, values, strict=True)) for values in product(*domains.values())
            )
            fitting = [option for each in combinations if (option := self._option(rule, each))]
            shares = [prod(map(self.weights.__getitem__, each.values.values())) for each in fitting]
            weights += [rule.weight * share / sum(shares) for share in shares]
            options += fitting
        return Choice(options, list(accumulate(weights)))

    def _option(self, rule: Rule, values: dict[str, str]) -> Option | None:
        """Return a rule with these values, or None if no words fit them."""
        rows: dict[str, list[Row]] = {}
        phrases: dict[str, Choice] = {}
        for name, variables in rule.mentions.items():
            category = name.rstrip("2")
            wanted = {feature: values[variable] for feature, variable in variables.items()}
            if category in self.tables:
                rows[name] = [
                    row
                    for row in self.tables[category].rows
                    if all(value in row.values[feature] for feature, value in wanted.items())
                ]
            else:
                phrases[name] = self.choice(category, frozenset(wanted.items()))
        if not all(rows.values()) or not all(phrase.options for phrase in phrases.values()):
            return None
        return Option(values, rows, phrases, rule.sides)

    def spell(self, word: Word, option: Option, rows: dict[str, Row], language: int) -> str:
        """Join the parts of a word."""
        text = ""
        for part in word.parts:
            if isinstance(part, str):
                text += part
                continue
            labels = {option.values.get(label, label) for label in part.labels}
            if not part.name:
                text += labels.pop()
                continue
            # The column with the most of these labels and no others.
            columns = self.tables[part.name.rstrip("2")].columns[language]
            fitting = [index for index, column in enumerate(columns) if column <= labels]
            best = max(fitting, key=lambda index: len(columns[index]))
            text += rows[part.name].forms[language][best]
        return text


Words = list[tuple[str, tuple[int, str]]]
"""Words of a side, each with its group: the number of its rule in the sentence, and a name."""


class Sentence:
    """One walk through the grammar."""

    def __init__(self, grammar: Grammar, draws: random.Random) -> None:
        self._grammar = grammar
        self._draw = draws.random  # only random() is the same in every version of Python
        self._num_rules = 0

    def expand(self, choice: Choice) -> tuple[Words, Words]:
        """Draw an option and return its words on both sides."""
        self._num_rules += 1
        number = self._num_rules
        option = choice.options[0]
        if len(choice.options) > 1:
            option = choice.options[bisect_right(choice.sums, self._draw() * choice.sums[-1])]
        rows = {
            name: found[0] if len(found) == 1 else found[int(self._draw() * len(found))]
            for name, found in option.rows.items()
        }
        phrases = {name: self.expand(phrase) for name, phrase in option.phrases.items()}
        sides: tuple[Words, Words] = ([], [])
        for language, words in enumerate(sides):
            for item in option.sides[language]:
                if isinstance(item, str):
                    words += phrases[item][language]
                elif text := self._grammar.spell(item, option, rows, language):
                    words.append((text, (number, item.group)))
        return sides


def write(side: Words) -> tuple[str, list[tuple[int, str]]]:
    """Return the text of a side, and the group of each of its words."""
    words: list[str] = []
    groups: list[tuple[int, str]] = []
    for text, group in side:
        if text in MARKS:
            words[-1] = words[-1].removesuffix(",") + text
        else:
            words.append(text)
            groups.append(group)
    sentence = " ".join(words)
    return sentence[0].upper() + sentence[1:], groups


def pairs(text: str, draws: random.Random) -> Iterator[tuple[str, str, str]]:
    """Draw source, target and links, some of them repeatedly, from the text of a grammar."""
    grammar = Grammar(text)
    start = grammar.choice("Sentence", frozenset())
    while True:
        source, target = Sentence(grammar, draws).expand(start)
        (source_text, sources), (target_text, targets) = write(source), write(target)
        links = [
            f"{i}-{j}"
            for i, group in enumerate(sources)
            for j, other in enumerate(targets)
            if group == other
        ]
        yield source_text, target_text, " ".join(links)


def corpus() -> str:
    """Return the lines of the corpus."""
    lines: list[str] = []
    seen: tuple[set[str], set[str]] = (set(), set())
    for source, target, links in pairs(GRAMMAR.read_text("utf-8"), random.Random(SEED)):
        if len(lines) == NUM_PAIRS:
            break
        if source not in seen[0] and target not in seen[1]:
            seen[0].add(source)
            seen[1].add(target)
            lines.append(f"{source}\t{target}\t{links}\n")
    return "".join(lines)


if __name__ == "__main__":
    CORPUS.write_bytes(gzip.compress(corpus().encode("utf-8"), mtime=0))
