"""Lines and sentences with their translations, and how they are made; loads without torch."""

# N heads, T target length, S source length

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from seq2seq.evaluation.confidence import Confidence
from seq2seq.search.config import Hypothesis
from seq2seq.special_tokens import EOS, UNK
from seq2seq.text.layer import Segment, line_of
from seq2seq.text.rules import NO_TEXT, ModelText, TextRules

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

_Hypothesis = TypeVar("_Hypothesis", "TranslatedHypothesis", "LineHypothesis")


class TranslatedHypothesis(NamedTuple):
    """One translation of a sentence."""

    text: str
    """Detokenized translation, on one line."""
    score: float
    """Value that ranks the hypotheses. Greedy search and sampling: the log-probability. Beam
    search: the log-probability divided by the length penalty, plus the coverage penalty. Minimum
    Bayes risk decoding: the expected similarity to all hypotheses."""
    log_probability: float
    """Natural logarithm of the probability of all tokens and, if finished, EOS, without any
    penalty."""
    finished: bool
    """True if the hypothesis ended with EOS, False if it reached the length limit."""
    ids: list[int]
    """Token ids without EOS."""
    tokens: list[str]
    """Label of each row of the attention weights; the last is EOS if finished."""
    attention_weights: "Tensor | Any"
    """Attention weights (N, T, S): a tensor on the CPU, or a NumPy array from an exported model."""
    token_log_probabilities: Sequence[float] = ()
    """Log-probability of each of `tokens`."""

    def __repr__(self) -> str:
        return (
            f"TranslatedHypothesis(text={self.text!r}, score={self.score:.4f}, "
            f"finished={self.finished}, attention_weights={tuple(self.attention_weights.shape)})"
        )


class TranslatedSentence(NamedTuple):
    """A sentence and its translations, or text of a line that stays and has no tokens."""

    source: str
    source_ids: list[int]
    """Token ids without EOS."""
    source_tokens: list[str]
    """Label of each column of the attention weights, EOS last."""
    hypotheses: list[TranslatedHypothesis]
    """Hypotheses, best first; never empty."""
    model: ModelText = NO_TEXT
    """The source as the model reads it."""
    confidence: Confidence | None = None
    """What the model's certainty says about the quality of such a translation."""

    def __repr__(self) -> str:
        return _shown(self)

    @property
    def num_unknown_tokens(self) -> int:
        """Return the number of source tokens that are outside the model's vocabulary."""
        return self.source_ids.count(UNK)

    @property
    def lost_spans(self) -> list[str]:
        """Return the numbers, codes, addresses and whatever is protected that this lacks."""
        return self.model.lost(self.source, self.text)

    @property
    def expected_chrf(self) -> float | None:
        """Return the chrF to expect of the best translation, as `Translation` does."""
        return _expected_chrf([self])

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

    def figure(self, hypothesis: TranslatedHypothesis | None = None) -> "Figure":
        """Draw the attention of a hypothesis, by default the best; see `attention_figure`.

        Raises:
            ValueError: The model has no attention heads, or the hypothesis is of another sentence.
        """
        from torch import as_tensor

        from seq2seq.visualization.plots import attention_figure

        chosen = hypothesis or self.best
        weights = as_tensor(chosen.attention_weights)
        return attention_figure(weights, self.source_tokens, chosen.tokens)


class LineHypothesis(NamedTuple):
    """One translation of a line: a hypothesis for each of its sentences."""

    sentences: Sequence[TranslatedHypothesis]

    @property
    def text(self) -> str:
        """Return the translation of the line."""
        return line_of(each.text for each in self.sentences)

    @property
    def score(self) -> float:
        """Return the sum of the scores."""
        return sum(each.score for each in self.sentences)

    @property
    def log_probability(self) -> float:
        """Return the sum of the log-probabilities."""
        return sum(each.log_probability for each in self.sentences)

    @property
    def finished(self) -> bool:
        """Return whether no sentence reached the length limit."""
        return all(each.finished for each in self.sentences)


