import dataclasses

import pytest
import torch
from tiny_attention import VALUE_SIZE, VARIANTS, attention_sizes, tiny_attention, tiny_sources
from torch.testing import assert_close

from seq2seq.attention.additive import CoverageAttention, CoverageConfig
from seq2seq.attention.base import ATTENTION, attention_config_types, build_attention
from seq2seq.attention.contract import check_attention
from seq2seq.attention.dot import DotAttention, DotConfig
from seq2seq.attention.multihead import MultiHeadAttention, MultiHeadConfig
from seq2seq.attention.normalizers import masked_softmax

# B=3, T=4, S=5; Q=6, K=10 (6 where the type asks it), V=7
every_type = pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS.keys())
NAMES = sorted(attention_config_types())


@every_type
def test_type_keeps_the_contract(config):
    check_attention(ATTENTION.find(config), config)


@pytest.mark.parametrize("name", NAMES)
def test_type_keeps_the_contract_in_its_default_size(name):
    check_attention(ATTENTION[name], attention_config_types()[name])


@every_type
def test_step_without_source_positions_gives_an_empty_row(config):
    attention, sources = tiny_attention(config), tiny_sources(config)
    memory = attention.prepare(sources.keys[:, :0], values=sources.values[:, :0])

    context, weights, _ = attention.step(sources.query[:, 0], memory, attention.start(memory))

    assert not context.any()
    assert weights.shape == (3, attention.num_heads, 0)


class Blind(DotAttention):
    def forward(self, query, memory):
        return self.average(self.score(query, memory.keys).softmax(-1), memory)


class Centred(DotAttention):
    """Reads the mean of all keys, also of padding."""

    def score(self, query, keys):
        scale = 1 + keys.square().mean((1, 2)).view(-1, 1, 1)
        return super().score(query, keys) * scale


class LengthScaled(DotAttention):
    def score(self, query, keys):
        return super().score(query, keys) / keys.shape[1]


class OneMask(DotAttention):
    """Takes the mask of the first query for all."""

    def forward(self, query, memory):
        mask = memory.source_mask
        return super().forward(
            query, memory._replace(source_mask=mask[:, 0] if mask.dim() == 3 else mask)
        )


class NotANumber(DotAttention):
    def forward(self, query, memory):
        mask = memory.source_mask if memory.source_mask.dim() == 3 else memory.source_mask[:, None]
        weights = self.score(query, memory.keys).masked_fill(~mask, -torch.inf).softmax(-1)
        if weights.numel() and memory.source_mask.dim() == 3:
            weights = weights.nan_to_num()
        return self.average(weights, memory)


class BatchScaled(DotAttention):
    def score(self, query, keys):
        return super().score(query, keys) * query.shape[0]


class Doubled(CoverageAttention):
    """Adds the weights of a step twice."""

    def step(self, query, memory, state):
        context, weights, _ = super().step(query, memory, state)
        return context, weights, (state[0] + 2 * weights.squeeze(1),)


