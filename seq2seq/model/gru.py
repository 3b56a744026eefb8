"""Gated recurrent units: one step, and a whole known sequence with a backward of its own."""

# B batch, T length, I input, H hidden of one direction, L layers

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from seq2seq.kernels.dropout import Dropout
from seq2seq.kernels.packed_matmul import product_with


class GRUCell(nn.Module):
    """A gated recurrent unit whose input arrives projected, so that a loop need not project it.

    r = sigmoid(x_r + U_r h), z = sigmoid(x_z + U_z h), n = tanh(x_n + r * (U_n h + b)),
    h' = (1 - z) * n + z * h (Cho et al. 2014, in the form of torch.nn.GRU), where (x_r, x_z, x_n)
    is the projected input. With layer normalisation both projections are normalised (Ba et al.
    2016).
    """

    def __init__(self, input_size: int, hidden_size: int, *, layer_norm: bool) -> None:
        super().__init__()
        self.input_projection = nn.Linear(input_size, 3 * hidden_size)
        self.hidden_projection = nn.Linear(hidden_size, 3 * hidden_size)
        self.input_norm = nn.LayerNorm(3 * hidden_size) if layer_norm else nn.Identity()
        self.hidden_norm = nn.LayerNorm(3 * hidden_size) if layer_norm else nn.Identity()

    def forward(self, projected: Tensor, hidden: Tensor) -> Tensor:
        """Return the next state (R, H) from a projected input (R, 3H) and the state (R, H)."""
        parts = (2 * hidden.shape[-1], hidden.shape[-1])
        x_all = self.input_norm(projected)
        h_all = self.hidden_norm(self.hidden_projection(hidden))
        # Products may be of low precision; the state, which adds up over the steps, is not.
        x_gates, x_new = x_all.to(hidden.dtype).split(parts, dim=-1)
        h_gates, h_new = h_all.to(hidden.dtype).split(parts, dim=-1)
        reset, update = torch.sigmoid(x_gates + h_gates).chunk(2, dim=-1)
        new = torch.tanh(torch.addcmul(x_new, reset, h_new))
        return torch.lerp(new, hidden, update)

    def unroll(self, projected: Tensor, hidden: Tensor) -> Tensor:
        """Return the states after each step, (T, B, 3H) -> (T, B, H), from the first one (B, H)."""
        if isinstance(self.hidden_norm, nn.Identity):
            projection = self.hidden_projection
            return unroll(projected, hidden, projection.weight, projection.bias)
        states = []
        for step in projected:
            hidden = self(step, hidden)
            states.append(hidden)
        return torch.stack(states)


