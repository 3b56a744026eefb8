import pytest
import torch
from tiny_attention import VARIANTS
from tiny_models import FORMS, tiny_batch, tiny_model, unroll
from tiny_translator import make_checkpoint
from torch import nn

from seq2seq.checkpoints.checkpoint import save_checkpoint
from seq2seq.inference import quantization
from seq2seq.inference.quantization import FEWEST_OUTPUTS, Int8Linear, quantize
from seq2seq.inference.translator import Translator
from seq2seq.model.decoder import TiedOutput

NUM_INPUTS, NUM_OUTPUTS = 37, 50


@pytest.fixture
def layer():
    torch.manual_seed(1)
    return nn.Linear(NUM_INPUTS, NUM_OUTPUTS)


@pytest.fixture
def all_layers(monkeypatch):
    """Quantize layers of any width, because the models here are tiny."""
    monkeypatch.setattr(quantization, "FEWEST_OUTPUTS", 1)


@torch.no_grad()
def test_the_error_of_an_output_is_bounded_by_rounding(layer):
    inputs = torch.randn(3, 5, NUM_INPUTS)

    outputs = Int8Linear(layer.weight, layer.bias)(inputs)

    # Each factor is rounded by at most half a unit of its row.
    unit = inputs.abs().amax(-1, keepdim=True) / quantization._largest_input()
    units = layer.weight.abs().amax(-1, keepdim=True) / 127
    bound = (inputs.abs().sum(-1, keepdim=True) * units.T + unit * layer.weight.abs().sum(-1)) / 2
    bound += NUM_INPUTS * unit * units.T / 4
    error = (outputs - layer(inputs)).abs()
    assert outputs.shape == (3, 5, NUM_OUTPUTS)
    assert (error <= bound + 1e-6).all()
    assert error.mean() < 0.02


@pytest.mark.parametrize("num_rows", [9, 41])
@torch.no_grad()
def test_a_row_does_not_depend_on_its_neighbours(layer, num_rows):
    int8, rows = Int8Linear(layer.weight, layer.bias), torch.randn(num_rows, NUM_INPUTS)
    rows[7] *= 1000

    together, alone = int8(rows), torch.cat([int8(row) for row in rows.split(1)])

    torch.testing.assert_close(together, alone, rtol=0, atol=0)


@torch.no_grad()
def test_zeros_give_the_bias_and_nan_stays_nan(layer):
    inputs = torch.zeros(2, NUM_INPUTS)
    inputs[1, 3] = torch.nan

    zeros, nan = Int8Linear(layer.weight, layer.bias)(inputs)

    torch.testing.assert_close(zeros, layer.bias)
    assert nan.isnan().all()


@torch.no_grad()
def test_a_layer_without_bias_and_with_a_row_of_zeros_is_quantized():
    layer = nn.Linear(4, 3, bias=False)
    layer.weight[1] = 0

    outputs = Int8Linear(layer.weight, layer.bias)(torch.ones(2, 4))

    torch.testing.assert_close(outputs, layer(torch.ones(2, 4)), rtol=0, atol=0.02)
    assert (outputs[:, 1] == 0).all()


def test_wide_layers_are_replaced_and_a_shared_embedding_stays():
    embedding = nn.Embedding(FEWEST_OUTPUTS, 5)
    output = nn.Linear(5, FEWEST_OUTPUTS)
    output.weight = embedding.weight
    before = embedding.weight.detach().clone()
    narrow, empty = nn.Linear(5, FEWEST_OUTPUTS - 1), nn.Linear(1, FEWEST_OUTPUTS)
    empty.in_features = 0
    model = nn.ModuleDict({"embedding": embedding, "inner": nn.Sequential(output, narrow, empty)})

    quantize(model)

    assert [type(each) for each in model["inner"]] == [Int8Linear, nn.Linear, nn.Linear]
    assert model["embedding"].weight is embedding.weight
    torch.testing.assert_close(embedding.weight.detach(), before, rtol=0, atol=0)


