"""The configuration goes to dataclasses, plain types and YAML and comes back; errors are a line."""

import dataclasses
import sys

import pytest
import yaml
from hydra import compose, initialize_config_dir
from hydra.errors import HydraException
from omegaconf.errors import OmegaConfBaseException
from tiny_training import ROOT

from seq2seq.cli.errors import one_line_errors
from seq2seq.config.errors import describe_error
from seq2seq.config.schema import load_config, register_schemas, to_train_config
from seq2seq.config.serialization import (
    config_differences,
    config_from_dict,
    config_to_dict,
    flatten_config,
    load_saved_config,
    save_config,
)


def error_of(*overrides: str) -> str:
    """Return the line that a user reads who gave these."""
    register_schemas()
    with (
        initialize_config_dir(version_base="1.3", config_dir=str(ROOT / "configs")),
        pytest.raises((HydraException, OmegaConfBaseException, ValueError)) as caught,
    ):
        to_train_config(compose("train", overrides=list(overrides)))
    return describe_error(caught.value)


@pytest.mark.parametrize("attention", ["additive", "gaussian", "none"])
def test_plain_types_come_back(attention):
    config = load_config(f"attention={attention}", "tokenizer=bpe", "decoding=beam")

    content = config_to_dict(config)

    assert config_from_dict(content) == config
    assert content == yaml.safe_load(yaml.safe_dump(content))


def test_yaml_comes_back(tmp_path):
    config = load_config("attention=multihead", "data=multi30k", "training.max_minutes=0.5")

    save_config(config, tmp_path / "config.yaml")

    assert load_saved_config(tmp_path / "config.yaml") == config


def test_a_part_of_an_unknown_name_is_an_error_with_the_choices():
    content = config_to_dict(load_config())
    content["attention"]["name"] = "local"

    with pytest.raises(ValueError, match="unknown attention 'local'; one of: additive, dot, gau"):
        config_from_dict(content)


def test_a_part_that_is_not_there_is_an_error_with_its_name():
    content = config_to_dict(load_config())
    del content["tokenizer"]

    with pytest.raises(ValueError, match="cannot read the configuration: 'tokenizer'"):
        config_from_dict(content)


def test_a_value_that_a_saved_configuration_lacks_is_an_error_with_its_name():
    saved = config_to_dict(load_config())
    del saved["training"]["optimizer"]

    with pytest.raises(ValueError, match=r"cannot read the configuration: .*training\.optimizer"):
        config_from_dict(saved)


def test_an_unknown_key_of_a_saved_configuration_is_an_error_with_its_name():
    content = config_to_dict(load_config())
    content["attention"]["width"] = 3

    with pytest.raises(ValueError, match=r"cannot read the configuration: .*attention\.width"):
        config_from_dict(content)


def test_a_value_out_of_range_in_a_saved_file_names_the_file(tmp_path):
    path = tmp_path / "config.yaml"
    save_config(load_config(), path)
    path.write_text(path.read_text().replace("accumulation: 1", "accumulation: 0"))

    with pytest.raises(ValueError, match=r"config\.yaml: training\.accumulation=0 must be"):
        load_saved_config(path)


def test_differences_name_keys_with_both_values():
    first = load_config("seed=1", "attention=additive", "attention.size=64")
    second = load_config("seed=3", "attention=none")

    differences = config_differences(first, second)

    assert differences == [
        "attention.name (additive -> none)",
        "attention.size (64 -> absent)",
        "run_name (grammar-additive -> grammar-none)",
        "seed (1 -> 3)",
    ]
    assert config_differences(first, dataclasses.replace(first)) == []


