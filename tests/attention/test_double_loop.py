"""Compare every type with its equation, computed one number at a time in double precision."""

import copy
import math

import pytest
import torch
from tiny_attention import (
    VALID,
    VARIANTS,
    Sources,
    attend,
    mix_by_loop,
    tiny_attention,
    tiny_sources,
    valid_and_mask,
)
from torch.testing import assert_close

# B=3, T=4, S=5; Q=6, K=10 (6 where the type asks it), V=7


def inner(one, other):
    return sum(map(float.__mul__, one, other))


def project(linear, vector):
    vector = list(vector)
    return [inner(row, vector) for row in linear.weight.tolist()]


def uniform(attention, config, query, key):
    return 0.0


def dot(attention, config, query, key):
    return inner(query, key) / (math.sqrt(len(key)) if config.scaled else 1.0)


def general(attention, config, query, key):
    return inner(query, project(attention.key_projection, key))


def additive(attention, config, query, key):
    hidden = map(
        float.__add__,
        project(attention.query_projection, query),
        project(attention.key_projection, key),
    )
    return inner(attention.score_projection.weight[0].tolist(), map(math.tanh, hidden))


def gaussian(attention, config, query, key):
    if config.size is not None:
        query = project(attention.query_projection, query)
        key = project(attention.key_projection, key)
    return -((attention.inverse_width.item() * math.dist(query, key)) ** 2) / 2


def of_module(attention, config, query, key):
    """Compute one score with the module of a type that has no equation here."""
    query, key = (torch.tensor([[part]], dtype=torch.float64) for part in (query, key))
    return attention.score(query, attention.project_keys(key)).item()


SCORES = {each.__name__: each for each in (uniform, dot, general, additive, gaussian)}


def multihead(attention, config, sources):
    """Compute each head from its part of the projections; join and project the contexts."""
    size = config.size // config.num_heads
    parts = [
        (inputs @ linear.weight.T).split(size, dim=-1)
        for inputs, linear in (
            (sources.query, attention.query_projection),
            (sources.keys, attention.key_projection),
            (sources.values, attention.value_projection),
        )
    ]
    heads = [
        mix_by_loop(
            lambda query, keys, *_: [inner(query, key) / math.sqrt(size) for key in keys],
            *part,
            sources.mask,
            normalizer=config.normalizer,
        )
        for part in zip(*parts, strict=True)
    ]
    joined = torch.cat([context for context, _ in heads], dim=-1)
    return joined @ attention.output_projection.weight.T, torch.stack([w for _, w in heads], dim=1)


def local(attention, config, query, keys, real, past):
    hidden = map(math.tanh, project(attention.position_projection, query))
    (relative,) = project(attention.position_score, hidden)
    center = sum(real) / (1 + math.exp(-relative))
    scores = []
    for place, key in enumerate(keys):
        distance = sum(real[: place + 1]) - center
        gaussian = -(distance**2) / (2 * (config.window / 2) ** 2)
        score = inner(query, project(attention.key_projection, key)) + gaussian
        scores.append(score if abs(distance) <= config.window else -math.inf)
    return scores


def location(attention, config, query, keys, real, past):
    before, half = past[-1] if past else [0.0] * len(keys), config.filter_width // 2
    padded = [0.0] * half + before + [0.0] * half
    features = [
        project(attention.filters, padded[place : place + config.filter_width])
        for place in range(len(keys))
    ]
    return remembering(attention, query, keys, features)


def coverage(attention, config, query, keys, real, past):
    features = [[float(sum(row[place] for row in past))] for place in range(len(keys))]
    return remembering(attention, query, keys, features)


def remembering(attention, query, keys, features):
    scores, vector = [], attention.score_projection.weight[0].tolist()
    for key, feature in zip(keys, features, strict=True):
        parts = (
            project(attention.query_projection, query),
            project(attention.key_projection, key),
            project(attention.feature_projection, feature),
        )
        scores.append(inner(vector, [math.tanh(sum(each)) for each in zip(*parts, strict=True)]))
    return scores


ROW_SCORES = {each.__name__: each for each in (local, location, coverage)}


def single_head(attention, config, sources):
    """Return context (B, T, V) and weights (B, 1, T, S)."""
    equation = SCORES.get(config.name, of_module)

    def score_row(query, keys, real, past):
        if config.name in ROW_SCORES:  # scores all positions together
            return ROW_SCORES[config.name](attention, config, query, keys, real, past)
        return [equation(attention, config, query, key) for key in keys]

    context, weights = mix_by_loop(score_row, *sources, normalizer=config.normalizer)
    return context, weights.unsqueeze(1)


def none(attention, config, sources):
    return torch.zeros(3, 4, 0, dtype=torch.float64), torch.zeros(3, 0, 4, 5, dtype=torch.float64)


BY_TYPE = {"none": none, "multihead": multihead}


@pytest.mark.parametrize("valid", VALID)
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 2e-6), (torch.float64, 1e-12)], ids=["fp32", "fp64"]
)
@pytest.mark.parametrize("config", VARIANTS.values(), ids=VARIANTS.keys())
def test_context_and_weights_equal_a_double_loop(config, dtype, tolerance, valid):
    attention, sources = tiny_attention(config, dtype=dtype), tiny_sources(config, dtype=dtype)
    if config.name == "gaussian":
        attention.inverse_width.data.fill_(-0.75)
    given, seen = valid_and_mask(valid, num_steps=4)
    by_loop = BY_TYPE.get(config.name, single_head)
    exact = Sources(*(part.double() for part in sources[:3]), seen)
    expected = by_loop(copy.deepcopy(attention).double(), config, exact)

    context, weights = attend(attention, sources._replace(mask=given))

    assert context.dtype == weights.dtype == dtype
    assert_close(context.double(), expected[0], atol=tolerance, rtol=0)
    assert_close(weights.double(), expected[1], atol=tolerance, rtol=0)
