"""Find the candidates of a grammar: rules with a value for each of their variables."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from itertools import product
from math import prod

from seq2seq.data.grammar.grammar import START, Grammar, Location, Mention, Row, Rule

MAX_COMBINATIONS = 10_000
"""Limit of the combinations of feature values of one rule; each makes a rule of its own."""
Key = tuple[str, tuple[str | None, ...]]
"""A category with a value for each of its features; None allows any value."""


def find_candidates(grammar: Grammar) -> dict[Key, list["Candidate"]]:
    """Return the candidates of every phrase that can occur, beginning with the sentence.

    Raises:
        ValueError: No sentence can use some rule or word.
    """
    tried = _expand_all(grammar)
    finite = _finite_keys(tried)
    used = _reachable(tried, finite, _start_key(grammar))
    _check_rules_used(grammar, tried, used, finite)
    _check_rows_used(grammar, used)
    return used


def _start_key(grammar: Grammar) -> Key:
    return START, (None,) * len(grammar.signatures[START])


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A rule with a value for each of its variables."""

    rule: Rule
    values: Mapping[str, str]
    keys: Mapping[str, Key]
    """Key of each phrase."""
    rows: Mapping[str, tuple[Row, ...]]
    """Possible rows of each word."""

    def is_finite(self, finite: set[Key]) -> bool:
        """Return whether all its phrases are in `finite` and all its words exist."""
        return all(self.rows.values()) and finite.issuperset(self.keys.values())


def _expand_all(grammar: Grammar) -> dict[Key, list[Candidate]]:
    candidates: dict[Key, list[Candidate]] = {}
    rows_of = cache(partial(_rows, grammar))
    waiting = [_start_key(grammar)]
    while waiting:
        key = waiting.pop()
        if key in candidates:
            continue
        category, values = key
        candidates[key] = [
            candidate
            for rule in grammar.rules[category]
            for candidate in _candidates_of_rule(rule, values, rows_of)
        ]
        for candidate in candidates[key]:
            waiting.extend(candidate.keys.values())
    return candidates


def _candidates_of_rule(
    rule: Rule, wanted: tuple[str | None, ...], rows_of: Callable[[Key], tuple[Row, ...] | None]
) -> Iterator[Candidate]:
    domains = dict(rule.domains)
    for variable, value in zip(rule.head, wanted, strict=True):
        if value is not None:
            domains[variable] = (value,) if value in domains[variable] else ()
    if prod(map(len, domains.values())) > MAX_COMBINATIONS:
        raise rule.location.error(
            f"the rule has more than {MAX_COMBINATIONS:,} combinations of values for its "
            f"{len(domains)} features; name fewer, or split the rule"
        )
    for combination in product(*domains.values()):
        values = dict(zip(domains, combination, strict=True))
        keys: dict[str, Key] = {}
        rows: dict[str, tuple[Row, ...]] = {}
        for name, mention in rule.mentions.items():
            key = _key(mention, values)
            found = rows_of(key)
            if found is None:
                keys[name] = key
            else:
                rows[name] = found
        yield Candidate(rule=rule, values=values, keys=keys, rows=rows)


def _key(mention: Mention, values: Mapping[str, str]) -> Key:
    arguments = tuple(None if name is None else values[name] for name in mention.arguments)
    return mention.category, arguments


def _rows(grammar: Grammar, key: Key) -> tuple[Row, ...] | None:
    """Return the words that fit the key, or None if its category has no table."""
    category, wanted = key
    if category not in grammar.tables:
        return None
    return tuple(
        row
        for row in grammar.tables[category].rows
        if all(
            value is None or value in allowed
            for value, allowed in zip(wanted, row.values, strict=True)
        )
    )


def _finite_keys(candidates: Mapping[Key, list[Candidate]]) -> set[Key]:
    """Return the keys that can be expanded into words only."""
    finite: set[Key] = set()
    grown = True
    while grown:
        grown = False
        for key, alternatives in candidates.items():
            if key not in finite and any(option.is_finite(finite) for option in alternatives):
                finite.add(key)
                grown = True
    return finite


def _reachable(
    candidates: Mapping[Key, list[Candidate]], finite: set[Key], start: Key
) -> dict[Key, list[Candidate]]:
    used: dict[Key, list[Candidate]] = {}
    waiting = [start]
    while waiting:
        key = waiting.pop()
        if key not in used:
            used[key] = [option for option in candidates[key] if option.is_finite(finite)]
            waiting.extend(child for option in used[key] for child in option.keys.values())
    return used


def _check_rules_used(
    grammar: Grammar,
    tried: Mapping[Key, list[Candidate]],
    used: Mapping[Key, list[Candidate]],
    finite: set[Key],
) -> None:
    used_locations = {option.rule.location for options in used.values() for option in options}
    unused = [
        rule
        for rules in grammar.rules.values()
        for rule in rules
        if rule.location not in used_locations
    ]
    misfits: dict[Location, str] = {}
    for option in (option for options in tried.values() for option in options):
        misfit = _find_misfit(option, finite)
        if misfit is not None:
            misfits.setdefault(option.rule.location, misfit)
    # Unproductive rules are the cause; unreachable ones are often only the consequence.
    for rule in unused:
        if rule.location in misfits:
            raise rule.location.error(
                f"unproductive rule of {rule.category}: nothing fits {misfits[rule.location]}; "
                "add a rule or word for it, or correct the features here"
            )
    for rule in unused:
        features = " ".join(variable.split()[0] for variable in rule.head)
        raise rule.location.error(
            f"unreachable rule of {rule.category}: no sentence asks for "
            f"{rule.category}[{features}]; mention it in a rule that {START} leads to, or delete it"
        )


def _find_misfit(option: Candidate, finite: set[Key]) -> str | None:
    for name, mention in option.rule.mentions.items():
        fits = option.rows[name] if name in option.rows else option.keys[name] in finite
        if not fits:
            _, values = _key(mention, option.values)
            return f"{name}[{' '.join(value for value in values if value is not None)}]"
    return None


def _check_rows_used(grammar: Grammar, used: Mapping[Key, list[Candidate]]) -> None:
    used_locations = {
        row.location
        for options in used.values()
        for option in options
        for rows in option.rows.values()
        for row in rows
    }
    for table in grammar.tables.values():
        for row in table.rows:
            if row.location not in used_locations:
                raise row.location.error(
                    f"unreachable word of {table.category}: no sentence asks for its features; "
                    f"mention {table.category} with them in a rule, or delete the word"
                )
