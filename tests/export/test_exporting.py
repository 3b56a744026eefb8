import pytest

from seq2seq import Translator
from seq2seq.export.exporting import export_model


def test_folder_holds_what_a_recipient_needs(exported):
    names = {path.name for path in exported.iterdir()}

    assert names == {
        "config.yaml",
        "encoder.onnx",
        "model.safetensors",
        "runtime.json",
        "source.spm",
        "step.onnx",
        "target.spm",
    }
    assert [path.name for path in exported.parent.iterdir() if path.name.startswith(".")] == []


def test_translator_reads_the_folder(exported, checkpoint_path):
    sentences = ["ein hund rennt", "zwei kinder"]

    assert [each.text for each in Translator.load(exported)(sentences)] == [
        each.text for each in Translator.load(checkpoint_path)(sentences)
    ]


def test_folder_in_use_is_refused(exported, checkpoint_path):
    with pytest.raises(FileExistsError, match="overwrite=true"):
        export_model(checkpoint_path, exported)
