import json
import math

import pytest
import torch

from seq2seq.cli.translation.config import OutputFormat
from seq2seq.cli.translation.formats import format_scored, format_translation
from seq2seq.inference.translation import TranslatedHypothesis, Translation


def make_translation(*texts):
    hypotheses = [
        TranslatedHypothesis(
            text=text,
            score=-1.5 - rank,
            log_probability=-3.0,
            finished=True,
            ids=[5],
            tokens=["a", "</s>"],
            attention_weights=torch.tensor([[[0.25, 0.75, 0.0], [0.5, 0.5, 0.0]]]),
        )
        for rank, text in enumerate(texts)
    ]
    return Translation("Bär \u2028 x", [4, 5], ["B", "x", "</s>"], hypotheses)


def test_text_is_the_best_hypothesis():
    content = format_translation(OutputFormat.text, make_translation("ein B\xe4r", "x"), index=4)

    assert content == "ein B\xe4r\n".encode()


def test_nbest_has_the_input_line_the_text_and_the_score_of_each_hypothesis():
    content = format_translation(OutputFormat.nbest, make_translation("a b", ""), index=4)

    assert content == b"4 ||| a b ||| -1.500000\n4 |||  ||| -2.500000\n"


def test_json_is_one_line_with_all_values():
    translation = make_translation("a\u2028b", "c")

    content = format_translation(OutputFormat.json, translation, index=4)

    assert content.count(b"\n") == 1
    fields = json.loads(content)
    assert fields["source"] == translation.source
    assert fields["source_tokens"] == translation.source_tokens
    first, second = fields["hypotheses"]
    assert (first["text"], second["text"]) == ("a\u2028b", "c")
    assert (first["score"], second["score"]) == (-1.5, -2.5)
    assert first["finished"] is True
    assert first["tokens"] == ["a", "</s>"]
    assert first["attention"] == [[[0.25, 0.75, 0.0], [0.5, 0.5, 0.0]]]
    assert math.isclose(first["log_probability"], -3.0)


def test_the_text_of_a_scored_reference_is_its_log_probability():
    content = format_scored(OutputFormat.text, make_translation("ein B\xe4r"), index=4)

    assert content == b"-3.0000\n"


@pytest.mark.parametrize("output_format", [OutputFormat.nbest, OutputFormat.json])
def test_other_formats_of_a_scored_reference_are_those_of_a_translation(output_format):
    translation = make_translation("a b")

    scored = format_scored(output_format, translation, index=4)

    assert scored == format_translation(output_format, translation, index=4)


@pytest.mark.parametrize("output_format", OutputFormat)
def test_a_lone_surrogate_does_not_stop_the_output(output_format):
    content = format_translation(output_format, make_translation("a\ud800"), index=0)

    assert content.decode("utf-8").count("\n") == 1
