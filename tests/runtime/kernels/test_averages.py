import pytest
import torch
from tiny_graphs import gradients, random
from torch.testing import assert_close

from seq2seq.runtime.kernels.averages import StepAverages


def test_averages_in_a_loop_have_the_gradients_of_products():
    values = random(2, 4, 3, seed=0)  # (B, S, C)
    rows = [random(2, 1, 4, seed=seed) for seed in range(1, 4)]  # (B, 1, S) of T=3 steps
    several = random(2, 2, 4, seed=5)  # two queries at once

    average = StepAverages(values)
    found = [average(rows[0]), average(several), average(rows[1] + average(rows[2]).sum())]
    after_all = average(rows[0])

    last = rows[1] + (rows[2] @ values).sum()
    expected = [rows[0] @ values, several @ values, last @ values]
    assert_close([*found, after_all], [*expected, expected[0]])
    # A graph can have several backward passes, each from any of the steps.
    for step in (0, 2):
        [part] = torch.autograd.grad(found[step].sum(), values, retain_graph=True)
        assert_close(part, torch.autograd.grad(expected[step].sum(), values, retain_graph=True)[0])
    variables = [values, *rows, several]
    all_found, all_expected = [*found, after_all], [*expected, expected[0]]
    assert_close(gradients(all_found, variables), gradients(all_expected, variables))


def test_a_pass_that_needs_only_weights_leaves_later_gradients_right():
    values, early, late = random(2, 4, 3, seed=0), random(2, 1, 4, seed=1), random(2, 1, 4, seed=2)
    average = StepAverages(values)
    first, second = average(early), average(late)

    torch.autograd.grad(second.sum(), late, retain_graph=True)
    [found] = torch.autograd.grad(first.sum(), values)

    assert_close(found, torch.autograd.grad((early @ values).sum(), values)[0])


def test_changed_weights_and_second_derivatives_are_refused():
    values, weights = random(2, 4, 3, seed=0), random(2, 1, 4, seed=1)
    average = StepAverages(values)
    [slope] = torch.autograd.grad(average(weights).square().sum(), weights, create_graph=True)
    shifted = weights + 1
    total = average(shifted).sum()

    shifted.zero_()

    with pytest.raises(RuntimeError, match="once_differentiable"):
        slope.sum().backward()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        total.backward()
