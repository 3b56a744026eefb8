"""A sentence with its translations, found by a search or known."""

# N heads, T target length, S source length

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.data.tokenizers.base import Tokenizer, TokenizerPair
from seq2seq.evaluation.alignment import Links, word_links
from seq2seq.search import Hypothesis
from seq2seq.special_tokens import EOS


class TranslatedHypothesis(NamedTuple):
    """One translation of a sentence."""

    text: str
    """Detokenised, on one line."""
    score: float
    """Ranks the hypotheses: the log-probability, normalised as the search is configured."""
    log_probability: float
    """Sum over all tokens and, if finished, EOS."""
    finished: bool
    """True if it ended with EOS, False if it reached the length limit."""
    ids: list[int]
    """Token ids without EOS."""
    tokens: list[str]
    """Label of each row of the attention weights; the last is EOS if finished."""
    attention_weights: Tensor
    """(N, T, S) on the CPU."""
    token_log_probabilities: Sequence[float] = ()
    """Log-probability of each of `tokens`."""
    words: Sequence[int] | None = None
    """Index of the word of the text for each id; None: as the tokenizer finds it."""


class Translation(NamedTuple):
    """A source sentence and its translations."""

    source: str
    source_ids: list[int]
    """Token ids without EOS."""
    source_tokens: list[str]
    """Label of each column of the attention weights, EOS last."""
    hypotheses: list[TranslatedHypothesis]
    """Best first; never empty."""

    @property
    def best(self) -> TranslatedHypothesis:
        """Return the hypothesis with the highest score."""
        return self.hypotheses[0]

    @property
    def text(self) -> str:
        """Return the text of the best hypothesis."""
        return self.best.text

    @property
    def score(self) -> float:
        """Return the score of the best hypothesis."""
        return self.best.score


class EncodedLine(NamedTuple):
    """A line and its token ids, without EOS; a line of whitespace has none."""

    text: str
    ids: list[int]


class EncodedPair(NamedTuple):
    """A source line and a target line: the prefix of a translation, or one to score."""

    source: EncodedLine
    target: EncodedLine


def encode_lines(lines: Sequence[str], tokenizer: Tokenizer) -> list[EncodedLine]:
    """Encode each line."""
    id_rows = tokenizer.encode(lines)
    return [
        EncodedLine(line, ids if line.strip() else [])
        for line, ids in zip(lines, id_rows, strict=True)
    ]


def found_translation(
    source: EncodedLine, hypotheses: Sequence[Hypothesis], *, tokenizers: TokenizerPair
) -> Translation:
    """Decode the hypotheses of a search."""
    # A model may write line feeds, but a translation is one line.
    texts = [tokenizers.target.decode(found.ids).replace("\n", " ") for found in hypotheses]
    return _translation(source, texts, hypotheses, tokenizers=tokenizers)


def scored_translation(
    pair: EncodedPair, scored: Hypothesis, *, tokenizers: TokenizerPair
) -> Translation:
    """Return the target of a pair as the only translation of its source."""
    return _translation(pair.source, [pair.target.text], [scored], tokenizers=tokenizers)


def empty_translation(
    pair: EncodedPair, *, num_heads: int, tokenizers: TokenizerPair
) -> Translation:
    """Return the translation of a pair without tokens, whose probability is 1."""
    certain = Hypothesis([], 0.0, 0.0, True, torch.zeros(num_heads, 1, 1), [0.0])
    return scored_translation(pair, certain, tokenizers=tokenizers)


def hypothesis_links(
    translation: Translation, hypothesis: TranslatedHypothesis, *, tokenizers: TokenizerPair
) -> Links:
    """Link each word of a hypothesis to the source word with the most attention.

    Raises:
        ValueError: The model has no attention heads.
    """
    source, target = tokenizers
    if not hypothesis.ids:
        return frozenset()
    words = hypothesis.words
    return word_links(
        hypothesis.attention_weights,
        source.words(translation.source, translation.source_ids),
        target.words(hypothesis.text, hypothesis.ids) if words is None else words,
        target_tokens=target.tokens(hypothesis.ids),
    )


def _translation(
    source: EncodedLine,
    texts: Sequence[str],
    hypotheses: Sequence[Hypothesis],
    *,
    tokenizers: TokenizerPair,
) -> Translation:
    return Translation(
        source=source.text,
        source_ids=source.ids,
        source_tokens=tokenizers.source.tokens([*source.ids, EOS]),
        hypotheses=[
            TranslatedHypothesis(
                text=text,
                score=found.score,
                log_probability=found.log_probability,
                finished=found.finished,
                ids=found.ids,
                tokens=tokenizers.target.tokens([*found.ids, EOS] if found.finished else found.ids),
                attention_weights=found.attention_weights,
                token_log_probabilities=found.token_log_probabilities,
            )
            for text, found in zip(texts, hypotheses, strict=True)
        ],
    )
