import pytest
from tiny_translator import BEAM, make_translate_config, make_translator

from seq2seq.cli.translate_config import OutputFormat
from seq2seq.cli.translate_lines import LineTranslator
from seq2seq.cli.translate_streams import Window
from seq2seq.text.sentences import Split


@pytest.mark.parametrize("split", Split)
def test_lines_are_split_as_by_the_translator(split, tmp_path):
    lines = ["Ja ja. Nein  nein.", "---", "ja"]
    window = Window([(line, "") for line in lines], 0, 0, 0, ("input=a.de", ""))
    config = make_translate_config(
        "run", split=split, output_format=OutputFormat.nbest, alignments=str(tmp_path / "links")
    )
    translator = make_translator()

    found = list(LineTranslator(config, translator).translate(window))

    expected = translator(lines, BEAM, split=split)
    assert [translation.text for _, translation, _ in found] == [each.text for each in expected]
    assert [len(contents["output"].splitlines()) for _, _, contents in found] == [
        len(each.hypotheses) for each in expected
    ]
    assert all(contents["alignments"].endswith(b"\n") for _, _, contents in found)
