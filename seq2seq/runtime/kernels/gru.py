"""A step of a GRU, and a GRU over a known sequence, with their backward passes written out."""

# B batch, T length, H hidden

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function
from torch.autograd.function import FunctionCtx, once_differentiable
from torch.nn import functional

from seq2seq.runtime.kernels.operations import kernels_are_fast, product_with, tanh_


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
    if _needs_gradient(*arguments):
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
    # Products may use low precision; the state, which accumulates over the steps, does not.
    x, u = projected.to(hidden.dtype), hidden_projection.to(hidden.dtype)
    is_fast = kernels_are_fast() and hidden.device.type == "cpu"
    if is_fast and _needs_gradient(x, u, hidden):
        following: Tensor = _Step.apply(x, u, hidden)  # type: ignore[no-untyped-call]
        return following
    parts = [2 * hidden.shape[-1], hidden.shape[-1]]
    x_gates, x_new = torch.split(x, parts, dim=-1)
    h_gates, h_new = torch.split(u, parts, dim=-1)
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
    states = projected.new_empty(len(projected), *hidden.shape)
    run = GRURun(states, torch.empty_like(projected), torch.empty_like(states))
    for step in _order(len(projected), reverse=reverse):
        project(hidden, run.gates[step])
        step_padding = None if padding is None else padding[step]
        buffers = GRURun(*(each[step] for each in run))
        hidden = _advance(projected[step], hidden, buffers, padding=step_padding)
    return run


def _advance(x: Tensor, hidden: Tensor, run: GRURun, *, padding: Tensor | None = None) -> Tensor:
    """Write a step into `run`, whose `gates` contain U h + b; return the new state."""
    size = hidden.shape[1]
    run.gates[:, : 2 * size].add_(x[:, : 2 * size]).sigmoid_()
    reset, update, u = run.gates.chunk(3, dim=1)
    if padding is not None:
        update.masked_fill_(padding.unsqueeze(1), 1.0)  # padding keeps the state
    new = tanh_(torch.addcmul(x[:, 2 * size :], reset, u, out=run.candidates))
    return torch.lerp(new, hidden, update, out=run.states)


def _step_gradients(
    grad: Tensor,
    hidden: Tensor,
    gates: Tensor,
    new: Tensor,
    *,
    input_grad: Tensor,
    hidden_grad: Tensor,
) -> Tensor:
    """Write the gradients of the projected input and of U h + b; return the rest of h's gradient.

    The rest is the part of the gradient of h that does not pass through U h + b.

    Let g be the gradient of h' and u = U_n h + b. All products are elementwise:
    dn = g (1 - z) (1 - n^2), dr = dn u r (1 - r), dz = g (h - n) z (1 - z).
    The gradients are (dr, dz, dn) for the projected input, (dr, dz, dn r) for U h + b, and the rest
    is g z. At padding z = 1, so only g passes through.
    """
    size = hidden.shape[1]
    reset, update, u = gates.chunk(3, dim=1)
    d_reset, d_update, d_new = input_grad.chunk(3, dim=1)
    kept = grad * update
    torch.sub(grad, kept, out=d_new)
    d_new.addcmul_(d_new * new, new, value=-1.0)
    torch.mul(d_new, u, out=d_reset)
    torch.mul(grad, hidden - new, out=d_update)
    rz, d_rz = gates[:, : 2 * size], input_grad[:, : 2 * size]
    d_rz.mul_(rz).addcmul_(d_rz, rz, value=-1.0)
    hidden_grad[:, : 2 * size] = d_rz
    torch.mul(d_new, reset, out=hidden_grad[:, 2 * size :])
    return kept


class _Step(Function):
    """`gru_step` with a backward pass in few operations."""

    @staticmethod
    def forward(
        ctx: FunctionCtx, projected: Tensor, hidden_projection: Tensor, hidden: Tensor
    ) -> Tensor:
        gates, candidates = hidden_projection.clone(), torch.empty_like(hidden)
        ctx.save_for_backward(hidden, gates, candidates)
        return _advance(projected, hidden, GRURun(torch.empty_like(hidden), gates, candidates))

    @staticmethod
    @once_differentiable
    def backward(ctx: FunctionCtx, grad: Tensor) -> tuple[Tensor, ...]:
        hidden, gates, new = ctx.saved_tensors  # type: ignore[attr-defined]
        grads = torch.empty_like(gates), torch.empty_like(gates)
        kept = _step_gradients(grad, hidden, gates, new, input_grad=grads[0], hidden_grad=grads[1])
        return *grads, kept


def _hidden_projection(
    hidden: Tensor, weight: Tensor, bias: Tensor, *, num_uses: int
) -> Callable[[Tensor, Tensor], object]:
    """Return the argument `project` of `run_gru`; its sums have the type of the bias."""
    multiply = product_with(weight, num_rows=len(hidden), num_uses=num_uses)
    return lambda rows, target: torch.add(multiply(rows), bias, out=target)


class _Unroll(Function):
    """`unroll_gru` with a backward pass over the whole sequence.

    Let d be the gradient of U h + b. The gradient of the previous state is g z + d U. The gradient
    of U is the sum of d^T h over all steps, computed as one product after the loop.
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
        input_grads = torch.empty_like(gates)
        hidden_grads = torch.empty_like(gates, dtype=weight.dtype)  # only matrix products read it
        project = product_with(weight.t(), num_rows=len(first), num_uses=len(states))
        previous = _previous(states, first, reverse=reverse)
        carried = torch.zeros_like(first)
        for step in _order(len(states), reverse=not reverse):
            kept = _step_gradients(
                carried + grad[step],
                previous[step],
                gates[step],
                candidates[step],
                input_grad=input_grads[step],
                hidden_grad=hidden_grads[step],
            )
            carried = kept + project(hidden_grads[step])
        all_grads = hidden_grads.flatten(0, 1)
        weight_grad = all_grads.t() @ previous.flatten(0, 1).to(weight.dtype)
        return input_grads, carried, weight_grad, all_grads.sum(0), None, None


def _previous(states: Tensor, first: Tensor, *, reverse: bool) -> Tensor:
    """Return the state before every step, (T, B, H)."""
    if reverse:
        return torch.cat((states, first.unsqueeze(0)))[1:]
    return torch.cat((first.unsqueeze(0), states))[:-1]


def _needs_gradient(*tensors: Tensor) -> bool:
    return torch.is_grad_enabled() and any(each.requires_grad for each in tensors)


def _order(length: int, *, reverse: bool) -> range:
    return range(length - 1, -1, -1) if reverse else range(length)
