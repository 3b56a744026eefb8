"""Quantize a trained model to 8-bit integers, to translate faster on a CPU."""

# R rows, I input, O output

import logging
import warnings
from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional

from seq2seq.kernels.gru import run_gru
from seq2seq.model.gru import BidirectionalGRU, BidirectionalLayers
from seq2seq.runtime.numerics import cpu_has_amx

logger = logging.getLogger(__name__)

_LARGEST = 127
"""Largest 8-bit value of a weight; -128 is not used, which keeps the range symmetric."""
_LARGEST_INPUTS = (_LARGEST, 63)
"""Largest 8-bit value of an input; kernels that add pairs of products in 16 bits are exact up to
63."""
_SMALLEST = 1e-30
"""Smallest scale of a row, to avoid division by zero."""
_MANY_ROWS = 16
"""Minimum number of rows for which oneDNN is faster than FBGEMM on AMX, by up to three times
(measured)."""
FEWEST_OUTPUTS = 512
"""Minimum number of outputs for which a layer gains more than quantizing its inputs costs
(measured)."""


class Int8Linear(nn.Module):
    """A linear layer that multiplies 8-bit integers; only their rounding loses precision.

    Each output has its own scale, and each row of the input has its own scale at each call.
    Therefore the result for a row does not depend on other rows, as it would with one scale for
    the whole input. Inputs have 8 bits, on x86 processors without VNNI 7 bits.
    """

    integers: Tensor  # (O, I) int8
    scales: Tensor  # (O,)
    bias: Tensor  # (O,)

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        super().__init__()
        self.out_features, self.in_features = weight.shape
        numbers, scales = _to_integers(weight.detach())
        bias = torch.zeros(self.out_features) if bias is None else bias.detach()
        self.register_buffer("integers", numbers.to(torch.int8))
        self.register_buffer("scales", scales.squeeze(1))
        self.register_buffer("bias", bias.clone())
        self._multiply = _product_with(self.integers, self.scales, _largest_input())

    @property
    def weight(self) -> Tensor:
        """Return the dequantized weight, (O, I), for code that multiplies by it directly."""
        return self.integers * self.scales.unsqueeze(1)

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the outputs (..., O) for inputs (..., I)."""
        rows = inputs.reshape(-1, self.in_features)
        numbers, scales = _to_integers(rows, _largest_input())
        outputs = self._multiply(numbers)
        outputs = torch.addcmul(self.bias, outputs, scales, out=outputs)
        return outputs.view(*inputs.shape[:-1], self.out_features)


class Int8GRU(BidirectionalLayers):
    """A `BidirectionalGRU` for inference that multiplies 8-bit integers."""

    def __init__(self, gru: BidirectionalGRU) -> None:
        super().__init__()
        self.num_layers, self.hidden_size = gru.num_layers, gru.hidden_size
        self.residual, self.between_layers = gru.residual, nn.Identity()
        weights = dict(gru.named_parameters())
        # The names are torch's without "weight_": ih projects the input, hh projects the state.
        self.projections = nn.ModuleDict(
            {
                name.removeprefix("weight_"): Int8Linear(
                    weight, weights[name.replace("weight", "bias")]
                )
                for name, weight in weights.items()
                if name.startswith("weight")
            }
        )

    def direction(self, inputs: Tensor, padding: Tensor | None, suffix: str) -> Tensor:
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
    """Quantize the wide linear layers and GRUs of a model in place; it cannot train afterwards.

    Embeddings are not quantized, even if the output layer shares their weights.

    Raises:
        ValueError: This processor does not multiply 8-bit integers exactly.

    Example:
        >>> model = nn.Sequential(nn.Linear(64, 512))
        >>> quantize(model)
        >>> type(model[0]).__name__
        'Int8Linear'
    """
    if _largest_input() < _LARGEST:
        logger.info("precision=int8: this processor multiplies exactly only if inputs have 7 bits")
    for module in list(model.modules()):
        for name, child in module.named_children():
            if isinstance(child, nn.Linear):
                # Without attention, some layers have no inputs.
                if child.in_features > 0 and child.out_features >= FEWEST_OUTPUTS:
                    setattr(module, name, Int8Linear(child.weight, child.bias))
            elif isinstance(child, BidirectionalGRU) and 3 * child.hidden_size >= FEWEST_OUTPUTS:
                setattr(module, name, Int8GRU(child))


def _to_integers(rows: Tensor, largest: int = _LARGEST) -> tuple[Tensor, Tensor]:
    """Return integers from -largest to largest as floats, and the scale of each row, (R, 1)."""
    scales = rows.abs().amax(dim=1, keepdim=True).clamp_min_(_SMALLEST).div_(largest)
    return (rows / scales).round_(), scales


def _product_with(
    integers: Tensor, scales: Tensor, largest_input: int
) -> Callable[[Tensor], Tensor]:
    """Return a function that multiplies rows (R, I), integers as floats, by the weight.

    With AMX, oneDNN multiplies many rows and FBGEMM few. Sums of integers are exact, so both give
    the same bits for finite rows.
    """
    few = _fbgemm_product_with(integers, scales, largest_input)
    if not (cpu_has_amx() and _onednn_takes_signed_rows()):
        return few
    many = _onednn_product_with(integers, scales)
    return lambda rows: few(rows) if len(rows) < _MANY_ROWS else many(rows)


def _fbgemm_product_with(
    integers: Tensor, scales: Tensor, largest_input: int
) -> Callable[[Tensor], Tensor]:
    with warnings.catch_warnings():
        # The replacement that torch's warning names is slower without AMX, and for few rows.
        warnings.filterwarnings("ignore", message="torch.quantize_per_tensor")
        weight = torch._make_per_channel_quantized_tensor(
            integers, scales.double(), torch.zeros_like(scales, dtype=torch.int64), 0
        )
    packed = torch.ops.quantized.linear_prepack(weight, None)

    def multiply(rows: Tensor) -> Tensor:
        # The kernel reads unsigned rows: the offset maps the smallest input to 0.
        product: Tensor = torch.ops.quantized.linear_with_input_q_dq_qweight_dq_output_fp32(
            rows, 1.0, largest_input, packed
        )
        return product

    return multiply


def _onednn_product_with(integers: Tensor, scales: Tensor) -> Callable[[Tensor], Tensor]:
    packed = torch.ops.onednn.qlinear_prepack(integers, None)
    offsets = torch.zeros_like(scales, dtype=torch.int64)

    def multiply(rows: Tensor) -> Tensor:
        # oneDNN compiles a kernel for each number of rows; padding limits the number of kernels.
        padded = functional.pad(rows.to(torch.int8), (0, 0, 0, -len(rows) % _MANY_ROWS))
        product: Tensor = torch.ops.onednn.qlinear_pointwise(
            padded, 1.0, 0, packed, scales, offsets, None, 1.0, 0, torch.float32, "none", [], ""
        )
        return product[: len(rows)]

    return multiply


@cache
def _onednn_takes_signed_rows() -> bool:
    """Return whether oneDNN multiplies int8 rows; torch 2.6 accepts only uint8."""
    weight = torch.ones(_MANY_ROWS, _MANY_ROWS, dtype=torch.int8)
    try:
        _onednn_product_with(weight, torch.ones(_MANY_ROWS))(weight.float())
    except RuntimeError:
        return False
    return True


@cache
def _largest_input() -> int:
    """Return the largest input whose products are exact on this processor.

    Raises:
        ValueError: No input has exact products.
    """
    weight = torch.full((_MANY_ROWS, 64), _LARGEST, dtype=torch.int8)
    try:
        for largest in _LARGEST_INPUTS:
            rows = torch.full((_MANY_ROWS, 64), float(largest))
            multiply = _product_with(weight, torch.ones(_MANY_ROWS), largest)
            products = torch.cat((multiply(rows), multiply(rows[:1])))
            if (products == 64 * _LARGEST * largest).all():
                return largest
    except RuntimeError as error:
        raise ValueError(
            "precision=int8: torch cannot multiply 8-bit integers on this processor; choose fp32"
        ) from error
    raise ValueError(
        "precision=int8: this processor does not multiply 8-bit integers exactly; choose fp32"
    )
