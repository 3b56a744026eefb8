import logging
from types import SimpleNamespace

import pytest
import torch
from tiny_graphs import Calls, mark, node_counts, random, without_collector
from tiny_training import read_scalars, tiny_run
from torch.nn import functional
from torch.testing import assert_close

from seq2seq.kernels import products as module
from seq2seq.kernels.products import (
    Kernels,
    LoopGradients,
    has_onednn_bf16,
    kernels_are_fast,
    kernels_in_use,
    product_dtype,
    product_with,
    use_kernels,
)

# T=5 steps, B=2 rows, D=8 of a state, S=3 places, N=2 heads
NUM_STEPS = 5


def leaves(dtype=torch.float64):
    """Return a state (B, D), weight (D, D), bias (D,), keys and values (B, S, D)."""
    shapes = (2, 8), (8, 8), (8,), (2, 3, 8), (2, 3, 8)
    drawn = [random(*shape, seed=seed, dtype=dtype) for seed, shape in enumerate(shapes)]
    drawn[1].data.mul_(0.3)
    return drawn


def linear(state, weight, bias, keys, values):
    return functional.linear(state, weight, bias)


def linear_without_bias(state, weight, bias, keys, values):
    return functional.linear(state, weight)


def linear_of_three_axes(state, weight, bias, keys, values):
    return functional.linear(state.unsqueeze(1), weight, bias=bias).squeeze(1)


def linear_of_turned_rows(state, weight, bias, keys, values):
    return functional.linear(state.t().contiguous().t(), weight, bias)


def mix_values(state, weight, bias, keys, values):
    return (state[:, None, :3].softmax(-1) @ values).squeeze(1)


def score_keys(state, weight, bias, keys, values):
    scores = torch.matmul(state.unsqueeze(1), keys.mT).squeeze(1)
    return functional.pad(scores, (0, 5)) + state


def attend_with_heads(state, weight, bias, keys, values):
    queries = state.view(2, 1, 2, 4).transpose(1, 2)
    heads = [part.view(2, 3, 2, 4).transpose(1, 2) for part in (keys, values)]
    weights = (queries @ heads[0].mT).softmax(-1)
    return (weights @ heads[1]).transpose(1, 2).flatten(1)


def both_weights_and_memory(state, weight, bias, keys, values):
    queries = functional.linear(state, weight, bias)
    return attend_with_heads(queries.tanh(), weight, bias, keys, values)


STEPS = {
    linear: 1,
    linear_without_bias: 1,
    linear_of_three_axes: 1,
    linear_of_turned_rows: 1,
    mix_values: 1,
    score_keys: 1,
    attend_with_heads: 2,
    both_weights_and_memory: 3,
}
"""steps of a recurrence, and how many constants they multiply by"""


def run(step, inputs, *, is_deferred, num_steps=NUM_STEPS):
    """Return the states after each step."""
    state, states = inputs[0], []
    context = LoopGradients(*inputs[3:], num_steps=num_steps)
    if not is_deferred:
        context = torch.enable_grad()
    with context:
        for _ in range(num_steps):
            state = step(state, *inputs[1:]).tanh()
            states.append(state)
    return states


def lose(states):
    """Make every element of every state count differently."""
    joined = torch.stack(states)
    return (joined * random(*joined.shape, seed=9, dtype=joined.dtype).detach()).sum()


def gradients(loss, inputs, **options):
    return torch.autograd.grad(loss, inputs, materialize_grads=True, **options)


def assert_equals_plain(step, inputs, *, num_constants, atol=1e-11):
    """Compare states and gradients with those outside the context."""
    deferred, plain = (run(step, inputs, is_deferred=choice) for choice in (True, False))
    assert node_counts(lose(deferred))["_ConstantBackward"] == num_constants
    assert_close(deferred, plain, rtol=0, atol=atol / 10)
    found, expected = (gradients(lose(states), inputs) for states in (deferred, plain))
    assert_close(found, expected, rtol=0, atol=atol)


@pytest.mark.parametrize(("dtype", "atol"), [(torch.float64, 1e-11), (torch.float32, 1e-4)])
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_values_and_gradients_are_those_of_the_plain_loop(step, dtype, atol):
    assert_equals_plain(step, leaves(dtype), num_constants=STEPS[step], atol=atol)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
@pytest.mark.parametrize("reached", [[0], [2], [0, 3]], ids=str)
def test_steps_that_the_loss_does_not_reach_add_nothing(step, reached):
    inputs = leaves()

    losses = [
        lose([run(step, inputs, is_deferred=choice)[place] for place in reached])
        for choice in (True, False)
    ]

    found, expected = (gradients(loss, inputs) for loss in losses)
    assert_close(found, expected, rtol=0, atol=1e-11)


