"""Compute the training losses: smoothed cross-entropy, guided attention and coverage.

Guided attention learns from word links (Chen et al. 2016, "Guided alignment training for
topic-aware neural machine translation"); the same is called supervised attention by Mi et al. 2016
and Liu et al. 2016.
"""

# B batch, N heads, T target length, S source length, F readout, M real target tokens of the batch

import logging
import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional
from tqdm import tqdm

from seq2seq.attention.base import Attention
from seq2seq.checks import Weight, check_value
from seq2seq.config.schema import TrainConfig, TrainingConfig
from seq2seq.data.batching import (
    Batch,
    EncodedCorpus,
    Numbers,
    TokenLinks,
    link_tokens,
    samples_segmentations,
)
from seq2seq.data.cache import ArrayWriter, cache_path, cached, digest, encoding_key, read_arrays
from seq2seq.data.corpus import Corpus, Pair
from seq2seq.data.tokenizers.interface import TokenizerPair
from seq2seq.evaluation.measures import MOST_NATS
from seq2seq.model.recurrence import DecoderOutput
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.registry import Registry
from seq2seq.runtime.kernels.vocabulary_loss import vocabulary_loss

logger = logging.getLogger(__name__)

_MIN_WEIGHT = 1e-20
"""Attention weights are raised to at least this value before the logarithm, so that the gradient,
1 / weight times the loss scale of fp16, does not overflow fp32."""
_GUIDED_KEY = "training.guided_attention"
_NO_LINKS = "; give word links in a third file, 'data.train=[my/a.de,my/a.en,my/a.align]'"
_LINKS_FORMAT = 2
"""Version of the cached links; it changes when the mapping from words to tokens changes."""


class Term(NamedTuple):
    """A sum over tokens; the curves show its mean."""

    total: Tensor
    num_tokens: Tensor

    @staticmethod
    def over(total: Tensor, num_tokens: int) -> "Term":
        """Return a sum over a known number of tokens."""
        return Term(total, total.new_full((), num_tokens))


class Decoded(NamedTuple):
    """A batch and all that the decoder computed for it; an auxiliary loss may read any part."""

    model: Seq2Seq
    batch: Batch
    output: DecoderOutput
    """Outputs of the decoder, including padding."""
    readouts: Tensor
    """The inputs of the output layer for each real target token, (M, F)."""


class AuxiliaryLoss(ABC):
    """A loss that is added to the cross-entropy, if its weight is not 0; it has no state."""

    key: str = ""
    """Key of the weight in `training`; empty: the loss's name in `training.losses`."""
    needs_learned_weights: bool = False
    """Whether the loss only makes sense with attention that learns its weights."""

    @abstractmethod
    def compute(self, decoded: Decoded) -> Term:
        """Return the sum of the loss over the tokens of a batch, with its gradient."""


LOSSES = Registry[type[AuxiliaryLoss]]("loss")
"""The auxiliary losses, by the names of their curves."""
register_loss = LOSSES.register


def auxiliary_losses(config: TrainingConfig) -> dict[str, float]:
    """Return the weights of the auxiliary losses that a configuration trains with, by name."""
    weights = {
        name: attrgetter(loss.key)(config) if loss.key else config.losses.get(name, 0.0)
        for name, loss in LOSSES.items()
    }
    return {name: weight for name, weight in weights.items() if weight > 0}


class TrainingLoss(NamedTuple):
    """The loss that training minimizes for a batch, and the numbers of its curves."""

    objective: Tensor
    """The weighted sum of all losses, summed over target tokens."""
    terms: Tensor
    """Total of each loss in `loss_names` and its number of tokens, detached, (names, 2)."""


def loss_names(config: TrainingConfig) -> list[str]:
    """Return the names of the losses that a configuration trains with; `loss` is cross-entropy."""
    return ["loss", *auxiliary_losses(config)]


