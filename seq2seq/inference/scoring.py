"""Word links of translations, scores of known translations, and ranking by Bayes risk."""

# N heads, T target length, S source length
# B batch, V vocabulary

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from seq2seq.data.tokenizers.interface import Tokenizer, TokenizerPair
from seq2seq.evaluation.alignment import argmax_links, word_weights
from seq2seq.evaluation.measures import Sentences
from seq2seq.evaluation.metrics import chrf_of_each_other
from seq2seq.files.links import GoldLinks, Links
from seq2seq.inference.ensemble import Ensemble
from seq2seq.inference.translations import TranslatedHypothesis, TranslatedSentence
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.search.config import Hypothesis
from seq2seq.special_tokens import BOS, PAD, UNK


def attention_links(
    sentence: TranslatedSentence, hypothesis: TranslatedHypothesis, *, tokenizers: TokenizerPair
) -> Iterator[Links]:
    """Link each word of a hypothesis to the source word with the most attention.

    Yields:
        The links from the mean of the heads, then the links from each head.

    Raises:
        ValueError: The model has no attention heads.
    """
    source, target = tokenizers
    weights = hypothesis.attention_weights
    source_words = source.words(sentence.source, sentence.source_ids, sentence.model)
    words = target.words(hypothesis.text, hypothesis.ids, sentence.model)
    labels = target.tokens(hypothesis.ids)
    for heads in chain([weights], (head.unsqueeze(0) for head in weights)):
        yield argmax_links(word_weights(heads, source_words, words, target_tokens=labels))


def read_sentences(
    scored: Sequence[TranslatedSentence],
    *,
    tokenizers: TokenizerPair,
    gold: Sequence[GoldLinks] | None = None,
) -> Sentences:
    """Return the data for measuring how a model reads references.

    Args:
        scored: The references, as known sentences.
        tokenizers: The tokenizers of the model.
        gold: Gold links of each reference; None without them.
    """
    found = Sentences(
        references=[[each.text for each in scored]],
        losses=[
            (-best.log_probability, len(best.tokens), best.ids.count(UNK))
            for best in (each.best for each in scored)
        ],
    )
    if any(len(each.best.attention_weights) for each in scored):
        found.attention = [each.best.attention_weights.numpy() for each in scored]
        links = (attention_links(each, each.best, tokenizers=tokenizers) for each in scored)
        found.links = list(zip(gold, map(list, links), strict=True)) if gold is not None else []
    return found


_ROWS = 1024
"""Maximum number of tokens whose logits are in memory at once."""


@torch.inference_mode()
def score_targets(
    model: Seq2Seq | Ensemble,
    source_ids: Tensor,
    source_mask: Tensor,
    *,
    target_ids: Tensor,
    target_mask: Tensor,
) -> list[Hypothesis]:
    """Score a batch of known targets by teacher forcing: each step reads the true previous token.

    The targets come back as finished hypotheses, whose score is their log-probability. Neither
    padding nor the other sentences of the batch change a result by more than rounding.

    Args:
        model: In evaluation mode, on the device of the ids.
        source_ids: (B, S), each row ending with EOS and padded at its end.
        source_mask: (B, S) bool, True = real token.
        target_ids: (B, T), ended and padded as `source_ids`.
        target_mask: (B, T) bool, True = real token.
    """
    assert not model.training, "dropout would make log-probabilities random"
    # Each copy from a CUDA device makes the host wait, so ids and lengths come in one copy.
    lengths = (mask.sum(dim=1, keepdim=True) for mask in (source_mask, target_mask))
    known = torch.cat((*lengths, target_ids), dim=1).tolist()
    previous_ids = functional.pad(target_ids[:, :-1], (1, 0), value=BOS)
    output = model(source_ids, source_mask, previous_ids)
    by_position = -_cross_entropies(model, output.readouts.flatten(0, 1), target_ids.flatten())
    # float64 keeps the sum exact to all printed digits.
    log_probabilities = by_position.double().cpu().view(target_ids.shape)
    return [
        Hypothesis(
            ids=ids[: target_length - 1],
            score=total,
            log_probability=total,
            finished=True,
            # Cloned, because a view would keep the whole batch in memory.
            attention_weights=weights[:, :target_length, :source_length].clone(),
            token_log_probabilities=values[:target_length],
        )
        for (source_length, target_length, *ids), total, values, weights in zip(
            known,
            log_probabilities.sum(dim=1).tolist(),
            log_probabilities.tolist(),
            output.attention_weights.float().cpu(),
            strict=True,
        )
    ]


def _cross_entropies(model: Seq2Seq | Ensemble, readouts: Tensor, ids: Tensor) -> Tensor:
    """Return the cross-entropy of each token over the whole vocabulary, 0 for padding."""
    losses = []
    for rows, ids_of_rows in zip(
        torch.split(readouts, _ROWS), torch.split(ids, _ROWS), strict=True
    ):
        logits = model.decoder.logits(rows).float()  # (rows, V)
        losses.append(
            functional.cross_entropy(logits, ids_of_rows, reduction="none", ignore_index=PAD)
        )
    return torch.cat(losses)


def rank_by_utility(hypotheses: Sequence[Hypothesis], tokenizer: Tokenizer) -> list[Hypothesis]:
    """Rank the hypotheses of a sentence by their expected utility, which becomes their score.

    The expected utility of y is sum_h Q(h) chrF(y, h) over all hypotheses h, where Q(h) is
    proportional to P(h) and h takes the place of the reference (Kumar and Byrne 2004;
    Eikema and Aziz 2020 take samples for h). Finished hypotheses come first, ties keep the order of
    the beam.
    """
    logarithms = np.array([each.log_probability for each in hypotheses])
    weights = np.exp(logarithms - logarithms.max())
    texts = [tokenizer.decode(each.ids) for each in hypotheses]
    scores = chrf_of_each_other(texts) @ (weights / weights.sum())
    ranked = [each._replace(score=s) for each, s in zip(hypotheses, scores.tolist(), strict=True)]
    return sorted(ranked, key=lambda each: (not each.finished, -each.score))
