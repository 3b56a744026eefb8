"""A sentence with its translations, made of what a search found or of a known reference."""

# N heads, T target length, S source length

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.data.tokenizers.base import Tokenizer, TokenizerPair
from seq2seq.evaluation.alignment import Links, argmax_links, word_weights
from seq2seq.inference.forced_decoding import Forced
from seq2seq.search import Hypothesis
from seq2seq.special_tokens import EOS


class TranslatedHypothesis(NamedTuple):
    """One translation of a sentence."""

    text: str
    """one line, detokenised"""
    score: float
    """what hypotheses are ranked by: the log-probability, normalised as configured"""
    log_probability: float
    finished: bool
    """it ended by itself; else it ran into the length limit"""
    ids: list[int]
    """of its tokens, without EOS"""
    tokens: list[str]
    """a label for each row of the weights, that of EOS included"""
    attention_weights: Tensor
    """attention (N, T, S) on the CPU"""
    token_log_probabilities: Sequence[float] = ()
    """one for each label of `tokens`; their sum is the log-probability"""
    words: Sequence[int] | None = None
    """for each token which word of the text it belongs to; None: as its tokenizer finds it"""


class Translation(NamedTuple):
    """A sentence and its translations."""

    source: str
    source_ids: list[int]
    """of its tokens, without EOS"""
    source_tokens: list[str]
    """a label for each column of the weights, that of EOS included"""
    hypotheses: list[TranslatedHypothesis]
    """the best first; never empty"""

    @property
    def best(self) -> TranslatedHypothesis:
        return self.hypotheses[0]

    @property
    def text(self) -> str:
        """Return the best translation."""
        return self.best.text

    @property
    def score(self) -> float:
        """Return what the best translation is ranked by."""
        return self.best.score


class EncodedLine(NamedTuple):
    """A line and the ids of its tokens, without EOS; a line without text has none."""

    text: str
    ids: list[int]


def encode_lines(lines: Sequence[str], tokenizer: Tokenizer) -> list[EncodedLine]:
    """Return each line with its tokens."""
    id_rows = tokenizer.encode(lines)
    return [
        EncodedLine(line, ids if line.strip() else [])
        for line, ids in zip(lines, id_rows, strict=True)
    ]


def nothing(num_heads: int) -> Hypothesis:
    """Return the translation of a line without text, which is certain to be nothing."""
    return Hypothesis(
        ids=[],
        score=0.0,
        log_probability=0.0,
        finished=True,
        attention_weights=torch.zeros(num_heads, 1, 1),
        token_log_probabilities=[0.0],
    )


def found_translation(
    source: EncodedLine, hypotheses: Sequence[Hypothesis], *, tokenizers: TokenizerPair
) -> Translation:
    """Turn what a search found into text."""
    target = tokenizers.target
    return _translation(
        source,
        [
            TranslatedHypothesis(
                # Whatever the model says, a translation is one line.
                text=target.decode(found.ids).replace("\n", " "),
                score=found.score,
                log_probability=found.log_probability,
                finished=found.finished,
                ids=found.ids,
                tokens=target.tokens([*found.ids, EOS] if found.finished else found.ids),
                attention_weights=found.attention_weights,
                token_log_probabilities=found.token_log_probabilities,
            )
            for found in hypotheses
        ],
        tokenizers=tokenizers,
    )


def forced_translation(
    source: EncodedLine, reference: EncodedLine, forced: Forced, *, tokenizers: TokenizerPair
) -> Translation:
    """Take the reference for the one translation, with what the model makes of it."""
    hypothesis = TranslatedHypothesis(
        text=reference.text,
        score=forced.log_probability,
        log_probability=forced.log_probability,
        finished=True,
        ids=reference.ids,
        tokens=tokenizers.target.tokens([*reference.ids, EOS]),
        attention_weights=forced.attention_weights,
        token_log_probabilities=forced.token_log_probabilities,
    )
    return _translation(source, [hypothesis], tokenizers=tokenizers)


def word_links(
    translation: Translation, hypothesis: TranslatedHypothesis, *, tokenizers: TokenizerPair
) -> Links:
    """Link each word of a hypothesis to the source word that attention prefers.

    Raises:
        ValueError: the model has no attention heads.
    """
    source, target = tokenizers
    if not hypothesis.ids:
        return frozenset()
    words = hypothesis.words
    by_word = word_weights(
        hypothesis.attention_weights,
        source.words(translation.source, translation.source_ids),
        target.words(hypothesis.text, hypothesis.ids) if words is None else words,
        target_tokens=target.tokens(hypothesis.ids),
    )
    return argmax_links(by_word)


def _translation(
    source: EncodedLine, hypotheses: list[TranslatedHypothesis], *, tokenizers: TokenizerPair
) -> Translation:
    return Translation(
        source=source.text,
        source_ids=source.ids,
        source_tokens=tokenizers.source.tokens([*source.ids, EOS]),
        hypotheses=hypotheses,
    )
