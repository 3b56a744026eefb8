import copy
import dataclasses

import numpy as np
import pytest
import torch
from tiny_training import tiny_config, tiny_numerics
from torch.nn import functional

from seq2seq.config.models import build_model
from seq2seq.config.schema import TrainConfig
from seq2seq.data import Batch, TokenLinks, collate
from seq2seq.data.token_links import LinkedTokens
from seq2seq.kernels.switch import Kernels, use_kernels
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.runtime.distributed import Ranks
from seq2seq.runtime.seeding import derive_seed
from seq2seq.training.loss import sequence_loss
from seq2seq.training.preparation import PreparedData, prepare_data
from seq2seq.training.updates import NonFiniteError, Updater

NO_DROPOUT = (
    "model.encoder.embedding_dropout=0",
    "model.encoder.hidden_dropout=0",
    "model.decoder.embedding_dropout=0",
    "model.decoder.hidden_dropout=0",
    "model.decoder.readout_dropout=0",
)
SGD_R_DROP = ("training.optimizer.name=sgd", "training.r_drop=2.0")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("updates")


def reversing_links(data: PreparedData) -> TokenLinks:
    """Link each character except the last to the same character of the reversed word."""
    lengths = data.train.source_lengths.tolist()
    rows = ((np.arange(length - 1), np.arange(length)[:0:-1]) for length in lengths)
    return TokenLinks.of(LinkedTokens(*row, num_lost=0) for row in rows)


class Setup:
    """A model with its updater and data."""

    def __init__(self, config: TrainConfig) -> None:
        self.config = config
        off = dataclasses.replace(config.training.guided_attention, weight=0.0)
        training = dataclasses.replace(config.training, guided_attention=off)
        # The corpus has no links; `batch` adds them.
        self.data = prepare_data(dataclasses.replace(config, training=training))
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
        if self.config.training.guided_attention.weight:
            links = reversing_links(self.data)
        return collate(self.data.train, np.array(rows), links=links)

    def make(self, *batches: Batch, update: int = 1, learning_rate: float = 0.01):
        return self.updater.make(
            batches,
            update=update,
            learning_rate=learning_rate,
            num_tokens=sum(int(batch.target_mask.sum()) for batch in batches),
        )

    def weights(self) -> dict[str, torch.Tensor]:
        return copy.deepcopy(self.model.state_dict())


def setup(folder, *overrides: str) -> Setup:
    return Setup(tiny_config(folder, *overrides))


def assert_same(first, second, **tolerance):
    for name, value in first.items():
        torch.testing.assert_close(value, second[name], msg=name, **tolerance)


def is_equal(first, second) -> bool:
    return all(torch.equal(value, second[name]) for name, value in first.items())


@pytest.mark.parametrize("guided", [0.0, 0.7])
def test_two_half_batches_make_the_update_of_a_whole_batch(folder, guided):
    # Adam's first step is as long for a gradient of 1e-8 as for one of 1; this one is the gradient.
    overrides = ("training.optimizer.name=sgd", f"training.guided_attention.weight={guided}")
    whole, halves = (setup(folder, *NO_DROPOUT, *overrides) for _ in range(2))

    one = whole.make(whole.batch(0, 1, 2, 3, 4), learning_rate=1.0)
    two = halves.make(halves.batch(0, 1, 2), halves.batch(3, 4), learning_rate=1.0)

    assert_same(whole.weights(), halves.weights(), rtol=1e-5, atol=1e-6)
    assert one.cross_entropy == pytest.approx(two.cross_entropy, rel=1e-6)
    assert one.gradient_norm == pytest.approx(two.gradient_norm, rel=1e-5)
    assert one.guided_loss == pytest.approx(two.guided_loss, rel=1e-5)
    assert one.num_guided == two.num_guided
    assert bool(one.num_guided) == bool(guided)


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
    assert result.cross_entropy == pytest.approx(loss.item() * int(batch.target_mask.sum()))
    subject.make(batch, learning_rate=0.5)
    for (name, parameter), gradient in zip(parameters.items(), gradients, strict=True):
        torch.testing.assert_close(
            parameter, before[name] - 0.5 * gradient, msg=name, rtol=1e-4, atol=1e-6
        )


