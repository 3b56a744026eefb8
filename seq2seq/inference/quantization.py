"""Products in 8-bit integers: a trained model that translates faster on a CPU, a little coarser."""

# R rows, I input, O output

import warnings
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2seq.kernels.gru_unroll import run_gru
from seq2seq.model.gru import BidirectionalGRU, run_bidirectional
from seq2seq.runtime.numerics import cpu_has_amx

_LARGEST = 127
"""of an 8-bit integer; -128 is not used, so that values are symmetric"""
_SMALLEST = 1e-30
"""that a row is taken to be large, so that zeros are divided by something"""
_MANY_ROWS = 16
"""from here on oneDNN's product is the faster one on AMX, by up to three times (measured)"""
FEWEST_OUTPUTS = 512
"""for fewer a layer takes longer to turn its inputs into integers than it gains (measured)"""


class Int8Linear(nn.Module):
    """A linear layer whose product is one of integers, exact but for what rounding them lost.

    Each output has its own scale, and so has each row of the input at each call. What a row gets
    thus does not depend on its neighbours, as it does where one scale serves the whole input.
    """

    integers: Tensor  # (O, I) int8
    scales: Tensor  # (O,)
    bias: Tensor  # (O,)

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        numbers, scales = _to_whole_numbers(weight.detach())
        bias = torch.zeros(self.out_features) if bias is None else bias.detach()
        self.register_buffer("integers", numbers.to(torch.int8))
        self.register_buffer("scales", scales.squeeze(1))
        self.register_buffer("bias", bias.clone())
        self._multiply = _product_with(self.integers, self.scales)

    @property
    def weight(self) -> Tensor:
        """Return what the integers stand for, (O, I), for those who multiply by themselves."""
        return self.integers * self.scales.unsqueeze(1)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return what the layer makes of the inputs (..., I): (..., O)."""
        rows = inputs.reshape(-1, self.in_features)
        numbers, scales = _to_whole_numbers(rows)
        outputs = self._multiply(numbers)
        outputs = torch.addcmul(self.bias, outputs, scales, out=outputs)
        return outputs.view(*inputs.shape[:-1], self.out_features)


class Int8GRU(nn.Module):
    """A `BidirectionalGRU` that is only used to translate, its products in integers."""

    def __init__(self, gru: BidirectionalGRU) -> None:
        super().__init__()
        self.num_layers, self.hidden_size = gru.num_layers, gru.hidden_size
        weights = dict(gru.named_parameters())
        # By torch's names without "weight_": ih is the input's projection, hh the state's.
        self.projections = nn.ModuleDict(
            {
                name.removeprefix("weight_"): Int8Linear(
                    weight, weights[name.replace("weight", "bias")]
                )
                for name, weight in weights.items()
                if name.startswith("weight")
            }
        )

    def forward(self, inputs: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Read sequences in both directions, as `BidirectionalGRU.forward` does."""
        return run_bidirectional(
            inputs, mask, self._direction, num_layers=self.num_layers, between=nn.Identity()
        )

    def _direction(self, inputs: Tensor, padding: Tensor | None, suffix: str) -> Tensor:
        projected = self.projections[f"ih_{suffix}"](inputs)
        hidden = inputs.new_zeros(inputs.shape[1], self.hidden_size)
        projection = self.projections[f"hh_{suffix}"]
        return run_gru(
            lambda state, target: target.copy_(projection(state)),
            projected,
            hidden,
            padding=padding,
            reverse=suffix.endswith("reverse"),
        ).states


def quantize(model: nn.Module) -> None:
    """Replace the wide linear layers of a model that is only used to translate, in place.

    Embeddings stay as they are, also where the output layer shares theirs.

    Raises:
        ValueError: this processor does not add up products of 8-bit integers exactly.
    """
    _check_processor()
    for module in list(model.modules()):
        for name, child in module.named_children():
            if type(child) is nn.Linear and _gains(child):
                setattr(module, name, Int8Linear(child.weight, child.bias))
            elif isinstance(child, BidirectionalGRU) and 3 * child.hidden_size >= FEWEST_OUTPUTS:
                setattr(module, name, Int8GRU(child))


def _gains(layer: nn.Linear) -> bool:
    # Without attention some layers read nothing.
    return layer.in_features > 0 and layer.out_features >= FEWEST_OUTPUTS


def _to_whole_numbers(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return whole numbers up to 127, as floats, and what those of each row count, (R, 1)."""
    # A row of zeros has a scale too, which nothing depends on.
    scales = rows.abs().amax(dim=1, keepdim=True).clamp_min_(_SMALLEST).div_(_LARGEST)
    return (rows / scales).round_(), scales


def _product_with(integers: Tensor, scales: Tensor) -> Callable[[Tensor], Tensor]:
    """Return x -> x W^T in integers, for x (R, I) of whole numbers up to 127 as floats.

    With AMX oneDNN multiplies many rows; sums of integers are exact, so that both agree to the
    bit on finite rows.
    """
    few = _fbgemm_product_with(integers, scales)
    if not cpu_has_amx():
        return few
    many = _onednn_product_with(integers, scales)
    return lambda rows: few(rows) if len(rows) < _MANY_ROWS else many(rows)


def _fbgemm_product_with(integers: Tensor, scales: Tensor) -> Callable[[Tensor], Tensor]:
    with warnings.catch_warnings():
        # What torch is to have in their place is slower without AMX, and for few rows.
        warnings.filterwarnings("ignore", message="torch.quantize_per_tensor")
        weight = torch._make_per_channel_quantized_tensor(
            integers, scales.double(), torch.zeros_like(scales, dtype=torch.int64), 0
        )
    packed = torch.ops.quantized.linear_prepack(weight, None)

    def multiply(rows: Tensor) -> Tensor:
        # Its rows are unsigned, hence the offset: -127 is 0, 0 is 127 and 127 is 254.
        product: Tensor = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
            rows, 1.0, _LARGEST, packed
        )
        return product

    return multiply


def _onednn_product_with(integers: Tensor, scales: Tensor) -> Callable[[Tensor], Tensor]:
    packed = torch.ops.onednn.qlinear_prepack(integers, None)
    offsets = torch.zeros_like(scales, dtype=torch.int64)

    def multiply(rows: Tensor) -> Tensor:
        # It compiles for each number of rows anew, so that few numbers are asked for.
        padded = functional.pad(rows.to(torch.int8), (0, 0, 0, -len(rows) % _MANY_ROWS))
        product: Tensor = torch.ops.onednn.qlinear_pointwise(
            padded, 1.0, 0, packed, scales, offsets, None, 1.0, 0, torch.float32, "none", [], ""
        )
        return product[: len(rows)]

    return multiply


def _check_processor() -> None:
    # Without VNNI the kernels may add pairs of products in 16 bits, where the largest do not fit.
    largest = torch.full((_MANY_ROWS, 64), _LARGEST, dtype=torch.int8)
    try:
        multiply = _product_with(largest, torch.ones(_MANY_ROWS))
        products = [multiply(rows.float()) for rows in (largest, largest[:1])]
    except RuntimeError as error:
        raise ValueError(
            "precision=int8: torch has no products of 8-bit integers for this processor; "
            "choose fp32"
        ) from error
    if any((product != 64 * _LARGEST**2).any() for product in products):
        raise ValueError(
            "precision=int8: this processor rounds products of 8-bit integers; choose fp32"
        )
