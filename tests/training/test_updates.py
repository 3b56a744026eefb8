import copy
import functools
from itertools import chain
from pathlib import Path

import numpy as np
import pytest
import torch
from same_run import is_equal
from tiny_attention import attention_config
from tiny_models import tiny_model
from tiny_training import tiny_config, tiny_numerics
from torch import nn

from seq2seq.config.schema import TrainConfig, build_model, load_config
from seq2seq.data.batching import Batch, TokenLinks, collate
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.runtime.distributed import Ranks
from seq2seq.runtime.process import DeviceMemoryError
from seq2seq.training import updates
from seq2seq.training.losses import training_loss
from seq2seq.training.preparation import PreparedData, prepare_data
from seq2seq.training.updates import (
    NonFiniteError,
    Updater,
    WeightAverage,
    batch_gradients,
    build_optimizer,
)

NO_DROPOUT = ("model.dropout=0",)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("updates")


def reversing_links(data: PreparedData) -> TokenLinks:
    """Link each character except the last to the same character of the reversed word."""
    lengths = data.train.source_rows.lengths().tolist()
    rows = (([k, length - 1 - k] for k in range(length - 1)) for length in lengths)
    return TokenLinks.of(list(chain.from_iterable(row)) for row in rows)


@functools.cache
def data_of(folder: Path) -> PreparedData:
    """Return the data of all tests; the corpus has no links, `Setup.batch` adds them."""
    return prepare_data(tiny_config(folder))


class Setup:
    """A model with its updater and data."""

    def __init__(self, folder: Path, config: TrainConfig) -> None:
        self.config = config
        self.data = data_of(folder)
        torch.manual_seed(1)
        self.model: Seq2Seq = build_model(
            config,
            source_vocabulary_size=len(self.data.tokenizers.source),
            target_vocabulary_size=len(self.data.tokenizers.target),
        )
        self.updater = Updater(
            config, model=self.model, numerics=tiny_numerics(config), ranks=Ranks(0, 0, 1)
        )

    def batch(self, *rows: int) -> Batch:
        links = None
        if self.config.training.guided_attention:
            links = reversing_links(self.data)
        return collate(self.data.train, np.array(rows), links=links)

    def make(
        self,
        *batches: Batch,
        update: int = 1,
        learning_rate: float = 0.01,
        dropout_factor: float = 1.0,
    ):
        return self.updater.update_weights(
            batches,
            update=update,
            learning_rate=learning_rate,
            num_tokens=sum(int(batch.target_mask.sum()) for batch in batches),
            dropout_factor=dropout_factor,
        )

    def weights(self) -> dict[str, torch.Tensor]:
        return copy.deepcopy(self.model.state_dict())


def setup(folder, *overrides: str) -> Setup:
    return Setup(folder, tiny_config(folder, *overrides))


def assert_same(first, second, **tolerance):
    for name, value in first.items():
        torch.testing.assert_close(value, second[name], msg=name, **tolerance)


@pytest.mark.parametrize("loss", ["", "guided_attention", "coverage_loss"])
def test_two_half_batches_make_the_update_of_a_whole_batch(folder, loss):
    # Adam's first step is as long for a gradient of 1e-8 as for one of 1; this one is the gradient.
    overrides = ("training.optimizer.name=sgd", *([f"training.{loss}=0.7"] if loss else []))
    whole, halves = (setup(folder, *NO_DROPOUT, *overrides) for _ in range(2))

    one = whole.make(whole.batch(0, 1, 2, 3, 4), learning_rate=1.0)
    two = halves.make(halves.batch(0, 1, 2), halves.batch(3, 4), learning_rate=1.0)

    assert_same(whole.weights(), halves.weights(), rtol=1e-5, atol=1e-6)
    assert len(one.losses) == 1 + bool(loss)
    for name, pair in one.losses.items():
        assert pair == pytest.approx(two.losses[name], rel=1e-5) and min(pair) > 0
    assert one.gradient_norm == pytest.approx(two.gradient_norm, rel=1e-5)
    assert all(parameter.grad is None for parameter in whole.model.parameters())


