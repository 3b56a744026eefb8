"""Every registered attention type, and models of a few hundred parameters, for tests."""

# B batch, S source length, T target length, Q query size, K key size, V value size

import dataclasses
import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, get_args

import torch
from omegaconf import OmegaConf
from torch import Tensor, nn

from seq2seq.attention import (
    Attention,
    AttentionConfig,
    attention_config_types,
    build_attention,
)
from seq2seq.model.bridge import Bridge
from seq2seq.model.decoder_config import DecoderConfig, DecoderForm
from seq2seq.model.encoder import EncoderConfig
from seq2seq.model.seq2seq import ModelConfig, Seq2Seq, TiedEmbeddings

CONFIGS = Path(__file__).parent.parent / "configs"
LARGEST_SIZE = 8
SOURCE_VOCABULARY_SIZE, TARGET_VOCABULARY_SIZE = 11, 13
FORMS = ("bahdanau", "conditional", "luong", "input_feeding")


def attention_config(name: str) -> AttentionConfig:
    """Return the default config of a registered type, with sizes that take no time."""
    config = attention_config_types()[name]()
    values = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    small = {key: min(each, LARGEST_SIZE) for key, each in values.items() if type(each) is int}
    return dataclasses.replace(config, **small)


def _variants() -> dict[str, AttentionConfig]:
    """Return every registered type, each switch both ways, each option also without a value."""
    variants = {}
    for name in attention_config_types():
        config = variants[name] = attention_config(name)
        for field in dataclasses.fields(config):
            value = getattr(config, field.name)
            others = [not value] if type(value) is bool else []
            others += [None] if type(None) in get_args(field.type) and value is not None else []
            for other in others:
                changed = dataclasses.replace(config, **{field.name: other})
                variants[f"{name}-{field.name}={other}"] = changed
    return variants


VARIANTS = _variants()
VALUE_SIZE = 7


def attention_sizes(config: AttentionConfig) -> tuple[int, int]:
    """Return query and key size: different ones unless the type refuses them."""
    try:
        build_attention(config, query_size=6, key_size=10, value_size=VALUE_SIZE)
    except ValueError:
        return 6, 6
    return 6, 10


def tiny_attention(config: AttentionConfig, *, dtype: torch.dtype = torch.float64) -> Attention:
    """Build a module for queries, keys and values of three sizes, two where the type asks it."""
    torch.manual_seed(1)
    query_size, key_size = attention_sizes(config)
    attention = build_attention(
        config, query_size=query_size, key_size=key_size, value_size=VALUE_SIZE
    )
    return attention.to(dtype)


class Sources(NamedTuple):
    """What an attention reads: B=3, T=4, S=5, lengths 5, 2 and 3."""

    query: Tensor  # (B, T, Q)
    keys: Tensor  # (B, S, K), as random where padded as elsewhere
    values: Tensor  # (B, S, V), likewise
    mask: Tensor  # (B, S)


def tiny_sources(config: AttentionConfig, *, dtype: torch.dtype = torch.float64) -> Sources:
    generator = torch.Generator().manual_seed(2)
    query_size, key_size = attention_sizes(config)
    shapes = (3, 4, query_size), (3, 5, key_size), (3, 5, VALUE_SIZE)
    query, keys, values = (
        torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype) for shape in shapes
    )
    return Sources(query, keys, values, torch.arange(5) < torch.tensor([[5], [2], [3]]))


def attend(attention: Attention, sources: Sources) -> tuple[Tensor, Tensor]:
    memory = attention.prepare(sources.keys, sources.mask, values=sources.values)
    context, weights = attention(sources.query, memory)
    return context, weights


Score = Callable[[list[float], list[float]], float]


def mix_by_loop(
    score: Score, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor
) -> tuple[Tensor, Tensor]:
    """Mix values by the definition, a number at a time; return context and weights (B, T, S).

    Nothing is shared with the modules: scores come from lists of Python's double floats. `mask`
    is (B, T, S); a row without a real position gives zeros.
    """
    context = torch.zeros(*query.shape[:2], values.shape[-1], dtype=torch.float64)
    weights = torch.zeros(*query.shape[:2], keys.shape[1], dtype=torch.float64)
    for row, step in itertools.product(range(query.shape[0]), range(query.shape[1])):
        real = [place for place in range(keys.shape[1]) if mask[row, step, place]]
        asked = query[row, step].tolist()
        scores = [score(asked, keys[row, place].tolist()) for place in real]
        exponentials = [math.exp(one - max(scores)) for one in scores]
        for place, exponential in zip(real, exponentials, strict=True):
            weights[row, step, place] = exponential / sum(exponentials)
            context[row, step] += weights[row, step, place] * values[row, place]
    return context, weights


def decoder_config(
    form: str = "bahdanau",
    *,
    num_layers: int = 1,
    layer_norm: bool = False,
    dropout: float = 0.0,
    self_attention: bool = False,
) -> DecoderConfig:
    values = _shipped("decoder") | {
        "form": DecoderForm.luong if form == "input_feeding" else DecoderForm(form),
        "input_feeding": form == "input_feeding",
        "embedding_size": 7,
        "hidden_size": 6,
        "num_layers": num_layers,
        "readout_size": 9,
        "layer_norm": layer_norm,
        "self_attention": self_attention,
        "self_attention_heads": 2,
        "readout_dropout": dropout,
    }
    return DecoderConfig(**values | dict.fromkeys(_DROPOUTS, dropout))


