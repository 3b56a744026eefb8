from tiny_translator import GREEDY, make_translate_config, make_translator

from seq2seq.cli.translate_config import LongLines, UnknownTokens
from seq2seq.cli.translate_lines import LineTranslator
from seq2seq.cli.translate_streams import Window
from seq2seq.inference.unknown_words import UnknownWords


def test_the_sentences_of_a_split_line_are_replaced_one_by_one(monkeypatch):
    monkeypatch.setattr(
        UnknownWords,
        "replace",
        lambda self, each: each._replace(hypotheses=[each.best._replace(text="X")]),
    )
    keys = {"unknown_words": UnknownTokens.copy, "long_lines": LongLines.split, "split_length": 5}
    config = make_translate_config("run", decoding=GREEDY, **keys)
    window = Window([("Ja ja. Nein  nein.", "")], 0, 0, 0, ("input=a.de", ""))

    [(_, translation, _)] = LineTranslator(config, make_translator()).translate(window)

    assert translation.text == "X X"
