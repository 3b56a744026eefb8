import errno

import pytest
from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import ConfigCompositionException
from omegaconf import OmegaConf

from seq2seq.config.composition import (
    USER_ERRORS,
    config_directory,
    describe_error,
    load_as,
    quote_value,
)
from seq2seq.config.schema import TrainConfig, load_config, register_schemas


@pytest.fixture(autouse=True)
def _schemas():
    register_schemas()


def test_composing_leaves_the_state_of_hydra_as_it_was():
    with initialize_config_dir(version_base="1.3", config_dir=str(config_directory())):
        outer = GlobalHydra.instance().hydra

        load_as(TrainConfig, "train", [])

        assert outer is not None
        assert GlobalHydra.instance().hydra is outer


def test_an_unknown_key_in_a_file_is_described_as_on_the_command_line(tmp_path):
    content = "defaults: [train, _self_]\ntraining: {schedule: {warmup: 1}}\n"
    (tmp_path / "mine.yaml").write_text(content)

    with (
        initialize_config_dir(version_base="1.3", config_dir=str(tmp_path)),
        pytest.raises(ConfigCompositionException) as caught,
    ):
        compose("mine", overrides=[f"hydra.searchpath=[{config_directory()}]"])

    line = "unknown key 'training.schedule.warmup'; did you mean training.schedule.warmup_updates?"
    assert describe_error(caught.value) == line


def error_of(*overrides: str) -> str:
    """Return the line that describes the error of these overrides."""
    with pytest.raises(ValueError) as caught:
        load_config(*overrides)
    assert caught.value.__suppress_context__ and caught.value.__cause__ is None
    return str(caught.value)


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("modle.form=luong", "unknown key 'modle'; did you mean model"),
        ("kernels=plain", "unknown key 'kernels'; did you mean training.kernels?"),
        (
            "model.encoder.hiden_size=3",
            "unknown key 'model.encoder.hiden_size'; did you mean model.encoder.hidden_size?",
        ),
        (
            "attention.num_heads=3",
            "unknown key 'attention.num_heads'; it belongs to attention=multihead",
        ),
        (
            "tokenizer.splitter=moses",
            "unknown key 'tokenizer.splitter'; it belongs to tokenizer=words",
        ),
        (
            "attention=dott",
            "unknown attention 'dott'; one of: additive, coverage, dot, gaussian, general, local, "
            "location, multihead, none, uniform; one of your own needs plugins=[FILE.py]",
        ),
        ("+model.encoder.extra.deep=1", "unknown key 'model.encoder.extra'; remove it"),
        ("+extra=1", "unknown key 'extra'; remove it"),
        (
            "model.encoder.hidden_size=wide",
            "model.encoder.hidden_size: Value 'wide' of type 'str' could not be converted to Int",
        ),
        (
            "training.precision=fp8",
            "training.precision: Invalid value 'fp8', expected one of [auto, fp32, tf32, ",
        ),
        ("data=files", "data.train needs a value; give data.train=..."),
        ("experiment=nope", "unknown experiment 'nope'; one of: best, everyday, multi30k_40min, "),
        ("my/input.de", "'my/input.de' is not key=value; --help shows the keys"),
        ("data.max_length=null", "data.max_length: field 'data.max_length' is not Optional"),
        (
            ["data=files", "data.train=my/train.tsv", "data.valid=[a,b]"],
            "data.train=my/train.tsv must contain one to three paths",
        ),
        ("run_name=${name}", "run_name: Interpolation key 'name' not found"),
        ("data.test=[a b.de,(]", "cannot read 'data.test=[a b.de,(]'; put single quotes around"),
        (
            ["data=files", "data.train={a: {files: [x], tag: '<2a>'}}", "data.train.a.weight=5"],
            "unknown key 'data.train.a.weight'; write +data.train.a.weight=... to add it to files, "
            "tag",
        ),
        (
            ["data=files", "data.train={german: {files: [x]}}", "data.train.germn={files: [z]}"],
            "unknown key 'data.train.germn'; did you mean data.train.german?",
        ),
    ],
)
def test_a_mistake_is_described_in_one_line(override, line):
    text = error_of(*([override] if isinstance(override, str) else override))

    assert text.startswith(line)
    assert "\n" not in text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a: 1\nb: [1, 2\n", "line 3, column 1: expected ',' or ']'"),
        ("a: 1\nb: 2\n  a: 3\n", "line 3, column 4: mapping values are not allowed"),
        ("a: 1\nb: 2\na: 3\n", "line 3, column 1: found duplicate key a"),
    ],
)
def test_a_mistake_in_a_yaml_file_is_named_with_its_place(tmp_path, text, problem):
    path = tmp_path / "mine.yaml"
    path.write_text(text)

    with pytest.raises(USER_ERRORS) as refused:
        OmegaConf.load(path)

    line = describe_error(refused.value)
    assert line.startswith(f"{path}: {problem}")
    assert "\n" not in line


def test_an_error_without_words_is_named_by_its_type():
    assert describe_error(ValueError()) == "ValueError"
    assert describe_error(OSError(errno.EMFILE, "Too many open files")) == ("too many open files")


def test_an_error_of_the_system_names_its_file_without_a_number(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(NotADirectoryError) as refused:
        (tmp_path / "file" / "run").mkdir()

    assert describe_error(refused.value) == f"{tmp_path}/file/run: not a directory"


PATHS = ["my runs/a.py", "a,b/c.py", "it's", 'say "no"', "grüße", "[a]", "{a: b}", "a=b", "x(1)"]
PATHS += ["end\\", "${oc.env:HOME}", "a:b", "20261122_211516", "2026.10", "1e3", "true", "null"]


def read(argument):
    value = OverridesParser.create().parse_override(argument).value()
    return OmegaConf.to_container(OmegaConf.create({"value": value}), resolve=True)["value"]


@pytest.mark.parametrize("path", PATHS)
def test_hydra_reads_a_quoted_path_literally(path):
    assert read(f"key={quote_value(path)}") == path
