"""Translate with a trained model, for example `translate.py checkpoint=checkpoints/NAME`."""

import contextlib
import math
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, BinaryIO

from seq2seq.checks import counted
from seq2seq.runtime.process import imports_in_one_line

# With engine=onnx, no import here or below may load torch, because an exported model does not need
# it.
with imports_in_one_line():
    from seq2seq.cli.command_line import run_command
    from seq2seq.cli.outputs import open_output, write
    from seq2seq.cli.translate_config import TranslateConfig, searches
    from seq2seq.cli.translate_lines import LineTranslator
    from seq2seq.cli.translate_streams import (
        TranslationProgress,
        Window,
        open_inputs,
        open_progress,
    )
    from seq2seq.export.translator import OnnxTranslator
    from seq2seq.files.atomic import NewFile, whole_files
    from seq2seq.files.links import check_links, parse_links
    from seq2seq.files.text import open_lines
    from seq2seq.inference.results import Translation
    from seq2seq.inference.sentence_splitting import has_attention
    from seq2seq.inference.windows import BATCHES_PER_WINDOW
    from seq2seq.runtime.devices import Engine
    from seq2seq.runtime.process import keep_freed_memory
    from seq2seq.search.config import DEFAULT_SEARCH
    from seq2seq.text.rules import split_words

if TYPE_CHECKING:
    from seq2seq.inference.translator import Translator

Report = Callable[[Translation, int], None]
"""Function that is called with each translation and the index of its line."""
Outputs = dict[str, Sequence[BinaryIO]]
"""The files of each key: one for all inputs, or one for each input."""
Contents = Generator[tuple[Window, dict[str, bytes]], None, None]
"""Windows, each with the content that it adds to the output of each key."""


def main() -> None:
    """Run the command with the arguments of this process."""
    keep_freed_memory()
    run_command("translate", TranslateConfig, translate, searches=searches)


def translate(config: TranslateConfig) -> None:
    """Translate the text, the input files, standard input or the lines typed at a prompt.

    With references, no search runs: their lines are scored as translations of the input.

    A closed pipe is not an error. Files are complete or absent: all of them appear at the end, if
    there was no error.

    Raises:
        ValueError: The configuration does not fit the checkpoint, or an input is damaged.
        OSError: A file cannot be read or written.
    """
    if config.reference is not None and config.decoding != DEFAULT_SEARCH:
        raise ValueError(
            "decoding chooses a search, but with reference= no search runs; remove decoding= and "
            "its keys, or reference="
        )
    with ExitStack() as stack:
        inputs = open_inputs(config, stack)
        lines = LineTranslator(config, _load(config))
        new_file = stack.enter_context(whole_files())
        outputs = _open_outputs(config, stack, new_file)
        reports = _open_reports(config, lines, stack, new_file)
        progress = stack.enter_context(open_progress(config, first=inputs.first, stop=inputs.stop))
        windows = inputs.windows(BATCHES_PER_WINDOW * config.batch_size)
        with contextlib.closing(_translate(lines, windows, reports, progress)) as contents:
            is_read = _write(contents, outputs, has_reports=bool(reports))
        if is_read:
            progress.log_speed()


def _load(config: TranslateConfig) -> "Translator | OnnxTranslator":
    if config.engine is Engine.torch:
        import torch

        from seq2seq.inference.translator import Translator
        from seq2seq.kernels.products import use_kernels

        use_kernels(config.kernels)
        if config.threads is not None:
            torch.set_num_threads(config.threads)
        return Translator.load(config.checkpoint, device=config.device, precision=config.precision)
    [folder] = config.checkpoint
    try:
        return OnnxTranslator.load(folder, threads=config.threads or 1)
    except ModuleNotFoundError as error:
        raise ValueError(
            f"engine=onnx needs {error.name}; run: pip install {error.name}"
        ) from error


def _open_outputs(config: TranslateConfig, stack: ExitStack, new_file: NewFile) -> Outputs:
    paths: dict[str, Sequence[str | None]] = {"output": config.output or [None]}
    if config.alignments is not None:
        paths["alignments"] = [config.alignments]
    return {
        key: [stack.enter_context(open_output(path, key=key, new_file=new_file)) for path in names]
        for key, names in paths.items()
    }


