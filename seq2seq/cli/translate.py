"""Translate with a trained model, for example `translate.py checkpoint=checkpoints/NAME`."""

import contextlib
import json
import os
from collections.abc import Generator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, cast

from seq2seq.runtime.process import imports_in_one_line

# No import here or below may load torch or pandas: an exported folder needs neither, and answers
# before torch would be loaded.
with imports_in_one_line():
    from seq2seq.cli.command_line import run_command
    from seq2seq.cli.outputs import open_output, write
    from seq2seq.cli.translate_config import (
        NEED_ATTENTION,
        OutputFormat,
        TranslateConfig,
        shown,
    )
    from seq2seq.cli.translate_inputs import Inputs, open_inputs, open_progress
    from seq2seq.evaluation.confidence import ExpectedQuality
    from seq2seq.export.translator import OnnxTranslator
    from seq2seq.files.atomic import whole_file, whole_files
    from seq2seq.files.links import format_links
    from seq2seq.files.paths import expand_home
    from seq2seq.inference.lines import LineTranslator
    from seq2seq.inference.tally import StreamCounts
    from seq2seq.inference.translations import TranslatedSentence, Translation, line_json
    from seq2seq.runtime.process import keep_freed_memory

if TYPE_CHECKING:
    from seq2seq.inference.translator import Translator


def main() -> None:
    """Run the command with the arguments of this process."""
    keep_freed_memory()
    run_command("translate", TranslateConfig, translate)


def translate(config: TranslateConfig) -> None:
    """Translate the text, the input files, standard input or the lines typed at a prompt.

    With references, no search runs: their lines are scored as translations of the input.

    A closed pipe is not an error. Files are complete or absent: all of them appear at the end, if
    there was no error.

    Raises:
        ValueError: The configuration does not fit the checkpoint, or an input is damaged.
        OSError: A file cannot be read or written.
    """
    with ExitStack() as stack:
        inputs = open_inputs(config, stack)
        translator = _load(config)
        _check_attention(config, translator)
        outputs = Outputs(config, translator, inputs, stack)
        progress = stack.enter_context(open_progress(config))
        counts = StreamCounts(
            translator.tags,
            None if config.reference else config.decoding,
            line_name=inputs.line_name,
            on_batch=progress.advance,
            has_more=inputs.has_more,
        )
        if not config.expected_chrf:
            translator.confidence = None
        expected = ExpectedQuality(translator.confidence)
        translations = _translations(config, translator, inputs, counts)
        with contextlib.closing(translations):
            for index, translation in enumerate(translations):
                outputs.add(translation, index)
                expected.add(translation.expected_chrf, inputs.line_name(index))
                if outputs.are_closed:
                    return
        counts.report()
        expected.report()
        outputs.finish()
        if outputs.are_read:
            progress.log_speed()


def _load(config: TranslateConfig) -> LineTranslator:
    if config.is_exported:
        threads = config.threads or len(os.sched_getaffinity(0))
        return OnnxTranslator.load(config.checkpoint[0], threads=threads)
    import torch

    from seq2seq.inference.translator import Translator

    if config.threads is not None:
        torch.set_num_threads(config.threads)
    return Translator.load(config.checkpoint, device=config.device, precision=config.precision)


def _check_attention(config: TranslateConfig, translator: LineTranslator) -> None:
    """Raise ValueError if a key needs attention that the model lacks."""
    for key, given in config.given(NEED_ATTENTION).items():
        if translator.num_heads == 0:
            raise ValueError(
                f"{given} needs attention weights, but checkpoint={shown(config.checkpoint)} "
                f"has none; remove {key} or use another checkpoint"
            )


def _with_torch(translator: LineTranslator) -> "Translator":
    """Return the translator as the class of checkpoints, which some keys require."""
    assert not isinstance(translator, OnnxTranslator), "checked by the configuration"
    return cast("Translator", translator)


def _translations(
    config: TranslateConfig, translator: LineTranslator, inputs: Inputs, counts: StreamCounts
) -> Generator[Translation]:
    """Yield the translation of each line, or its reference with its score."""
    size = config.batch_size
    if config.reference is not None:
        yield from _with_torch(translator).score(inputs, batch_size=size, counts=counts)
        return
    lines = (line for line, _ in inputs)
    yield from translator.translate(
        lines, config.decoding, batch_size=size, split=config.split, counts=counts
    )


