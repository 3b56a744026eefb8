import pytest
import torch
from tiny_attention import attend, attention_config, tiny_attention, tiny_sources
from torch.testing import assert_close

from seq2seq.attention.base import attention_config_types
from seq2seq.attention.dot import DotAttention, DotConfig
from seq2seq.studies.interventions import (
    INTERVENTIONS,
    ChangedAttention,
    Uniform,
    changed_words,
    find_intervention,
)

# B=3, T=4, S=5, lengths 5, 2 and 3
TYPES = [name for name in attention_config_types() if name != "none"]
every_type = pytest.mark.parametrize("name", TYPES)
EVERY_INTERVENTION = [f"{name}:1" if found.needs else name for name, found in INTERVENTIONS.items()]


def weights_of(name, text):
    """Return what the type gives with the intervention and without it."""
    config = attention_config(name)
    attention, sources = tiny_attention(config), tiny_sources(config)
    changed = ChangedAttention(attention, find_intervention(text))
    return attend(changed, sources), attend(attention, sources), sources, attention


@pytest.mark.parametrize("text", EVERY_INTERVENTION)
@every_type
def test_padding_has_no_weight_and_steps_of_a_beam_follow_their_state(name, text):
    config = attention_config(name)
    sources = tiny_sources(config)
    changed = ChangedAttention(tiny_attention(config), find_intervention(text))
    memory = changed.prepare(sources.keys, sources.mask, values=sources.values)
    rows, continued = torch.arange(3).repeat_interleave(2), torch.tensor([1, 0, 2, 2, 5, 4])
    first, second = torch.randn(2, 6, sources.query.shape[-1]).double()

    state = tuple(part[rows] for part in changed.start(memory))
    state = tuple(part[continued] for part in changed.step(first, memory, state)[2])
    context, weights, _ = changed.step(second, memory, state)
    alone = changed(torch.stack((first[continued], second), dim=1), memory.select(rows))

    assert_close((context, weights), (alone[0][:, 1], alone[1][:, :, 1]))
    assert not weights.masked_select(~sources.mask[rows].unsqueeze(1)).any()


@every_type
def test_context_is_that_of_the_changed_weights(name):
    (context, weights), _, sources, attention = weights_of(name, "uniform")
    uniform = sources.mask.double() / sources.mask.sum(-1, keepdim=True)
    values = attention.project_values(sources.values)
    expected = (uniform.unsqueeze(1) @ values).expand(-1, 4, -1)
    if name == "multihead":
        expected = attention.output_projection(expected)

    assert_close(weights, uniform[:, None, None].expand_as(weights))
    assert_close(context, expected)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("none", "drop_head:1", "drop_head:1: the model has no attention$"),
        ("multihead", "drop_head:5", "drop_head:5: the model has no such head; number of heads: 4"),
        (
            "multihead",
            "drop_head:0",
            "'drop_head' needs the number of a head, counted from 1, ",
        ),
    ],
)
def test_a_head_that_the_model_has_not_is_refused(name, text, message):
    with pytest.raises(ValueError, match=f"^intervention {message}"):
        weights_of(name, text)


@every_type
def test_strongest_is_one_at_the_largest_weight(name):
    # A type with a state goes its own way after the first step.
    changed, before, _, _ = (part for part in weights_of(name, "strongest"))

    expected = torch.nn.functional.one_hot(before[1][:, :, 0].argmax(-1), 5).double()

    assert torch.equal(changed[1][:, :, 0], expected)
    assert set(changed[1].unique().tolist()) == {0.0, 1.0}


def test_strongest_gives_an_empty_source_no_weight():
    attention, sources = tiny_attention(attention_config("dot")), tiny_sources(DotConfig())
    changed = ChangedAttention(attention, find_intervention("strongest"))

    context, weights = attend(changed, sources._replace(mask=torch.zeros_like(sources.mask)))

    assert torch.equal(weights, torch.zeros_like(weights))
    assert torch.equal(context, torch.zeros_like(context))


def test_permuted_keeps_the_weights_of_each_sentence_and_moves_them():
    changed, before, _, _ = weights_of("dot", "permuted")

    assert torch.equal(changed[1].sort(-1).values, before[1].sort(-1).values)
    assert not torch.equal(changed[1][0], before[1][0])


def test_permutation_depends_on_the_length_alone():
    (_, weights), _, sources, attention = weights_of("dot", "permuted")
    changed = ChangedAttention(attention, find_intervention("permuted"))

    last = sources._replace(query=sources.query[2:], mask=sources.mask[2:, :3])
    last = last._replace(keys=sources.keys[2:, :3], values=sources.values[2:, :3])
    alone = attend(changed, last)

    assert_close(alone[1], weights[2:, ..., :3])


def test_without_end_equals_a_loop():
    changed, before, sources, _ = weights_of("general", "without_end")

    for row, length in enumerate(sources.mask.sum(-1).tolist()):
        for step in range(4):
            old = before[1][row, 0, step].tolist()[: length - 1]
            new = [each / sum(old) for each in old] + [0.0] * (6 - length)
            assert changed[1][row, 0, step].tolist() == pytest.approx(new, abs=1e-12)


@every_type
def test_frozen_keeps_the_weights_of_the_first_step(name):
    changed, before, _, _ = weights_of(name, "frozen")

    assert_close(changed[1], before[1][:, :, :1].expand(-1, -1, 4, -1))


def test_a_dropped_head_has_no_weight_and_the_others_keep_theirs():
    (context, weights), (whole, before), _, _ = weights_of("multihead", "drop_head:1")

    assert not weights[:, 0].any()
    torch.testing.assert_close(weights[:, 1:], before[:, 1:])
    assert not torch.allclose(context, whole)


def test_the_only_head_is_the_whole_context(caplog):
    (context, weights), _, _, _ = weights_of("dot", "drop_head:1")

    assert not context.any()
    assert not weights.any()
    assert caplog.messages == ["drop_head:1 removes the whole context: the model has one head"]


def test_type_that_does_not_call_its_normalizer_is_refused():
    class Own(DotAttention):
        def forward(self, query, memory):
            return self.average(self.score(query, memory.keys).softmax(-1), memory)

    attention = Own(DotConfig(), query_size=6, key_size=6, value_size=7).double()

    with pytest.raises(ValueError, match=r"Own does not compute its weights by `self\.normalize`"):
        attend(ChangedAttention(attention, Uniform()), tiny_sources(DotConfig()))


@pytest.mark.parametrize("text", ["unifrom", "drop_head", "uniform:1", "drop_head:x"])
def test_unknown_intervention_is_one_line(text):
    with pytest.raises(ValueError, match=r"^(unknown )?intervention '.*$"):
        find_intervention(text)


def test_changed_words_are_counted_in_both_texts():
    assert changed_words(["a b", "c"], ["a b", "c"]) == 0
    assert changed_words(["a b c"], ["x"]) == 1
    assert changed_words([""], [""]) == 0