def _translate(
    lines: LineTranslator,
    windows: Iterator[Window],
    reports: Sequence[Report],
    progress: TranslationProgress,
) -> Contents:
    """Yield what each translation adds to the outputs, after reporting the translation."""
    for window in windows:
        for number, translation, contents in lines.translate(window, progress.advance):
            for report in reports:
                report(translation, number)
            yield window, contents
    lines.counts.report()


def _write(contents: Contents, outputs: Outputs, *, has_reports: bool) -> bool:
    """Write contents to the outputs; return False if a pipe was closed before the end."""
    is_read = True
    is_all = sum(map(len, outputs.values())) == 1 and not has_reports
    for window, added in contents:
        for key, content in added.items():
            files = outputs[key]
            is_read = write(files[window.source if len(files) > 1 else 0], content) and is_read
        if is_all and not is_read:
            break
    return is_read


def _open_reports(
    config: TranslateConfig, lines: LineTranslator, stack: ExitStack, new_file: NewFile
) -> list[Report]:
    """Open the outputs that are made from all translations together.

    Raises:
        ValueError: Gold links do not fit the sentences.
        OSError: A file cannot be read or written.
    """
    reports = []
    if config.attention_html is not None:
        reports.append(stack.enter_context(_page(config.attention_html, new_file)))
    if config.gold is not None:
        shard, num_shards = config.shards()
        agreement = _agreement(
            config.gold,
            lines,
            base=config.gold_base,
            has_last_line=shard == num_shards,
        )
        reports.append(stack.enter_context(agreement))
    return reports


@contextlib.contextmanager
def _page(path: str, new_file: NewFile) -> Iterator[Report]:
    """Show the best hypotheses on a page, numbered from 1."""
    from seq2seq.visualization.page import AttentionPage

    with open_output(path, key="attention_html", new_file=new_file) as file:
        page = AttentionPage(file)

        def report(translation: Translation, index: int) -> None:
            if not translation.source_ids or not has_attention(translation):
                return
            best = translation.best
            page.add(
                source=translation.source,
                target=best.text,
                source_tokens=translation.source_tokens,
                target_tokens=best.tokens,
                attention_weights=best.attention_weights,
                note=f"line {index + 1}, log-probability {best.log_probability:.2f}",
            )

        yield report
        page.close()


@contextlib.contextmanager
def _agreement(
    path: str, translator: LineTranslator, *, base: int, has_last_line: bool
) -> Iterator[Report]:
    """Compare the links of the references with gold links, and print their agreement at the end."""
    from seq2seq.evaluation.measures import count_links

    counts = [0] * 4
    num_sentences = num_read = 0
    name = f"gold={path}"
    with open_lines(path, key="gold") as reader:
        lines = list(reader)

    def report(translation: Translation, index: int) -> None:
        nonlocal num_sentences, num_read, counts
        num_sentences, num_read = num_sentences + 1, index + 1
        if num_read > len(lines):
            raise ValueError(
                f"{name} has {counted(len(lines), 'line')}, fewer than the reference; it needs one "
                "for each sentence; leave the line empty if there are no links"
            )
        where = f"{name}:{num_read}"
        gold = parse_links(lines[index], where=where, base=base)
        best = translation.best
        lengths = len(split_words(translation.source)), len(split_words(best.text))
        check_links(gold, *lengths, where=where, base=base)
        found = count_links(translator.links(translation), gold)
        counts = list(map(sum, zip(counts, found, strict=True)))

    yield report
    if has_last_line and num_read < len(lines):
        raise ValueError(
            f"{name} has {counted(len(lines), 'line')} but the reference has {num_read:,}; it "
            "needs one for each"
        )
    predicted, sure, found_sure, right = counts
    parts = (right, predicted), (found_sure, sure), (found_sure + right, predicted + sure)
    precision, recall, agreement = (part / whole if whole else math.nan for part, whole in parts)
    print(
        f"alignment: precision {precision:.3f}, recall {recall:.3f}, AER {1 - agreement:.3f} "
        f"({counted(num_sentences, 'sentence')}, {counted(predicted, 'link')})",
        file=sys.stderr,
    )


if __name__ == "__main__":
    main()
