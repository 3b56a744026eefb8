"""Translations are counted, and warnings at the end of a stream say what was counted."""

import dataclasses
import logging

import pytest
from tiny_translator import BEST, SENTENCES, make_checkpoint, make_translator

from seq2seq.checkpoints.checkpoint import save_checkpoint
from seq2seq.config.schema import load_config
from seq2seq.inference.translator import Translator

TAGGED = (
    "data=files",
    "data.train={a: {files: [a.tsv], tag: '<2x>'}, b: {files: [b.tsv], tag: '<2y>'}}",
    "data.valid=[c.tsv]",
)
LINES = ["<2x> ja", "ja", "", " <2y> nein", "x <2x> ja"]


@pytest.fixture
def translator(tmp_path) -> Translator:
    """Load a checkpoint whose training corpora all had a tag."""
    checkpoint = make_checkpoint()
    config = dataclasses.replace(checkpoint.config, data=load_config(*TAGGED).data)
    save_checkpoint(tmp_path / "best.pt", dataclasses.replace(checkpoint, config=config))
    return Translator.load(tmp_path, device="cpu")


def test_sentences_without_a_tag_are_counted_in_translating(translator, caplog):
    unlimited = dataclasses.replace(BEST, max_length_offset=1000)
    with caplog.at_level(logging.WARNING):
        list(translator.translate(LINES[::3], unlimited))
        assert not [each for each in caplog.messages if "tag" in each]
        list(translator.translate(LINES, unlimited, batch_size=2))

    [message] = [each for each in caplog.messages if "tag" in each]
    assert message.startswith(
        "2 of 5 sentences do not begin with a tag of the training text (<2x>, <2y>); "
    )


def test_sentences_without_a_tag_are_counted_in_scoring(translator, caplog):
    with caplog.at_level(logging.WARNING):
        list(translator.score([(line, "abc") for line in LINES]))

    assert [each.split(";")[0] for each in caplog.messages] == [
        "2 of 5 sentences do not begin with a tag of the training text (<2x>, <2y>)",
        "1 of 5 pairs have text on one side only",
    ]


def test_translations_at_the_length_limit_are_counted(caplog):
    short = dataclasses.replace(BEST, max_length_ratio=0.0, max_length_offset=1)

    with caplog.at_level(logging.WARNING):
        found = list(make_translator().translate(SENTENCES, short))

    num_cut = sum(not each.best.finished for each in found)
    assert 0 < num_cut < 8
    [message] = caplog.messages
    assert message.startswith(f"{num_cut} of 8 translations reached the length limit; raise deco")
