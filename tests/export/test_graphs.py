import onnx
import pytest
import torch
from tiny_attention import VARIANTS, DiagonalAttention
from tiny_export import make_exportable
from tiny_models import FORMS

from seq2seq.attention.additive import AdditiveAttention
from seq2seq.attention.base import attention_config_types
from seq2seq.checkpoints.checkpoint import save_checkpoint
from seq2seq.export.exporting import export_model
from seq2seq.export.graphs import write_graphs
from seq2seq.model import seq2seq

FORM_KEYS = {
    "bahdanau": ["model=bahdanau"],
    "conditional": ["model=conditional"],
    "luong": ["model=luong", "model.decoder.input_feeding=false"],
    "input_feeding": ["model=luong", "model.decoder.input_feeding=true"],
}
OPTIONS = [
    f"model.{side}.{option}"
    for side in ("encoder", "decoder")
    for option in (
        "num_layers=2",
        "residual=true",
        "layer_norm=true",
        "self_attention=true",
        "self_attention_heads=2",
    )
]
JOINT = ["tokenizer.joint=true", "model.tied_embeddings=all"]
OTHERS = {
    "dot": ("dot", [*JOINT, "tokenizer.restrict_target=true"]),
    "coverage": ("coverage-normalizer=sparsemax", ["model.bridge=mean"]),
    "multihead": ("multihead-normalizer=entmax15", ["model.bridge=zero", *JOINT]),
    "uniform": ("uniform", ["model.tied_embeddings=none"]),
}
"""Types in another variant than the default, and options that go with any type."""
CASES = [
    (variant, FORMS[index % 4], [*OPTIONS, *options] if index < 4 else options)
    for index, name in enumerate(attention_config_types())
    for variant, options in [OTHERS.get(name, (name, []))]
]
"""Every attention type and normaliser, decoder form and option of the model at least once."""


@pytest.mark.parametrize(
    ("variant", "form", "options"),
    [*CASES[:2], *(pytest.param(*case, marks=pytest.mark.slow) for case in CASES[2:])],
    ids=str,
)
def test_every_model_is_exported(tmp_path, variant, form, options):
    save_checkpoint(
        tmp_path / "best.pt",
        make_exportable(*FORM_KEYS[form], *options, attention=VARIANTS[variant]),
    )

    export_model(tmp_path, tmp_path / "exported")  # it compares the translations itself

    assert (tmp_path / "exported" / "step.onnx").is_file()


def test_cases_name_every_type_normaliser_and_form():
    names = {name.split("-")[0] for name, _, _ in CASES}
    forms = {form for _, form, options in CASES if {*OPTIONS} <= {*options}}
    normalizers = {VARIANTS[name].normalizer.name for name, _, _ in CASES}

    assert names == attention_config_types().keys()
    assert forms == {*FORMS}
    assert normalizers == {"softmax", "sparsemax", "entmax15"}


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
