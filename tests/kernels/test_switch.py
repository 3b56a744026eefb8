import logging

import pytest
import torch
from tiny_graphs import random
from tiny_training import read_scalars, tiny_run

from seq2seq.kernels import switch
from seq2seq.kernels.dropout import Dropout
from seq2seq.kernels.gru_unroll import unroll_gru
from seq2seq.kernels.switch import Kernels, kernels_are_fast, kernels_in_use, use_kernels
from seq2seq.kernels.vocabulary_loss import vocabulary_loss


def outputs_and_gradients(kernels, function, *inputs):
    use_kernels(kernels)
    leaves = [each.clone().requires_grad_() for each in inputs]
    outputs = function(*leaves)
    return outputs, torch.autograd.grad(outputs[0].square().sum(), leaves)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("padded", [False, True])
def test_plain_gru_equals_the_kernel(reverse, padded):
    padding = torch.tensor([[0, 0, 0], [0, 1, 0], [0, 1, 1]]).bool() if padded else None
    inputs = random(3, 3, 6, seed=1), random(3, 2, seed=2), random(6, 2, seed=3), random(6, seed=4)

    def run(*leaves):
        return (unroll_gru(*leaves, padding=padding, reverse=reverse),)

    fast, plain = (outputs_and_gradients(each, run, *inputs) for each in Kernels)

    torch.testing.assert_close(fast, plain)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_plain_loss_equals_the_kernel(smoothing):
    inputs = random(7, 4, seed=1), random(5, 4, seed=2), random(5, seed=3)
    true_ids = torch.tensor([0, 4, 1, 1, 2, 3, 0])

    def run(*leaves):
        return vocabulary_loss(*leaves, true_ids, label_smoothing=smoothing)

    fast, plain = (outputs_and_gradients(each, run, *inputs) for each in Kernels)

    torch.testing.assert_close(fast, plain)


def test_plain_dropout_is_that_of_torch():
    use_kernels(Kernels.plain)
    inputs = torch.ones(100)

    torch.manual_seed(1)
    dropped = Dropout(0.3)(inputs)

    torch.manual_seed(1)
    assert torch.equal(dropped, torch.nn.functional.dropout(inputs, 0.3))


@pytest.mark.parametrize("model", ["bahdanau", "conditional", "luong"])
def test_training_reaches_the_same_losses_with_both(tmp_path, model):
    overrides = [f"model={model}", "data.dropout=0", "training.max_updates=8"]

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
    for name in ("gru_unroll._Unroll", "vocabulary_loss._VocabularyLoss", "loop_gradients._Factor"):
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
    monkeypatch.setattr(switch, "_chosen", None)

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
