"""Measure what the words of a translation depend on: attention, erasure and gradient."""

# B batch, T target tokens, S source tokens, W source words, N heads; T and S include EOS

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from seq2seq.data.tokenizers.interface import Tokenizer
from seq2seq.evaluation.alignment import word_weights
from seq2seq.evaluation.metrics import Array
from seq2seq.inference.checkpoint import load_checkpoints
from seq2seq.inference.lines import cut_batches, in_order
from seq2seq.inference.scoring import score_targets
from seq2seq.inference.translations import EncodedLine, encode_segments, encode_targets
from seq2seq.inference.translator import pad
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.runtime.devices import Device, Precision
from seq2seq.runtime.numerics import choose_numerics
from seq2seq.special_tokens import BOS, PAD
from seq2seq.text.layer import Segment
from seq2seq.text.rules import NO_TEXT, split_words

_DECIMALS = 5
"""Number of decimals that values are rounded to, so that rounding errors do not order ties."""


class Attribution(NamedTuple):
    """How much each target word depends on each source word, by three methods.

    Erasure and gradient have a sign: above 0, the source word makes the target word more probable.
    Attention has no sign, so the correlations compare magnitudes (as in the program of Jain and
    Wallace 2019). The correlation of a target word is NaN if all values of one method are equal.
    Without attention, only `tau_methods` is known.
    """

    source_words: list[str]
    target_words: list[str]
    attention: Array
    """Attention weights, averaged over the heads, (T, S); NaN if the model has no attention."""
    erasure: Array
    """Decrease of the mean log-probability of the target word's tokens, other than punctuation,
    without the source word, (T, S)."""
    gradient: Array
    """Gradient of this mean times the embedding of the source word, (T, S)."""

    @property
    def tau_erasure(self) -> Array:
        """Kendall's tau of attention and erasure for each target word, (T,)."""
        return _correlate(self.attention, self.erasure)

    @property
    def tau_gradient(self) -> Array:
        """Kendall's tau of attention and gradient for each target word, (T,)."""
        return _correlate(self.attention, self.gradient)

    @property
    def tau_methods(self) -> Array:
        """Kendall's tau of erasure and gradient for each target word, (T,)."""
        return _correlate(self.erasure, self.gradient)


def _correlate(one: Array, other: Array) -> Array:
    sides = (np.abs(each).round(_DECIMALS) for each in (one, other))
    return np.array([kendall_tau(*rows) for rows in zip(*sides, strict=True)])


def kendall_tau(one: Array, other: Array) -> float:
    """Return Kendall's rank correlation with correction for ties, tau-b (Kendall 1945).

    It is the number of pairs in the same order minus the number in opposite orders, divided by
    the geometric mean of the numbers of pairs without a tie in `one` and in `other`.

    Returns:
        A number from -1 to 1; NaN if all values of one argument are equal or a value is NaN.

    Example:
        >>> kendall_tau(np.array([0.1, 0.2, 0.7]), np.array([1.0, 3.0, 2.0]))
        0.3333333333333333
    """
    orders = [np.sign(each[:, None] - each) for each in (one, other)]
    size = np.sqrt(np.prod([np.square(order).sum() for order in orders]))
    return float(np.prod(orders, axis=0).sum() / size) if size > 0 else np.nan


class _Line(NamedTuple):
    """A line and its tokens, without EOS."""

    text: str
    ids: list[int]
    words: list[int]
    """Index of the word that each token belongs to."""
    labels: list[str]

    @classmethod
    def of(cls, line: EncodedLine, tokenizer: Tokenizer) -> "_Line":
        words = tokenizer.words(line.text, line.ids, line.model)
        return cls(line.text, line.ids, words, tokenizer.tokens(line.ids))

    @property
    def num_words(self) -> int:
        return max(self.words, default=-1) + 1

    def word_texts(self) -> list[str]:
        """Return the text of each word."""
        return split_words(self.text)[: self.num_words]

    def without(self, word: int) -> list[int]:
        """Return the ids of all tokens except the tokens of a word."""
        return [i for i, own in zip(self.ids, self.words, strict=True) if own != word]


