import shutil

import numpy as np
import onnx
import pytest
import torch
from tiny_export import make_exportable, use_graphs_of
from tiny_translator import write_checkpoint

from seq2seq import BeamConfig, Translator
from seq2seq.cli.translate_config import load_translate_config
from seq2seq.export import exporting
from seq2seq.export.exporting import check_graphs, check_int8, export_model
from seq2seq.export.folder import ExportPrecision
from seq2seq.export.translator import OnnxTranslator
from seq2seq.inference.checkpoint import load_checkpoint, save_checkpoint


def files(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def quick(monkeypatch, exported):
    """Let an export take the graphs of another one."""
    use_graphs_of(exported, monkeypatch)
    monkeypatch.setattr(exporting, "check_graphs", lambda *_, **__: None)


def test_folder_holds_what_a_recipient_needs(exported):
    assert sorted(files(exported)) == [
        *("README.md", "best.pt", "encoder.onnx", "runtime.json"),
        *("source.spm", "step.onnx", "target.spm"),
    ]
    assert [path.name for path in exported.parent.iterdir() if path.name.startswith(".")] == []


def test_int8_is_smaller_and_translates(quick, checkpoint_path, tmp_path):
    export_model(checkpoint_path, tmp_path / "small", precision=ExportPrecision.int8)

    graph = onnx.load(tmp_path / "small" / "step.onnx").graph
    weights = {each.name: onnx.numpy_helper.to_array(each) for each in graph.initializer}
    products = [node for node in graph.node if node.op_type == "MatMulInteger"]
    [translation] = OnnxTranslator.load(tmp_path / "small")(["ein hund"], BeamConfig())
    assert products
    for node in products:  # sums of two products with unsigned bytes must fit into 16 bits
        assert 2 * 255 * np.abs(weights[node.input[1]].astype(int)).max() < 1 << 15
    assert (256, 1) in [each.shape for each in weights.values() if each.dtype == np.float32]
    [sentence] = translation.sentences
    assert sentence.best.attention_weights.shape[2] == len(sentence.source_tokens)
    assert "int8" in (tmp_path / "small" / "README.md").read_text()
    assert not (tmp_path / "small" / "best.pt").exists()


@pytest.mark.parametrize(
    ("name", "overwrite", "message"),
    [
        ("runtime.json", False, "exists; replace it with overwrite=true"),
        ("thesis.tex", True, "exists; it is not an earlier export"),
    ],
)
def test_folder_in_use_is_refused(checkpoint_path, tmp_path, name, overwrite, message):
    (tmp_path / name).touch()

    with pytest.raises(FileExistsError, match=message):
        export_model(checkpoint_path, tmp_path, overwrite=overwrite)

    assert files(tmp_path) == {name: b""}


@pytest.mark.parametrize("exists", [True, False])
def test_failed_export_leaves_everything_as_it_was(
    monkeypatch, checkpoint_path, exported, tmp_path, exists
):
    def fail(*_):
        raise ValueError("broken")

    monkeypatch.setattr(exporting, "write_graphs", fail)  # after some files are written
    output = tmp_path / "folder"
    if exists:
        shutil.copytree(exported, output)

    with pytest.raises(ValueError, match="broken"):
        export_model(checkpoint_path, output, overwrite=True)

    assert [path.name for path in tmp_path.iterdir()] == (["folder"] if exists else [])
    assert not exists or files(output) == files(exported)


def test_empty_folder_may_be_the_current_one(quick, exported, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    export_model(exported, ".")

    assert files(tmp_path).keys() == files(exported).keys()


def test_folder_that_appears_during_an_export_is_kept(quick, monkeypatch, exported, tmp_path):
    def appear(*_, **__):
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder" / "thesis.tex").touch()

    monkeypatch.setattr(exporting, "check_graphs", appear)

    with pytest.raises(FileExistsError, match="is not an earlier export"):
        export_model(exported, tmp_path / "folder", overwrite=True)

    assert files(tmp_path / "folder") == {"thesis.tex": b""}


@pytest.mark.parametrize("output", ["folder", "link"])
def test_exported_folder_is_exported_again_in_the_place_of_another(
    quick, exported, tmp_path, output
):
    shutil.copytree(exported, tmp_path / "folder")
    (tmp_path / "folder" / "old").touch()
    (tmp_path / "folder" / "best.pt").unlink()
    (tmp_path / "link").symlink_to("folder")

    export_model(exported, tmp_path / output, overwrite=True)

    assert files(tmp_path / "folder").keys() == files(exported).keys()
    assert files(tmp_path / "folder")["best.pt"] == files(exported)["best.pt"]
    assert (tmp_path / "link").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "link"]


def test_other_tokenizers_are_refused_before_anything_is_written(tmp_path):
    write_checkpoint(tmp_path / "characters")

    with pytest.raises(ValueError, match="tokenizer=characters"):
        export_model(tmp_path / "characters", tmp_path / "folder")

    assert not (tmp_path / "folder").exists()


@pytest.mark.parametrize(
    ("name", "change"),
    [("decoder.output.bias", 1e-3), ("attention.query_projection.weight", 1e-3)],
)
def test_graphs_of_other_weights_are_found_out(exported, name, change):
    other = make_exportable()
    other.model_state[name] += change * torch.arange(other.model_state[name].shape[-1])
    graphs = OnnxTranslator.load(exported).graphs

    with pytest.raises(ValueError, match="the exported model differs from the checkpoint"):
        check_graphs(other.build_model(), graphs, num_tokens=len(other.tokenizers.source))


def test_only_a_rounding_passes_the_check_of_int8(exported, checkpoint_path):
    same, other = load_checkpoint(checkpoint_path), make_exportable()
    other.model_state["decoder.readout.projection.weight"] *= -1
    graphs = OnnxTranslator.load(exported).graphs
    num_tokens = len(same.tokenizers.source)

    assert check_int8(same.build_model(), graphs, num_tokens=num_tokens) < 1e-5
    with pytest.raises(ValueError, match=r"int8 changes .* export it with precision=fp32"):
        check_int8(other.build_model(), graphs, num_tokens=num_tokens)


@pytest.mark.slow
def test_model_whose_rounding_is_large_is_exported(tmp_path):
    options = ["attention=general", "attention.normalizer=entmax15"]
    options += ["model.encoder.num_layers=2", "model.decoder.num_layers=2"]
    options += ["model.layer_norm=true"]
    checkpoint = make_exportable(*options, deviation=4.0)
    save_checkpoint(tmp_path / "best.pt", checkpoint)

    export_model(tmp_path, tmp_path / "folder")


@pytest.mark.parametrize("search", ["greedy", "mbr"])
def test_default_search_is_that_of_the_command(quick, tmp_path, search):
    save_checkpoint(tmp_path / "best.pt", make_exportable(f"decoding={search}"))
    export_model(tmp_path, tmp_path / "folder")

    command = load_translate_config("checkpoint=a").decoding

    assert OnnxTranslator.load(tmp_path / "folder").decoding == command
    assert Translator.load(tmp_path / "folder", device="cpu").decoding == command
    assert f"name={command.name}, " in (tmp_path / "folder" / "README.md").read_text()
