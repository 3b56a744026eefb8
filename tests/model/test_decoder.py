import pytest
import torch
from tiny_attention import attention_config
from tiny_graphs import Calls
from tiny_models import (
    TARGET_VOCABULARY_SIZE,
    assert_gradients_close,
    every_form,
    every_type,
    every_type_and_form,
    gradients_of,
    run_forward,
    summed_loss,
    tiny_batch,
    tiny_model,
    unroll,
)
from torch.testing import assert_close

from seq2seq.special_tokens import BOS, PAD

# B=3, R=B*K rows, T=4, S=5, N heads, V=13
WHOLE = {"num_layers": 3, "residual": True, "layer_norm": True, "self_attention": True}


def loss_of(logits, weights):
    """Return a loss that weights every output differently."""
    generator = torch.Generator().manual_seed(4)
    factors = [torch.rand(part.shape, generator=generator).to(part) for part in (logits, weights)]
    return (logits.sin() * factors[0]).sum() + (weights.square() * factors[1]).sum()


def assert_forward_equals_steps(model):
    """Compare values and gradients; return the logits."""
    whole, steps = (run(model, tiny_batch()) for run in (run_forward, unroll))
    assert_close(whole, steps, atol=1e-12, rtol=0)
    gradients, of_steps = (gradients_of(loss_of(*each), model) for each in (whole, steps))
    assert_gradients_close(gradients, of_steps, tolerance=1e-12)
    return whole[0]


@every_type_and_form
def test_forward_equals_unrolled_steps(attention, form):
    logits = assert_forward_equals_steps(tiny_model(attention, form, **WHOLE))

    assert logits.shape == (3, 4, TARGET_VOCABULARY_SIZE)


@every_form
@pytest.mark.parametrize("part", WHOLE)
def test_forward_equals_unrolled_steps_with_each_part_alone(form, part):
    options = {"num_layers": 2, part: WHOLE[part]}

    assert_forward_equals_steps(tiny_model(attention_config("dot"), form, **options))


@every_form
def test_the_values_get_their_gradient_from_one_product(form):
    model, batch = tiny_model(attention_config("additive"), form), tiny_batch()
    loss = summed_loss(model, batch)

    with Calls() as calls:
        loss.backward()

    assert calls.products(3, 5, model.attention.context_size) == 1


def test_a_type_may_replace_a_part_of_the_memory_in_its_step():
    model, batch = tiny_model(attention_config("additive")), tiny_batch()
    expected = gradients_of(summed_loss(model, batch), model)
    step = model.attention.step

    def replacing(query, memory, state):
        return step(query, memory._replace(source_mask=memory.source_mask.clone()), state)

    model.attention.step = replacing
    found = gradients_of(summed_loss(model, batch), model)

    assert_gradients_close(found, expected, tolerance=1e-6)


@every_form
def test_a_model_without_dropout_or_in_evaluation_draws_nothing(form):
    batch = tiny_batch()
    for dropout, training in ((0.0, True), (0.4, False)):
        options = {"num_layers": 2, "self_attention": True, "dropout": dropout}
        model = tiny_model(attention_config("additive"), form, **options).train(training)
        torch.manual_seed(7)
        before = torch.get_rng_state()

        model(batch.source_ids, batch.source_mask, batch.previous_ids)

        assert torch.equal(torch.get_rng_state(), before)


@every_type
def test_attention_calls_over_some_sentences_equal_one_call(attention, monkeypatch):
    model, batch = tiny_model(attention, "luong"), tiny_batch()

    whole = run_forward(model, batch)
    monkeypatch.setattr("seq2seq.model.recurrence._SENTENCES_PER_CALL", 2)
    parts = run_forward(model, batch)

    assert_close(parts, whole, atol=1e-12, rtol=0)
    gradients, of_whole = (gradients_of(loss_of(*each), model) for each in (parts, whole))
    assert_gradients_close(gradients, of_whole, tolerance=1e-12)


@every_type_and_form
def test_rows_of_a_beam_equal_separate_rows(attention, form):
    model = tiny_model(attention, form, num_layers=2, self_attention=True)
    batch = tiny_batch()
    memory, state = model.encode(batch.source_ids, batch.source_mask)
    rows = torch.arange(3).repeat_interleave(2)
    first, second = torch.randint(4, 13, (2, 6), generator=torch.Generator().manual_seed(5))

    beam = model.decoder.step(state.select(rows), first, memory)
    beam = model.decoder.step(beam.state, second, memory)
    alone = model.decoder.step(state.select(rows), first, memory.select(rows))
    alone = model.decoder.step(alone.state, second, memory.select(rows))

    assert beam.logits.shape == (6, TARGET_VOCABULARY_SIZE)
    assert beam.attention_weights.shape == (6, model.attention.num_heads, 5)
    assert_close(beam, alone)
    assert not torch.allclose(beam.logits[0], beam.logits[1])


@every_form
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_a_token_that_is_not_forced_is_the_best_one_that_a_search_may_take(form, share):
    model, batch = tiny_model(attention_config("dot"), form), tiny_batch()
    never = torch.tensor([PAD, BOS])
    model.decoder.output.bias.data[never] = 100.0
    inputs = (batch.source_ids, batch.source_mask)
    mask = torch.rand(3, 4, generator=torch.Generator().manual_seed(6)) < share

    mixed = model(*inputs, batch.previous_ids, mask)

    best = model.decoder.logits(mixed.readouts).index_fill(-1, never, -torch.inf).argmax(-1)
    mask[:, 0] = True  # BOS
    fed = torch.where(mask, batch.previous_ids, torch.nn.functional.pad(best, (1, 0))[:, :4])
    assert not torch.equal(fed, batch.previous_ids)
    assert_close(mixed, model(*inputs, fed))


def test_input_feeding_starts_from_a_zero_readout():
    model, batch = tiny_model(attention_config("dot"), "input_feeding"), tiny_batch()

    _, state = model.encode(batch.source_ids, batch.source_mask)

    assert torch.equal(state.feedback, torch.zeros(3, 6).double())


def test_word_dropout_drops_the_whole_embedding_of_a_token():
    model, batch = tiny_model(attention_config("none")), tiny_batch()
    model.decoder.word_dropout.p = 0.5
    seen = []
    dropout = model.decoder.embedding_dropout
    dropout.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0]))

    for _ in range(10):
        model(batch.source_ids, batch.source_mask, batch.previous_ids)

    dropped = torch.stack(seen) == 0  # (10, B, T, E)
    assert torch.equal(dropped.any(-1), dropped.all(-1))
    assert 0 < dropped.all(-1).float().mean() < 1


@every_type
@pytest.mark.parametrize("form", ["conditional", "luong"])
def test_autocast_comes_near_full_precision(attention, form):
    model, batch = tiny_model(attention, form, dtype=torch.float32), tiny_batch()

    def run():
        logits, weights = (part.float() for part in run_forward(model, batch))
        return logits, gradients_of(loss_of(logits, weights), model)

    with torch.autocast("cpu", torch.bfloat16):
        logits, gradients = run()
    full_logits, full_gradients = run()

    assert_close(logits, full_logits, atol=0.15, rtol=0)
    assert {gradient.dtype for gradient in gradients.values()} == {torch.float32}
    assert_gradients_close(gradients, full_gradients, tolerance=0.2)
