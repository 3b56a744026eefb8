"""A check that an attention type satisfies the contract of `Attention`."""

# B batch, R rows (hypotheses of a beam), S source length, T target length, Q query size,
# K key size, V value size, C context size, N heads

import copy
from collections.abc import Callable, Iterable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from torch.testing import assert_close

from seq2seq.attention.base import Attention, AttentionConfig

_QUERY_SIZE, _KEY_SIZE, _VALUE_SIZE = 6, 10, 7


class _Sources(NamedTuple):
    """Inputs of an attention module: B=3, T=4, S=5, lengths 5, 2 and 3."""

    query: Tensor  # (B, T, Q)
    keys: Tensor  # (B, S, K), random at padding too
    values: Tensor  # (B, S, V), random at padding too
    mask: Tensor  # (B, S) or (B, T, S)


def check_attention(
    attention_type: type[Attention], config: AttentionConfig | type[AttentionConfig]
) -> None:
    """Check on small random inputs that an attention type satisfies the contract of `Attention`.

    The rules concern shapes, masks, padding, steps, the rows of a beam, what a call changes and
    stores, training, precision, gradients and interventions. The check takes about a second.

    Args:
        attention_type: A class, which need not be registered.
        config: The type's configuration, or the class of the configuration to use its defaults.

    Raises:
        AssertionError: The type breaks a rule; the message names the rule.

    Example:
        >>> from seq2seq.attention.base import Attention
        >>> from seq2seq.attention.contract import check_attention
        >>> from seq2seq.attention.dot import DotAttention, DotConfig
        >>> check_attention(DotAttention, DotConfig)
        >>> class Sigmoid(DotAttention):
        ...     def forward(self, query, memory):
        ...         scores = self.score(query, memory.keys).sigmoid()
        ...         return self.average(scores * memory.source_mask.unsqueeze(1), memory)
        >>> check_attention(Sigmoid, DotConfig)
        Traceback (most recent call last):
        AssertionError: Sigmoid: weights of padding must be exactly 0 and the others sum to 1; ...
    """
    if isinstance(config, type):
        config = config()  # type: ignore[call-arg]  # a type gives `name` a default
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        attention, sizes = _build(attention_type, config)
        for rule, check in _RULES.items():
            try:
                check(copy.deepcopy(attention), _random_sources(*sizes))
            except Exception as error:  # the code of a type may raise anything
                found = " ".join(str(error).split()) or type(error).__name__
                raise AssertionError(f"{attention_type.__name__}: {rule}; {found}") from error


def _build(
    attention_type: type[Attention], config: AttentionConfig
) -> tuple[Attention, tuple[int, int]]:
    """Build a module with different query and key sizes, or equal sizes if the type needs that."""
    sizes = {"query_size": _QUERY_SIZE, "value_size": _VALUE_SIZE}
    try:
        attention, key_size = attention_type(config, key_size=_KEY_SIZE, **sizes), _KEY_SIZE
    except ValueError:
        attention, key_size = attention_type(config, key_size=_QUERY_SIZE, **sizes), _QUERY_SIZE
    return attention.double().eval(), (_QUERY_SIZE, key_size)


def _random_sources(query_size: int, key_size: int) -> _Sources:
    shapes = (3, 4, query_size), (3, 5, key_size), (3, 5, _VALUE_SIZE)
    query, keys, values = (torch.randn(shape, dtype=torch.float64) for shape in shapes)
    mask = torch.arange(5) < torch.tensor([[5], [2], [3]])
    return _Sources(query, keys.requires_grad_(), values.requires_grad_(), mask)


def _attend(attention: Attention, sources: _Sources) -> tuple[Tensor, Tensor]:
    memory = attention.prepare(sources.keys, sources.mask, values=sources.values)
    context, weights = attention(sources.query, memory)
    return context, weights


def _differentiate(result: Tensor, sources: _Sources) -> list[Tensor]:
    """Return the gradients of keys and values; zeros where the result does not depend on them."""
    inputs = sources.keys, sources.values
    return list(torch.autograd.grad(result + 0 * sum(map(torch.sum, inputs)), inputs))