def test_an_output_of_the_first_rows_of_an_embedding_is_quantized():
    embedding = nn.Embedding(FEWEST_OUTPUTS + 7, 5)
    model = nn.Sequential(TiedOutput(embedding, FEWEST_OUTPUTS))
    weight = embedding.weight[:FEWEST_OUTPUTS].detach().clone()
    inputs = torch.randn(3, 5)
    expected = model(inputs)

    quantize(model)

    assert type(model[0]) is Int8Linear
    torch.testing.assert_close(model[0].weight, weight, atol=0.02, rtol=0)
    torch.testing.assert_close(model(inputs), expected, atol=0.2, rtol=0)


@pytest.mark.usefixtures("all_layers")
@pytest.mark.parametrize("form", FORMS)
@torch.inference_mode()
def test_a_model_of_any_form_stays_close(form):
    batch = tiny_batch()
    model = tiny_model(VARIANTS["additive"], form, dtype=torch.float32).eval()
    expected = model.decoder.logits(model(*batch[:3]).readouts).log_softmax(-1)

    quantize(model)

    assert not any(type(module) is nn.Linear for module in model.modules())
    found = model.decoder.logits(model(*batch[:3]).readouts).log_softmax(-1)
    difference = (found - expected)[batch.target_mask].abs()
    assert 0 < difference.max() < 0.2


@pytest.mark.usefixtures("all_layers")
@pytest.mark.parametrize("form", FORMS)
@torch.inference_mode()
def test_a_known_target_has_the_logits_of_its_steps(form):
    batch = tiny_batch()
    model = tiny_model(VARIANTS["additive"], form, dtype=torch.float32).eval()
    for weight in model.parameters():
        weight *= 3  # larger states, so that rounding shows
    quantize(model)

    found = model.decoder.logits(model(*batch[:3]).readouts)

    steps, _ = unroll(model, batch)
    torch.testing.assert_close(found, steps, atol=1e-4, rtol=1e-4)


@pytest.mark.usefixtures("all_layers")
def test_each_member_of_an_ensemble_is_quantized(tmp_path):
    paths = [tmp_path / "a.pt", tmp_path / "b.pt"]
    for seed, path in enumerate(paths):
        save_checkpoint(path, make_checkpoint(seed=seed))

    translator = Translator.load(paths, device="cpu", precision="int8")

    modules = list(translator._model.modules())
    assert sum(type(module) is Int8Linear for module in modules) > 2
    assert not any(type(module) is nn.Linear for module in modules)


@pytest.fixture
def another_processor():
    """Let the processor be examined in the test, and again after it."""
    quantization._largest_input.cache_clear()
    yield
    quantization._largest_input.cache_clear()


@pytest.mark.usefixtures("another_processor")
@pytest.mark.parametrize("rounds", [lambda rows: len(rows) < 16, lambda rows: len(rows) >= 16])
@pytest.mark.parametrize(("most", "expected"), [(254 * 254, 127), (32767, 63), (0, None)])
def test_the_largest_input_is_one_whose_products_are_exact(monkeypatch, rounds, most, expected):
    def product_with(integers, scales, largest_input):
        """Multiply as a kernel that adds pairs of products of unsigned rows up to `most`."""

        def multiply(rows):
            pairs = (2 * (rows + largest_input).amax() * integers.amax()).item()
            product = rows @ integers.float().T
            return product - 1 if rounds(rows) and pairs > most else product

        return multiply

    monkeypatch.setattr(quantization, "_product_with", product_with)

    if expected is None:
        with pytest.raises(ValueError, match="precision=int8: this processor does not multiply"):
            quantize(nn.Linear(3, 4))
    else:
        assert quantization._largest_input() == expected


@pytest.mark.usefixtures("another_processor")
def test_a_torch_without_8_bit_products_is_refused(monkeypatch):
    def missing(*_):
        raise NotImplementedError("no kernel")

    monkeypatch.setattr(quantization, "_product_with", missing)

    with pytest.raises(ValueError, match="precision=int8: torch cannot multiply 8-bit"):
        quantize(nn.Linear(3, 4))


def test_a_torch_whose_onednn_refuses_signed_rows_gives_the_same_bits(layer, monkeypatch):
    rows = torch.randn(33, NUM_INPUTS, generator=torch.Generator().manual_seed(2))
    expected = Int8Linear(layer.weight, layer.bias)(rows)

    monkeypatch.setattr(quantization, "_onednn_takes_signed_rows", lambda: False)

    assert torch.equal(Int8Linear(layer.weight, layer.bias)(rows), expected)
