"""Models of a few hundred parameters, batches for them, and their gradients, for tests."""

# B batch, S source length, T target length

from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from omegaconf import OmegaConf
from tiny_attention import VARIANTS, attention_sizes
from torch import Tensor, nn

from seq2seq.attention.base import AttentionConfig
from seq2seq.model.config import Bridge, DecoderConfig, EncoderConfig, ModelConfig, TiedEmbeddings
from seq2seq.model.seq2seq import Seq2Seq

CONFIGS = Path(__file__).parent.parent / "configs"
SOURCE_VOCABULARY_SIZE, TARGET_VOCABULARY_SIZE = 11, 13
FORMS = ("bahdanau", "conditional", "luong", "input_feeding")
every_type = pytest.mark.parametrize("attention", VARIANTS.values(), ids=VARIANTS.keys())
every_form = pytest.mark.parametrize("form", FORMS)
# A form knows an attention by its state and its context: every variant has one form in turn, and a
# type with a state, one without and none have every form.
every_type_and_form = pytest.mark.parametrize(
    ("attention", "form"),
    [
        pytest.param(attention, form, id=f"{form}-{name}")
        for number, (name, attention) in enumerate(VARIANTS.items())
        for place, form in enumerate(FORMS)
        if name in ("location", "multihead", "none") or place == number % len(FORMS)
    ],
)


def decoder_config(form: str = "bahdanau", **options: object) -> DecoderConfig:
    """Configure a decoder; for the options see `_options`."""
    chosen = _options(**options)
    sizes = {"embedding_size": 7, "hidden_size": 6, "readout_size": 9}
    return DecoderConfig(
        **_shipped("decoder")
        | chosen
        | sizes
        | {
            "form": "luong" if form == "input_feeding" else form,
            "input_feeding": form == "input_feeding",
            "readout_dropout": chosen["hidden_dropout"],
        }
    )


def encoder_config(*, hidden_size: int = 5, **options: object) -> EncoderConfig:
    """Configure an encoder; for the options see `_options`."""
    sizes = {"embedding_size": 8, "hidden_size": hidden_size}
    return EncoderConfig(**_shipped("encoder") | _options(**options) | sizes)


def _options(
    *,
    num_layers: int = 1,
    layer_norm: bool = False,
    dropout: float = 0.0,
    residual: bool = False,
    self_attention: bool = False,
) -> dict[str, object]:
    """Return what encoder and decoder both have; `dropout` is that of all their parts."""
    return {
        "num_layers": num_layers,
        "layer_norm": layer_norm,
        "residual": residual,
        "self_attention": self_attention,
        "self_attention_heads": 2,
        "word_dropout": dropout,
        "embedding_dropout": dropout,
        "hidden_dropout": dropout,
    }


def _shipped(part: str) -> dict[str, object]:
    """Return the values of a part of the default model's YAML file."""
    model = OmegaConf.to_container(OmegaConf.load(CONFIGS / "model" / "bahdanau.yaml"))
    return dict(model[part])


def tiny_model(
    attention: AttentionConfig,
    form: str = "bahdanau",
    *,
    bridge: Bridge = Bridge.projection,
    dtype: torch.dtype = torch.float64,
    **options: object,
) -> Seq2Seq:
    """Build a model whose parameters, biases included, are random; see `_options`."""
    torch.manual_seed(1)
    hidden_size = attention_sizes(attention)[1] // 2
    config = ModelConfig(
        name="tiny",
        encoder=encoder_config(hidden_size=hidden_size, **options),
        decoder=decoder_config(form, **options),
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
    target_places: Tensor  # (M,)

    def row(self, index: int) -> "TinyBatch":
        """Return one pair alone, without padding."""
        source_length = max(int(self.source_mask[index].sum()), 1)
        target_length = int(self.target_mask[index].sum())
        sources = (part[index : index + 1, :source_length] for part in self[:2])
        targets = (part[index : index + 1, :target_length] for part in self[2:5])
        return TinyBatch(*sources, *targets, torch.arange(target_length))


def tiny_batch(
    source_lengths: tuple[int, ...] = (5, 2, 3),
    target_lengths: tuple[int, ...] = (3, 4, 1),
    *,
    extra: int = 0,
) -> TinyBatch:
    """Draw pairs of the given lengths, with `extra` positions of padding more than needed."""
    generator = torch.Generator().manual_seed(3)

    def draw(lengths: tuple[int, ...], vocabulary_size: int) -> tuple[Tensor, Tensor]:
        size = max(lengths)
        drawn = torch.randint(4, vocabulary_size, (len(lengths), size), generator=generator)
        mask = torch.arange(size + extra) < torch.tensor(lengths).unsqueeze(1)
        return nn.functional.pad(drawn, (0, extra)) * mask, mask

    source_ids, source_mask = draw(source_lengths, SOURCE_VOCABULARY_SIZE)
    previous_ids, target_mask = draw(target_lengths, TARGET_VOCABULARY_SIZE)
    target_ids, _ = draw(target_lengths, TARGET_VOCABULARY_SIZE)
    places = target_mask.flatten().nonzero().squeeze(1)
    return TinyBatch(source_ids, source_mask, previous_ids, target_ids, target_mask, places)


def run_forward(model: Seq2Seq, batch: TinyBatch) -> tuple[Tensor, Tensor]:
    """Feed the true tokens at once; return logits (B, T, V) and weights (B, N, T, S)."""
    output = model(batch.source_ids, batch.source_mask, batch.previous_ids)
    return model.decoder.logits(output.readouts), output.attention_weights


def summed_loss(model: Seq2Seq, batch: TinyBatch) -> Tensor:
    """Sum cross-entropy over the real target tokens."""
    logits, _ = run_forward(model, batch)
    targets = batch.target_ids[batch.target_mask]
    return nn.functional.cross_entropy(logits[batch.target_mask], targets, reduction="sum")


def unroll(model: Seq2Seq, batch: TinyBatch) -> tuple[Tensor, Tensor]:
    """Feed the true tokens one step at a time; return what `run_forward` does."""
    memory, state = model.encode(batch.source_ids, batch.source_mask)
    logits, weights = [], []
    for previous_ids in batch.previous_ids.unbind(1):
        step = model.decoder.step(state, previous_ids, memory)
        state = step.state
        logits.append(step.logits)
        weights.append(step.attention_weights)
    return torch.stack(logits, dim=1), torch.stack(weights, dim=2)


def gradients_of(loss: Tensor, module: nn.Module) -> dict[str, Tensor]:
    """Return the gradient of every parameter; zeros if the loss does not depend on it."""
    names, parameters = zip(*module.named_parameters(), strict=True)
    gradients = torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True)
    return dict(zip(names, gradients, strict=True))


def assert_gradients_close(
    actual: dict[str, Tensor], expected: dict[str, Tensor], *, tolerance: float
) -> None:
    """Compare the gradients of all parameters, relative to their norms."""
    different = {}
    for name, gradient in expected.items():
        distance = (actual[name] - gradient).norm().item()
        if not distance <= tolerance * max(gradient.norm().item(), 1):
            different[name] = distance
    assert not different, different