def _check_inputs(attention: Attention, sources: _Sources) -> None:
    known: list[tuple[str, Tensor, Tensor]] = []

    def remember(of: str, parts: Iterable[Tensor]) -> None:
        known.extend((of, part, part.clone()) for part in parts)

    query, keys, values, mask = (part.detach() for part in sources)
    remember("an argument", (query, keys, values, mask))
    memory = attention.prepare(keys, mask, values=values)
    remember("the memory", memory)
    state = attention.start(memory)
    for step in query.unbind(1):
        remember("the state", state)
        *_, state = attention.step(step, memory, state)
    attention(query, memory)
    changed = dict.fromkeys(of for of, part, before in known if not torch.equal(part, before))
    assert not changed, f"changed in place: {', '.join(changed)}"


def _check_training(attention: Attention, sources: _Sources) -> None:
    attention.train()
    memory = attention.prepare(sources.keys, sources.mask, values=sources.values)
    attention.step(sources.query[:, 0], memory, attention.start(memory))
    context, weights = attention(sources.query, memory)
    result = context.float().sum() + weights.float().square().sum()
    for part in (context, *_differentiate(result, sources)):
        assert part.isfinite().all(), "a context or a gradient is not finite"


def _check_shapes(attention: Attention, sources: _Sources) -> None:
    for rows, steps, places in ((3, 4, 5), (0, 4, 5), (3, 0, 5), (3, 4, 0)):
        query, keys, values = (part[:rows] for part in sources[:3])
        memory = attention.prepare(keys[:, :places], values=values[:, :places])
        context, weights = attention(query[:, :steps], memory)
        shapes = tuple(context.shape), tuple(weights.shape)
        expected = (rows, steps, attention.context_size), (rows, attention.num_heads, steps, places)
        assert shapes == expected, f"they are {shapes} instead of {expected}"
        if 0 in (rows, steps, places):
            assert not context.any(), "the context of empty inputs is not 0"


def _check_storing(attention: Attention, sources: _Sources) -> None:
    def stored() -> list[dict[str, str]]:
        # The repr of a list, a dictionary or a tensor shows changes made in place.
        stores = [
            {**vars(type(module)), **vars(module), **module._buffers}
            for module in attention.modules()
        ]
        return [{key: repr(value) for key, value in store.items()} for store in stores]

    before, tensors = stored(), copy.deepcopy(attention.state_dict())
    _attend(attention, sources)
    for known, now in zip(before, stored(), strict=True):
        changed = [key for key in now if known.get(key) != now[key]]
        assert not changed, f"changed: {', '.join(changed)}"
    assert_close(attention.state_dict(), tensors, atol=0, rtol=0)


def _check_noise(attention: Attention, sources: _Sources) -> None:
    assert_close(_attend(attention, sources), _attend(attention, sources), atol=0, rtol=0)


def _check_weights(attention: Attention, sources: _Sources) -> None:
    _, weights = _attend(attention, sources)
    is_real = sources.mask[:, None, None].expand_as(weights)
    assert not weights[~is_real].any(), "padding has weight"
    assert (weights >= 0).all(), "a weight is negative"
    assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))


def _check_context(attention: Attention, sources: _Sources) -> None:
    if attention.num_heads == 0:
        return
    size = 1, attention.num_heads + 5  # more positions than heads, so that a wrong sum shows
    keys, values = (part.new_empty(*size, part.shape[-1]).normal_() for part in sources[1:3])
    memory = attention.prepare(keys, values=values)
    memory = memory._replace(values=memory.values.detach().requires_grad_())
    context, weights = attention(sources.query[:1], memory)
    for step, result in enumerate((context[0] * torch.randn_like(context[0])).sum(-1)):
        result = result + 0 * memory.values.sum()
        [slopes] = torch.autograd.grad(result, memory.values, retain_graph=True)  # (1, S, C)
        # The slopes must be a sum over the heads: weights of the head times a vector of the head.
        of_heads = weights[0, :, step].detach().to(slopes).mT  # (S, N)
        assert_close(slopes[0], of_heads @ (torch.linalg.pinv(of_heads) @ slopes[0]))
        assert torch.equal(slopes[0].any(-1), of_heads.any(-1)), "a value is not read"


