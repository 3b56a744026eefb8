import unicodedata

import pytest

from seq2seq.visualization.fonts import MISSING, OWN_FONT, Fonts

PRIVATE = "\U0010fffd"
MIAO = "\U00016f00"
"""A letter of a script that none of the fonts has that matplotlib brings."""


def test_latin_labels_need_no_other_font_and_stay_as_they_are(caplog):
    fonts = Fonts(["H\u00e4user", "</s>"])

    assert fonts.families == [OWN_FONT]
    assert fonts.clean("H\u00e4user") == "H\u00e4user"
    assert caplog.records == []


def test_characters_without_a_font_are_boxes_with_one_warning(caplog):
    assert unicodedata.category(PRIVATE) == "Co"

    fonts = Fonts([MIAO, PRIVATE, f"a{MIAO}"])

    assert [fonts.clean(label) for label in (MIAO, PRIVATE, f"a{MIAO}")] == [
        MISSING,
        MISSING,
        f"a{MISSING}",
    ]
    [record] = caplog.records
    assert "U+16F00" in record.getMessage()


@pytest.mark.parametrize("character", ["\n", "\t", "\0", "\ud800"])
def test_characters_that_cannot_be_printed_are_boxes_without_a_warning(caplog, character):
    assert Fonts([character]).clean(character) == MISSING
    assert caplog.records == []
