"""Join sentences with their translations, found by a search or known and scored; warnings."""

# N heads, T target length, S source length
# B batch, V vocabulary

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from seq2seq.data.tokenizers.interface import (
    UNKNOWN_SURFACE,
    TokenizerPair,
    leading_symbols,
    word_at,
)
from seq2seq.evaluation.alignment import argmax_links, word_weights
from seq2seq.evaluation.measures import Sentences
from seq2seq.files.links import GoldLinks, Links
from seq2seq.inference.ensemble import Ensemble
from seq2seq.inference.lexical_constraints import BannedPhrases
from seq2seq.inference.results import EncodedLine, TranslatedHypothesis, Translation
from seq2seq.inference.tally import Tally
from seq2seq.inference.unknown_words import unknown_texts
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.search.config import DecodingConfig, Hypothesis
from seq2seq.special_tokens import BOS, PAD, SPECIAL_TOKENS, UNK

logger = logging.getLogger(__name__)


class EncodedPair(NamedTuple):
    """A source line and a target line: the prefix of a translation, or one to score."""

    source: EncodedLine
    target: EncodedLine

    @property
    def length(self) -> int:
        """Return the number of tokens of the longer line."""
        return max(len(self.source.ids), len(self.target.ids))


def attention_links(
    translation: Translation, hypothesis: TranslatedHypothesis, *, tokenizers: TokenizerPair
) -> Iterator[Links]:
    """Link each word of a hypothesis to the source word with the most attention.

    Yields:
        The links by the mean of the heads, then by each head.

    Raises:
        ValueError: The model has no attention heads.
    """
    source, target = tokenizers
    if translation.parts:
        yield from _joined_links(translation, hypothesis, tokenizers=tokenizers)
        return
    weights, words = hypothesis.attention_weights, hypothesis.words
    source_words = source.words(translation.source, translation.source_ids, translation.spans)
    if words is None:
        words = target.words(hypothesis.text, hypothesis.ids, translation.spans)
    labels = target.tokens(hypothesis.ids)
    for heads in chain([weights], (head.unsqueeze(0) for head in weights)):
        yield argmax_links(word_weights(heads, source_words, words, target_tokens=labels))


def _joined_links(
    translation: Translation, hypothesis: TranslatedHypothesis, *, tokenizers: TokenizerPair
) -> Iterator[Links]:
    """Yield the links of all sentences of a line, with the indices of the words in the line."""
    line, text = translation.source, hypothesis.text
    pairs = list(zip(translation.parts, hypothesis.parts, strict=True))
    offsets = []
    place = target_place = 0
    for part, found in pairs:
        # The symbols that every sentence begins with stand only once in the line.
        tags = leading_symbols(tokenizers.source, part.source)
        sentence = part.source[len(tags) :].strip()
        place = line.index(sentence, place)
        target_place = text.index(found.text, target_place)
        num_tags = len(tags.split())
        offsets.append((num_tags, word_at(line, place) - num_tags, word_at(text, target_place)))
        place, target_place = place + len(sentence), target_place + len(found.text)
    links = (attention_links(*pair, tokenizers=tokenizers) for pair in pairs)
    for of_parts in zip(*links, strict=True):
        yield frozenset(
            (source if source < num_tags else source + offset, target + target_offset)
            for found, (num_tags, offset, target_offset) in zip(of_parts, offsets, strict=True)
            for source, target in found
        )


def read_sentences(
    scored: Sequence[Translation],
    *,
    tokenizers: TokenizerPair,
    gold: Sequence[GoldLinks] | None = None,
    right: Sequence[Sequence[bool]] = (),
) -> Sentences:
    """Return the data for measures of a model while it reads references.

    Args:
        scored: The references, as known translations.
        tokenizers: The tokenizers of the model.
        gold: Gold links of each reference; None without them.
        right: The `right_words` of each reference with gold links, if they are known.
    """
    found = Sentences(
        references=[[each.text for each in scored]],
        losses=[(-each.best.log_probability, len(each.best.tokens)) for each in scored],
    )
    if any(len(each.best.attention_weights) for each in scored):
        found.attention = [each.best.attention_weights.numpy() for each in scored]
        links = (attention_links(each, each.best, tokenizers=tokenizers) for each in scored)
        found.links = list(zip(gold, map(list, links), strict=True)) if gold else []
        found.right_words = right
    return found