def attribute(
    path: Path,
    pairs: Sequence[tuple[str, str]],
    *,
    batch_size: int = 64,
    device: Device | str = Device.auto,
) -> list[Attribution]:
    """Measure by three methods how much each word of a translation depends on each source word.

    Erasure removes a word with all its tokens from the source and takes the difference of the
    log-probabilities (Li et al. 2016, introduction). The gradient of the log-probability
    with respect to the embedding of a source token is multiplied by the embedding. Jain and Wallace
    (2019) use both methods, but stop the gradient at the attention. Here the gradient follows the
    whole path from the source to the prediction, which Bastings and Filippova (2020) recommend.
    Values of tokens become values of words as in `word_weights`.

    A sentence costs a forward pass for each source word and a backward pass for each target token.
    The model computes in fp64, and its results are rounded to fp32. So padding and the other
    sentences change a result by no more than the rounding of fp32.

    Args:
        path: A checkpoint or a run directory.
        pairs: Sources and their translations: references, or the translations of any system.
        batch_size: Pairs processed together.
        device: Device to run on.
    """
    [checkpoint] = load_checkpoints([path])
    numerics = choose_numerics(Device(device), Precision.fp32)
    model = checkpoint.build_model().double().to(numerics.device).eval().requires_grad_(False)
    source, target = checkpoint.tokenizers
    prepared = [source.rules.prepare(text) if text.strip() else NO_TEXT for text, _ in pairs]
    texts = [text for text, _ in pairs]
    sources = encode_segments(list(map(Segment, texts, prepared)), source)
    targets = encode_targets([text for _, text in pairs], sources, target)
    lines = [
        (_Line.of(one, source), _Line.of(other, target))
        for one, other in zip(sources, targets, strict=True)
    ]
    batches = cut_batches([max(len(s.ids), len(t.ids)) for s, t in lines], batch_size)
    found = (_attribute(model, [lines[row] for row in rows]) for rows in batches)
    return list(in_order(batches, found))


def _attribute(model: Seq2Seq, batch: Sequence[tuple[_Line, _Line]]) -> Iterator[Attribution]:
    """Yield the attribution of each pair of a batch."""
    sources, targets = zip(*batch, strict=True)
    device = model.decoder.output.bias.device
    source_ids, source_mask = pad([source.ids for source in sources], device)
    target_ids, target_mask = pad([target.ids for target in targets], device)
    score = partial(score_targets, model, target_ids=target_ids, target_mask=target_mask)
    scored = score(source_ids, source_mask)
    num_words = max(source.num_words for source in sources)
    erased = [score(*pad([s.without(word) for s in sources], device)) for word in range(num_words)]
    gradients = _gradients(model, source_ids, source_mask, target_ids)
    for row, (source, target) in enumerate(batch):
        # In the last entry nothing is erased; it becomes the column of EOS.
        known = [scored, *erased[: source.num_words], scored]
        values = torch.tensor([each[row].token_log_probabilities for each in known])
        erasure = (values[0] - values[1:]).T.unsqueeze(0)  # (1, T, W + 1)
        gradient = gradients[row : row + 1, : len(target.ids) + 1, : len(source.ids) + 1]
        weights = scored[row].attention_weights  # (N, T, S)
        attention = weights if len(weights) else torch.full_like(gradient, torch.nan)
        columns = source.words, list(range(source.num_words)), source.words
        matrices = [
            word_weights(tokens, words, target.words, target_tokens=target.labels).double().numpy()
            for tokens, words in zip((attention, erasure, gradient), columns, strict=True)
        ]
        yield Attribution(source.word_texts(), target.word_texts(), *matrices)


def _gradients(model: Seq2Seq, source_ids: Tensor, mask: Tensor, target_ids: Tensor) -> Tensor:
    """Return the gradient of each log-probability times each source embedding, (B, T, S)."""
    leaves: list[Tensor] = []

    def keep(module: object, inputs: object, embedded: Tensor) -> Tensor:
        leaves.append(embedded.detach().requires_grad_())
        return leaves[0]

    previous_ids = functional.pad(target_ids[:, :-1], (1, 0), value=BOS)
    with model.encoder.word_dropout.register_forward_hook(keep):
        readouts = model(source_ids, mask, previous_ids).readouts
    [embedded] = leaves  # (B, S, E)
    products = []
    for readout, ids in zip(readouts.unbind(1), target_ids.unbind(1), strict=True):
        logits = model.decoder.logits(readout)
        loss = functional.cross_entropy(logits, ids, reduction="sum", ignore_index=PAD)
        [gradient] = torch.autograd.grad(-loss, embedded, retain_graph=True)
        products.append((gradient * embedded).sum(-1))
    return torch.stack(products, dim=1).detach().cpu()