def training_loss(
    model: Seq2Seq, batch: Batch, config: TrainingConfig, *, forced_mask: Tensor | None = None
) -> TrainingLoss:
    """Compute the losses of a batch with the weights of a configuration.

    Args:
        model: The model.
        batch: Sources, targets and, for guided attention, the guide.
        config: Label smoothing and the weights of the auxiliary losses.
        forced_mask: (B, T) bool; True feeds the true previous token, False the predicted one. None
            feeds every true token.
    """
    output = model(batch.source_ids, batch.source_mask, batch.previous_ids, forced_mask)
    # Indices, because the backward pass of a mask is slow: it adds one element at a time.
    real = batch.target_places
    readouts = model.decoder.readout_dropout(output.readouts.flatten(0, 1).index_select(0, real))
    decoded = Decoded(model, batch, output, readouts)
    weights = auxiliary_losses(config)
    terms = [LOSSES[name]().compute(decoded) for name in weights]
    del output, decoded  # frees memory for the logits
    layer, true_ids = model.decoder.output, batch.target_ids.flatten().index_select(0, real)
    objective, cross_entropy = vocabulary_loss(
        readouts, layer.weight, layer.bias, true_ids, label_smoothing=config.label_smoothing
    )
    for weight, term in zip(weights.values(), terms, strict=True):
        objective = objective + weight * term.total
    terms.insert(0, Term.over(cross_entropy, batch.num_target_tokens))
    return TrainingLoss(objective, torch.stack([torch.stack(term).detach() for term in terms]))


def guided_loss(weights: Tensor, guide: Tensor) -> Term:
    """Compute the cross-entropy between the guide and the mean of the heads.

    This is -sum_t sum_s A_ts log alpha_ts with the alignment A and the attention weights alpha
    (Chen et al. 2016).

    Args:
        weights: Attention weights, (B, N, T, S).
        guide: (B, T, S); each row sums to 1, or is 0 for a target token without a guide.

    Returns:
        The cross-entropy in nats, and the number of target tokens with a guide.
    """
    weights = weights.to(torch.promote_types(weights.dtype, torch.float32))
    logarithms = weights.mean(dim=1).clamp(min=_MIN_WEIGHT).log()  # (B, T, S)
    num_tokens = guide.any(dim=-1).sum(dtype=logarithms.dtype)
    return Term(-(guide * logarithms).sum(), num_tokens)


def coverage_loss(weights: Tensor, target_mask: Tensor) -> Tensor:
    """Compute the total attention that goes to source tokens that were attended before.

    See et al. 2017, "Get To The Point: Summarization with Pointer-Generator Networks", eq. 12 and
    13: sum_t sum_i min(a_ti, c_ti) with the weights a_t of the mean of the heads and their sum c_t
    over the steps before t. A step adds 0 if it reads new tokens only, and at most 1.

    Args:
        weights: Attention weights of any type, (B, N, T, S).
        target_mask: (B, T) bool, True = real token; padding is on the right.

    Example:
        >>> weights = torch.tensor([[[[0.75, 0.25], [0.5, 0.5]]]])
        >>> coverage_loss(weights, torch.tensor([[True, True]])).item()
        0.75
    """
    means = weights.to(torch.promote_types(weights.dtype, torch.float32)).mean(dim=1)  # (B, T, S)
    covered = functional.pad(means[:, :-1].cumsum(dim=1), (0, 0, 1, 0))
    return torch.minimum(means, covered).sum(dim=-1).masked_fill(~target_mask, 0).sum()


@register_loss("guided_attention_loss")
class GuidedAttentionLoss(AuxiliaryLoss):
    """The cross-entropy between gold links and the attention weights."""

    key = "guided_attention"
    needs_learned_weights = True

    def compute(self, decoded: Decoded) -> Term:
        guide = decoded.batch.guide
        assert guide is not None, "guided attention needs the links of the training data"
        return guided_loss(decoded.output.attention_weights, guide)


@register_loss("coverage_loss")
class CoverageLoss(AuxiliaryLoss):
    """How much attention goes to source tokens that were attended before."""

    key = "coverage_loss"
    needs_learned_weights = True

    def compute(self, decoded: Decoded) -> Term:
        total = coverage_loss(decoded.output.attention_weights, decoded.batch.target_mask)
        return Term.over(total, decoded.batch.num_target_tokens)


