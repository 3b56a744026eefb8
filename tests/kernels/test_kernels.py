import logging

import pytest
import torch
from tiny_training import read_scalars, tiny_run

from seq2seq import kernels as module
from seq2seq.kernels import Kernels, kernels_are_fast, kernels_in_use, use_kernels
from seq2seq.kernels.dropout import Dropout


def test_plain_dropout_is_that_of_torch():
    use_kernels(Kernels.plain)
    inputs = torch.ones(100)

    torch.manual_seed(1)
    dropped = Dropout(0.3)(inputs)

    torch.manual_seed(1)
    assert torch.equal(dropped, torch.nn.functional.dropout(inputs, 0.3))


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
    for name in ("gru._Unroll", "vocabulary_loss._VocabularyLoss", "loop_gradients._Factor"):
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