def test_sgd_steps_against_the_mean_gradient(folder):
    subject = setup(
        folder,
        *NO_DROPOUT,
        "training.optimizer.name=sgd",
        "training.optimizer.clip_norm=0",
        "training.label_smoothing=0",
    )
    batch = subject.batch(0, 1, 2)
    before = subject.weights()

    result = subject.make(batch, learning_rate=0.5)

    subject.model.load_state_dict(before)
    readouts = subject.model(batch.source_ids, batch.source_mask, batch.previous_ids).readouts
    loss = torch.nn.functional.cross_entropy(
        subject.model.decoder.logits(readouts)[batch.target_mask],
        batch.target_ids[batch.target_mask],
    )
    parameters = dict(subject.model.named_parameters())
    gradients = torch.autograd.grad(loss, list(parameters.values()))
    norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
    assert result.gradient_norm == pytest.approx(norm.item(), rel=1e-5)
    assert result.losses["loss"][0] == pytest.approx(loss.item() * int(batch.target_mask.sum()))
    subject.make(batch, learning_rate=0.5)
    for (name, parameter), gradient in zip(parameters.items(), gradients, strict=True):
        torch.testing.assert_close(
            parameter, before[name] - 0.5 * gradient, msg=name, rtol=1e-4, atol=1e-6
        )


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_every_loss_works_with_scheduled_sampling(folder, precision):
    subject = setup(
        folder,
        "training.guided_attention=1",
        "training.coverage_loss=0.1",
        "training.teacher_forcing.end=0.2",
        "training.teacher_forcing.updates=1",
        "model.dropout=0.3",
        f"training.precision={precision}",
    )

    batch = subject.batch(*range(8))
    results = [subject.make(batch, update=n, learning_rate=0.03) for n in range(1, 31)]

    first, last = (each.losses for each in (results[0], results[-1]))
    assert len(first) == 3
    assert all(total > 0 for total, _ in last.values())
    assert last["guided_attention_loss"][0] < 0.8 * first["guided_attention_loss"][0]


def test_gradients_are_clipped_to_the_limit(folder):
    subject = setup(folder, "training.optimizer.name=sgd", "training.optimizer.clip_norm=0.01")
    before = subject.weights()

    result = subject.make(subject.batch(0, 1), learning_rate=1.0)

    names = [name for name, _ in subject.model.named_parameters()]
    moved = torch.cat([(subject.model.state_dict()[n] - before[n]).flatten() for n in names])
    assert result.gradient_norm > 0.01  # as it was before
    assert moved.norm().item() == pytest.approx(0.01, rel=1e-3)


@pytest.mark.parametrize(
    ("number", "name", "value"),
    [
        (0, "exp_avg", torch.zeros(3)),  # the fused Adam would write behind its end
        (0, "exp_avg_sq", "text"),
        (0, "step", torch.zeros(2)),
        (999, "step", torch.zeros(())),
    ],
)
def test_moments_that_do_not_fit_their_parameter_are_refused(folder, number, name, value):
    subject = setup(folder)
    subject.make(subject.batch(0))
    state = copy.deepcopy(subject.updater.state())
    state["optimizer"]["state"].setdefault(number, {})[name] = value

    with pytest.raises((RuntimeError, AttributeError, LookupError)):
        subject.updater.load_state(state)


def test_the_settings_of_the_optimizer_are_not_read_from_a_file(folder):
    first, second = setup(folder), setup(folder)
    first.make(first.batch(0))
    state = copy.deepcopy(first.updater.state())
    for group in state["optimizer"]["param_groups"]:
        group |= {"betas": None, "amsgrad": True, "maximize": True}
    weight, shape = state["optimizer"]["state"][0], first.model.encoder.embedding.weight.shape
    weight["exp_avg"] = torch.zeros(1).expand(shape)  # a single number in memory

    second.updater.load_state(state)
    second.make(second.batch(1), update=2)

    settings = [each.updater.state()["optimizer"]["param_groups"] for each in (first, second)]
    assert settings[0] == settings[1]


def test_batch_gradients_are_the_step_of_the_update(folder):
    subject = setup(
        folder,
        "training.optimizer.name=sgd",
        "training.optimizer.clip_norm=1e9",
        "training.guided_attention=0.7",
        "training.coverage_loss=0.5",
    )
    batch, before = subject.batch(0, 1, 2), subject.weights()
    subject.model.eval()

    loss, gradients = batch_gradients(subject.config, model=subject.model, batch=batch, update=4)

    assert not subject.model.training
    assert_same({name: each.grad for name, each in subject.model.named_parameters()}, gradients)
    subject.model.zero_grad()
    result = subject.make(batch, update=4, learning_rate=1.0)
    norm = torch.cat([each.flatten() for each in gradients.values()]).norm().item()
    assert result.gradient_norm == pytest.approx(norm, rel=1e-5)
    assert loss > result.losses["loss"][0] / batch.num_target_tokens  # the other losses
    after = subject.weights()
    assert_same(
        {name: before[name] - after[name] for name in gradients}, gradients, rtol=0, atol=1e-6
    )