def test_guided_attention_adds_its_weighted_loss_per_target_token(folder):
    weight = 0.3
    subject = setup(
        folder,
        *NO_DROPOUT,
        "training.optimizer.clip_norm=0",
        f"training.guided_attention.weight={weight}",
    )
    batch = subject.batch(0, 1, 2)
    loss = sequence_loss(subject.model, batch, label_smoothing=0.1)
    assert loss.guided is not None
    num_tokens = int(batch.target_mask.sum())
    total = (loss.smoothed + weight * loss.guided.cross_entropy) / num_tokens
    gradients = torch.autograd.grad(total, list(subject.model.parameters()))

    result = subject.make(batch)

    norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
    assert result.gradient_norm == pytest.approx(norm.item(), rel=1e-5)
    assert result.cross_entropy == pytest.approx(loss.cross_entropy.item(), rel=1e-6)
    assert result.guided_loss == pytest.approx(loss.guided.cross_entropy.item(), rel=1e-6)
    assert result.num_guided == num_tokens - 2 * 3  # neither a word's last character nor EOS


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_guided_attention_works_with_scheduled_sampling(folder, precision):
    subject = setup(
        folder,
        *NO_DROPOUT,  # whose luck would decide how far ten updates come
        "training.guided_attention.weight=1",
        "training.teacher_forcing.start=0.2",
        f"training.precision={precision}",
    )

    batch = subject.batch(*range(8))
    results = [subject.make(batch, update=n, learning_rate=0.03) for n in range(1, 11)]

    assert results[-1].guided_loss < 0.8 * results[0].guided_loss


@pytest.mark.parametrize("kernels", ["fast", "plain"])
def test_r_drop_is_half_the_loss_of_two_passes_and_their_divergence(folder, kernels):
    use_kernels(Kernels(kernels))
    overrides = ("training.optimizer.name=sgd", "training.optimizer.clip_norm=0")
    smoothing = ("training.label_smoothing=0.1", "model.decoder.readout_dropout=0.4")
    subject = setup(folder, *overrides, *smoothing, "training.r_drop=3.0")
    batches = [subject.batch(0, 1, 2), subject.batch(3, 4)]
    reference = copy.deepcopy(subject.model)
    num_tokens = sum(int(batch.target_mask.sum()) for batch in batches)
    torch.manual_seed(derive_seed(subject.config.seed, "update", 1, 0))
    total, divergence = torch.zeros(()), torch.zeros(())
    for batch in batches:
        passes = batch_twice(batch)
        output = reference(passes.source_ids, passes.source_mask, passes.previous_ids)
        real = passes.target_mask
        logits = reference.decoder.logits(output.readouts[real])
        total = total + functional.cross_entropy(
            logits, passes.target_ids[real], label_smoothing=0.1, reduction="sum"
        )
        p, q = logits.log_softmax(-1).chunk(2)
        for one, other in ((p, q), (q, p)):
            kl = functional.kl_div(one, other, reduction="sum", log_target=True)
            divergence = divergence + kl / 2
    (total + 3.0 * divergence).div(2 * num_tokens).backward()

    result = subject.make(*batches, learning_rate=1.0)

    assert result.divergence == pytest.approx(divergence.item(), rel=1e-4)
    assert result.divergence > 0.01
    for name, parameter in reference.named_parameters():
        with torch.no_grad():
            parameter -= parameter.grad
        torch.testing.assert_close(
            subject.model.get_parameter(name), parameter, rtol=1e-4, atol=1e-6
        )


def batch_twice(batch: Batch) -> Batch:
    twice = Batch(*(None if each is None else torch.cat((each, each)) for each in batch))
    return twice._replace(target_places=twice.target_mask.flatten().nonzero().squeeze(1))