class Outputs:
    """Everything that translate.py writes; files appear together when the stack ends.

    Args:
        config: The configuration of translate.py.
        translator: The translator, for word links.
        inputs: The inputs; each may have its own output.
        stack: Closes the files.

    Raises:
        ValueError: The directory of plots is a file.
        OSError: A file cannot be read or written.
    """

    def __init__(
        self,
        config: TranslateConfig,
        translator: LineTranslator,
        inputs: Inputs,
        stack: ExitStack,
    ) -> None:
        self._config = config
        self._translator = translator
        self._inputs = inputs
        self._plots = _directory_of_plots(config)
        self.are_read = True
        """False once the reader of a pipe has closed it."""
        new_file = stack.enter_context(whole_files())

        def opened(key: str, path: str | None) -> BinaryIO:
            return stack.enter_context(open_output(path, key=key, new_file=new_file))

        self._texts = [opened("output", path) for path in config.output or (None,)]
        self._links = self._page = None
        if config.alignments is not None:
            self._links = opened("alignments", config.alignments)
        if config.attention_html is not None:
            from seq2seq.visualization.page import AttentionPage

            self._page = AttentionPage(opened("attention_html", config.attention_html))

    @property
    def are_closed(self) -> bool:
        """Return whether the only output is a pipe that has been closed."""
        others = (self._links, self._page)
        return not self.are_read and len(self._texts) == 1 and others == (None, None)

    def add(self, translation: Translation, index: int) -> None:
        """Write the translation of line number `index` of all inputs."""
        number = index
        self._show_attention(translation, index)
        text_file = self._texts[0]
        # If each input has its own output, the lines of each output are numbered from 0.
        if len(self._texts) > 1:
            source, number = self._inputs.place(index)
            text_file = self._texts[source]
        self._write(text_file, format_translation(self._config, translation, index=number))
        if self._links is not None:
            links = _with_torch(self._translator).links(translation)
            self._write(self._links, f"{format_links(links)}\n".encode())

    def _show_attention(self, translation: Translation, index: int) -> None:
        """Draw the sentences of a line, and add them to the page."""
        shown = [each for each in translation.sentences if each.source_ids]
        for number, sentence in enumerate(shown, start=1):
            if self._plots is not None:
                name = f"{index:06d}" + f".{number}" * (len(shown) > 1)
                _draw(sentence, name, self._plots)
            if self._page is not None:
                best, expected = sentence.best, sentence.expected_chrf
                place = f"line {index + 1}" + f", sentence {number}" * (len(shown) > 1)
                quality = "" if expected is None else f", expected chrF {expected:.0f}"
                self._page.add(
                    source=sentence.source,
                    target=best.text,
                    source_tokens=sentence.source_tokens,
                    target_tokens=best.tokens,
                    attention_weights=best.attention_weights,
                    note=f"{place}, log-probability {best.log_probability:.2f}{quality}",
                )

    def finish(self) -> None:
        """Write the end of the page."""
        if self._page is not None:
            self._page.close()

    def _write(self, file: BinaryIO, content: bytes) -> None:
        self.are_read = write(file, content) and self.are_read


_SEPARATOR = "|||"
"""Separator of the fields of an n-best list."""
_ESCAPED = "&#124;" * 3
"""The separator in a text, as Moses' escape-special-chars.perl writes it."""


def format_translation(config: TranslateConfig, translation: Translation, *, index: int) -> bytes:
    """Return the output for the input line `index`, as UTF-8 lines.

    In the format text, the output for a scored reference is its log-probability.
    """
    if config.output_format is OutputFormat.json:
        lines = [json.dumps(line_json(translation), ensure_ascii=False)]
    elif config.output_format is OutputFormat.nbest:
        found = translation.hypotheses
        texts = [each.text.replace(_SEPARATOR, _ESCAPED) for each in found]
        scores = [f"{each.score:.6f}" for each in found]
        rows = zip(texts, scores, strict=True)
        lines = [f"{index} {_SEPARATOR} {text} {_SEPARATOR} {score}" for text, score in rows]
    elif config.reference is not None:
        lines = [f"{translation.best.log_probability:.4f}"]
    else:
        lines = [translation.text]
    return "".join(f"{line}\n" for line in lines).encode("utf-8", errors="replace")


def _directory_of_plots(config: TranslateConfig) -> Path | None:
    """Create and return the directory for plots; None without `attention_plot`."""
    if config.attention_plot is None:
        return None
    directory = expand_home(config.attention_plot, key="attention_plot")
    directory.mkdir(parents=True, exist_ok=True)
    return directory


def _draw(sentence: TranslatedSentence, name: str, directory: Path) -> None:
    """Draw each hypothesis; the file names of all but the best hypothesis contain its rank."""
    for rank, hypothesis in enumerate(sentence.hypotheses):
        figure = sentence.figure(hypothesis)
        file_name = f"{name}.png" if rank == 0 else f"{name}-{rank + 1}.png"
        with whole_file(directory / file_name) as file:
            figure.savefig(file, format="png")


if __name__ == "__main__":
    main()