_LINES = {
    "prefixes_unknown": (
        "prefixes with text outside the model's vocabulary, which becomes unknown tokens: "
        "%(prefixes_unknown)d of %(sentences)d",
        "use other words",
    ),
    "prefixes_useless": (
        "prefixes of lines without text, whose translations are empty: %(prefixes_useless)d of "
        "%(sentences)d",
        "",
    ),
    "banned": (
        "translations that still contain a banned phrase, tokenized differently or in a required "
        "prefix: %(banned)d of %(sentences)d",
        "ban a longer phrase, or its beginning",
    ),
    "unknown": (
        "source tokens that are unknown to the model, which translates the rest: %(unknown)d of "
        "%(tokens)d, sentences with them: %(with_unknown)d of %(sentences)d",
        "check the language and the characters of the input",
    ),
    "target_unknown": (
        "target tokens that are unknown to the model, and are scored as %(mark)s: "
        "%(target_unknown)d of %(target_tokens)d",
        "",
    ),
    "untagged": (
        "sentences that do not begin with a tag of the training text (%(tags)s): %(untagged)d of "
        "%(sentences)d",
        "put the right tag before each line",
    ),
    "loops": (
        "translations that repeat themselves up to the length limit: %(loops)d of %(sentences)d",
        "the input may be unlike the training text; decoding.no_repeat_ngram=3 forbids repetitions",
    ),
    "cut": (
        "translations that reached the length limit: %(cut)d of %(sentences)d",
        "raise decoding.max_length_ratio=%(max_length_ratio)s or "
        "decoding.max_length_offset=%(max_length_offset)s for longer ones",
    ),
    "lost": (
        "numbers, codes, addresses, tags or emoji of the source that the translation lacks: "
        "%(lost)d",
        "a model copies them if it was trained with tokenizer.protect",
    ),
    "one_sided": (
        "pairs with text on one side only: %(one_sided)d of %(sentences)d",
        "check that both sides are parallel",
    ),
    "split": (
        "lines that were cut into parts, because they or their sentences have more than 1,000 "
        "tokens: %(split)d",
        "split=never keeps them whole, at a cost that grows with the square of their length",
    ),
    "without_attention": (
        "lines with so many tokens that their attention is not shown: %(without_attention)d",
        "break these lines",
    ),
    "words_copied": ("unknown words replaced by copies of source words: %(words_copied)d", ""),
    "words_kept": (
        "unknown words kept as %(mark_of_unknown)s, because no source word has attention there: "
        "%(words_kept)d",
        "",
    ),
}
"""What is logged for each number above 0, before and after the first lines that it concerns."""
_EXPECTED = ("words_copied",)
"""Names of the numbers that are logged without a warning."""
_MOST_TEXTS = 5
"""Number of unknown texts that a warning names."""
_LONGEST_TEXT = 20


def _number(index: int) -> str:
    return str(index + 1)


class StreamCounts:
    """Counts the translations of a stream whose input or length deserves a warning.

    Args:
        tags: If every source of the training text began with a tag, these tags.
        decoding: The search, whose length limit may cut translations; None for scored pairs.
        banned: Phrases that no translation should contain.

    Attributes:
        tally: The counts.
        line_name: Names the line of a sentence, given the index of the sentence; by default lines
            are numbered from 1.
    """

    def __init__(
        self,
        tags: Sequence[str],
        decoding: DecodingConfig | None,
        banned: BannedPhrases | None = None,
    ) -> None:
        self.tally = Tally()
        self.line_name: Callable[[int], str] = _number
        self._tags = tuple(tags)
        self._decoding = decoding
        self._banned = banned

    def count(self, name: str, index: int, number: int = 1) -> None:
        """Add a number that the sentence with an index causes."""
        self.tally.count(name, self.line_name(index), number)

    def add(self, translation: Translation, index: int) -> None:
        """Count a translation, of the sentence with an index."""
        source_ids, best = translation.source_ids, translation.best
        num_unknown = translation.num_unknown_tokens
        is_tagged = translation.source.lstrip().startswith(self._tags)
        is_scored = self._decoding is None
        loops = not best.finished and _repeats(best.ids)
        totals = {"sentences": 1, "tokens": len(source_ids), "target_tokens": len(best.ids)}
        self.tally.numbers.update(totals, with_unknown=num_unknown > 0)
        for name, number in {
            "unknown": num_unknown,
            "untagged": bool(self._tags and source_ids and not is_tagged),
            "loops": loops,
            "cut": not best.finished and not loops,
            "lost": 0 if is_scored else len(translation.lost_spans),
            "one_sided": is_scored and bool(source_ids) != bool(best.ids),
            "target_unknown": best.ids.count(UNK) if is_scored else 0,
            "banned": self._banned is not None and self._banned.occur_in(translation),
        }.items():
            self.count(name, index, number)
        if num_unknown:
            self.tally.add(Tally(unknown=Counter(unknown_texts(translation))))

    def report(self) -> None:
        """Log a line for each number above 0."""
        tally = self.tally
        limits = {} if self._decoding is None else asdict(self._decoding)
        marks = {"mark": SPECIAL_TOKENS[UNK], "mark_of_unknown": UNKNOWN_SURFACE}
        values = {**limits, **marks, "tags": ", ".join(self._tags), **tally.numbers}
        for name, (what, advice) in _LINES.items():
            if tally.numbers[name]:
                level = logging.INFO if name in _EXPECTED else logging.WARNING
                texts = tally.unknown.most_common(_MOST_TEXTS) if name == "unknown" else []
                listed = ", ".join(f"{_shown(text)} x {number}" for text, number in texts)
                parts = [what % values + tally.where(name), listed, advice % values]
                logger.log(level, "%s", "; ".join(filter(None, parts)))


def _repeats(ids: Sequence[int]) -> bool:
    """Return whether half of the runs of four tokens, in all ids or in their second half, recur."""
    for part in (ids, ids[len(ids) // 2 :]):
        runs = list(zip(part, part[1:], part[2:], part[3:], strict=False))
        if runs and 2 * len(set(runs)) <= len(runs):
            return True
    return False


def _shown(text: str) -> str:
    """Return a text for a message; a character with its number, which shows spaces too."""
    if len(text) > 1:
        return repr(text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}...")
    number = f"U+{ord(text):04X}"
    return f"{text} ({number})" if text.isprintable() else number


_ROWS = 1024
"""Number of tokens whose logits over the vocabulary are held at once."""


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
        target_ids: (B, T), likewise.
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