def test_r_drop_without_dropout_changes_nothing_but_the_cost(folder):
    plain, dropped = (
        setup(folder, *NO_DROPOUT, *overrides)
        for overrides in (("training.optimizer.name=sgd",), SGD_R_DROP)
    )

    results = [subject.make(subject.batch(0, 1, 2)) for subject in (plain, dropped)]

    assert_same(plain.weights(), dropped.weights(), rtol=1e-5, atol=1e-7)
    assert results[0].cross_entropy == pytest.approx(results[1].cross_entropy, rel=1e-6)
    assert results[1].divergence == pytest.approx(0, abs=1e-9)


def test_r_drop_halves_the_guided_loss_of_its_two_passes(folder):
    guided = ("training.guided_attention.weight=0.7", "training.optimizer.name=sgd")
    plain, dropped = (
        setup(folder, *NO_DROPOUT, *guided, f"training.r_drop={weight}") for weight in (0, 2)
    )

    results = [subject.make(subject.batch(0, 1, 2)) for subject in (plain, dropped)]

    assert_same(plain.weights(), dropped.weights(), rtol=1e-5, atol=1e-7)
    assert results[0].guided_loss == pytest.approx(results[1].guided_loss, rel=1e-6)
    assert results[0].num_guided == results[1].num_guided > 0


def test_coverage_loss_is_added_with_its_weight_per_target_token(folder):
    weighted = ("training.optimizer.name=sgd", "training.optimizer.clip_norm=0")
    subject = setup(folder, *NO_DROPOUT, *weighted, "training.coverage_loss=0.7")
    batch = subject.batch(0, 1, 2, 3)
    subject.model.train()
    loss = sequence_loss(
        subject.model,
        batch,
        label_smoothing=subject.config.training.label_smoothing,
        with_coverage=True,
    )
    assert loss.coverage is not None
    (loss.smoothed + 0.7 * loss.coverage).div(batch.target_mask.sum()).backward()
    before = subject.weights()
    expected = {
        name: before[name] - 0.5 * parameter.grad
        for name, parameter in subject.model.named_parameters()
        if parameter.grad is not None
    }
    subject.model.zero_grad()

    result = subject.make(batch, learning_rate=0.5)

    assert result.coverage_loss == pytest.approx(loss.coverage.item(), rel=1e-5)
    assert result.coverage_loss > 0
    assert_same(expected, subject.weights(), rtol=1e-4, atol=1e-6)


def test_coverage_loss_of_two_half_batches_is_that_of_a_whole_batch(folder):
    overrides = (*NO_DROPOUT, "training.optimizer.name=sgd", "training.coverage_loss=1")
    whole, halves = (setup(folder, *overrides) for _ in range(2))

    one = whole.make(whole.batch(0, 1, 2, 3, 4), learning_rate=1.0)
    two = halves.make(halves.batch(0, 1, 2), halves.batch(3, 4), learning_rate=1.0)

    assert one.coverage_loss == pytest.approx(two.coverage_loss, rel=1e-5)
    assert_same(whole.weights(), halves.weights(), rtol=1e-5, atol=1e-6)


def test_r_drop_halves_the_coverage_loss_of_its_two_passes(folder):
    one, two = (
        setup(folder, *NO_DROPOUT, "training.coverage_loss=1", f"training.r_drop={weight}")
        for weight in (0, 2)
    )

    alone, both = (each.make(each.batch(0, 1, 2)) for each in (one, two))

    assert alone.coverage_loss == pytest.approx(both.coverage_loss, rel=1e-5)
    assert alone.gradient_norm == pytest.approx(both.gradient_norm, rel=1e-4)


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_r_drop_works_with_scheduled_sampling(folder, precision):
    subject = setup(
        folder,
        "training.r_drop=2.0",
        "training.teacher_forcing.start=0.5",
        "model.decoder.readout_dropout=0.3",
        f"training.precision={precision}",
    )

    result = subject.make(subject.batch(0, 1, 2))

    assert result.divergence > 0


def test_gradients_are_clipped_to_the_limit(folder):
    subject = setup(folder, "training.optimizer.name=sgd", "training.optimizer.clip_norm=0.01")
    before = subject.weights()

    result = subject.make(subject.batch(0, 1), learning_rate=1.0)

    names = [name for name, _ in subject.model.named_parameters()]
    moved = torch.cat([(subject.model.state_dict()[n] - before[n]).flatten() for n in names])
    assert result.gradient_norm > 0.01  # as it was before
    assert moved.norm().item() == pytest.approx(0.01, rel=1e-3)


