import pytest

from seq2seq.serving.languages import described, find_code


@pytest.mark.parametrize(
    ("code", "known", "found"),
    [
        ("DE", ["de", "en"], "de"),
        ("deu", ["de", "en"], "de"),
        ("ger", ["de", "en"], "de"),
        ("de", ["deu", "eng"], "deu"),
        ("deu_Latn", ["de", "en"], "de"),
        ("de-CH-1996", ["de", "en"], "de"),
        ("en_US", ["en-GB"], "en-GB"),
        ("zh-Hans", ["zh", "en"], "zh"),
        ("zh-TW", ["zh", "en"], "zh"),
        ("zt", ["zh", "en"], "zh"),
        ("zho_Hant", ["zh-TW", "en"], "zh-TW"),
        ("cmn-Hans-CN", ["zh", "en"], "zh"),
        ("zh-Hans", ["zh", "zh-Hans"], "zh-Hans"),
        ("zh-Hans", ["zh-Hans-CN", "zh-Hant"], "zh-Hans-CN"),
        ("zh", ["zh", "zh-Hant"], "zh"),
        ("zh-TW", ["zh-Hans", "zh-Hant"], "zh-Hant"),
        ("zh_CN", ["zh-Hans", "zh-Hant"], "zh-Hans"),
        ("zt", ["zh-Hans", "zh-Hant"], "zh-Hant"),
        ("pb", ["pt-BR", "en"], "pt-BR"),
        ("nb", ["no", "en"], "no"),
        ("nn", ["nn", "no"], "nn"),
        ("iw", ["he"], "he"),
        ("in", ["id"], "id"),
        ("zsm", ["ms"], "ms"),
        ("kat", ["ka", "hy"], "ka"),
        ("x-klingon", ["x-klingon", "en"], "x-klingon"),
        # Several or none fit.
        ("zh", ["zh-Hans", "zh-Hant"], "zh"),
        ("den", ["de"], "den"),
        ("d", ["de"], "d"),
        ("", ["de"], ""),
        ("auto", ["de"], "auto"),
    ],
)
def test_a_code_finds_the_only_language_that_fits(code, known, found):
    assert find_code(code, known) == found


def test_a_language_without_a_name_has_its_code():
    assert described("de") == {"code": "de", "name": "German"}
    assert described("xx") == {"code": "xx", "name": "xx"}