def test_a_second_backward_has_the_same_gradients():
    inputs = leaves()
    loss = lose(run(both_weights_and_memory, inputs, is_deferred=True))

    first = gradients(loss, inputs, retain_graph=True)

    assert_close(gradients(loss, inputs), first, rtol=0, atol=0)


@pytest.mark.parametrize("wanted", [slice(0, 5), slice(0, 1)], ids=["all", "state"])
def test_a_backward_leaves_nothing_to_one_that_reaches_fewer_steps(wanted):
    inputs = leaves()
    states, plain = (
        run(both_weights_and_memory, inputs, is_deferred=choice) for choice in (True, False)
    )

    gradients(lose(states), inputs[wanted], retain_graph=True)

    found, expected = (gradients(lose(each[:2]), inputs) for each in (states, plain))
    assert_close(found, expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize(("is_deferred", "num_products"), [(True, 1), (False, NUM_STEPS)])
def test_a_loop_makes_one_product_as_large_as_the_weight(is_deferred, num_products):
    inputs = leaves()
    loss = lose(run(linear, inputs, is_deferred=is_deferred))

    with Calls() as calls:
        loss.backward()

    assert calls.products(8, 8) == num_products


@pytest.mark.parametrize(
    ("shape", "num_constants"),
    [((0, 8), 1), ((1, 8), 1), ((8,), 1), ((5, 8), 0)],  # 8 * 8 < 5 * (8 + 8): left alone
)
def test_a_loop_may_have_any_number_of_rows(shape, num_constants):
    inputs = leaves()
    inputs[0] = random(*shape, seed=0)

    assert_equals_plain(linear, inputs, num_constants=num_constants)


def test_a_weight_may_be_used_with_two_biases_and_with_none():
    other = random(8, seed=7)

    def add_each(state, weight, bias, keys, values):
        first = functional.linear(state, weight, bias).tanh()
        second = functional.linear(first, weight, other).tanh()
        return functional.linear(second, weight)

    inputs = leaves()
    assert_equals_plain(add_each, inputs, num_constants=3)
    found, expected = (
        gradients(lose(run(add_each, inputs, is_deferred=choice)), [other])
        for choice in (True, False)
    )
    assert_close(found, expected)


def test_a_bias_may_be_another_at_each_step():
    def add_state(state, weight, bias, keys, values):
        return functional.linear(state, weight, bias + state[0])

    assert_equals_plain(add_state, leaves(), num_constants=NUM_STEPS)


def test_a_weight_that_was_first_used_without_gradients_has_its_gradient():
    def look_ahead(state, weight, bias, keys, values):
        with torch.no_grad():
            ahead = functional.linear(state, weight, bias) + (state.unsqueeze(1) @ keys.mT).sum()
        return functional.linear(state + ahead, weight, bias)

    assert_equals_plain(look_ahead, leaves(), num_constants=1)


def test_rows_that_share_one_matrix_are_left_to_torch():
    def share(state, weight, bias, keys, values):
        flat = keys.view(6, 8)  # two axes, the rows below have three
        scores = state.unsqueeze(1) @ flat.mT
        return (scores.expand(2, 2, 6) @ keys.view(1, 6, 8)).sum(1)

    assert_equals_plain(share, leaves(), num_constants=0)


@pytest.mark.parametrize(
    ("shape", "look", "num_constants"),
    [
        ([6, 8], lambda keys: keys.view([6, 8]).transpose(dim0=0, dim1=1), 1),
        (torch.Size((6, 8)), lambda keys: keys.view(torch.Size((6, 8))).mT, 2),
        ((6, 8), lambda keys: keys.view(8, 6), 2),
    ],
    ids=["list", "size", "two views"],
)
def test_views_are_constants_however_they_are_asked_for(shape, look, num_constants):
    def step(state, weight, bias, keys, values):
        return state @ look(keys) @ keys.view(shape)

    assert_equals_plain(step, leaves(), num_constants=num_constants)


@pytest.mark.parametrize("frozen", [(1,), (2,), (3,), (4,), (1, 2), (3, 4), (0,), (0, 3, 4)])
def test_what_is_frozen_changes_no_other_gradient(frozen):
    inputs = leaves()
    for place in frozen:
        inputs[place].requires_grad_(False)
    trained = [each for each in inputs if each.requires_grad]

    losses = [
        lose(run(both_weights_and_memory, inputs, is_deferred=choice)) for choice in (True, False)
    ]

    found, expected = (gradients(loss, trained) for loss in losses)
    assert_close(found, expected, rtol=0, atol=1e-11)


def test_types_that_torch_does_not_multiply_are_refused_as_elsewhere():
    weight, rows = random(8, 8, seed=1), random(2, 8, seed=2, dtype=torch.float32)

    with LoopGradients(num_steps=3), pytest.raises(RuntimeError, match="dtype"):
        functional.linear(rows, weight)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_autocast_rounds_as_in_the_plain_loop(step, dtype):
    inputs = leaves(dtype)
    exact = gradients(lose(run(step, inputs, is_deferred=False)), inputs)

    with torch.autocast("cpu", torch.bfloat16):
        deferred, plain = (run(step, inputs, is_deferred=choice) for choice in (True, False))

    assert [each.dtype for each in deferred] == [each.dtype for each in plain]
    assert_close(deferred, plain, rtol=0, atol=0.05 if dtype is torch.float32 else 1e-12)
    found = gradients(lose(deferred), inputs)
    for gradient, wanted in zip(found, exact, strict=True):
        assert gradient.dtype == dtype
        assert (gradient - wanted).norm() <= 0.1 * max(wanted.norm().item(), 1)


@pytest.mark.parametrize("wanted", ["nothing", "everything", "the first state"])
def test_the_graph_is_let_go_without_the_collector(wanted):
    inputs = leaves()
    with without_collector():
        marked, graph = mark(inputs[0])
        loss = lose(run(both_weights_and_memory, [marked, *inputs[1:]], is_deferred=True))
        if wanted == "everything":
            loss.backward()
        elif wanted == "the first state":
            gradients(loss, [marked], retain_graph=True)
        assert graph() is not None

        del marked, loss

        assert graph() is None


def test_the_gradient_lies_in_memory_as_the_weight_does():
    inputs = leaves()

    (gradient,) = gradients(lose(run(linear, inputs, is_deferred=True)), inputs[1:2])

    assert gradient.is_contiguous()


# M=3 rows, I=5, O=4
every_dtype = pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
needs_mkl = pytest.mark.skipif(not torch.backends.mkl.is_available(), reason="torch without MKL")
needs_bf16 = pytest.mark.skipif(not has_onednn_bf16(), reason="no oneDNN, or one without bf16")
PACKED = {"_mkl_linear", "_linear_pointwise"}


def draw(*shape, seed=1, dtype=torch.float32):
    return random(*shape, seed=seed, dtype=dtype).detach()


@every_dtype
@pytest.mark.parametrize("num_uses", [1, 50])
@pytest.mark.parametrize("num_rows", [3, 0, 1, 2, 7])
def test_product_is_that_of_torch_for_any_number_of_rows(dtype, num_uses, num_rows):
    weight, rows = draw(4, 5, dtype=dtype), draw(num_rows, 5, seed=2, dtype=dtype)

    multiply = product_with(weight, num_rows=3, num_uses=num_uses)

    assert_close(multiply(rows), rows @ weight.t())


@pytest.mark.parametrize("num_uses", [1, 50])
def test_product_reads_matrices_however_they_lie_in_memory(num_uses):
    weight, rows = draw(5, 4).t(), draw(5, 3, seed=2).t()

    multiply = product_with(weight, num_rows=3, num_uses=num_uses)

    assert_close(multiply(rows), rows @ weight.t())
    repeated = rows[:1].expand(3, 5)
    assert_close(multiply(repeated), repeated @ weight.t())


@pytest.mark.parametrize("num_uses", [1, 50])
def test_what_is_done_to_a_product_does_not_change_the_next(num_uses):
    weight, rows = draw(4, 5), draw(3, 5, seed=2)
    multiply = product_with(weight, num_rows=3, num_uses=num_uses)

    multiply(rows).add_(7.0)

    assert_close(multiply(rows), rows @ weight.t())


def test_rows_are_rounded_to_the_type_of_the_weight():
    weight, rows = draw(4, 5, dtype=torch.bfloat16), draw(3, 5, seed=2)

    product = product_with(weight, num_rows=3, num_uses=50)(rows)

    assert torch.equal(product, rows.bfloat16() @ weight.t())


@pytest.mark.parametrize(
    ("num_rows", "num_uses", "dtype", "packed"),
    [
        pytest.param(3, 50, torch.float32, {"_mkl_linear"}, marks=needs_mkl),
        pytest.param(3, 50, torch.bfloat16, {"_linear_pointwise"}, marks=needs_bf16),
        (1, 50, torch.float32, set()),
        (1, 50, torch.bfloat16, set()),
        (3, 1, torch.float32, set()),
        (3, 1, torch.bfloat16, set()),
        (3, 50, torch.float64, set()),
    ],
)
def test_a_matrix_is_packed_where_that_pays(num_rows, num_uses, dtype, packed):
    with Calls() as calls:
        product_with(draw(4, 5, dtype=dtype), num_rows=num_rows, num_uses=num_uses)(
            draw(num_rows, 5, dtype=dtype)
        )

    assert PACKED & dict(calls.seen).keys() == packed


@pytest.mark.parametrize("onednn", [None, SimpleNamespace(_is_mkldnn_bf16_supported=lambda: False)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_nothing_is_packed_where_no_library_does_it(monkeypatch, dtype, onednn):
    monkeypatch.setattr(torch.backends.mkl, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mkldnn, "is_available", lambda: onednn is not None)
    monkeypatch.setattr(torch.ops, "mkldnn", onednn)
    weight, rows = draw(4, 5, dtype=dtype), draw(3, 5, seed=2, dtype=dtype)

    with Calls() as calls:
        product = product_with(weight, num_rows=3, num_uses=50)(rows)

    assert_close(product, rows @ weight.t())
    assert not PACKED & dict(calls.seen).keys()


@every_dtype
def test_the_type_of_a_product_is_the_one_that_torch_computes_in(dtype):
    factor = torch.ones(2, 2, dtype=dtype)

    plain = product_dtype(factor)
    with torch.autocast("cpu", torch.bfloat16):
        rounded, product = product_dtype(factor), factor @ factor

    assert plain == dtype
    assert rounded == product.dtype


@pytest.mark.parametrize("model", ["conditional", "luong"])
def test_training_reaches_the_same_losses_with_both(tmp_path, model):
    overrides = [f"model={model}", "data.dropout=0", "training.max_updates=3"]

    for kernels in Kernels:
        tiny_run(tmp_path / kernels.name, *overrides, f"training.kernels={kernels.name}")

    fast, plain = (
        read_scalars(tmp_path / kernels.name / "runs" / "tiny" / "tensorboard")
        for kernels in Kernels
    )
    for tag in ("train/loss", "valid/loss"):
        assert fast[tag].keys() == plain[tag].keys() != set()
        assert list(fast[tag].values()) == pytest.approx(list(plain[tag].values()), rel=1e-5)


def test_plain_training_calls_no_kernel(tmp_path, monkeypatch):
    for name in ("gru._Unroll", "vocabulary_loss._VocabularyLoss", "products._Factor"):
        monkeypatch.delattr(f"seq2seq.kernels.{name}")

    tiny_run(tmp_path, "training.kernels=plain", "training.max_updates=1")


PRIVATE = {"torch._C": ["_current_graph_task_id"]}
if torch.backends.mkl.is_available():
    PRIVATE["torch.ops.mkl"] = ["_mkl_linear", "_mkl_reorder_linear_weight"]
if torch.backends.mkldnn.is_available():
    PRIVATE["torch.ops.mkldnn"] = ["_linear_pointwise", "_reorder_linear_weight"]


class Lacking:
    """A namespace without one of its names."""

    def __init__(self, namespace, name):
        self._namespace, self._name = namespace, name

    def __getattr__(self, name):
        if name == self._name:
            raise AttributeError(name)
        return getattr(self._namespace, name)


@pytest.mark.parametrize(
    ("place", "name"), [(place, name) for place, names in PRIVATE.items() for name in names]
)
def test_torch_without_a_private_function_uses_plain_operations_with_a_warning(
    monkeypatch, caplog, place, name
):
    owner, _, attribute = place.rpartition(".")
    namespace = getattr(torch.ops if owner == "torch.ops" else torch, attribute)
    monkeypatch.setattr(place, Lacking(namespace, name))
    monkeypatch.setattr(module, "_chosen", None)

    with caplog.at_level(logging.WARNING):
        is_fast = kernels_are_fast()

    assert not is_fast
    assert f"lacks {name}; this run uses kernels=plain" in caplog.text


def test_a_context_uses_kernels_and_restores_the_previous_ones():
    use_kernels(Kernels.fast)
    with pytest.raises(KeyError), kernels_in_use(Kernels.plain):
        assert not kernels_are_fast()
        raise KeyError

    assert kernels_are_fast()