def encoder_config(
    *,
    hidden_size: int = 5,
    num_layers: int = 1,
    layer_norm: bool = False,
    dropout: float = 0.0,
    self_attention: bool = False,
) -> EncoderConfig:
    values = _shipped("encoder") | {
        "embedding_size": 8,
        "hidden_size": hidden_size,
        "num_layers": num_layers,
        "layer_norm": layer_norm,
        "self_attention": self_attention,
        "self_attention_heads": 2,
    }
    return EncoderConfig(**values | dict.fromkeys(_DROPOUTS, dropout))


_DROPOUTS = ("word_dropout", "embedding_dropout", "hidden_dropout")


def _shipped(part: str) -> dict[str, object]:
    """Return what the default model's YAML file says of a part; a new field needs no edit here."""
    model = OmegaConf.to_container(OmegaConf.load(CONFIGS / "model" / "bahdanau.yaml"))
    return dict(model[part])


def tiny_model(
    attention: AttentionConfig,
    form: str = "bahdanau",
    *,
    num_layers: int = 1,
    layer_norm: bool = False,
    self_attention: bool = False,
    bridge: Bridge = Bridge.projection,
    dtype: torch.dtype = torch.float64,
) -> Seq2Seq:
    """Build a model without dropout whose parameters are all random, none of them at its start."""
    torch.manual_seed(1)
    hidden_size = attention_sizes(attention)[1] // 2
    config = ModelConfig(
        name="tiny",
        encoder=encoder_config(
            hidden_size=hidden_size,
            num_layers=num_layers,
            layer_norm=layer_norm,
            self_attention=self_attention,
        ),
        decoder=decoder_config(
            form, num_layers=num_layers, layer_norm=layer_norm, self_attention=self_attention
        ),
        bridge=bridge,
        tied_embeddings=TiedEmbeddings.none,
    )
    model = Seq2Seq(
        config,
        attention=attention,
        source_vocabulary_size=SOURCE_VOCABULARY_SIZE,
        target_vocabulary_size=TARGET_VOCABULARY_SIZE,
    )
    for parameter in model.parameters():
        parameter.data.normal_(std=0.5)
    return model.to(dtype)


class TinyBatch(NamedTuple):
    source_ids: Tensor  # (B, S)
    source_mask: Tensor  # (B, S)
    previous_ids: Tensor  # (B, T)
    target_ids: Tensor  # (B, T)
    target_mask: Tensor  # (B, T)

    def row(self, index: int) -> "TinyBatch":
        """Return one pair alone, without padding."""
        source_length = max(int(self.source_mask[index].sum()), 1)
        target_length = int(self.target_mask[index].sum())
        sources = (part[index : index + 1, :source_length] for part in self[:2])
        return TinyBatch(*sources, *(part[index : index + 1, :target_length] for part in self[2:]))


def tiny_batch(
    source_lengths: tuple[int, ...] = (5, 2, 3),
    target_lengths: tuple[int, ...] = (3, 4, 1),
    *,
    extra: int = 0,
) -> TinyBatch:
    """Draw pairs of the given lengths, padded `extra` places more than they need."""
    generator = torch.Generator().manual_seed(3)

    def draw(lengths: tuple[int, ...], vocabulary_size: int) -> tuple[Tensor, Tensor]:
        size = max(lengths)
        drawn = torch.randint(4, vocabulary_size, (len(lengths), size), generator=generator)
        mask = torch.arange(size + extra) < torch.tensor(lengths).unsqueeze(1)
        return nn.functional.pad(drawn, (0, extra)) * mask, mask

    source_ids, source_mask = draw(source_lengths, SOURCE_VOCABULARY_SIZE)
    previous_ids, target_mask = draw(target_lengths, TARGET_VOCABULARY_SIZE)
    target_ids, _ = draw(target_lengths, TARGET_VOCABULARY_SIZE)
    return TinyBatch(source_ids, source_mask, previous_ids, target_ids, target_mask)


def summed_loss(model: Seq2Seq, batch: TinyBatch) -> Tensor:
    """Sum cross-entropy over the real target tokens."""
    readouts = model(batch.source_ids, batch.source_mask, batch.previous_ids).readouts
    logits = model.decoder.logits(readouts)[batch.target_mask]
    targets = batch.target_ids[batch.target_mask]
    return nn.functional.cross_entropy(logits, targets, reduction="sum")


def gradients_of(loss: Tensor, module: nn.Module) -> dict[str, Tensor]:
    """Return the gradient of every parameter, zeros for one that the loss does not reach."""
    names, parameters = zip(*module.named_parameters(), strict=True)
    gradients = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
    return dict(zip(names, gradients, strict=True))


def assert_gradients_close(
    actual: dict[str, Tensor], expected: dict[str, Tensor], *, tolerance: float
) -> None:
    """Name the parameters whose gradients differ, by more than a part of the gradient's norm."""
    different = {}
    for name, gradient in expected.items():
        distance = (actual[name] - gradient).norm().item()
        if not distance <= tolerance * max(gradient.norm().item(), 1):
            different[name] = distance
    assert different == {}
