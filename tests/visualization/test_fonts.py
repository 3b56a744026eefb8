import unicodedata

import matplotlib
import pytest
from matplotlib import font_manager

from seq2seq.visualization import fonts as fonts_module
from seq2seq.visualization.fonts import MISSING, OWN_FONT, Fonts

PRIVATE = "\U0010fffd"
MIAO = "\U00016f00"
"""A letter of a script that none of the fonts has that matplotlib brings."""


HOUSE = "H\u00e4user"


@pytest.fixture(autouse=True)
def _new_process(monkeypatch):
    """Let each test be the first of a process, on a machine without further fonts."""
    monkeypatch.setattr(fonts_module, "_has_warned", False)
    known = font_manager.fontManager.ttflist
    brought = [each for each in known if each.fname.startswith(matplotlib.get_data_path())]
    monkeypatch.setattr(font_manager.fontManager, "ttflist", brought)
    monkeypatch.setattr(font_manager, "findSystemFonts", list)
    for function in (fonts_module._add_new_fonts, fonts_module._characters):
        function.cache_clear()


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
    assert "apt install fonts-noto" in record.getMessage()


def test_one_warning_of_a_process_names_a_few_characters(caplog):
    letters = [chr(ord(MIAO) + index) for index in range(12)]

    for _ in range(3):
        Fonts(letters)
    Fonts([PRIVATE])

    [record] = caplog.records
    named = [letter for letter in letters if letter in record.getMessage()]
    assert named == letters[:8]
    assert " and 4 more; " in record.getMessage()


def test_the_font_of_matplotlibs_settings_comes_first_and_others_complete_it():
    # cmb10, which matplotlib brings, has no umlaut.
    with matplotlib.rc_context({"font.family": ["cmb10"]}):
        assert Fonts(["Hund"]).families == ["cmb10"]
        assert Fonts([HOUSE]).families == ["cmb10", OWN_FONT]
    with matplotlib.rc_context({"font.sans-serif": ["absent", "cmb10"]}):
        assert Fonts(["Hund"]).families == ["cmb10"]


def test_a_font_that_was_installed_after_matplotlibs_list_was_made_is_found(monkeypatch, caplog):
    sign = "\u222e"  # a contour integral, which the reduced list below lacks
    own = font_manager.findfont(OWN_FONT)
    other = [each for each in font_manager.fontManager.ttflist if each.name == "cmb10"]
    assert sign in fonts_module._characters(OWN_FONT)
    fonts_module._characters.cache_clear()
    monkeypatch.setattr(font_manager.fontManager, "ttflist", list(other))
    with matplotlib.rc_context({"font.family": ["cmb10"]}):
        monkeypatch.setattr(font_manager, "findSystemFonts", lambda: [own, "/no/font.ttf"])
        fonts = Fonts([sign])

    assert fonts.families == ["cmb10", OWN_FONT]
    assert fonts.clean(sign) == sign
    assert caplog.records == []


@pytest.mark.parametrize("character", ["\n", "\t", "\0", "\ud800"])
def test_characters_that_cannot_be_printed_are_boxes_without_a_warning(caplog, character):
    assert Fonts([character]).clean(character) == MISSING
    assert caplog.records == []
