import pytest
import torch
from tiny_attention import VARIANTS, attend, tiny_attention, tiny_sources
from torch.nn import functional
from torch.testing import assert_close

from seq2seq.attention import Normalizer

# B=3, T=4, S=5; Q=6, K=10 (6 where the type asks it), V=7
every_type = pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS.keys())


def is_sparse(config):
    """Return whether real positions may have weight 0."""
    return config.normalizer is not Normalizer.softmax or getattr(config, "window", 8) < 5


@every_type
def test_weights_of_padding_are_exactly_zero_and_the_others_sum_to_one(config):
    attention, sources = tiny_attention(config), tiny_sources(config)

    _, weights = attend(attention, sources)

    real = sources.mask[:, None, None].expand_as(weights)
    assert torch.equal(weights[~real], torch.zeros_like(weights[~real]))
    assert (weights[real] >= 0).all()
    assert (weights[real] > 0).all() or is_sparse(config)
    assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))


@every_type
def test_padding_changes_nothing_and_gets_no_gradient(config):
    attention, sources = tiny_attention(config), tiny_sources(config)
    inputs = sources.keys.requires_grad_(), sources.values.requires_grad_()
    context, weights = attend(attention, sources)
    (context.square().sum() + weights.square().sum() + 0 * sum(map(torch.sum, inputs))).backward()

    real = sources.mask.unsqueeze(-1)
    garbage = [torch.where(real, part, 1e3 * torch.randn_like(part)) for part in inputs]
    seen = attend(attention, sources._replace(keys=garbage[0], values=garbage[1]))

    assert torch.equal(seen[0], context)
    assert torch.equal(seen[1], weights)
    for part in inputs:
        assert torch.equal(part.grad[~sources.mask], torch.zeros_like(part[~sources.mask]))
    if attention.num_heads > 0:
        read = weights.any(2).any(1)  # by some head, in some step; all with softmax
        assert torch.equal((inputs[1].grad != 0).any(-1), read)


@every_type
def test_positions_masked_for_one_query_get_no_weight_and_no_gradient(config):
    attention, sources = tiny_attention(config), tiny_sources(config)
    inputs = sources.keys.requires_grad_(), sources.values.requires_grad_()
    hidden = torch.zeros(3, 4, 5, dtype=torch.bool)
    # What a type remembers of earlier queries has a gradient of its own.
    remembers = bool(attention.start(attention.prepare(sources.keys, values=sources.values)))
    hidden[:, 0 if remembers else 2 : 3, 1:4] = hidden[1, 3] = True

    context, weights = attend(attention, sources._replace(mask=~hidden))
    seen_by_step_2 = context[:, 2].square().sum() + weights[:, :, 2].square().sum()
    (seen_by_step_2 + 0 * sum(map(torch.sum, inputs))).backward()

    assert not weights.masked_select(hidden.unsqueeze(1)).any()
    if not is_sparse(config):
        assert weights.masked_select(~hidden.unsqueeze(1)).all()
    assert not context[1, 3].any()
    for part in inputs:
        assert not part.grad[:, 1:4].any()


@every_type
def test_more_padding_changes_nothing(config):
    attention = tiny_attention(config, dtype=torch.float32)
    sources = tiny_sources(config, dtype=torch.float32)

    wider = sources._replace(
        keys=functional.pad(sources.keys, (0, 0, 0, 7), value=9.0),
        values=functional.pad(sources.values, (0, 0, 0, 7), value=-9.0),
        mask=functional.pad(sources.mask, (0, 7)),
    )
    context, weights = attend(attention, sources)
    wide_context, wide_weights = attend(attention, wider)

    assert_close(wide_context, context, atol=2e-6, rtol=0)
    assert_close(wide_weights[..., :5], weights, atol=2e-6, rtol=0)
    assert not wide_weights[..., 5:].any()


@every_type
def test_source_of_padding_only_gives_zeros(config):
    attention, sources = tiny_attention(config), tiny_sources(config)
    inputs = [part.requires_grad_() for part in sources[:3]]
    mask = sources.mask.clone()
    mask[1] = False

    context, weights = attend(attention, sources._replace(mask=mask))
    (context.sum() + weights.square().sum() + sum(part.sum() for part in inputs)).backward()

    assert not context[1].any()
    assert not weights[1].any()
    for part in (*inputs, *attention.parameters()):
        assert part.grad is None or part.grad.isfinite().all()
    for part in inputs:
        assert_close(part.grad[1], torch.ones_like(part[1]))


@every_type
@pytest.mark.parametrize(("rows", "steps", "places"), [(0, 4, 5), (3, 0, 5), (3, 4, 0)])
def test_empty_inputs_give_empty_or_zero_outputs(config, rows, steps, places):
    attention, sources = tiny_attention(config), tiny_sources(config)
    keys, values = (part[:rows, :places] for part in sources[1:3])

    context, weights = attention(
        sources.query[:rows, :steps], attention.prepare(keys, values=values)
    )

    assert weights.shape == (rows, attention.num_heads, steps, places)
    assert torch.equal(context, torch.zeros(rows, steps, attention.context_size).double())
