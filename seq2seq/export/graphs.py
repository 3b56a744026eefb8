"""The two ONNX graphs of a model: the encoder, and a step of the decoder with its top-k."""

# B batch, K hypotheses of each sentence, R = B * K rows, S source length, T target length so far,
# I input, H hidden, N heads, M symbols, V vocabulary, W hypotheses to keep

import contextlib
import copy
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

import onnx
import torch
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.quantization.shape_inference import quant_pre_process
from onnxscript import FLOAT, INT32, INT64, opset18
from torch import Tensor, nn

from seq2seq.attention.base import Memory
from seq2seq.export.folder import ENCODER, STEP
from seq2seq.model.decoder import TiedOutput
from seq2seq.model.encoder import BidirectionalGRU, direction_parameters
from seq2seq.model.recurrence import DecoderState
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.runtime.kernels import Kernels
from seq2seq.runtime.kernels.operations import kernels_in_use
from seq2seq.search.constraints import place_symbols, symbol_slots
from seq2seq.special_tokens import BOS, PAD, UNK

OPSET = 18
_MEMORY = ("keys", "values")
_MISSING = "missing"
"""Input of models with symbols to copy: the symbols that each hypothesis still lacks."""
_AXES: dict[str, Sequence[str]] = dict.fromkeys(("source_ids", "source_mask", *_MEMORY), ("B", "S"))
_AXES |= {"previous_ids": ("B", "K"), "totals": ("B", "K"), "slots": ("W",)}
_AXES |= {_MISSING: ("R",)}
_AXES |= {"best": ("B", "W"), "indices": ("B", "W"), "weights": ("R", "", "S")}
"""Names of the first axes of inputs and outputs; axes named "" and all further axes have a fixed
size."""