def _check_padding(attention: Attention, sources: _Sources) -> None:
    context, weights = _attend(attention, sources)
    gradients = _differentiate(context.square().sum() + weights.square().sum(), sources)
    is_real = sources.mask.unsqueeze(-1)
    keys, values = (
        torch.where(is_real, part, 1e3 * torch.randn_like(part)) for part in sources[1:3]
    )
    seen = _attend(attention, sources._replace(keys=keys, values=values))
    assert_close(seen, (context, weights), atol=0, rtol=0)
    for gradient in gradients:
        assert not gradient[~sources.mask].any(), "padding has a gradient"


def _check_more_padding(attention: Attention, sources: _Sources) -> None:
    context, weights = _attend(attention, sources)
    wide_context, wide_weights = _attend(
        attention,
        sources._replace(
            keys=functional.pad(sources.keys, (0, 0, 0, 7), value=9.0),
            values=functional.pad(sources.values, (0, 0, 0, 7), value=-9.0),
            mask=functional.pad(sources.mask, (0, 7)),
        ),
    )
    assert not wide_weights[..., 5:].any(), "the added padding has weight"
    assert_close((wide_context, wide_weights[..., :5]), (context, weights))


def _check_query_masks(attention: Attention, sources: _Sources) -> None:
    is_hidden = torch.zeros(3, 4, 5, dtype=torch.bool)
    # If a type remembers earlier queries, gradients also pass through its state.
    remembers = bool(attention.start(attention.prepare(sources.keys, values=sources.values)))
    is_hidden[:, 0 if remembers else 2 : 3, 1:4] = is_hidden[1, 3] = True
    context, weights = _attend(attention, sources._replace(mask=~is_hidden))
    assert not weights.masked_select(is_hidden.unsqueeze(1)).any(), "a hidden position has weight"
    assert not context[1, 3].any(), "a query that sees nothing has a context"
    seen = context[:, 2].square().sum() + weights[:, :, 2].square().sum()
    for gradient in _differentiate(seen, sources):
        assert not gradient[:, 1:4].any(), "a hidden position has a gradient"


def _check_empty_sources(attention: Attention, sources: _Sources) -> None:
    mask = sources.mask.clone()
    mask[1] = False
    context, weights = _attend(attention, sources._replace(mask=mask))
    assert (context[1] == 0).all() and (weights[1] == 0).all(), "they are not 0"
    variables = sources.keys, sources.values, *attention.parameters()
    result = context.sum() + weights.square().sum() + 0 * sum(map(torch.sum, variables))
    for gradient in torch.autograd.grad(result, variables):
        assert gradient.isfinite().all(), "a gradient is not finite"


def _check_sentences(attention: Attention, sources: _Sources) -> None:
    context, weights = _attend(attention, sources)
    for row in range(3):
        alone = _attend(attention, _Sources(*(part[row : row + 1] for part in sources)))
        assert_close(alone, (context[row : row + 1], weights[row : row + 1]))


def _check_steps(attention: Attention, sources: _Sources) -> None:
    memory = attention.prepare(sources.keys, sources.mask, values=sources.values)
    state, steps = attention.start(memory), []
    for query in sources.query.unbind(1):
        *step, state = attention.step(query, memory, state)
        steps.append(step)
    contexts, weights = zip(*steps, strict=True)
    joined = torch.stack(contexts, dim=1), torch.stack(weights, dim=2)
    assert_close(joined, attention(sources.query, memory))


def _check_beams(attention: Attention, sources: _Sources) -> None:
    memory = attention.prepare(sources.keys, sources.mask, values=sources.values)
    rows = torch.arange(3).repeat_interleave(2)  # two hypotheses of each sentence
    continued = torch.tensor([1, 0, 2, 2, 5, 4])
    first, second = torch.randn(2, 6, sources.query.shape[-1], dtype=torch.float64)
    state = tuple(part.index_select(0, rows) for part in attention.start(memory))
    _, _, state = attention.step(first, memory, state)
    state = tuple(part.index_select(0, continued) for part in state)
    context, weights, _ = attention.step(second, memory, state)
    alone = attention(torch.stack((first[continued], second), dim=1), memory.select(rows))
    assert_close((context, weights), (alone[0][:, 1], alone[1][:, :, 1]))


