"""A GRU over a known sequence, with its backward pass written out."""

# B batch, T length, H hidden

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional

from seq2seq.kernels.products import kernels_are_fast, product_with
from seq2seq.kernels.tanh import tanh_


def unroll_gru(
    projected: Tensor,
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor,
    *,
    padding: Tensor | None = None,
    reverse: bool = False,
) -> Tensor:
    """Run a GRU over a known sequence; the states equal `GRUCell`'s without normalization.

    Args:
        projected: Projected inputs, time first, (T, B, 3H).
        hidden: State before the first step, (B, H).
        weight: Weight of the hidden projection, (3H, H).
        bias: Bias of the hidden projection, (3H,).
        padding: (T, B) bool; a padded step keeps the state.
        reverse: Run from the last step to the first.

    Returns:
        The state after every step, (T, B, H).
    """
    if not kernels_are_fast():
        return _plain_unroll(projected, hidden, weight, bias, padding=padding, reverse=reverse)
    # As in `gru_step`, only products may use low precision.
    arguments = (projected.to(hidden.dtype), hidden, weight.to(projected.dtype), bias)
    if torch.is_grad_enabled() and any(each.requires_grad for each in arguments):
        states: Tensor = _Unroll.apply(*arguments, padding, reverse)  # type: ignore[no-untyped-call]
        return states
    project = _hidden_projection(*arguments[1:], num_uses=len(projected))
    return run_gru(project, *arguments[:2], padding=padding, reverse=reverse).states


def _plain_unroll(
    projected: Tensor,
    hidden: Tensor,
    weight: Tensor,
    bias: Tensor,
    *,
    padding: Tensor | None,
    reverse: bool,
) -> Tensor:
    states: list[Tensor] = [hidden] * len(projected)
    for step in _order(len(projected), reverse=reverse):
        following = gru_step(projected[step], functional.linear(hidden, weight, bias), hidden)
        if padding is not None:
            following = torch.where(padding[step].unsqueeze(1), hidden, following)
        hidden = states[step] = following
    return torch.stack(states)


def gru_step(projected: Tensor, hidden_projection: Tensor, hidden: Tensor) -> Tensor:
    """Return the next state of a GRU, (1 - z) * n + z * h.

    Args:
        projected: Projected input (x_r, x_z, x_n), (R, 3H).
        hidden_projection: U h + b, (R, 3H).
        hidden: State h, (R, H).
    """
    parts = [2 * hidden.shape[-1], hidden.shape[-1]]
    # Products may use low precision; the state, which accumulates over the steps, does not.
    x_gates, x_new = torch.split(projected.to(hidden.dtype), parts, dim=-1)
    h_gates, h_new = torch.split(hidden_projection.to(hidden.dtype), parts, dim=-1)
    reset, update = torch.sigmoid(x_gates + h_gates).chunk(2, dim=-1)
    new = tanh_(torch.addcmul(x_new, reset, h_new))
    return torch.lerp(new, hidden, update)


class GRURun(NamedTuple):
    """The states of a sequence, and the values that its backward pass needs."""

    states: Tensor  # (T, B, H)
    gates: Tensor  # (T, B, 3H): r, z and U_n h + b of each step
    candidates: Tensor  # (T, B, H): candidates n of each step


def run_gru(
    project: Callable[[Tensor, Tensor], object],
    projected: Tensor,
    hidden: Tensor,
    *,
    padding: Tensor | None,
    reverse: bool,
) -> GRURun:
    """Run a GRU without gradients, with any function that computes U h + b.

    Args:
        project: Takes the state (B, H) and writes U h + b into its second argument, (B, 3H).
        projected: As in `unroll_gru`.
        hidden: As in `unroll_gru`.
        padding: As in `unroll_gru`.
        reverse: As in `unroll_gru`.
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
            update.masked_fill_(padding[step].unsqueeze(1), 1.0)  # padding keeps the state
        new = tanh_(torch.addcmul(x[:, 2 * size :], reset, u, out=candidates[step]))
        hidden = torch.lerp(new, hidden, update, out=states[step])
    return GRURun(states, gates, candidates)


def _hidden_projection(
    hidden: Tensor, weight: Tensor, bias: Tensor, *, num_uses: int
) -> Callable[[Tensor, Tensor], object]:
    """Return the `project` of `run_gru` for a weight and a bias; the sum has the bias' type."""
    multiply = product_with(weight, num_rows=len(hidden), num_uses=num_uses)
    return lambda rows, target: torch.add(multiply(rows), bias, out=target)


class _Unroll(Function):
    """`unroll_gru` with a backward pass over the whole sequence.

    Let g be the gradient of h' and u = U_n h + b. All products below are elementwise:
    dn = g (1 - z) (1 - n^2), dr = dn u r (1 - r), dz = g (h - n) z (1 - z).
    The gradients are (dr, dz, dn) for the projected input, d = (dr, dz, dn r) for U h + b, and
    g z + d U for the previous state. The gradient of U is the sum of d^T h over all steps,
    computed as one product after the loop. Padding has z = 1, so that only g passes.
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
        run = run_gru(project, projected, hidden, padding=padding, reverse=reverse)
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
        hidden_grads = torch.empty_like(gates, dtype=weight.dtype)  # only products read it
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
