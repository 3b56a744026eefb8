"""Count problems that deserve a warning, and remember the first lines with each problem."""

import logging
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import accumulate, groupby

from seq2seq.inference.translations import TranslatedSentence
from seq2seq.search.config import DecodingConfig
from seq2seq.special_tokens import SPACE_LABEL, SPECIAL_TOKENS, UNK
from seq2seq.text.sentences import goes_on_after_stop

logger = logging.getLogger(__name__)

_MOST_LINES = 5
"""Number of lines that a warning names."""
_KEPT_TEXTS = 1000
"""Number of different unknown texts that are counted, to bound memory."""


_LINES = {
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
        "tokenizer.protect decides which of them a model is trained to copy",
    ),
    "empty": (
        "sentences whose translation is empty: %(empty)d of %(sentences)d",
        "the input may be unlike the training text; decoding.min_length=2 asks for a word",
    ),
    "passed": (
        "sentences that go on after a stop and whose translation is much shorter, which may lack "
        "what follows: %(passed)d of %(sentences)d",
        "put each sentence on a line of its own",
    ),
    "tabs": (
        "lines with tabs, which become spaces: %(tabs)d",
        "translate the columns of a table one by one",
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
}
"""Text of the warning for each count above 0, before and after the list of lines."""
_MOST_TEXTS = 5
"""Number of unknown texts that a warning names."""
_LONGEST_TEXT = 20
_SHORT = 2 / 3
"""A translation with a smaller number of tokens for each of its source may lack a sentence. Of 76
pairs of sentences that were translated as one, and by far too short, this finds 40."""
_LOOP_END = 12
"""Maximum number of characters at the end of a translation that a loop repeats."""


class StreamCounts:
    """Counts the translations of a stream whose input or length deserves a warning.

    Args:
        tags: The tags of the training text, if every source began with one.
        decoding: The search, whose length limit may cut translations; None for scored pairs.
        line_name: Names a line for a warning, given its index in the stream.
        on_batch: Called with sentences that have just been translated.
        has_more: Returns whether the next line of the stream is available. If not, the earlier
            lines are translated first.
    """

    def __init__(
        self,
        tags: Sequence[str],
        decoding: DecodingConfig | None,
        *,
        line_name: Callable[[int], str] = lambda index: str(index + 1),
        on_batch: Callable[[Sequence[TranslatedSentence]], None] = lambda sentences: None,
        has_more: Callable[[], bool] = lambda: True,
    ) -> None:
        self.decoding = decoding
        self.on_batch = on_batch
        self.has_more = has_more
        self._line_name = line_name
        self._tags = tuple(tags)
        self._numbers = Counter[str]()
        self._lines = defaultdict[str, list[str]](list)
        self._unknown = Counter[str]()  # source texts of unknown tokens

    def count(self, name: str, index: int, number: int = 1) -> None:
        """Add a number to a count, for the line with this index."""
        if number:
            self._numbers[name] += number
            lines = self._lines[name]
            if len(lines) <= _MOST_LINES and (line := self._line_name(index)) not in lines:
                lines.append(line)

    def add(self, translation: TranslatedSentence, index: int) -> None:
        """Count a sentence of the line with this index."""
        source_ids, best = translation.source_ids, translation.best
        num_unknown = translation.num_unknown_tokens
        is_tagged = translation.source.lstrip().startswith(self._tags)
        is_scored = self.decoding is None
        lost = () if is_scored else translation.lost_spans
        loops = not best.finished and _ends_in_loop(best.text)
        totals = {"sentences": 1, "tokens": len(source_ids), "target_tokens": len(best.ids)}
        self._numbers.update(totals, with_unknown=num_unknown > 0)
        for name, number in {
            "unknown": num_unknown,
            "untagged": bool(self._tags and source_ids and not is_tagged),
            "loops": loops,
            "cut": not best.finished and not loops,
            "lost": sum(each not in self._tags for each in lost),
            "empty": not is_scored and bool(source_ids) and not best.text,
            "passed": not is_scored
            and len(best.ids) < _SHORT * len(source_ids)
            and goes_on_after_stop(translation.source),
            "one_sided": is_scored and bool(source_ids) != bool(best.ids),
            "target_unknown": best.ids.count(UNK) if is_scored else 0,
        }.items():
            self.count(name, index, number)
        if num_unknown:
            for text in _unknown_texts(translation):
                if text in self._unknown or len(self._unknown) < _KEPT_TEXTS:
                    self._unknown[text] += 1

    def add_line(self, line: str, index: int, *, is_cut: bool) -> None:
        """Count what the sentences of a line do not show."""
        self.count("split", index, is_cut)
        self.count("tabs", index, self.decoding is not None and "\t" in line.strip())

    def report(self) -> None:
        """Log a line for each count above 0."""
        limits = {} if self.decoding is None else asdict(self.decoding)
        known = {"mark": SPECIAL_TOKENS[UNK], "tags": ", ".join(self._tags)}
        values = {**limits, **known, **self._numbers}
        for name, (what, advice) in _LINES.items():
            if self._numbers[name]:
                texts = self._unknown.most_common(_MOST_TEXTS) if name == "unknown" else []
                listed = ", ".join(f"{_shown(text)} x {number}" for text, number in texts)
                parts = [what % values + _named_lines(self._lines[name]), listed, advice % values]
                logger.warning("%s", "; ".join(filter(None, parts)))