class OnnxGRU(nn.Module):
    """`BidirectionalGRU` as an operator of ONNX, which takes the lengths of the sequences.

    torch.export cannot trace torch's own GRU for arbitrary lengths. Only ONNX can run this module.
    """

    def __init__(self, gru: BidirectionalGRU) -> None:
        super().__init__()
        self.residual, self.hidden_size = gru.residual, gru.hidden_size
        self.layers = [_onnx_parameters(gru, layer) for layer in range(gru.num_layers)]

    def forward(self, inputs: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Run over sequences as `BidirectionalGRU.forward` does."""
        lengths = mask.sum(1).to(torch.int32)
        outputs = inputs.transpose(0, 1)  # (S, B, I)
        for index, layer in enumerate(self.layers):
            states, last = torch.ops.seq2seq.onnx_gru(outputs, lengths, *layer, self.hidden_size)
            states = states.transpose(1, 2).flatten(2)  # (S, B, 2H)
            outputs = outputs + states if self.residual and index else states
        return outputs.transpose(0, 1), last.transpose(0, 1).flatten(1)


torch.library.define(
    "seq2seq::onnx_gru",
    "(Tensor inputs, Tensor lengths, Tensor weight, Tensor recurrence, Tensor bias, "
    "int hidden_size) -> (Tensor, Tensor)",
)


@torch.library.register_fake("seq2seq::onnx_gru")  # type: ignore[untyped-decorator]  # of torch
def _gru_shapes(
    inputs: Tensor, lengths: Tensor, weight: Tensor, *rest: Tensor | int
) -> tuple[Tensor, Tensor]:
    """Return tensors with the shapes of all states, (S, 2, B, H), and of the last, (2, B, H)."""
    length, num_sources, _ = inputs.shape
    hidden_size = weight.shape[1] // 3
    states = inputs.new_empty(length, 2, num_sources, hidden_size)
    return states, inputs.new_empty(2, num_sources, hidden_size)


def _onnx_gru(
    inputs: FLOAT, lengths: INT32, weight: FLOAT, recurrence: FLOAT, bias: FLOAT, hidden_size: int
) -> tuple[FLOAT, FLOAT]:
    states, last = opset18.GRU(
        inputs,
        weight,
        recurrence,
        bias,
        lengths,
        direction="bidirectional",
        hidden_size=hidden_size,
        linear_before_reset=1,  # r * (U_n h + b), as torch computes it
    )
    return states, last


def _onnx_parameters(gru: BidirectionalGRU, layer: int) -> list[Tensor]:
    """Return the weights of both directions, with the gates in the order z, r, n of ONNX."""
    directions = []
    for suffix in (f"l{layer}", f"l{layer}_reverse"):
        ordered = []
        for parameter in direction_parameters(gru, suffix):
            reset, update, new = parameter.detach().chunk(3)
            ordered.append(torch.cat((update, reset, new)))
        weight, recurrence, *biases = ordered
        directions.append([weight, recurrence, torch.cat(biases)])
    return [torch.stack(pair) for pair in zip(*directions, strict=True)]


class EncoderGraph(nn.Module):
    """The graph from source ids and mask (B, S) to keys, values and the first state."""

    def __init__(self, model: Seq2Seq) -> None:
        super().__init__()
        self.model = model

    def forward(self, source_ids: Tensor, source_mask: Tensor) -> tuple[Tensor, ...]:
        memory, state = self.model.encode(source_ids, source_mask)
        return memory.keys, memory.values, *_tensors(state)


class StepGraph(nn.Module):
    """A step of K hypotheses of each sentence and the W best extensions of each sentence."""

    def __init__(self, model: Seq2Seq, state: DecoderState, symbols: Sequence[int]) -> None:
        super().__init__()
        self.decoder = model.decoder
        self.state = state
        vocabulary_size = len(model.decoder.output.weight)
        banned = torch.zeros(vocabulary_size)
        banned[[PAD, BOS]] = -torch.inf
        self.banned = nn.Buffer(banned)
        self.slots = nn.Buffer(
            symbol_slots(torch.tensor(symbols, dtype=torch.long), vocabulary_size)
        )

    def forward(
        self,
        previous_ids: Tensor,
        totals: Tensor,
        slots: Tensor,
        keys: Tensor,
        values: Tensor,
        source_mask: Tensor,
        missing: list[Tensor],
        states: list[Tensor],
    ) -> tuple[Tensor, ...]:
        """Extend the hypotheses.

        Args:
            previous_ids: Last token of each hypothesis, (B, K).
            totals: Log-probability of each hypothesis, (B, K); -inf: it is not extended.
            slots: (W,); only its length is read.
            keys: Keys of the memory, (B, S, D).
            values: Values of the memory, (B, S, C).
            source_mask: (B, S).
            missing: The symbols that each hypothesis still lacks, (R, M) bool; no tensor if the
                model has no symbols.
            states: Tensors of the decoder's state, (R, ...).

        Returns:
            Totals of the W best extensions, best first, ties by lower index; their indices in the
            K * V extensions; attention weights (R, N, S); new states (R, ...).
        """
        memory = Memory(keys, values, source_mask)
        step = self.decoder.step(self._join(states), previous_ids.flatten(), memory)
        log_probabilities = torch.log_softmax(step.logits, dim=-1) + self.banned
        for each in missing:
            log_probabilities = place_symbols(log_probabilities, each, self.slots)
        sums = log_probabilities + totals.view(-1, 1)  # (R, V)
        best, indices = sums.view(keys.shape[0], -1).topk(slots.shape[0])
        return best, indices, step.attention_weights, *_tensors(step.state)

    def _join(self, states: Sequence[Tensor]) -> DecoderState:
        """Build the state from the tensors that have elements; the other tensors are empty."""
        remaining, rows = iter(states), states[0].shape[0]
        return self.state.with_tensors(
            [
                next(remaining) if part.shape[-1] else part.new_empty(rows, *part.shape[1:])
                for part in self.state.tensors()
            ]
        )


def _tensors(state: DecoderState) -> list[Tensor]:
    """Return the tensors of a state that have elements."""
    return [part for part in state.tensors() if part.shape[-1]]


def write_graphs(model: Seq2Seq, folder: Path, symbols: Sequence[int] = ()) -> list[str]:
    """Write the encoder and the step of a model, and return the names of the state's tensors.

    Args:
        model: The model.
        folder: Directory of the graphs.
        symbols: Ids of the symbols that a translation copies.

    Raises:
        ValueError: An operation of the model has no counterpart in ONNX.
    """
    model = copy.deepcopy(model).requires_grad_(False).eval()
    with kernels_in_use(Kernels.plain), torch.no_grad():
        source_ids, memory, state, later = _example(model, source_length=5)
        *_, longer, _ = _example(model, source_length=6)
        if isinstance(model.decoder.output, TiedOutput):
            model.decoder.output = model.decoder.output.copied()  # int8 needs a constant weight
        model.encoder.gru = OnnxGRU(model.encoder.gru)  # type: ignore[assignment]
        names = [f"state_{index}" for index in range(len(_tensors(state)))]
        # An axis that is longer for a longer source is named S; an axis that grows in each step is
        # named T.
        axes = {
            name: ["R", *map(_axis, *(each.shape[1:] for each in states))]
            for name, *states in zip(names, *map(_tensors, (state, longer, later)), strict=True)
        }
        encoder_axes = _AXES | {name: ["B", *each[1:]] for name, each in axes.items()}
        _write_graph(
            EncoderGraph(model),
            (source_ids, memory.source_mask),
            path=folder / ENCODER,
            inputs=["source_ids", "source_mask"],
            outputs=[*_MEMORY, *names],
            axes=encoder_axes,
        )
        new_axes = {f"new_{name}": each for name, each in axes.items()}
        _write_graph(
            StepGraph(model, state, symbols),
            (
                torch.full((_SENTENCES, _WIDTH), BOS),
                torch.zeros(_SENTENCES, _WIDTH),
                torch.arange(_WIDTH + 2),
                *memory,
                [torch.zeros(_SENTENCES * _WIDTH, len(symbols), dtype=torch.bool)][: len(symbols)],
                _tensors(later),
            ),
            path=folder / STEP,
            inputs=[
                *("previous_ids", "totals", "slots", *_MEMORY, "source_mask"),
                *([_MISSING] if symbols else []),
                *names,
            ],
            outputs=["best", "indices", "weights", *new_axes],
            axes=_AXES | axes | new_axes,
        )
    return names


_SENTENCES, _WIDTH = 3, 2


def _example(
    model: Seq2Seq, *, source_length: int
) -> tuple[Tensor, Memory, DecoderState, DecoderState]:
    """Return ids that a graph is traced with, their memory, and states before and after steps."""
    lengths = source_length - torch.arange(_SENTENCES).unsqueeze(1)
    source_mask = torch.arange(source_length) < lengths
    source_ids = torch.where(source_mask, UNK, PAD)
    memory, state = model.encode(source_ids, source_mask)
    state = later = state.select(torch.arange(_SENTENCES).repeat_interleave(_WIDTH))
    for _ in range(3):  # torch.export would treat a size of 1 as constant
        previous_ids = torch.full((_SENTENCES * _WIDTH,), BOS)
        later = model.decoder.step(later, previous_ids, memory).state
    return source_ids, memory, state, later


def _axis(size: int, with_longer_source: int, after_steps: int) -> str:
    """Name an axis of a state by the change of its size; "" if the size is fixed."""
    return "S" if with_longer_source != size else "T" if after_steps != size else ""


def _write_graph(
    graph: nn.Module,
    example: tuple[Tensor | list[Tensor], ...],
    *,
    path: Path,
    inputs: Sequence[str],
    outputs: Sequence[str],
    axes: Mapping[str, Sequence[str]],
) -> None:
    """Trace a graph with an example, name its axes, and write it."""
    dynamic = iter(
        {place: torch.export.Dim.DYNAMIC for place, axis in enumerate(axes[name]) if axis}
        for name in inputs
    )
    shapes = tuple(
        [next(dynamic) for _ in part] if isinstance(part, list) else next(dynamic)
        for part in example
    )
    with in_silence():
        try:
            program = torch.onnx.export(
                graph.eval(),
                example,
                dynamo=True,
                opset_version=OPSET,
                input_names=inputs,
                output_names=outputs,
                dynamic_shapes=shapes,
                custom_translation_table=_OPERATIONS,
                verbose=False,
            )
        except torch.onnx.errors.OnnxExporterError as error:
            raise ValueError(f"{_cause(error)}") from error
    assert program is not None
    model = program.model_proto
    _finish(model, axes)
    path.write_bytes(model.SerializeToString())


def _finish(model: onnx.ModelProto, axes: Mapping[str, Sequence[str]]) -> None:
    """Name the axes of inputs and outputs, and remove traces of how the graph was made.

    The exporter leaves the sizes of the example in some outputs, and paths of this machine in the
    nodes.
    """
    for value in (*model.graph.input, *model.graph.output):
        sizes = value.type.tensor_type.shape.dim
        for size, axis in zip(sizes, axes[value.name], strict=False):
            if axis:
                size.dim_param = axis
    del model.graph.value_info[:]
    for node in (*model.graph.node, *(node for each in model.functions for node in each.node)):
        node.ClearField("metadata_props")
        node.ClearField("doc_string")
    model.graph.ClearField("metadata_props")
    model.ClearField("metadata_props")
    onnx.checker.check_model(model)


def _distances(first: FLOAT, second: FLOAT, p: float = 2.0, mode: int | None = None) -> FLOAT:
    """Compute `torch.cdist`, which the exporter lacks: (B, T, D), (B, S, D) -> (B, T, S)."""
    assert p == 2, f"torch.cdist with p={p} has no ONNX form; only p=2 has one"

    def axis(number: int) -> INT64:
        return cast(INT64, opset18.Constant(value_ints=[number]))

    queries, keys = opset18.Unsqueeze(first, axis(-2)), opset18.Unsqueeze(second, axis(-3))
    return opset18.ReduceL2(opset18.Sub(queries, keys), axis(-1), keepdims=0)


def _between(first: FLOAT, second: FLOAT, weight: FLOAT) -> FLOAT:
    """Compute `torch.lerp` with three operators; the exporter takes eight."""
    return opset18.Add(first, opset18.Mul(weight, opset18.Sub(second, first)))


_OPERATIONS: dict[Callable[..., object], Callable[..., object]] = {
    torch.ops.seq2seq.onnx_gru.default: _onnx_gru,
    torch.ops.aten._cdist_forward.default: _distances,
    torch.ops.aten.lerp.Tensor: _between,
}
"""Replacements for operations of torch that the exporter lacks or exports less well."""


def quantize_graphs(folder: Path) -> None:
    """Store the weights of products in int8; the other factors are rounded at run time.

    The weights have seven bits including the sign, because with eight bits the sums overflow on
    processors without VNNI.
    """
    for path in (folder / ENCODER, folder / STEP):
        prepared = path.with_suffix(".prepared")
        with in_silence():
            quant_pre_process(path, prepared, skip_symbolic_shape=True)
            quantize_dynamic(
                prepared,
                path,
                per_channel=True,
                reduce_range=True,
                weight_type=QuantType.QInt8,
                nodes_to_exclude=_unrounded_products(onnx.load(prepared).graph),
            )
        prepared.unlink()


def _unrounded_products(graph: onnx.GraphProto) -> list[str]:
    """Return the names of the products that keep fp32.

    With one output, such as a score, rounding would make them slower. An empty weight, such as that
    of the context of `attention=none`, has no scale: the rounded product would be arbitrary.
    """
    kept = {each.name for each in graph.initializer if each.dims[1:] == [1] or 0 in each.dims}
    names = [node.name for node in graph.node if not kept.isdisjoint(node.input[1:2])]
    # Before it rounds, onnxruntime replaces each Gemm by a product of this name.
    return [*names, *(f"{name}_MatMul" for name in names)]


@contextlib.contextmanager
def in_silence() -> Iterator[None]:
    """Suppress log lines and warnings, such as the exporter's, in the block."""
    level = logging.root.manager.disable
    logging.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(level)


def _cause(error: BaseException) -> str:
    """Return the first line of the error that began a chain."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error).strip().partition("\n")[0]