class BidirectionalGRU(nn.GRU):
    """Layers of a GRU in both directions over padded sequences; the weights are torch.nn.GRU's.

    CUDA runs cuDNN's kernels, everything else `unroll`, which is faster than torch's own loop.
    """

    def __init__(
        self, input_size: int, hidden_size: int, *, num_layers: int, dropout: float
    ) -> None:
        super().__init__(
            input_size,
            hidden_size,
            num_layers=num_layers,
            dropout=dropout if num_layers > 1 else 0.0,
            bidirectional=True,
            batch_first=True,
        )

    def forward(self, inputs: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """Read sequences in both directions.

        Args:
            inputs: (B, T, I).
            mask: (B, T) bool, True = real; padding stands at the end and changes nothing.

        Returns:
            States (B, T, 2H), whatever they are at padding, and the last state of each direction
            in the top layer, (B, 2H); of a sequence without a real token zeros.
        """
        if inputs.is_cuda:
            # autocast would run cuDNN in fp16, whatever its own type, and the states with it.
            with torch.autocast("cuda", enabled=False):
                return self.forward_packed(inputs, mask)
        dropout = Dropout(self.dropout).train(self.training)
        return read_both_ways(
            inputs, mask, self._direction, num_layers=self.num_layers, between=dropout
        )

    def _direction(self, inputs: Tensor, padding: Tensor | None, suffix: str) -> Tensor:
        """Do what `read_both_ways` asks of a direction; its weights bear the suffix."""
        input_weight, weight, input_bias, bias = (
            getattr(self, f"{kind}_{suffix}")
            for kind in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        projected = functional.linear(inputs, input_weight, input_bias)
        hidden = inputs.new_zeros(inputs.shape[1], self.hidden_size)
        is_reverse = suffix.endswith("reverse")
        return unroll(projected, hidden, weight, bias, padding=padding, reverse=is_reverse)

    def forward_packed(self, inputs: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """Return what `forward` does by torch's own loop, or by cuDNN; states of padding are 0."""
        # Packing asks for at least one step.
        lengths = mask.sum(1).clamp(min=1).cpu()
        packed = pack_padded_sequence(inputs, lengths, batch_first=True, enforce_sorted=False)
        packed_states, last = super().forward(packed)
        states, _ = pad_packed_sequence(
            packed_states, batch_first=True, total_length=inputs.shape[1]
        )
        top = last[-2:].transpose(0, 1).flatten(1)  # (2L, B, H) -> (B, 2H)
        return states, top * mask.any(1, keepdim=True)


def read_both_ways(
    inputs: Tensor,
    mask: Tensor,
    direction: Callable[[Tensor, Tensor | None, str], Tensor],
    *,
    num_layers: int,
    between: Callable[[Tensor], Tensor],
) -> tuple[Tensor, Tensor]:
    """Run the directions of every layer, as `BidirectionalGRU.forward` describes.

    Args:
        inputs: (B, T, I).
        mask: (B, T) bool, True = real.
        direction: returns the states (T, B, H) of one direction of a layer from its inputs, time
            first, padding (T, B) if there is any, and torch's suffix: `l0`, `l0_reverse`, `l1`.
        num_layers: L.
        between: applied to the states between two layers.
    """
    states = inputs.transpose(0, 1)  # (T, B, I): the rows of a step stand together
    padding = None if mask.all() else ~mask.t()
    for layer in range(num_layers):
        forward = direction(states, padding, f"l{layer}")
        backward = direction(states, padding, f"l{layer}_reverse")
        states = torch.cat((forward, backward), dim=-1)
        if layer < num_layers - 1:
            states = between(states)
    # Whoever reads them next wants the states of a sentence together.
    states = states.transpose(0, 1).contiguous()
    return states, torch.cat((forward[-1], backward[0]), dim=-1)


def unroll(
    projected: Tensor,
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor,
    *,
    padding: Tensor | None = None,
    reverse: bool = False,
) -> Tensor:
    """Run a GRU over a known sequence: the states of `GRUCell` without layer normalisation.

    Args:
        projected: projected inputs, time first, (T, B, 3H).
        hidden: the state before the first step, (B, H).
        weight: of the hidden projection, (3H, H).
        bias: of the hidden projection, (3H,).
        padding: (T, B) bool; a padded step leaves the state as it is.
        reverse: run from the last step to the first.

    Returns:
        The state after every step, (T, B, H).
    """
    # Products may be of low precision; the state, which adds up over the steps, is not.
    arguments = (projected.to(hidden.dtype), hidden, weight.to(projected.dtype), bias)
    if torch.is_grad_enabled() and any(each.requires_grad for each in arguments):
        states: Tensor = _Unroll.apply(*arguments, padding, reverse)  # type: ignore[no-untyped-call]
        return states
    project = _hidden_projection(*arguments[1:], num_uses=len(projected))
    return unroll_with(project, *arguments[:2], padding=padding, reverse=reverse).states


class Unrolled(NamedTuple):
    """What a run over a sequence leaves behind."""

    states: Tensor  # (T, B, H)
    gates: Tensor  # (T, B, 3H): r, z and U_n h + b of each step
    candidates: Tensor  # (T, B, H): n of each step


def unroll_with(
    project: Callable[[Tensor, Tensor], object],
    projected: Tensor,
    hidden: Tensor,
    *,
    padding: Tensor | None,
    reverse: bool,
) -> Unrolled:
    """Do what `unroll` does, without a gradient, by any function that makes U h + b.

    It takes the state (B, H) and where to put what it makes, (B, 3H).
    """
    length, size = len(projected), hidden.shape[1]
    states = projected.new_empty(length, *hidden.shape)
    gates, candidates = torch.empty_like(projected), torch.empty_like(states)
    for step in _order(length, reverse=reverse):
        x, all_gates = projected[step], gates[step]  # (B, 3H)
        project(hidden, all_gates)
        all_gates[:, : 2 * size].add_(x[:, : 2 * size]).sigmoid_()
        reset, update, u = all_gates.chunk(3, dim=1)
        if padding is not None:
            update.masked_fill_(padding[step].unsqueeze(1), 1.0)  # the state stays as it is
        new = torch.addcmul(x[:, 2 * size :], reset, u, out=candidates[step]).tanh_()
        hidden = torch.lerp(new, hidden, update, out=states[step])
    return Unrolled(states, gates, candidates)


def _hidden_projection(
    hidden: Tensor, weight: Tensor, bias: Tensor, *, num_uses: int
) -> Callable[[Tensor, Tensor], object]:
    """Return what `unroll_with` asks for; the sum is of the state's own type."""
    multiply = product_with(weight, num_rows=len(hidden), num_uses=num_uses)
    return lambda rows, target: torch.add(multiply(rows), bias, out=target)


class _Unroll(Function):
    """`unroll` with the gradient of a sequence written out.

    With g the gradient of h', everything elementwise:
    dn = g (1 - z) (1 - n^2), dr = dn u r (1 - r), dz = g (h - n) z (1 - z), where u = U_n h + b;
    (dr, dz, dn) is the gradient of the projected input and d = (dr, dz, dn r) that of U h + b, so
    that g of the step before is g z + d U. The gradient of U is the sum of d^T h over all steps,
    which is one product after the loop. Padding has z = 1: g passes, and nothing else.
    """

    @staticmethod
    def forward(
        ctx: FunctionCtx,
        projected: Tensor,
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor,
        padding: Tensor | None,
        reverse: bool,
    ) -> Tensor:
        project = _hidden_projection(hidden, weight, bias, num_uses=len(projected))
        run = unroll_with(project, projected, hidden, padding=padding, reverse=reverse)
        ctx.save_for_backward(hidden, weight, *run)
        ctx.reverse = reverse  # type: ignore[attr-defined]
        return run.states

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor | None, ...]:
        first, weight, states, gates, candidates = ctx.saved_tensors  # type: ignore[attr-defined]
        reverse: bool = ctx.reverse  # type: ignore[attr-defined]
        length, num_rows, size = states.shape
        input_grads = torch.empty_like(gates)
        hidden_grads = torch.empty_like(gates, dtype=weight.dtype)  # read by products alone
        project = product_with(weight.t(), num_rows=num_rows, num_uses=length)
        previous = _previous(states, first, reverse=reverse)
        carried = torch.zeros_like(first)
        for step in _order(length, reverse=not reverse):
            reset, update, u = gates[step].chunk(3, dim=1)
            new = candidates[step]
            d_reset, d_update, d_new = input_grads[step].chunk(3, dim=1)
            total = carried + grad[step]
            carried = total * update
            torch.sub(total, carried, out=d_new)
            d_new.addcmul_(d_new * new, new, value=-1.0)
            torch.mul(d_new, u, out=d_reset)
            torch.mul(total, previous[step] - new, out=d_update)
            rz, d_rz = gates[step, :, : 2 * size], input_grads[step, :, : 2 * size]
            d_rz.mul_(rz).addcmul_(d_rz, rz, value=-1.0)
            hidden_grads[step, :, : 2 * size] = d_rz
            torch.mul(d_new, reset, out=hidden_grads[step, :, 2 * size :])
            carried += project(hidden_grads[step])
        all_grads = hidden_grads.flatten(0, 1)
        weight_grad = all_grads.t() @ previous.flatten(0, 1).to(weight.dtype)
        return input_grads, carried, weight_grad, all_grads.sum(0), None, None


def _previous(states: Tensor, first: Tensor, *, reverse: bool) -> Tensor:
    """Return the state before every step, (T, B, H)."""
    if reverse:
        return torch.cat((states, first.unsqueeze(0)))[1:]
    return torch.cat((first.unsqueeze(0), states))[:-1]


def _order(length: int, *, reverse: bool) -> range:
    return range(length - 1, -1, -1) if reverse else range(length)
