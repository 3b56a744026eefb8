"""A file that version 0.1.0 wrote is read by every later version, with the same results.

It is `make_checkpoint()` of tiny_translator. If a change of the format is meant, give it a number
of its own (`FORMAT`), and keep this file for the error message.
"""

from pathlib import Path

import pytest

from seq2seq.inference.translator import Translator

PATH = Path(__file__).with_name("version-0.1.0.pt")
PAIRS = [("ein hund", "abc"), ("ja und nein", "fed cab.")]


def test_the_scores_are_those_that_version_0_1_0_gave():
    translations = Translator.load(PATH).score(PAIRS)

    scores = [translation.best.score for translation in translations]
    assert scores == pytest.approx([-26.523836, -50.406887], abs=1e-4)
