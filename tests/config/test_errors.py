import pytest
from hydra.errors import HydraException, MissingConfigException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from seq2seq.config.errors import USER_ERRORS, describe_error
from seq2seq.config.schema import load_config


def error_of(*overrides: str) -> str:
    """Return the line that describes the error of these overrides."""
    with pytest.raises((HydraException, OmegaConfBaseException, ValueError)) as caught:
        load_config(*overrides)
    return describe_error(caught.value)


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("modle.bridge=mean", "unknown key 'modle'; did you mean model"),
        ("kernels=plain", "unknown key 'kernels'; did you mean training.kernels?"),
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
            "unknown attention 'dott'; one of: additive, coverage, dot, gaussian, general, local, "
            "location, multihead, none, uniform; one of your own needs plugins=[FILE.py]",
        ),
        (
            "decoding=beem",
            "unknown decoding 'beem'; one of: beam, greedy, sampling; one of your own needs plug",
        ),
        ("data=wmt", "unknown data 'wmt'; one of: files, grammar, multi30k"),
        ("attention=null", "a part is chosen by its name, for example attention=none; this is not"),
        ("attention=true", "a part is chosen by its name, for example attention=none; this is not"),
        ("+attention.extra=1", "unknown key 'attention.extra'; remove it"),
        ("+model.encoder.extra.deep=1", "unknown key 'model.encoder.extra'; remove it"),
        ("+extra=1", "unknown key 'extra'; remove it"),
        (
            "model.encoder.hidden_size=wide",
            "model.encoder.hidden_size: Value 'wide' of type 'str' could not be converted to Int",
        ),
        ("overwrite=maybe", "overwrite: Value 'maybe' is not a valid bool"),
        ("resume=maybe", "resume=maybe must be true, false or auto"),
        (
            "training.precision=fp8",
            "training.precision: Invalid value 'fp8', expected one of [auto, fp32, tf32, ",
        ),
        ("data=files", "data.train has no value; give it, data.train=..."),
        ("experiment=nope", "unknown experiment 'nope'; one of: multi30k, multi30k_best"),
        ("attention.name=dot", "attention.name=dot does not name this attention; remove it"),
        ("model.encoder.hidden_dropout=1.5", "model.encoder.hidden_dropout=1.5 must lie in [0, 1)"),
        ("training.max_epochs=null", "training needs a budget: set training.max_epochs"),
        (
            "my/input.de",
            "'my/input.de' is not key=value; --cfg job lists the keys, and a file to translate is "
            "given as input=my/input.de",
        ),
        ("data.max_length=null", "data.max_length=null: this key needs a value"),
        ("data.learning_rate=null", "data.learning_rate=null: this key needs a value"),
        ("init_from=''", "init_from= is empty; give a checkpoint or a run directory, or null"),
        ("seed=1=2", "cannot read 'seed=1=2'; put quotes around a value with special characters"),
    ],
)
def test_a_mistake_is_described_in_one_line(override, line):
    text = error_of(override)

    assert text.startswith(line)
    assert "\n" not in text


def test_an_argument_that_cannot_be_parsed_gets_an_example():
    assert error_of("seed=1=2").endswith("\"data.train=['gr\u00fc\u00dfe.de','greetings.en']\"")


def test_a_single_path_for_a_list_is_answered_with_brackets():
    text = error_of("data=files", "data.train=my/train.tsv", "data.valid=[a,b]")

    rule = "must be a list; write it in brackets, 'data.train=[...]'"
    assert text == f"data.train=my/train.tsv {rule}"


def test_a_missing_key_of_a_corpus_is_added_with_a_plus():
    corpora = "{a: {files: [x], tag: '<2a>'}}"
    line = error_of("data=files", f"data.train={corpora}", "data.train.a.weight=5")

    assert line == (
        "unknown key 'data.train.a.weight'; write +data.train.a.weight=... to add it to files, tag"
    )


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


def test_a_misspelt_name_of_a_corpus_is_answered_with_the_near_one():
    corpora = "{german: {files: [x]}, french: {files: [y]}}"
    line = error_of("data=files", f"data.train={corpora}", "data.train.germn={files: [z]}")

    assert line == "unknown key 'data.train.germn'; did you mean german?"


def test_an_error_without_words_is_named_by_its_type():
    assert describe_error(ValueError()) == "ValueError"


def test_an_error_of_the_system_names_its_file_without_a_number(tmp_path):
    (tmp_path / "file").write_text("")

    with pytest.raises(NotADirectoryError) as refused:
        (tmp_path / "file" / "run").mkdir()

    assert describe_error(refused.value) == f"{tmp_path}/file/run: not a directory"


@pytest.mark.parametrize("options", [["basic"], ["basic", "joblib"]])
def test_a_launcher_that_is_not_installed_names_the_extra(options):
    error = MissingConfigException("", missing_cfg_file="hydra/launcher/slurm", options=options)

    has_hint = describe_error(error).endswith("; others come with the extra sweep")

    assert has_hint == (options == ["basic"])


@pytest.mark.parametrize("values", [("[a,b]", "{x: [a,b]}"), ("{x: [a,b]}", "[a,b]")])
def test_a_list_and_a_dictionary_of_one_key_are_no_riddle(values):
    line = error_of("data=files", "data.valid=[a,b]", *(f"data.train={each}" for each in values))

    assert line.startswith("data.train is given as a list and as a dictionary")
