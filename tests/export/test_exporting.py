import shutil
from dataclasses import dataclass

import onnx
import pytest
from tiny_export import make_exportable
from tiny_translator import write_checkpoint

from seq2seq import BeamConfig, GreedyConfig, Translator
from seq2seq.checkpoints.checkpoint import save_checkpoint
from seq2seq.export import OnnxTranslator, exporting
from seq2seq.export.exporting import check_translations, export_model, random_lines
from seq2seq.files.exported import ENCODER, STEP, ExportPrecision, read_runtime


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def quick(monkeypatch, exported):
    """Let an export take the graphs of another one."""

    def copy_graphs(model, folder):
        for name in (ENCODER, STEP):
            shutil.copy(exported / name, folder)
        return read_runtime(exported)["states"]

    monkeypatch.setattr(exporting, "write_graphs", copy_graphs)
    monkeypatch.setattr(exporting, "check_translations", lambda *_: 0)


@pytest.fixture
def broken(monkeypatch):
    """Let an export fail after it has written the graphs."""

    def fail(*_):
        raise ValueError("broken")

    monkeypatch.setattr(exporting, "check_translations", fail)
    monkeypatch.setattr(exporting, "write_graphs", lambda *_: [])
    monkeypatch.setattr(exporting.OnnxTranslator, "load", lambda _: None)


