"""Every field of every configuration has a rule, and refuses in one line what breaks it."""

import dataclasses
import math
from dataclasses import dataclass
from enum import Enum
from typing import Annotated

import pytest
from tiny_translator import make_translate_config

from seq2seq.attention.base import attention_config_types
from seq2seq.attention.baselines import UniformConfig
from seq2seq.checks import (
    Config,
    Count,
    FilePath,
    Filled,
    OneOf,
    Range,
    as_yaml,
    field_types,
)
from seq2seq.cli.command_line import load_command
from seq2seq.cli.score import ScoreConfig
from seq2seq.config.schema import load_config
from seq2seq.data.config import CharactersConfig
from seq2seq.search.config import BeamConfig, EarlyStopping
from seq2seq.search.searches import decoding_config_types

WITHOUT_RANGE = {"seed", "decoding.seed"}


def every_config() -> list[Config]:
    """Return a configuration of each type of each command."""
    own_files = ("data=files", "data.train=[a.tsv]", "data.valid=[b.tsv]", "tokenizer=words")
    trains = [load_config(), load_config(*own_files)]
    trains += [load_config("data=multi30k", "tokenizer=characters")]
    types = (*attention_config_types().values(), *decoding_config_types().values())
    found: dict[type, Config] = {}
    waiting: list[Config] = [
        *trains,
        *(each() for each in types),
        make_translate_config("best.pt"),
        load_command("score", ScoreConfig, ["hypotheses=a", "reference=b"]),
    ]
    while waiting:
        config = waiting.pop()
        found.setdefault(type(config), config)
        values = (getattr(config, field.name) for field in dataclasses.fields(config))
        waiting += [value for value in values if isinstance(value, Config)]
    return list(found.values())


CONFIGS = every_config()
FIELDS = [
    (f"{config.section}.{name}".lstrip("."), config, name, field_type)
    for config in CONFIGS
    for name, field_type in field_types(type(config)).items()
]
RULES = [
    (key, config, name, rule)
    for key, config, name, field_type in FIELDS
    for rule in field_type.rules
    if isinstance(rule, Range)
]


def test_every_number_has_a_range() -> None:
    without = {
        key
        for key, _, _, each in FIELDS
        if {int, float} & {*each.bases} and not any(isinstance(r, Range) for r in each.rules)
    }
    assert without == WITHOUT_RANGE


def _outside(rule: Range) -> list[float]:
    """Return numbers just outside a range, and far outside."""
    low = [] if rule.least is None else [math.nextafter(rule.least, -math.inf), rule.least - 1]
    high = [] if rule.most is None else [math.nextafter(rule.most, math.inf), rule.most * 1000]
    return [*low, *high, *(each for each in (rule.above, rule.below) if each is not None)]


def test_a_number_out_of_its_range_is_refused_by_key_value_and_rule() -> None:
    for key, config, name, rule in RULES:
        is_integer = int in field_types(type(config))[name].bases
        values = [each for each in _outside(rule) if not is_integer or each == int(each)]
        values += [] if is_integer else [math.nan, math.inf]
        for value in values:
            given = int(value) if is_integer else value
            finite = "" if math.isfinite(given) else "finite and "

            with pytest.raises(ValueError) as caught:
                dataclasses.replace(config, **{name: given})

            assert (
                str(caught.value).removesuffix(", or null")
                == f"{key}={given} must be {finite}{rule}"
            )


def test_a_value_of_another_type_is_refused_in_one_line() -> None:
    for key, config, name, field_type in FIELDS:
        if key in ("data.train", "data.valid", "data.test"):  # checked by `read_file_sets`
            continue
        values = {list: [1.5], dict: {}}
        wrong = [b"", *(each for of, each in values.items() if of not in field_type.bases)]
        for value in (*wrong, *([] if field_type.is_optional else [None])):
            with pytest.raises(ValueError, match=rf"^{key}=.* must be ") as caught:
                dataclasses.replace(config, **{name: value})

            assert "\n" not in str(caught.value)


def test_the_name_of_a_member_of_an_enumeration_becomes_the_member() -> None:
    config = BeamConfig(early_stopping="first")

    assert config.early_stopping is EarlyStopping.first


def test_an_unknown_member_is_refused_with_the_choices() -> None:
    for key, config, name, field_type in FIELDS:
        if not issubclass(field_type.bases[0], Enum):
            continue

        with pytest.raises(ValueError, match=rf"^{key}='frist' must be one of: \w+, \w+") as caught:
            dataclasses.replace(config, **{name: "frist"})

        assert all(member in str(caught.value) for member in field_type.bases[0].__members__)


def test_a_name_of_a_member_reaches_the_rules_between_fields() -> None:
    assert UniformConfig(normalizer="softmax") == UniformConfig()

    with pytest.raises(ValueError, match=r"^tokenizer\.normalization=nmt_nfkc has rules of"):
        CharactersConfig(
            name="characters", vocabulary_size=9, min_frequency=1, normalization="nmt_nfkc"
        )


def test_a_blank_text_is_refused() -> None:
    for key, config, name, field_type in FIELDS:
        if Filled not in map(type, field_type.rules):
            continue
        is_list = list in field_type.bases
        for value in ([], ["a", " "]) if is_list else ("", " "):
            what = r"(a (name|path|file|group)|PART/NUMBER)"
            with pytest.raises(ValueError, match=rf"^{key}=.* must be {what}"):
                dataclasses.replace(config, **{name: value})


@dataclass(kw_only=True, slots=True, repr=False)
class _Shape(Config, section="shape"):
    size: Count
    path: FilePath | None = None
    mode: Annotated[bool | str, OneOf((True, "auto"))] = True
    form: EarlyStopping = EarlyStopping.exact


@dataclass(kw_only=True, slots=True)
class _PluginShape(_Shape):
    sides: tuple[int, int] = (1, 2)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"size": True}, "shape.size=true must be an integer (64 bits)"),
        ({"size": "3"}, "shape.size='3' must be an integer (64 bits)"),
        ({"size": 2.0}, "shape.size=2.0 must be an integer (64 bits)"),
        ({"size": 10**30}, f"shape.size={10**30} must be an integer (64 bits)"),
        ({"path": " "}, "shape.path=' ' must be a path, or null"),
        ({"mode": 1}, "shape.mode=1 must be true or false or a text"),
        ({"mode": "no"}, "shape.mode='no' must be one of: true, auto"),
    ],
)
def test_a_message_names_key_value_and_rule(values: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        _Shape(**{"size": 1} | values)

    assert str(caught.value) == message


def test_a_subclass_has_the_section_and_the_checks_of_its_base() -> None:
    assert _PluginShape(size=1, sides=[3, 4]).sides == [3, 4]

    with pytest.raises(ValueError, match=r"^shape\.size=0 must be at least 1$"):
        _PluginShape(size=0)


def test_a_configuration_is_shown_without_its_default_values() -> None:
    assert repr(_Shape(size=3, form="first")) == "_Shape(size=3, form='first')"
    assert repr(BeamConfig(beam_size=8)) == "BeamConfig(beam_size=8)"


def test_values_are_shown_as_in_a_command() -> None:
    values = (None, True, False, 0, 1, "None", [None])

    assert [as_yaml(value) for value in values] == [
        *("null", "true", "false", "0", "1", "None", "[None]")
    ]