def _named_lines(lines: Sequence[str]) -> str:
    """Return the first lines that a warning concerns, for its end: ` (lines 2, 5, 9)`."""
    more = ", ..." if len(lines) > _MOST_LINES else ""
    return f" (line{'s' * (len(lines) > 1)} {', '.join(lines[:_MOST_LINES])}{more})"


def _ends_in_loop(text: str) -> bool:
    """Return whether the end of a text occurs in it before; a loop may have any length."""
    size = min(_LOOP_END, len(text) // 2)
    return size > 0 and text[-size:] in text[:-1]


def _shown(text: str) -> str:
    """Return a text for a message; a single character is followed by its number, to identify
    spaces."""
    if len(text) > 1:
        return repr(text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}...")
    number = f"U+{ord(text):04X}"
    return f"{text} ({number})" if text.isprintable() else number


def _unknown_texts(translation: TranslatedSentence) -> list[str]:
    """Return the source text of the unknown tokens; adjacent tokens share one text."""
    labels = [
        None if token == UNK else label.replace(SPACE_LABEL, " ")
        for token, label in zip(translation.source_ids, translation.source_tokens, strict=False)
    ]
    if labels and labels[0]:
        labels[0] = labels[0].removeprefix(" ")  # the text itself has no such space
    found = _token_texts(translation.source, labels)
    runs = groupby(zip(labels, found, strict=True), key=lambda token: token[0] is None)
    texts = [next(run)[1] for is_unknown, run in runs if is_unknown]
    # The unknown text may be just a no-break space.
    return [text for text in (each.strip() or each.strip(" ") for each in texts) if text]


def _token_texts(word: str, labels: Sequence[str | None]) -> list[str]:
    """Return the text of each token; without a label, the text between its neighbors."""
    lower = word.lower()
    # Tokenizers may change the case; lower() can also change the number of letters.
    letters = lower if len(lower) == len(word) else word
    found: list[tuple[int, int] | None] = []
    position = 0
    for label in labels:
        start = -1 if label is None else letters.find(label.lower(), position)
        if label is None or start < 0:
            found.append(None)
            continue
        position = start + len(label)
        found.append((start, position))
    begins = accumulate(found, lambda begin, span: span[1] if span else begin, initial=0)
    ends = accumulate(
        reversed(found[1:]), lambda end, span: span[0] if span else end, initial=len(word)
    )
    gaps = zip(begins, [*ends][::-1], strict=False)
    return [word[slice(*(span or gap))] for span, gap in zip(found, gaps, strict=True)]