class Translation(NamedTuple):
    """A line and its translations."""

    source: str
    sentences: Sequence[TranslatedSentence]
    """The sentences of the line, and text that stays, in order; never empty."""

    def __repr__(self) -> str:
        return _shown(self)

    @property
    def hypotheses(self) -> list[LineHypothesis]:
        """Return the distinct translations, best first.

        The nth consists of the nth hypothesis of each sentence, or of the last one if a sentence
        has fewer.
        """
        number = max(len(each.hypotheses) for each in self.sentences)
        ranks = (
            LineHypothesis([each.hypotheses[: rank + 1][-1] for each in self.sentences])
            for rank in range(number)
        )
        return distinct(ranks)

    @property
    def best(self) -> LineHypothesis:
        """Return the best hypothesis of each sentence."""
        return LineHypothesis([each.best for each in self.sentences])

    @property
    def text(self) -> str:
        """Return the text of the best hypothesis."""
        return self.best.text

    @property
    def score(self) -> float:
        """Return the score of the best hypothesis."""
        return self.best.score

    @property
    def num_unknown_tokens(self) -> int:
        """Return the number of source tokens that are outside the model's vocabulary."""
        return sum(each.num_unknown_tokens for each in self.sentences)

    @property
    def expected_chrf(self) -> float | None:
        """Return the chrF to expect of the best translation, from 0 to 100.

        It is None if the model knows no such relation, the search does not look for the most
        probable translation, or nothing was translated.
        """
        return _expected_chrf(self.sentences)


def sentences_of(lines: Iterable[Translation]) -> list[TranslatedSentence]:
    """Return the sentences of all lines; one for each line if lines are not split."""
    return [sentence for line in lines for sentence in line.sentences]


def _shown(translation: TranslatedSentence | Translation) -> str:
    return (
        f"{type(translation).__name__}(source={translation.source!r}, text={translation.text!r}, "
        f"score={translation.score:.4f}, num_hypotheses={len(translation.hypotheses)})"
    )


def _expected_chrf(sentences: Sequence[TranslatedSentence]) -> float | None:
    """Return the chrF to expect of sentences, given the mean log-probability of their tokens.

    Sentences of which the model reads no word do not count.
    """
    known = [each for each in sentences if each.confidence and each.model.has_letters]
    num_tokens = sum(len(each.best.token_log_probabilities) for each in known)
    if not num_tokens:
        return None
    total = sum(each.best.log_probability for each in known)
    return known[0].confidence.expected_chrf(total / num_tokens)  # type: ignore[union-attr]


class TextTokenizer(Protocol):
    """The tokenizer methods that translating needs; see `Tokenizer` in seq2seq.data."""

    @property
    def rules(self) -> TextRules:
        """What happens to a text before and after the model."""

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """Return the ids of each line, without BOS and EOS."""

    def decode(self, ids: Sequence[int]) -> str:
        """Return detokenized text, without PAD, BOS and EOS."""

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """Return a readable label for each id."""


class EncodedLine(NamedTuple):
    """A line and its token ids, without EOS; whitespace and untranslated text have no ids."""

    text: str
    ids: list[int]
    model: ModelText = NO_TEXT
    """The source as the model reads it."""

    @property
    def num_symbols(self) -> int:
        """Return the number of symbols that a translation has to place."""
        return self.model.num_symbols


class EncodedPair(NamedTuple):
    """A source line and a translation of it to score, which is empty if it is not known."""

    source: EncodedLine
    target: EncodedLine = EncodedLine("", [])

    @property
    def length(self) -> int:
        """Return the number of tokens of the longer line."""
        return max(len(self.source.ids), len(self.target.ids))


def encode_segments(segments: Sequence[Segment], tokenizer: TextTokenizer) -> list[EncodedLine]:
    """Encode pieces of lines as the model reads them."""
    rows = tokenizer.encode([each.model.text for each in segments])
    return [
        EncodedLine(each.source, ids, each.model) for each, ids in zip(segments, rows, strict=True)
    ]