def _check_precision(attention: Attention, sources: _Sources) -> None:
    exact = _attend(attention, sources)
    for dtype in (torch.float64, torch.float32):
        query, keys, values = (part.to(dtype) for part in sources[:3])
        lower = copy.deepcopy(attention).to(dtype)
        found = _attend(lower, _Sources(query, keys, values, sources.mask))
        context, weights = (part.dtype for part in found)
        assert context == weights == dtype, (
            f"{dtype} gives a context of {context}, weights of {weights}"
        )
        assert_close([part.double() for part in found], list(exact), atol=1e-5, rtol=0)


def _check_half_precision(attention: Attention, sources: _Sources) -> None:
    attention.float()
    query, keys, values = (part.detach().float().requires_grad_() for part in sources[:3])
    sources = _Sources(query, keys, values, sources.mask)
    for dtype in (torch.bfloat16, torch.float16):
        with torch.autocast("cpu", dtype=dtype):
            _check_training(attention, sources)
            _, weights = _attend(attention, sources)
        sums = weights.double().sum(-1)
        assert_close(sums, torch.ones_like(sums), atol=0.05, rtol=0)


def _check_gradients(attention: Attention, sources: _Sources) -> None:
    inputs = [part[:1, :size].detach() for part, size in zip(sources, (2, 3, 3), strict=False)]
    lengths = torch.tensor([[3, 2]])

    def outputs(query: Tensor, keys: Tensor, values: Tensor, *_: Tensor) -> tuple[Tensor, Tensor]:
        context, weights = attention(query, attention.prepare(keys, lengths, values=values))
        return context, weights

    variables = *(part.requires_grad_() for part in inputs), *attention.parameters()
    # Only the fast mode can handle thousands of parameters.
    torch.autograd.gradcheck(outputs, variables, fast_mode=sum(p.numel() for p in variables) > 1000)


def _check_normalizer(attention: Attention, sources: _Sources) -> None:
    if attention.num_heads == 0:
        return
    known = []

    def normalize(scores: Tensor, valid: Tensor) -> Tensor:
        weights = attention.normalize(scores, valid).square()
        known.append(weights / weights.sum(-1, keepdim=True))
        return known[-1]

    changed = copy.copy(attention)
    changed.normalize = normalize
    memory = changed.prepare(sources.keys, sources.mask, values=sources.values)
    _, weights, _ = changed.step(sources.query[:, 0], memory, changed.start(memory))
    assert known, "it is not called"
    assert_close(weights, known[-1].view_as(weights))
    _check_context(changed, sources)


_RULES: dict[str, Callable[[Attention, _Sources], None]] = {
    "a call must succeed and change none of its inputs": _check_inputs,
    "a call must succeed in training, with finite results": _check_training,
    "shapes must be (B, T, C) and (B, N, T, S), even for empty inputs": _check_shapes,
    "a call must store nothing on the module": _check_storing,
    "equal calls must give equal results": _check_noise,
    "weights of padding must be exactly 0 and the others sum to 1": _check_weights,
    "the context must be the values weighted by the returned weights": _check_context,
    "padding must change no result and get no gradient": _check_padding,
    "more padding must change no result": _check_more_padding,
    "positions masked for one query must not be read by it": _check_query_masks,
    "a source that is all padding must give zeros and finite gradients": _check_empty_sources,
    "a sentence must not depend on the other sentences in its batch": _check_sentences,
    "one step for each query must give the same as one call": _check_steps,
    "the rows of a beam must be independent and follow their state": _check_beams,
    "results must have the precision of the inputs": _check_precision,
    "a call must succeed in half precision, as under autocast": _check_half_precision,
    "gradients must equal finite differences": _check_gradients,
    "weights must come from `self.normalize`, which interventions replace": _check_normalizer,
}