def check_losses(config: TrainConfig, attention: Attention) -> None:
    """Raise ValueError if a loss is unknown, or does not fit the attention or the tokenizer."""
    for name, weight in config.training.losses.items():
        check_value(f"training.losses.{name}", weight, Weight)
        if name not in LOSSES or LOSSES[name].key:
            own = ", ".join(each for each in LOSSES if not LOSSES[each].key)
            raise ValueError(
                f"training.losses: unknown loss {name!r}{f'; one of: {own}' if own else ''}; one "
                "of your own needs plugins=[FILE.py]"
            )
    for name, weight in auxiliary_losses(config.training).items():
        if LOSSES[name].needs_learned_weights and not attention.learns_weights:
            key = f"training.{LOSSES[name].key or f'losses.{name}'}"
            raise ValueError(
                f"{key}={weight} needs attention that learns its weights, which "
                f"attention={config.attention.name} does not; choose another attention or {key}=0"
            )
    weight = config.training.guided_attention
    if weight > 0 and samples_segmentations(config.tokenizer):
        raise ValueError(
            f"{_GUIDED_KEY}={weight} needs the same tokens in every epoch; set it to 0, or "
            "tokenizer.sampling_alpha to 0"
        )


def read_token_links(
    config: TrainConfig, corpus: Corpus, encoded: EncodedCorpus, tokenizers: TokenizerPair
) -> TokenLinks:
    """Return the links between the tokens of a corpus, from the cache if possible.

    They come from the links between words of the corpus; possible links count like sure links.

    Args:
        config: The configuration that produced the token ids.
        corpus: The training text.
        encoded: The token ids of the corpus.
        tokenizers: The tokenizers that produced the token ids.

    Raises:
        ValueError: The corpus has no links.
    """
    name, key = corpus.name, digest([_LINKS_FORMAT, encoding_key(corpus, tokenizers, config.data)])

    def create(folder: Path) -> None:
        counts = Counter[str]()
        # disable=None shows no bar if stderr is not a terminal.
        with (
            tqdm(corpus.lines(), desc=f"aligning {name}", unit=" pairs", disable=None) as pairs,
            ArrayWriter(folder) as writer,
        ):
            for tokens, num_lost in _linked_rows(pairs, encoded, tokenizers):
                writer.append_rows("links", TokenLinks.of([tokens.ravel().tolist()]))
                counts.update(kept=len(tokens), lost=num_lost)
            if counts["kept"] == 0:
                raise ValueError(f"{_GUIDED_KEY}: the training text has no links{_NO_LINKS}")
            writer.finish(counts)

    folder = cache_path(config.data.cache_dir) / f"links-{key}"
    arrays, counts = cached(folder, create, read_arrays)
    logger.info("%s: guided attention follows %d links between tokens", name, counts["kept"])
    if counts["lost"]:
        logger.warning(
            "%s: links that are not used, because one of their words has no token of its own: %d",
            name,
            counts["lost"],
        )
    return TokenLinks(arrays["links"], arrays["links_offsets"])


def _linked_rows(
    pairs: Iterable[Pair | None], encoded: EncodedCorpus, tokenizers: TokenizerPair
) -> Iterator[tuple[Numbers, int]]:
    """Yield the links of each pair of the encoded corpus, which lacks skipped pairs."""
    row = 0
    for position, pair in enumerate(pairs):
        if pair is None:
            continue
        if pair.links is None:
            raise ValueError(f"{_GUIDED_KEY}: pair {position + 1} has no links{_NO_LINKS}")
        if row == len(encoded) or encoded.indices[row] != position:
            continue  # the pair was left out because of its length
        source, _ = tokenizers.source.rules.prepare_pair(pair.source, pair.target)
        sides = zip(tokenizers, (encoded.source_rows, encoded.target_rows), pair[:2], strict=True)
        words = (
            tokenizer.words(text, rows[row].tolist(), source) for tokenizer, rows, text in sides
        )
        yield link_tokens(pair.links.possible, *words)
        row += 1
    assert row == len(encoded), "the corpus has changed since it was encoded"


def perplexity(loss: float) -> float:
    """Return the perplexity of a loss in nats per token; it stays finite for huge losses."""
    return math.exp(min(loss, MOST_NATS))