def test_dropout_depends_on_seed_update_and_process_alone(folder):
    weights = []
    for disturbance, update, rank, seed in (
        (1, 4, 0, 1),
        (2, 4, 0, 1),
        (1, 5, 0, 1),
        (1, 4, 1, 1),
        (1, 4, 0, 2),
    ):
        subject = setup(folder, f"seed={seed}")
        subject.updater._ranks = Ranks(rank, rank, 2)
        torch.manual_seed(disturbance)
        subject.make(subject.batch(0, 1), update=update)
        weights.append(subject.weights())

    assert is_equal(weights[0], weights[1])
    assert not any(is_equal(weights[0], others) for others in weights[2:])


def test_a_factor_scales_every_dropout_of_its_update(folder):
    keys = ("model.dropout", "model.word_dropout", "attention.dropout")

    def weights_after(probability: float, *factors: float) -> dict[str, torch.Tensor]:
        subject = setup(
            folder,
            *(f"{key}={probability}" for key in keys),
            "model.encoder.num_layers=2",
            "model.decoder.num_layers=2",
        )
        for update, factor in enumerate(factors, start=1):
            subject.make(subject.batch(0, 1), update=update, dropout_factor=factor)
        return subject.weights()

    assert is_equal(weights_after(0.5, 0.5, 0.5), weights_after(0.25, 1.0, 1.0))
    assert is_equal(weights_after(0.5, 0.0), weights_after(0.0, 1.0))


def test_a_gradient_that_is_not_finite_stops_before_the_step(folder):
    subject = setup(folder)
    before = subject.weights()
    subject.model.decoder.output.bias.register_hook(lambda gradient: gradient * float("inf"))

    with pytest.raises(NonFiniteError, match=r"^update 3: .* norm of the gradient (nan|inf)"):
        subject.make(subject.batch(2, 3), update=3)

    assert is_equal(subject.weights(), before)


def test_a_batch_that_does_not_fit_names_the_update_and_the_keys(folder, monkeypatch):
    subject = setup(folder, "training.accumulation=2")
    batches, before = (subject.batch(0, 1), subject.batch(2, 3, 4)), subject.weights()
    left = [False, True]

    def loss(*arguments, **keywords):
        if left.pop(0):
            raise torch.OutOfMemoryError("CUDA out of memory")
        return training_loss(*arguments, **keywords)

    monkeypatch.setattr(updates, "training_loss", loss)

    with pytest.raises(DeviceMemoryError) as caught:
        subject.make(*batches, update=7)

    assert str(caught.value) == (
        "the memory of a GPU is too small for update 7; lower "
        "training.batching.size=4 and raise training.accumulation=2, or lower data.max_length"
    )
    assert is_equal(subject.weights(), before)


KINDS = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW, "sgd": torch.optim.SGD}


@pytest.mark.parametrize("name", KINDS)
def test_weight_decay_spares_biases_and_norms(name):
    model = tiny_model(attention_config("additive"), dtype=torch.float32, layer_norm=True)
    overrides = (f"training.optimizer.name={name}", "training.optimizer.weight_decay=0.2")

    optimizer = build_optimizer(load_config(*overrides).training.optimizer, model)

    assert type(optimizer) is KINDS[name]
    decayed, spared = optimizer.param_groups
    assert (decayed["weight_decay"], spared["weight_decay"]) == (0.2, 0.0)
    assert all(parameter.dim() > 1 for parameter in decayed["params"])
    assert all(parameter.dim() == 1 for parameter in spared["params"])
    every = {id(parameter) for parameter in model.parameters()}
    assert {id(p) for group in optimizer.param_groups for p in group["params"]} == every


def tied_model() -> nn.Module:
    model = nn.ModuleDict({"first": nn.Linear(3, 3), "second": nn.Linear(3, 3)})
    model["second"].weight = model["first"].weight
    return model.double()


def set_to(model: nn.Module, value: float) -> None:
    for parameter in model.parameters():
        nn.init.constant_(parameter, value)


@pytest.mark.parametrize("decay", [0.0, 0.5, 0.9, 0.9999])
def test_it_is_the_weighted_mean_of_all_updates(decay):
    model, values = tied_model(), [3.0, -1.0, 4.0, 1.5]
    average = WeightAverage(model, decay)

    for number, value in enumerate(values, start=1):
        set_to(model, value)
        average.add()
        shares = [decay ** (number - i) for i in range(1, number + 1)]
        expected = sum(s * v for s, v in zip(shares, values[:number], strict=True)) / sum(shares)
        (found,) = {
            value for each in average.model.parameters() for value in each.unique().tolist()
        }
        assert found == pytest.approx(expected, rel=1e-12)
    assert all((each == values[-1]).all() for each in model.parameters())


def test_before_the_first_update_it_is_the_model_itself():
    model = tied_model()

    assert WeightAverage(model, 0.9).model is model
