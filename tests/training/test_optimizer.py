import pytest
import torch
from pretend_cuda import pretend_cuda
from tiny_attention import attention_config
from tiny_models import tiny_model

from seq2seq.config.schema import load_config
from seq2seq.training.optimizer import build_optimizer

KINDS = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}


def configure(name: str):
    overrides = (f"training.optimizer.name={name}", "training.optimizer.weight_decay=0.2")
    return load_config(*overrides).training.optimizer


def model_of(**options):
    return tiny_model(attention_config("additive"), dtype=torch.float32, **options)


@pytest.mark.parametrize("name", KINDS)
def test_weight_decay_spares_biases_and_norms(name):
    model = model_of(layer_norm=True)

    optimizer = build_optimizer(configure(name), model)

    assert type(optimizer) is KINDS[name]
    decayed, spared = optimizer.param_groups
    assert (decayed["weight_decay"], spared["weight_decay"]) == (0.2, 0.0)
    assert all(parameter.dim() > 1 for parameter in decayed["params"])
    assert all(parameter.dim() == 1 for parameter in spared["params"])
    every = {id(parameter) for parameter in model.parameters()}
    assert {id(p) for group in optimizer.param_groups for p in group["params"]} == every


@pytest.mark.parametrize("name", KINDS)
def test_frozen_parameters_are_left_out(name):
    model = model_of()
    model.encoder.requires_grad_(False)

    groups = build_optimizer(configure(name), model).param_groups

    trained = {id(each) for each in model.parameters() if each.requires_grad}
    assert {id(each) for group in groups for each in group["params"]} == trained


@pytest.mark.parametrize("name", KINDS)
def test_every_optimizer_of_a_gpu_takes_the_loss_scale_itself(name):
    """Otherwise the host would wait to learn whether an fp16 gradient overflowed."""
    with pretend_cuda() as cuda:
        optimizer = build_optimizer(configure(name), cuda.move(model_of()))

    assert optimizer._step_supports_amp_scaling
