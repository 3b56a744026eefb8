"""Models of a few hundred parameters, batches for them, and their gradients, for tests."""

# B batch, S source length, T target length

from typing import Any, NamedTuple

import pytest
import torch
from tiny_attention import VARIANTS, attention_sizes
from torch import Tensor, nn

from seq2seq.attention.base import AttentionConfig
from seq2seq.model.config import DecoderConfig, EncoderConfig, ModelConfig, TiedEmbeddings
from seq2seq.model.seq2seq import Seq2Seq

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


def model_config(
    form: str = "bahdanau",
    *,
    encoder_size: int = 5,
    num_layers: int = 1,
    self_attention: bool = False,
    tied_embeddings: TiedEmbeddings = TiedEmbeddings.none,
    **options: Any,
) -> ModelConfig:
    """Configure a model whose sides have the same options; `options` are those of both."""
    sides = {"num_layers": num_layers, "self_attention": self_attention}
    return ModelConfig(
        form="luong" if form == "input_feeding" else form,
        input_feeding=form == "input_feeding",
        embedding_size=8,
        tied_embeddings=tied_embeddings,
        encoder=EncoderConfig(hidden_size=encoder_size, **sides),
        decoder=DecoderConfig(hidden_size=6, **sides),
        **options,
    )


def tiny_model(
    attention: AttentionConfig,
    form: str = "bahdanau",
    *,
    dtype: torch.dtype = torch.float64,
    **options: Any,
) -> Seq2Seq:
    """Build a model whose parameters, biases included, are random; see `model_config`."""
    torch.manual_seed(1)
    model = Seq2Seq(
        model_config(form, encoder_size=attention_sizes(attention)[1] // 2, **options),
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
