"""A sentence with its translations, and how they are made; loads without torch."""

# N heads, T target length, S source length

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from seq2seq.evaluation.confidence import Confidence
from seq2seq.search.config import Hypothesis
from seq2seq.special_tokens import EOS, UNK
from seq2seq.text.rules import NO_TEXT, ModelText, TextRules, in_capitals, recase

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor


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
    """Attention weights (N, T, S): a tensor on the CPU, or a NumPy array from an exported model.
    A line that was split has weights (N, 0, 0) if a head had more than a million."""
    token_log_probabilities: Sequence[float] = ()
    """Log-probability of each of `tokens`."""
    parts: "Sequence[TranslatedHypothesis]" = ()
    """Translations of the sentences, if the line was split; its scores are sums over them."""

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
    """Hypotheses, best first; never empty."""
    model: ModelText = NO_TEXT
    """The source as the model reads it."""
    parts: "Sequence[Translation]" = ()
    """Translations of the sentences, if the line was split. The tokens of the line are the tokens
    of its sentences, each with its EOS."""
    confidence: Confidence | None = None
    """What the model's certainty says about the quality of such a translation."""

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
    def lost_spans(self) -> list[str]:
        """Return the numbers, codes, addresses and whatever is protected that this lacks."""
        return self.model.lost(self.source, self.text)

    @property
    def expected_chrf(self) -> float | None:
        """Return the chrF to expect of the best translation, from 0 to 100.

        It is None if the model knows no such relation, the search does not look for the most
        probable translation, or nothing was translated.
        """
        found = [part.best for part in self.parts or (self,) if part.source_ids]
        num_tokens = sum(len(best.token_log_probabilities) for best in found)
        if self.confidence is None or not num_tokens:
            return None
        total = sum(best.log_probability for best in found)
        return self.confidence.expected_chrf(total / num_tokens)

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


def encode_lines(
    lines: Sequence[str],
    tokenizer: TextTokenizer,
    stays: Callable[[str], bool] = lambda line: not line.strip(),
    *,
    recases: bool = False,
) -> list[EncodedLine]:
    """Encode source lines as the tokenizer's rules prepare them.

    Args:
        lines: The lines.
        tokenizer: Their tokenizer.
        stays: Returns whether a line is not translated, so that it needs no ids.
        recases: Whether lines in capitals are encoded with ordinary capitalization.
    """

    def cost(word: str) -> tuple[int, int]:
        [ids] = tokenizer.encode([word])
        return ids.count(UNK), len(ids)

    prepared = [tokenizer.rules.prepare(line) for line in lines]
    if recases:
        prepared = [
            each._replace(text=recase(each.text, cost), in_capitals=True)
            if in_capitals(each.text)
            else each
            for each in prepared
        ]
    rows = zip(lines, tokenizer.encode([each.text for each in prepared]), prepared, strict=True)
    return [
        EncodedLine(line, []) if stays(line) else EncodedLine(line, ids, model)
        for line, ids, model in rows
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


def as_json(translation: Translation, *, has_attention: bool = True) -> dict[str, object]:
    """Return a translation as a JSON object, with the numbers of tokens rounded to six digits.

    Args:
        translation: The translation.
        has_attention: Whether the object has the attention weights: (N, T, S).
    """
    hypotheses: list[dict[str, object]] = []
    for found in translation.hypotheses:
        by_token = [round(value, 6) for value in found.token_log_probabilities]
        hypothesis = {
            "text": found.text,
            "score": found.score,
            "log_probability": found.log_probability,
            "finished": found.finished,
            "tokens": found.tokens,
            "token_log_probabilities": by_token,
        }
        if has_attention:
            heads = found.attention_weights.tolist()
            hypothesis["attention"] = [
                [[round(weight, 6) for weight in row] for row in head] for head in heads
            ]
        hypotheses.append(hypothesis)
    expected = translation.expected_chrf
    return {
        "source": translation.source,
        "expected_chrf": None if expected is None else round(expected, 1),
        "source_tokens": translation.source_tokens,
        "unknown_tokens": translation.num_unknown_tokens,
        "hypotheses": hypotheses,
    }


def make_translation(
    source: EncodedLine,
    hypotheses: Sequence[Hypothesis],
    *,
    tokenizers: tuple[TextTokenizer, TextTokenizer],
    texts: Sequence[str] | None = None,
    n_best: int | None = None,
    confidence: Confidence | None = None,
) -> Translation:
    """Combine a source line and its hypotheses into a translation.

    Args:
        source: The source line.
        hypotheses: Hypotheses of a search, or known targets.
        tokenizers: Source and target tokenizer.
        texts: Text of each known target; None decodes the ids.
        n_best: Maximum number of hypotheses to keep; None keeps all distinct ones.
        confidence: See `Translation`.
    """
    source_tokenizer, target_tokenizer = tokenizers
    if texts is None:
        texts = [source.model.line(target_tokenizer.decode(found.ids)) for found in hypotheses]

    def labels(ids: Sequence[int], tokenizer: TextTokenizer) -> list[str]:
        return list(map(source.model.label, tokenizer.tokens(ids)))

    return Translation(
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


def distinct(hypotheses: Iterable[TranslatedHypothesis]) -> list[TranslatedHypothesis]:
    """Return the first hypothesis of each text; the tokens of a text may be split in many ways.

    The score and log-probability of a hypothesis cover its own tokens only.
    """
    by_text: dict[str, TranslatedHypothesis] = {}
    for each in hypotheses:
        by_text.setdefault(each.text, each)
    return list(by_text.values())