def test_folder_holds_what_a_recipient_needs(exported):
    assert files(exported).keys() == {
        "README.md",
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


def test_exported_folder_is_exported_again(quick, exported, tmp_path):
    export_model(exported, tmp_path / "again")

    assert files(tmp_path / "again").keys() == files(exported).keys()
    weights = (folder / "model.safetensors" for folder in (exported, tmp_path / "again"))
    assert len({path.read_bytes() for path in weights}) == 1


def test_int8_is_smaller_and_translates(quick, checkpoint_path, tmp_path):
    export_model(checkpoint_path, tmp_path / "small", precision=ExportPrecision.int8)

    operators = {node.op_type for node in onnx.load(tmp_path / "small" / "step.onnx").graph.node}
    [translation] = OnnxTranslator.load(tmp_path / "small")(["ein hund"], BeamConfig())
    assert "MatMulInteger" in operators
    assert translation.best.attention_weights.shape[2] == len(translation.source_tokens)
    assert "int8" in (tmp_path / "small" / "README.md").read_text()


def test_folder_in_use_is_refused(exported, checkpoint_path):
    before = files(exported)

    with pytest.raises(FileExistsError, match="overwrite=true"):
        export_model(checkpoint_path, exported)

    assert files(exported) == before


def test_folder_of_something_else_is_never_overwritten(checkpoint_path, tmp_path):
    (tmp_path / "thesis.tex").touch()

    with pytest.raises(FileExistsError, match="was not exported before"):
        export_model(checkpoint_path, tmp_path, overwrite=True)


def test_missing_parent_is_one_line(checkpoint_path, tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no directory"):
        export_model(checkpoint_path, tmp_path / "missing" / "folder")


@pytest.mark.parametrize("exists", [True, False])
def test_failed_export_leaves_everything_as_it_was(
    broken, checkpoint_path, exported, tmp_path, exists
):
    output = tmp_path / "folder"
    if exists:
        shutil.copytree(exported, output)

    with pytest.raises(ValueError, match="broken"):
        export_model(checkpoint_path, output, overwrite=True)

    assert [path.name for path in tmp_path.iterdir()] == (["folder"] if exists else [])
    assert not exists or files(output) == files(exported)


def test_overwriting_replaces_the_folder(quick, checkpoint_path, exported, tmp_path):
    shutil.copytree(exported, tmp_path / "folder")
    (tmp_path / "folder" / "old").touch()

    export_model(checkpoint_path, tmp_path / "folder", overwrite=True)

    assert files(tmp_path / "folder").keys() == files(exported).keys()
    assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_other_tokenizers_are_refused_before_anything_is_written(tmp_path):
    write_checkpoint(tmp_path / "characters")

    with pytest.raises(ValueError, match="tokenizer=characters"):
        export_model(tmp_path / "characters", tmp_path / "folder")

    assert not (tmp_path / "folder").exists()


def test_exported_model_with_other_weights_is_found_out(exported):
    other = make_exportable()
    other.model_state["decoder.output.bias"][5] += 1.0
    model = other.build_model()
    translator = Translator(model, tokenizers=other.tokenizers)

    with pytest.raises(ValueError, match="the exported model differs from the checkpoint"):
        check_translations(translator, model, OnnxTranslator.load(exported))


def test_small_difference_of_attention_is_found_out(exported):
    other = make_exportable()
    other.model_state["attention.query_projection.weight"] += 1e-3
    model = other.build_model()
    translator = Translator(model, tokenizers=other.tokenizers)

    with pytest.raises(ValueError, match="differs from the checkpoint"):
        check_translations(translator, model, OnnxTranslator.load(exported))


def test_sentences_of_the_check_have_many_lengths():
    tokenizer = make_exportable().tokenizers.source

    lengths = {len(ids) for ids in tokenizer.encode(random_lines(tokenizer))}

    assert len(lengths) > 20
    assert min(lengths) >= 1


def test_search_of_a_checkpoint_is_kept(quick, tmp_path):
    save_checkpoint(tmp_path / "best.pt", make_exportable("decoding=beam", "decoding.n_best=2"))

    export_model(tmp_path, tmp_path / "folder")

    assert OnnxTranslator.load(tmp_path / "folder").decoding == BeamConfig(n_best=2)


def test_tiny_model_translates_differently_and_to_different_ends():
    checkpoint = make_exportable()
    translator = Translator(checkpoint.build_model(), tokenizers=checkpoint.tokenizers)

    found = translator(random_lines(checkpoint.tokenizers.source), BeamConfig(max_length_ratio=1.0))

    assert len({translation.text for translation in found}) > 20
    assert {translation.best.finished for translation in found} == {True, False}


def test_user_symbols_are_refused(tmp_path):
    save_checkpoint(tmp_path / "best.pt", make_exportable("tokenizer.user_symbols=['<2de>']"))

    with pytest.raises(ValueError, match="tokenizer=unigram with user symbols"):
        export_model(tmp_path, tmp_path / "folder")


@dataclass(kw_only=True, slots=True, repr=False)
class OwnConfig(GreedyConfig):
    name: str = "own"


def test_default_search_of_a_plugin_is_refused(tmp_path, monkeypatch):
    checkpoint = make_exportable()
    checkpoint.config.decoding = OwnConfig()
    monkeypatch.setattr(exporting, "load_checkpoint", lambda _: checkpoint)

    with pytest.raises(ValueError, match="decoding=own, which an exported model cannot have"):
        export_model(tmp_path, tmp_path / "folder")


def test_ties_that_rounding_decides_are_counted(exported, monkeypatch):
    monkeypatch.setattr(exporting, "NUM_CHECKED", 30)
    checkpoint = make_exportable()
    model = checkpoint.build_model()
    translator = Translator(model, tokenizers=checkpoint.tokenizers)
    onnx_translator = OnnxTranslator.load(exported)

    def translate_differently(lines, decoding):
        """Search with a beam in place of the greedy search of ten lines."""
        wide = BeamConfig(max_length_ratio=decoding.max_length_ratio)
        return [
            *translator(lines[:10], wide if isinstance(decoding, GreedyConfig) else decoding),
            *translator(lines[10:], decoding),
        ]

    translate_differently.tokenizers = checkpoint.tokenizers
    ties = check_translations(translate_differently, model, onnx_translator)

    assert check_translations(translator, model, onnx_translator) == 0
    assert 1 <= ties <= 10


def test_many_ties_are_refused(exported, monkeypatch):
    checkpoint = make_exportable()
    model = checkpoint.build_model()
    translator = Translator(model, tokenizers=checkpoint.tokenizers)
    monkeypatch.setattr(exporting, "NUM_CHECKED", 30)
    monkeypatch.setattr(exporting, "_is_tie", lambda *_: True)

    with pytest.raises(ValueError, match="train it longer"):
        check_translations(translator, model, OnnxTranslator.load(exported))