def test_dropout_depends_only_on_the_number_of_the_update(folder):
    weights = []
    for disturbance, update in ((1, 4), (2, 4), (1, 5)):
        subject = setup(folder)
        torch.manual_seed(disturbance)
        subject.make(subject.batch(0, 1), update=update)
        weights.append(subject.weights())

    assert is_equal(weights[0], weights[1])
    assert not is_equal(weights[0], weights[2])


def test_dropout_differs_between_processes(folder):
    setups = [setup(folder), setup(folder)]
    setups[1].updater = Updater(
        setups[1].config,
        model=setups[1].model,
        numerics=tiny_numerics(setups[1].config),
        ranks=Ranks(1, 1, 2),
    )

    for subject in setups:
        subject.make(subject.batch(0, 1))

    assert not is_equal(setups[0].weights(), setups[1].weights())


def test_a_seed_changes_dropout(folder):
    setups = [setup(folder), setup(folder, "seed=2")]

    for subject in setups:
        subject.make(subject.batch(0, 1))

    assert not is_equal(setups[0].weights(), setups[1].weights())


@pytest.mark.parametrize("number", ["nan", "inf"])
def test_a_loss_that_is_not_finite_stops_before_the_step(folder, number):
    subject = setup(folder)
    subject.make(subject.batch(0, 1), update=1)
    subject.model.decoder.output.bias.data[5] = float(number)
    before, state = subject.weights(), copy.deepcopy(subject.updater.state())

    with pytest.raises(NonFiniteError, match=r"^update 2: the loss is nan"):
        subject.make(subject.batch(2, 3), update=2)

    for name, value in subject.weights().items():
        torch.testing.assert_close(value, before[name], rtol=0, atol=0, equal_nan=True)
    old, new = (each["optimizer"]["state"] for each in (state, subject.updater.state()))
    assert all(torch.equal(old[i]["exp_avg"], new[i]["exp_avg"]) for i in old)


def test_a_gradient_that_is_not_finite_stops_before_the_step(folder):
    subject = setup(folder)
    before = subject.weights()
    subject.model.decoder.output.bias.register_hook(lambda gradient: gradient * float("inf"))

    with pytest.raises(NonFiniteError, match=r"^update 3: the gradient's norm is (nan|inf)"):
        subject.make(subject.batch(2, 3), update=3)

    assert is_equal(subject.weights(), before)


def test_no_gradients_are_left_for_the_next_update(folder):
    subject = setup(folder)

    subject.make(subject.batch(0, 1))

    assert all(parameter.grad is None for parameter in subject.model.parameters())


def test_an_updater_continues_from_its_state(folder):
    first, second = setup(folder), setup(folder)
    first.make(first.batch(0, 1), update=1)
    second.model.load_state_dict(first.weights())
    second.updater.load_state(copy.deepcopy(first.updater.state()))

    for subject in (first, second):
        subject.make(subject.batch(2, 3, 4), update=2, learning_rate=0.003)

    assert is_equal(first.weights(), second.weights())
    assert second.updater.learning_rate == 0.003


def test_scheduled_sampling_changes_the_update(folder):
    forced = setup(folder, *NO_DROPOUT)
    sampled = setup(folder, *NO_DROPOUT, "training.teacher_forcing.start=0.2")

    for subject in (forced, sampled):
        subject.make(subject.batch(0, 1, 2))

    assert not is_equal(forced.weights(), sampled.weights())


def test_bf16_keeps_parameters_and_moments_fp32(folder):
    subject = setup(folder, "training.precision=bf16")

    subject.make(subject.batch(0, 1, 2))

    assert {parameter.dtype for parameter in subject.model.parameters()} == {torch.float32}
    moments = subject.updater.state()["optimizer"]["state"].values()
    assert {each["exp_avg"].dtype for each in moments} == {torch.float32}
