"""A sentence with its translations, which loads without torch."""

# N heads, T target length, S source length

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from seq2seq.special_tokens import UNK

if TYPE_CHECKING:
    from torch import Tensor


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
    attention_weights: "Tensor | Any"
    """(N, T, S) on the CPU: a tensor, or of an exported model an array of numpy, without torch."""
    token_log_probabilities: Sequence[float] = ()
    """Log-probability of each of `tokens`."""
    words: Sequence[int] | None = None
    """Index of the word of the text for each id; None: as the tokenizer finds it."""

    def __repr__(self) -> str:
        return (
            f"TranslatedHypothesis(text={self.text!r}, score={self.score:.4f}, "
            f"finished={self.finished}, attention_weights={tuple(self.attention_weights.shape)})"
        )


class Translation(NamedTuple):
    """A source sentence and its translations."""

    source: str
    source_ids: list[int]
    """Token ids without EOS."""
    source_tokens: list[str]
    """Label of each column of the attention weights, EOS last."""
    hypotheses: list[TranslatedHypothesis]
    """Best first; never empty."""

    def __repr__(self) -> str:
        return (
            f"Translation(source={self.source!r}, text={self.text!r}, score={self.score:.4f}, "
            f"num_hypotheses={len(self.hypotheses)})"
        )

    @property
    def num_unknown_tokens(self) -> int:
        """Return the number of source tokens that are outside the model's vocabulary."""
        return self.source_ids.count(UNK)

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