class SharedState(CoverageAttention):
    """Gives all hypotheses of a sentence the state of the first."""

    def step(self, query, memory, state):
        first = state[0].view(len(memory.keys), -1, memory.keys.shape[1])[:, :1]
        repeated = first.expand(-1, len(query) // len(memory.keys), -1).flatten(0, 1)
        return super().step(query, memory, (repeated,))


class Remembers(DotAttention):
    def forward(self, query, memory):
        context, self.weights = super().forward(query, memory)
        return context, self.weights


class Single(DotAttention):
    """Computes in single precision."""

    def score(self, query, keys):
        return super().score(query.float(), keys.float())


class Detached(DotAttention):
    def score(self, query, keys):
        return super().score(query, keys.detach())


class WrongContext(DotAttention):
    def forward(self, query, memory):
        context, weights = super().forward(query, memory)
        return context[..., 1:], weights


class ChangesState(CoverageAttention):
    def update(self, state, weights):
        state[...] = state + weights
        return state


class ChangesKeys(DotAttention):
    def project_keys(self, keys):
        return keys.mul_(0.5)


class FailsInTraining(DotAttention):
    def score(self, query, keys):
        return super().score(query, keys) * {False: 1}[self.training]


class Records(DotAttention):
    """Adds to a list that it had before."""

    def __init__(self, config, **sizes):
        super().__init__(config, **sizes)
        self.lengths = []

    def score(self, query, keys):
        self.lengths.append(keys.shape[1])
        return super().score(query, keys)


class Noisy(DotAttention):
    def score(self, query, keys):
        scores = super().score(query, keys)
        return scores + 1e-6 * torch.randn_like(scores)


class SharperWeights(DotAttention):
    """Returns weights that did not make the context."""

    def forward(self, query, memory):
        context, weights = super().forward(query, memory)
        sharper = weights.square()
        return context, sharper / sharper.sum(-1, keepdim=True).clamp(min=1e-9)


class MeanOfHeads(MultiHeadAttention):
    def forward(self, query, memory):
        context, weights = super().forward(query, memory)
        return context, weights.mean(1, keepdim=True).expand_as(weights)


class Double(DotAttention):
    def forward(self, query, memory):
        context, weights = super().forward(query, memory)
        return context, weights.double()


class TooLargeForHalf(DotAttention):
    def score(self, query, keys):
        scores = super().score(query, keys)
        return scores.masked_fill(scores.isnan(), -1e9)


class OwnSoftmax(DotAttention):
    def forward(self, query, memory):
        weights = masked_softmax(self.score(query, memory.keys), memory.source_mask)
        return self.average(weights, memory)


class OwnContext(OwnSoftmax):
    """Returns the weights of its normalizer, and makes the context by its own."""

    def forward(self, query, memory):
        context, _ = super().forward(query, memory)
        return context, DotAttention.forward(self, query, memory)[1]


FAULTS = {
    ChangesState: (CoverageConfig, "change none of its inputs; changed in place: the state$"),
    ChangesKeys: (DotConfig, "change none of its inputs; changed in place: an argument$"),
    FailsInTraining: (DotConfig, "a call must succeed in training"),
    WrongContext: (DotConfig, "shapes must be"),
    Remembers: (DotConfig, "a call must store nothing .*changed: weights"),
    Records: (DotConfig, "a call must store nothing .*changed: lengths"),
    Noisy: (DotConfig, "equal calls must give equal results"),
    Blind: (DotConfig, "weights of padding must be exactly 0"),
    SharperWeights: (DotConfig, "the context must be the values weighted"),
    MeanOfHeads: (MultiHeadConfig, "the context must be the values weighted"),
    Centred: (DotConfig, "padding must change no result"),
    LengthScaled: (DotConfig, "more padding must change no result"),
    OneMask: (DotConfig, "positions masked for one query"),
    NotANumber: (DotConfig, "a source that is all padding"),
    BatchScaled: (DotConfig, "the other sentences in its batch"),
    Doubled: (CoverageConfig, "one step for each query must give the same"),
    SharedState: (CoverageConfig, "the rows of a beam"),
    Single: (DotConfig, "the precision of the inputs"),
    Double: (
        DotConfig,
        r"torch\.float32 gives a context of torch\.float32, weights of torch.float64",
    ),
    TooLargeForHalf: (DotConfig, "a call must succeed in half precision"),
    Detached: (DotConfig, "gradients must equal"),
    OwnSoftmax: (DotConfig, "weights must come from `self.normalize`.*; it is not called"),
    OwnContext: (DotConfig, "weights must come from `self.normalize`"),
}


@pytest.mark.parametrize("faulty", FAULTS, ids=lambda faulty: faulty.__name__)
def test_broken_rule_is_named(faulty):
    config, rule = FAULTS[faulty]

    with pytest.raises(AssertionError, match=f"^{faulty.__name__}: .*{rule}") as error:
        check_attention(faulty, config)

    assert "\n" not in str(error.value)


def test_check_leaves_the_random_numbers_of_the_caller():
    before = torch.get_rng_state()

    check_attention(DotAttention, DotConfig)

    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("name", [n for n, c in VARIANTS.items() if attention_sizes(c) != (6, 10)])
def test_error_for_different_sizes_names_both_sizes(name):
    config = VARIANTS[name]

    with pytest.raises(
        ValueError, match=rf"attention={config.name}\b.*size 6.*size 10.* change one or"
    ):
        build_attention(config, query_size=6, key_size=10, value_size=VALUE_SIZE)


@pytest.mark.parametrize("name", NAMES)
def test_dropout_drops_weights_of_the_context_and_scales_the_others_in_training_only(name):
    config = VARIANTS[name]
    single = {"num_heads": 1} if hasattr(config, "num_heads") else {}
    attention = tiny_attention(dataclasses.replace(config, dropout=0.2, **single))
    plain = tiny_attention(dataclasses.replace(config, **single))
    sources = tiny_sources(config)
    query, (keys, values) = torch.randn(3, 500, 6).double(), (part[:, :1] for part in sources[1:3])
    memory = attention.prepare(keys, values=values)

    context, weights = attention.train()(query, memory)
    full, full_weights = plain(query, memory)

    # The weight of a single position is 1; dropout turns it into 1 / 0.8 or 0.
    kept = context.any(-1)
    assert_close(attention.eval()(query, memory), (full, full_weights))
    assert_close(weights, full_weights)
    assert_close(context[kept], full[kept] / 0.8)
    if attention.num_heads > 0:
        assert_close(kept.double().mean().item(), 0.8, atol=0.05, rtol=0)
