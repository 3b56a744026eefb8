"""The base of all configurations, which checks each field against its type and its rules.

A rule is written in the annotation of its field: `beam_size: Annotated[int, Range(1, 10_000)]`. The
check, its message and the key reference all come from this annotation.
"""

import json
import math
from collections.abc import Iterable
from dataclasses import MISSING, dataclass, fields
from enum import Enum
from functools import cache
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import (
    Annotated,
    ClassVar,
    NamedTuple,
    Protocol,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    runtime_checkable,
)


@runtime_checkable
class Rule(Protocol):
    """A rule in the annotation of a field; its text completes "must be"."""

    def allows(self, value: object) -> bool:
        """Return whether a value of the field's type satisfies the rule."""


@dataclass(frozen=True)
class Range:
    """The finite numbers from `least` or above `above`, up to `most` or below `below`."""

    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None
    hint: str = ""
    """Text after the range in messages, which suggests an alternative to the user."""

    def allows(self, value: object) -> bool:
        """Return whether a number lies in the range."""
        assert isinstance(value, int | float)
        return (
            math.isfinite(value)
            and (self.least is None or value >= self.least)
            and (self.above is None or value > self.above)
            and (self.most is None or value <= self.most)
            and (self.below is None or value < self.below)
        )

    def __str__(self) -> str:
        words = {"at least": self.least, "above": self.above}
        words |= {"at most": self.most, "below": self.below}
        bounds = [f"{word} {bound:,}" for word, bound in words.items() if bound is not None]
        return " and ".join(bounds) + (f"; {self.hint}" if self.hint else "")


@dataclass(frozen=True)
class OneOf:
    """A choice of values."""

    values: tuple[object, ...]

    def allows(self, value: object) -> bool:
        """Return whether a value, or each value of a list, is one of the choices; 1 does not count
        as true."""
        choices = [(type(each), each) for each in self.values]
        values = value if isinstance(value, list) else [value]
        return all((type(each), each) in choices for each in values)

    def __str__(self) -> str:
        return f"one of: {', '.join(map(as_yaml, self.values))}"


@dataclass(frozen=True)
class Filled:
    """Texts, and lists of texts, that are neither empty nor blank."""

    meaning: str

    def allows(self, value: object) -> bool:
        """Return whether there is a text, and none is blank."""
        texts = value if isinstance(value, list) else [value]
        return bool(texts) and all(str(text).strip() for text in texts)

    def __str__(self) -> str:
        return self.meaning


@dataclass(frozen=True)
class Texts:
    """Lists and dictionaries of texts, for fields whose values OmegaConf does not check."""

    def allows(self, value: object) -> bool:
        """Return whether every value is a text."""
        values = value.values() if isinstance(value, dict) else value
        return isinstance(values, Iterable) and all(isinstance(each, str) for each in values)

    def __str__(self) -> str:
        return "made of texts"


Count = Annotated[int, Range(1)]
Size = Annotated[int, Range(1, 20_000)]
"""Size of a part of a model; the limit keeps a forged file from requesting huge amounts of
memory."""
VocabularySize = Annotated[int, Range(1, 1_000_000)]
Layers = Annotated[int, Range(1, 100)]
Threads = Annotated[int, Range(1, 1_024)]
Probability = Annotated[float, Range(0, below=1)]
Weight = Annotated[float, Range(0)]
Positive = Annotated[float, Range(above=0)]
Name = Annotated[str, Filled("a name")]
FilePath = Annotated[str, Filled("a path")]
FilePaths = Annotated[list[str], Filled("a file, or several: [a,b]")]


class FieldType(NamedTuple):
    """The parts of a field's type."""

    bases: tuple[type, ...]
    """The type or its alternatives, without None; `list` stands for any list."""
    is_optional: bool
    rules: tuple[Rule, ...]


@dataclass(kw_only=True, slots=True, repr=False)
class Config:
    """Base of the configuration dataclasses.

    Creating a configuration checks the type and the rules of every field, and replaces the name of
    a member of an enumeration by the member. A subclass gives its section, `class
    BeamConfig(Config, section="decoding")`, and adds the rules between its fields in
    `__post_init__`. A subclass declared with `repr=False` is shown without the fields that have
    their default values.
    """

    section: ClassVar[str] = ""
    """Key of the configuration; "" if its fields are top-level keys."""

    def __init_subclass__(cls, *, section: str | None = None) -> None:
        # A subclass may omit it. With slots=True, Python creates the class a second time, and
        # without it.
        cls.section = cls.section if section is None else section

    def __post_init__(self) -> None:
        types = field_types(type(self))  # type: ignore[arg-type]  # a class has a hash
        for name, field_type in types.items():
            value = getattr(self, name)
            checked = _check(f"{self.section}.{name}".lstrip("."), value, field_type)
            if checked is not value:
                setattr(self, name, checked)

    def __repr__(self) -> str:
        shown = []
        for field in fields(self):
            value = getattr(self, field.name)
            factory = field.default_factory
            if value != (field.default if factory is MISSING else factory()):
                value = value.name if isinstance(value, Enum) else value
                shown.append(f"{field.name}={value!r}")
        return f"{type(self).__name__}({', '.join(shown)})"


