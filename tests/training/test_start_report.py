"""Settings that another one makes ineffective are named in a warning."""

import logging

import pytest
from tiny_training import tiny_run

from seq2seq.config.schema import load_config
from seq2seq.training.start_report import settings_without_effect

FILES = ("data=files", "data.valid=[b.tsv]")


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        (["training.r_drop=1", "data.dropout=0"], "training.r_drop=1.0 "),
        (["training.freeze_embeddings=true"], "training.freeze_embeddings=true "),
        (["training.teacher_forcing.end=0.5"], "training.teacher_forcing.end=0.5 "),
        (["training.teacher_forcing.schedule=linear"], "training.teacher_forcing.schedule=linear "),
        (
            ["model.encoder.dropout_mode=sequence", "data.dropout=0"],
            "model.encoder.dropout_mode=sequence ",
        ),
        (
            [
                *("model.decoder.dropout_mode=sequence", "model.decoder.word_dropout=0.1"),
                *("model.decoder.embedding_dropout=0", "model.decoder.hidden_dropout=0"),
                "model.decoder.readout_dropout=0",
            ],
            "model.decoder.dropout_mode=sequence ",
        ),
        (["attention=none", "attention.dropout=0.3"], "attention.dropout=0.3 "),
        (["training.max_updates=100"], "training.schedule.warmup_updates=100 "),
        (["tokenizer.sampling_nbest=64"], "tokenizer.sampling_nbest=64 "),
        ([*FILES, "data.train={files: [a.tsv], weight: 2}"], "data.train.weight=2.0 "),
    ],
)
def test_a_setting_without_effect_is_named(overrides: list[str], named: str) -> None:
    [warning] = settings_without_effect(load_config(*overrides))

    assert warning.startswith(named)


@pytest.mark.parametrize(
    "overrides",
    [
        [],
        ["training.r_drop=1", "data.dropout=0", "model.encoder.word_dropout=0.1"],
        ["training.r_drop=1", "data.dropout=0", "attention.dropout=0.1"],
        ["training.freeze_embeddings=true", "init_from=a.pt"],
        ["training.freeze_embeddings=true", "model.decoder.vectors=a.vec"],
        ["training.teacher_forcing.end=0.5", "training.teacher_forcing.start=0.5"],
        ["training.teacher_forcing.end=0.5", "training.teacher_forcing.schedule=linear"],
        ["training.max_updates=101"],
        ["model.encoder.dropout_mode=sequence", "data.dropout=0.1"],
        ["tokenizer.sampling_nbest=64", "tokenizer.sampling_alpha=0.2"],
        ["tokenizer=words"],
        [*FILES, "data.train=[a.tsv]"],
        [*FILES, "data.train={a: {files: [a.tsv], weight: 2}, b: [b.tsv]}"],
    ],
)
def test_settings_with_an_effect_are_not(overrides: list[str]) -> None:
    assert list(settings_without_effect(load_config(*overrides))) == []


def test_dropout_of_no_attention_is_no_dropout_for_r_drop() -> None:
    r_drop = ("training.r_drop=1", "data.dropout=0")
    config = load_config("attention=none", "attention.dropout=0.3", *r_drop)

    named = [warning.partition(" ")[0] for warning in settings_without_effect(config)]

    assert named == ["attention.dropout=0.3", "training.r_drop=1.0"]


def test_the_warnings_are_logged_once_with_the_sizes(tmp_path, caplog):
    caplog.set_level(logging.INFO)

    tiny_run(tmp_path, "training.max_updates=2", "training.freeze_embeddings=true")

    messages = [record.getMessage() for record in caplog.records]
    [warning] = [each for each in messages if each.startswith("training.freeze_embeddings=true")]
    [sizes] = [each for each in messages if "22 training pairs, 9 + 9 tokens" in each]
    assert messages.index(warning) < messages.index(sizes)
