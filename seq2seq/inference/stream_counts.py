"""Count what the warnings at the end of a stream of translations say."""

import logging
from collections.abc import Sequence

from seq2seq.inference.translation import Translation
from seq2seq.search import DecodingConfig

logger = logging.getLogger(__name__)


class StreamCounts:
    """Count the sources of a stream that lack a tag."""

    def __init__(self, tags: Sequence[str]) -> None:
        """Begin to count.

        Args:
            tags: The symbols of which every source of the training text began with one, or none.
        """
        self._tags = tuple(tags)
        self._num_untagged = 0
        self.num_sentences = 0

    def add(self, translation: Translation) -> None:
        """Count a translation."""
        self.num_sentences += 1
        if self._tags and translation.source_ids:
            self._num_untagged += not translation.source.lstrip().startswith(self._tags)

    def report(self) -> None:
        """Log a warning for each number above 0."""
        if self._num_untagged:
            logger.warning(
                "%d of %d sentences do not begin with a tag of the training text (%s); put the "
                "right one before each line",
                self._num_untagged,
                self.num_sentences,
                ", ".join(self._tags),
            )


class SearchCounts(StreamCounts):
    """Count the translations of a search that reached the length limit, too."""

    def __init__(self, tags: Sequence[str], decoding: DecodingConfig) -> None:
        super().__init__(tags)
        self._decoding = decoding
        self._num_cut = 0

    def add(self, translation: Translation) -> None:
        super().add(translation)
        self._num_cut += not translation.best.finished

    def report(self) -> None:
        super().report()
        if self._num_cut:
            logger.warning(
                "%d of %d translations reached the length limit; raise "
                "decoding.max_length_ratio=%s or decoding.max_length_offset=%s for longer ones",
                self._num_cut,
                self.num_sentences,
                self._decoding.max_length_ratio,
                self._decoding.max_length_offset,
            )


class PairCounts(StreamCounts):
    """Count the scored pairs that have text on one side only, too."""

    def __init__(self, tags: Sequence[str]) -> None:
        super().__init__(tags)
        self._num_one_sided = 0

    def add(self, translation: Translation) -> None:
        super().add(translation)
        self._num_one_sided += bool(translation.source_ids) != bool(translation.best.ids)

    def report(self) -> None:
        super().report()
        if self._num_one_sided:
            logger.warning(
                "%d of %d pairs have text on one side only; check that both sides are parallel",
                self._num_one_sided,
                self.num_sentences,
            )