def test_flat_keys_are_those_of_the_command_line():
    flat = flatten_config(load_config("model.encoder.hidden_size=9"))

    assert flat["model.encoder.hidden_size"] == 9
    assert flat["attention.name"] == "additive"
    assert not any(isinstance(value, dict) for value in flat.values())


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("modle.bridge=mean", "unknown key 'modle'; did you mean model"),
        (
            "model.encoder.hiden_size=3",
            "unknown key 'model.encoder.hiden_size'; did you mean hidden_size?",
        ),
        (
            "attention.num_heads=3",
            "unknown key 'attention.num_heads'; it belongs to attention=multihead",
        ),
        ("data.train=[a,b]", "unknown key 'data.train'; it belongs to data=files"),
        ("tokenizer.lowercase=true", "unknown key 'tokenizer.lowercase'; it belongs to tokenizer="),
        (
            "attention=dott",
            "unknown attention 'dott'; one of: additive, dot, gaussian, general, multihead, none, "
            "uniform",
        ),
        ("data=wmt", "unknown data 'wmt'; one of: files, grammar, multi30k"),
        ("attention=null", "a part is chosen by its name, for example attention=none; this is no"),
        ("attention=true", "a part is chosen by its name, for example attention=none; this is no"),
        ("+attention.extra=1", "unknown key 'attention.extra'; remove it"),
        ("+model.encoder.extra.deep=1", "unknown key 'model.encoder.extra'; remove it"),
        ("+extra=1", "unknown key 'extra'; remove it"),
        (
            "model.encoder.hidden_size=wide",
            "model.encoder.hidden_size: Value 'wide' of type 'str' could not be converted to Int",
        ),
        ("resume=maybe", "resume: Value 'maybe' is not a valid bool"),
        (
            "training.precision=fp8",
            "training.precision: Invalid value 'fp8', expected one of [auto, fp32, bf16, fp16, ",
        ),
        ("data=files", "data.train has no value; give it, data.train=..."),
        ("experiment=nope", "unknown experiment 'nope'; one of: multi30k"),
        ("attention.name=dot", "attention.name=dot does not name this attention; remove it"),
        ("model.encoder.hidden_dropout=1.5", "model.encoder.hidden_dropout=1.5 must lie in [0, 1)"),
        ("training.max_epochs=null", "training needs a budget: set training.max_epochs"),
        (
            "my/input.de",
            "'my/input.de' is no key=value; --cfg job lists the keys, and a file to translate is "
            "given as input=my/input.de",
        ),
        ("seed=1=2", "cannot read 'seed=1=2'; put quotes around a value with special characters"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(override, line):
    said = error_of(override)

    assert said.startswith(line)
    assert "\n" not in said


def test_what_cannot_be_parsed_is_answered_by_an_example_as_it_is_typed():
    assert error_of("seed=1=2").endswith("\"data.train=['gr\u00fc\u00dfe.de','greetings.en']\"")


def test_one_path_for_a_list_is_answered_by_brackets():
    said = error_of("data=files", "data.train=my/train.tsv")

    assert said == "data.train must be a list; write it in brackets, 'data.train=[...]'"


def test_an_error_without_words_is_named():
    assert describe_error(ValueError()) == "ValueError"


@pytest.mark.parametrize(
    "error", [ValueError("a=1 is\nwrong"), OSError("no disk"), FloatingPointError("update 3")]
)
def test_a_users_error_ends_with_one_line_and_exit_code_2(capsys, error):
    @one_line_errors
    def fail() -> None:
        raise error

    with pytest.raises(SystemExit) as end:
        fail()

    assert end.value.code == 2
    captured = capsys.readouterr()
    assert captured.err == f"error: {' '.join(str(error).split())}\n"
    assert captured.out == ""


def test_a_fault_of_the_program_keeps_its_traceback():
    @one_line_errors
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()


def test_ctrl_c_ends_with_one_line_and_its_exit_code(capsys):
    @one_line_errors
    def fail() -> None:
        raise KeyboardInterrupt

    with pytest.raises(SystemExit) as end:
        fail()

    assert end.value.code == 130
    assert capsys.readouterr().err == "stopped by Ctrl-C\n"


def test_a_function_without_errors_keeps_its_name_and_result():
    @one_line_errors
    def double(number: int) -> int:
        return 2 * number

    assert double(3) == 6
    assert double.__name__ == "double"
    assert double.__module__ == __name__
    assert sys.modules[__name__] is not None
