import onnx
import pytest
import torch
from tiny_attention import VARIANTS, DiagonalAttention
from tiny_export import TEXTS, make_exportable, use_graphs_of
from tiny_models import FORMS

from seq2seq import BeamConfig, Translator
from seq2seq.attention.additive import AdditiveAttention
from seq2seq.attention.base import attention_config_types
from seq2seq.export.exporting import export_model
from seq2seq.export.folder import ExportPrecision
from seq2seq.export.graphs import write_graphs
from seq2seq.export.translator import OnnxTranslator
from seq2seq.inference.checkpoint import save_checkpoint
from seq2seq.model import seq2seq

FORM_KEYS = {
    "bahdanau": ["model=bahdanau"],
    "conditional": ["model=conditional"],
    "luong": ["model=luong", "model.input_feeding=false"],
    "input_feeding": ["model=luong", "model.input_feeding=true"],
}
OPTIONS = [
    *("model.residual=true", "model.layer_norm=true"),
    *("model.encoder.num_layers=2", "model.encoder.self_attention=true"),
    *("model.decoder.num_layers=2", "model.decoder.self_attention=true"),
]
JOINT = ["tokenizer.joint=true", "model.tied_embeddings=all"]
CASES = [
    ("none", "bahdanau", []),
    ("none", "conditional", []),
    ("none", "input_feeding", OPTIONS),
    ("uniform", "luong", ["model.tied_embeddings=none"]),
    ("dot", "input_feeding", JOINT),
    ("general", "conditional", []),
    ("additive", "bahdanau", OPTIONS),
    ("multihead-normalizer=entmax15", "bahdanau", JOINT),
    ("gaussian", "luong", []),
    ("local", "input_feeding", []),
    ("location-normalizer=sparsemax", "conditional", OPTIONS),
    ("coverage", "luong", []),
]
"""Every attention type, decoder form, normalizer and option of the model at least once; tracing a
model takes many seconds."""
FAST = [("none", "bahdanau"), ("additive", "bahdanau")]
LINES = [" ".join(source.split()[first:]) for source, _ in TEXTS for first in range(4)]


def texts(translator):
    """Return the best texts of each line; of long texts, int8 seldom keeps all tokens."""
    short = BeamConfig(n_best=4, max_length_ratio=0.0, max_length_offset=4)
    return [{each.text for each in line.hypotheses} for line in translator(LINES, short)]


@pytest.mark.parametrize(
    ("variant", "form", "options"),
    [
        pytest.param(
            *case, marks=[] if case[:2] in FAST else pytest.mark.slow, id="-".join(case[:2])
        )
        for case in CASES
    ],
)
def test_every_model_is_exported_in_both_precisions(tmp_path, monkeypatch, variant, form, options):
    path = tmp_path / "best.pt"
    save_checkpoint(path, make_exportable(*FORM_KEYS[form], *options, attention=VARIANTS[variant]))
    fp32, int8 = tmp_path / "fp32", tmp_path / "int8"
    expected = texts(Translator.load(path, device="cpu"))

    export_model(path, fp32)

    assert texts(OnnxTranslator.load(fp32)) == expected
    use_graphs_of(fp32, monkeypatch)

    export_model(path, int8, precision=ExportPrecision.int8)

    found = texts(OnnxTranslator.load(int8))
    step = onnx.load(int8 / "step.onnx").graph
    assert "MatMulInteger" in {node.op_type for node in step.node}
    num_equal = sum(len(one & other) for one, other in zip(found, expected, strict=True))
    assert num_equal >= 0.7 * sum(map(len, expected))


def test_cases_name_every_type_normalizer_form_and_option():
    names = {name.split("-")[0] for name, _, _ in CASES}
    normalizers = {VARIANTS[name].normalizer.name for name, _, _ in CASES}

    assert names == attention_config_types().keys()
    assert {form for _, form, _ in CASES} == {*FORMS}
    assert normalizers == {"softmax", "sparsemax", "entmax15"}
    assert {*OPTIONS, *JOINT} <= {option for _, _, options in CASES for option in options}


@pytest.mark.slow
def test_score_that_sees_the_position_is_exported(monkeypatch, tmp_path):
    monkeypatch.setattr(seq2seq, "build_attention", DiagonalAttention)
    checkpoint = make_exportable(*FORM_KEYS["input_feeding"])
    assert isinstance(checkpoint.build_model().attention, DiagonalAttention)
    save_checkpoint(tmp_path / "best.pt", checkpoint)

    export_model(tmp_path, tmp_path / "exported")  # it compares the translations itself


class ZetaAttention(AdditiveAttention):
    """Scores with an operation that ONNX lacks."""

    def score(self, query, keys):
        return torch.special.zeta(super().score(query, keys).exp() + 2, torch.tensor(1.0))


def test_operation_that_onnx_lacks_is_one_line(tmp_path):
    checkpoint = make_exportable()
    model = checkpoint.build_model()
    model.attention.__class__ = ZetaAttention

    with pytest.raises(ValueError, match="zeta") as error:
        write_graphs(model, tmp_path)

    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["encoder.onnx", "step.onnx"])
def test_graph_names_its_axes_and_no_path_of_this_machine(exported, name):
    graph = onnx.load(exported / name).graph

    axes = {
        size.dim_param or size.dim_value
        for value in (*graph.input, *graph.output)
        for size in value.type.tensor_type.shape.dim
    }
    assert {axis for axis in axes if isinstance(axis, str)} <= set("BKRSW")
    assert b".py" not in (exported / name).read_bytes()