def encode_targets(
    lines: Sequence[str], sources: Sequence[EncodedLine], tokenizer: TextTokenizer
) -> list[EncodedLine]:
    """Encode target lines, with the symbols of their sources."""
    masked = [
        tokenizer.rules.mask(line, source.model)
        for line, source in zip(lines, sources, strict=True)
    ]
    return [
        EncodedLine(line, ids if line.strip() else [], source.model)
        for line, ids, source in zip(lines, tokenizer.encode(masked), sources, strict=True)
    ]


def sentence_json(sentence: TranslatedSentence, *, has_attention: bool = True) -> dict[str, object]:
    """Return a sentence as a JSON object, with the numbers of tokens rounded to six digits.

    Args:
        sentence: The sentence.
        has_attention: Whether the object has the attention weights: (N, T, S).
    """
    hypotheses: list[dict[str, object]] = []
    for found in sentence.hypotheses:
        by_token = [round(value, 6) for value in found.token_log_probabilities]
        hypothesis = {
            **_hypothesis_json(found),
            "tokens": found.tokens,
            "token_log_probabilities": by_token,
        }
        if has_attention:
            heads = found.attention_weights.tolist()
            hypothesis["attention"] = [
                [[round(weight, 6) for weight in row] for row in head] for head in heads
            ]
        hypotheses.append(hypothesis)
    return {
        **_source_json(sentence),
        "source_tokens": sentence.source_tokens,
        "hypotheses": hypotheses,
    }


def line_json(translation: Translation) -> dict[str, object]:
    """Return a line as a JSON object, with its sentences as `sentence_json`."""
    return {
        **_source_json(translation),
        "hypotheses": list(map(_hypothesis_json, translation.hypotheses)),
        "sentences": list(map(sentence_json, translation.sentences)),
    }


def _source_json(translation: TranslatedSentence | Translation) -> dict[str, object]:
    expected = translation.expected_chrf
    return {
        "source": translation.source,
        "expected_chrf": None if expected is None else round(expected, 1),
        "unknown_tokens": translation.num_unknown_tokens,
    }


def _hypothesis_json(found: TranslatedHypothesis | LineHypothesis) -> dict[str, object]:
    return {
        "text": found.text,
        "score": found.score,
        "log_probability": found.log_probability,
        "finished": found.finished,
    }


def make_sentence(
    source: EncodedLine,
    hypotheses: Sequence[Hypothesis],
    *,
    tokenizers: tuple[TextTokenizer, TextTokenizer],
    texts: Sequence[str] | None = None,
    n_best: int | None = None,
    confidence: Confidence | None = None,
) -> TranslatedSentence:
    """Combine a source and its hypotheses into a translated sentence.

    Args:
        source: The source.
        hypotheses: Hypotheses of a search, or known targets.
        tokenizers: Source and target tokenizer.
        texts: Text of each known target; None decodes the ids.
        n_best: Maximum number of hypotheses to keep; None keeps all distinct ones.
        confidence: See `TranslatedSentence`.
    """
    source_tokenizer, target_tokenizer = tokenizers
    if texts is None:
        texts = [source.model.line(target_tokenizer.decode(found.ids)) for found in hypotheses]

    def labels(ids: Sequence[int], tokenizer: TextTokenizer) -> list[str]:
        return list(map(source.model.label, tokenizer.tokens(ids)))

    return TranslatedSentence(
        source=source.text,
        source_ids=source.ids,
        source_tokens=labels([*source.ids, EOS], source_tokenizer),
        hypotheses=distinct(
            TranslatedHypothesis(
                text=text,
                tokens=labels([*found.ids, EOS] if found.finished else found.ids, target_tokenizer),
                **found._asdict(),
            )
            for text, found in zip(texts, hypotheses, strict=True)
        )[:n_best],
        model=source.model,
        confidence=confidence,
    )


def distinct(hypotheses: Iterable[_Hypothesis]) -> list[_Hypothesis]:
    """Return the first hypothesis of each text; the tokens of a text may be split in many ways.

    The score and log-probability of a hypothesis cover its own tokens only.
    """
    by_text: dict[str, _Hypothesis] = {}
    for each in hypotheses:
        by_text.setdefault(each.text, each)
    return list(by_text.values())