@cache
def field_types(config_type: type) -> dict[str, FieldType]:
    """Return the type of each field."""
    hints = get_type_hints(config_type, include_extras=True)
    return {field.name: _take_apart(hints[field.name]) for field in fields(config_type)}


def as_yaml(value: object) -> str:
    """Format a value for a message as it is written in a command: null, true and false.

    Example:
        >>> as_yaml(None), as_yaml(True), as_yaml(0.5)
        ('null', 'true', '0.5')
    """
    return json.dumps(value) if value is None or isinstance(value, bool) else str(value)


def counted(number: int, name: str) -> str:
    """Format a count for a message.

    Example:
        >>> counted(1, "line"), counted(1200, "line")
        ('1 line', '1,200 lines')
    """
    return f"{number:,} {name}{'' if number == 1 else 's'}"


def visible(text: str) -> str:
    """Escape the characters of a text that cannot be printed, but for tabs and line feeds.

    On a terminal, control characters could change the title or delete lines.

    Example:
        >>> print(visible("\x1b]0;title\x07"))
        \\x1b]0;title\\x07
    """
    return "".join(
        each if each.isprintable() or each in "\t\n" else ascii(each)[1:-1] for each in text
    )


_MEANINGS: dict[type, tuple[type, str]] = {
    bool: (bool, "true or false"),
    int: (Integral, "an integer (64 bits)"),
    float: (Real, "a number"),
    str: (str, "a text"),
    list: (list, "a list"),
    dict: (dict, "a dictionary"),
}
"""Classes that count as each type, and the word for the type in messages."""


def _take_apart(hint: object) -> FieldType:
    if get_origin(hint) is Annotated:
        inner, *added = get_args(hint)
        found = _take_apart(inner)
        rules = tuple(each for each in added if isinstance(each, Rule))
        return found._replace(rules=found.rules + rules)
    if get_origin(hint) in (Union, UnionType):
        parts = [_take_apart(part) for part in get_args(hint)]
        bases = tuple(base for part in parts for base in part.bases if base is not NoneType)
        rules = tuple(rule for part in parts for rule in part.rules)
        return FieldType(bases, NoneType in get_args(hint), rules)
    base = get_origin(hint) or hint
    known = base if isinstance(base, type) else object
    return FieldType((known,), hint is NoneType, ())


def check_value(key: str, value: object, hint: object) -> None:
    """Check a value that is no field of a configuration as if it were one.

    Args:
        key: Its key, for the message.
        value: The value.
        hint: The type with its rules, such as `Count`.

    Raises:
        ValueError: The value has another type, or breaks a rule.
    """
    _check(key, value, _take_apart(hint))


def check_format(found: object, known: int) -> None:
    """Raise ValueError if a file has another format than the known one."""
    if found != known:
        raise ValueError(f"it has format {found}, but this version reads {known}")


def _check(key: str, value: object, field_type: FieldType) -> object:
    """Return the value of a field; the name of an enumeration's member becomes the member.

    Raises:
        ValueError: The value has another type, or breaks a rule.
    """
    if value is None and field_type.is_optional:
        return None
    for base in field_type.bases:
        if issubclass(base, Enum) and isinstance(value, str) and value in base.__members__:
            return base[value]
    shown = repr(value) if isinstance(value, str) else as_yaml(value)
    hint = ", or null" if field_type.is_optional else ""
    if not any(_has_type(value, base) for base in field_type.bases):
        needed = " or ".join(map(_meaning, field_type.bases))
    elif broken := [str(rule) for rule in field_type.rules if not rule.allows(value)]:
        is_finite = not isinstance(value, float) or math.isfinite(value)
        needed = broken[0] if is_finite else f"finite and {broken[0]}"
    else:
        return value
    raise ValueError(f"{key}={shown} must be {needed}{hint}")


def _has_type(value: object, base: type) -> bool:
    if isinstance(value, bool) and base in (int, float):
        return False
    if base is int:  # the range of int64 tensors
        return isinstance(value, Integral) and -(2**63) <= int(value) < 2**63
    if base in _MEANINGS:
        return isinstance(value, _MEANINGS[base][0])
    # A plug-in may have fields of other types; OmegaConf checks those that it knows.
    return not issubclass(base, Enum | Config) or isinstance(value, base)


def _meaning(base: type) -> str:
    if issubclass(base, Enum):
        return f"one of: {', '.join(base.__members__)}"
    return _MEANINGS[base][1] if base in _MEANINGS else f"a {base.__name__}"
