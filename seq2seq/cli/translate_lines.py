"""Translate windows of lines as the configuration of translate.py says."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seq2seq.cli.translate_config import (
    OutputFormat,
    TranslateConfig,
    UnknownTokens,
    Use,
    shown,
)
from seq2seq.cli.translate_streams import Window, format_translation
from seq2seq.export.translator import OnnxTranslator
from seq2seq.files.atomic import whole_file
from seq2seq.files.links import Links, format_links
from seq2seq.files.paths import expand_home
from seq2seq.files.text import open_lines
from seq2seq.inference.lexical_constraints import BannedPhrases, PrefixError
from seq2seq.inference.results import Translation
from seq2seq.inference.sentence_splitting import has_attention
from seq2seq.inference.tally import StreamCounts
from seq2seq.inference.windows import ignore

# An exported model translates without torch, so no import of this module may load it.
if TYPE_CHECKING:
    from seq2seq.inference.translator import Translator


class LineTranslator:
    """Translates windows of lines and formats the translations.

    Args:
        config: The configuration of translate.py.
        translator: The translator.

    Raises:
        ValueError: A file of phrases or words has an invalid line, or the model has no attention.
        OSError: A file cannot be read, or the directory of plots cannot be created.
    """

    def __init__(self, config: TranslateConfig, translator: "Translator | OnnxTranslator") -> None:
        self.config = config
        self._translator = translator
        for key, path in config.given(Use.attention).items():
            if translator.num_heads == 0:
                raise ValueError(
                    f"{path} needs attention weights, but checkpoint={shown(config.checkpoint)} "
                    f"has none; remove {key} or use another checkpoint"
                )
        self._plots = _directory_of_plots(config)
        self._banned = BannedPhrases(_read_phrases(config), translator.tokenizers[1])
        decoding = None if config.reference else config.decoding
        self.counts = StreamCounts(translator.tags, decoding, self._banned)
        """Counts of everything that deserves a warning so far."""
        self._copies_words = config.unknown_words is UnknownTokens.copy
        if self._copies_words:
            from seq2seq.inference.unknown_words import check_copying

            check_copying(_with_torch(translator))
        is_shown = config.attention_plot or config.attention_html
        self._shows_attention = bool(is_shown) or config.output_format is OutputFormat.json

    def translate(
        self, window: Window, on_line: Callable[[str], None] = ignore
    ) -> Iterator[tuple[int, Translation, dict[str, bytes]]]:
        """Yield the index of each line, its translation, and what it adds to each output.

        Args:
            window: Lines of an input.
            on_line: Called with each sentence as soon as it is translated, in any order.
        """
        # If each input has its own output, the lines of each output are numbered from 0.
        offset = window.line - window.number if len(self.config.output or ()) > 1 else 0
        translations = self._score if self.config.reference else self._search
        for number, translation in enumerate(translations(window, on_line), start=window.number):
            if self._shows_attention and not has_attention(translation):
                self.counts.count("without_attention", number - window.number)
            if self._plots is not None:
                _draw(translation, number, self._plots)
            contents = {
                "output": format_translation(self.config, translation, index=number + offset)
            }
            if self.config.alignments:
                links = self.links(translation)
                contents["alignments"] = f"{format_links(links)}\n".encode()
            yield number, translation, contents

    def links(self, translation: Translation) -> Links:
        """Return the word links of the best hypothesis."""
        return _with_torch(self._translator).links(translation)

    def _score(self, window: Window, on_line: Callable[[str], None]) -> Iterator[Translation]:
        self.counts.line_name = partial(self._line_name, window)
        return _with_torch(self._translator).score(
            window.pairs,
            batch_size=self.config.batch_size,
            on_translation=lambda scored: on_line(scored.source),
            counts=self.counts,
        )

    def _search(self, window: Window, on_line: Callable[[str], None]) -> Iterator[Translation]:
        lines, prefixes = zip(*window.pairs, strict=True)
        self.counts.line_name = partial(self._line_name, window)
        constraints: dict[str, Any] = {}
        if self.config.prefixes:
            constraints["prefixes"] = prefixes
        if self.config.banned_phrases:
            constraints["banned_phrases"] = self._banned
        found = self._translator.translate(
            lines,
            self.config.decoding,
            batch_size=self.config.batch_size,
            split=self.config.split,
            on_translation=lambda found: on_line(found.source),
            counts=self.counts,
            **constraints,
        )
        if self._copies_words:
            from seq2seq.inference.unknown_words import copy_unknown_words

            tokenizers = _with_torch(self._translator).tokenizers
            found = (copy_unknown_words(each, tokenizers) for each in found)
        try:
            yield from found
        except PrefixError as error:
            raise ValueError(f"{window.line_name(error.index, side=1)} {error.reason}") from error

    def _line_name(self, window: Window, index: int) -> str:
        """Return the number of a line of the window, with its file if there are several."""
        has_several = len(self.config.input or ()) > 1
        return window.line_name(index) if has_several else str(window.line + index + 1)


def _with_torch(translator: "Translator | OnnxTranslator") -> "Translator":
    """Return a translator that does more than search, as keys of engine=torch require."""
    assert not isinstance(translator, OnnxTranslator), "checked by the configuration"
    return translator


def _read_phrases(config: TranslateConfig) -> list[str]:
    if config.banned_phrases is None:
        return []
    with open_lines(config.banned_phrases, key="banned_phrases") as lines:
        phrases = list(lines)
    if not phrases:
        raise ValueError(f"{lines.name} has no phrases; write one on each line, or remove the key")
    return phrases


def _directory_of_plots(config: TranslateConfig) -> Path | None:
    """Return an existing directory for plots; None without `attention_plot`."""
    if config.attention_plot is None:
        return None
    directory = expand_home(config.attention_plot, key="attention_plot")
    if directory.is_file():
        raise ValueError(f"attention_plot={directory} is a file; name a directory")
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def _draw(translation: Translation, number: int, directory: Path) -> None:
    """Draw each hypothesis; the file names of all but the best contain their rank."""
    if not translation.source_ids or not has_attention(translation):
        return
    for rank, hypothesis in enumerate(translation.hypotheses):
        figure = translation.figure(hypothesis)
        name = f"{number:06d}" if rank == 0 else f"{number:06d}-{rank + 1}"
        with whole_file(directory / f"{name}.png") as file:
            figure.savefig(file, format="png")
