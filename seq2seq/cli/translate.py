"""Translate with a trained model, for example `translate.py checkpoint=checkpoints/NAME`."""

import contextlib
import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import BinaryIO

from seq2seq.checks import counted
from seq2seq.runtime.process import imports_in_one_line

with imports_in_one_line():
    import torch

    from seq2seq.cli.command_line import run_command
    from seq2seq.cli.outputs import open_output, write
    from seq2seq.cli.translate_config import TranslateConfig, UnknownTokens, shown
    from seq2seq.cli.translate_resumable import PartialOutput
    from seq2seq.cli.translate_streams import (
        Inputs,
        TranslationProgress,
        format_translation,
        open_inputs,
        open_progress,
    )
    from seq2seq.config.plugins import load_plugins
    from seq2seq.data.tokenizers.interface import leading_symbols
    from seq2seq.evaluation.measures import count_links
    from seq2seq.files.atomic import NewFile, whole_file, whole_files
    from seq2seq.files.links import check_links, format_links, parse_links
    from seq2seq.files.paths import expand_home
    from seq2seq.files.text import open_lines
    from seq2seq.inference.lexical_constraints import PrefixError
    from seq2seq.inference.processes import TranslatorProcesses, open_processes
    from seq2seq.inference.results import Translation
    from seq2seq.inference.sentence_splitting import SentenceSplitter
    from seq2seq.inference.translator import Translator
    from seq2seq.inference.unknown_words import UnknownWords, read_dictionary
    from seq2seq.inference.windows import BATCHES_PER_WINDOW
    from seq2seq.kernels.products import Kernels, use_kernels
    from seq2seq.runtime.process import keep_freed_memory, log_to_stderr
    from seq2seq.search.registry import decoding_config_types
    from seq2seq.visualization.page import AttentionPage
    from seq2seq.visualization.plots import attention_figure

Report = Callable[[Translation, int], None]
"""Called with each translation and the index of its line."""


def main() -> None:
    """Run the command with the arguments of this process."""
    keep_freed_memory()
    run_command("translate", TranslateConfig, translate, searches=decoding_config_types)


def translate(config: TranslateConfig) -> None:
    """Translate the text, the input files, standard input or the lines typed at a prompt.

    With references, no search runs: their lines are scored as translations of the input.

    A closed pipe is not an error. Files are complete or absent: all of them appear at the end, if
    there was no error.

    Raises:
        ValueError: The configuration does not fit the checkpoint, or an input is damaged.
        OSError: A file cannot be read or written.
    """
    _prepare(config.kernels, config.threads)
    with contextlib.ExitStack() as stack:
        inputs = open_inputs(config, stack)
        translator = Translator.load(
            config.checkpoint, device=config.device, precision=config.precision
        )
        new_file = stack.enter_context(whole_files())
        partial_output = None
        if config.resume:
            partial_output = PartialOutput(config)
            inputs.skip(partial_output.num_lines)
            outputs = [stack.enter_context(partial_output.open())]
        else:
            outputs = [
                stack.enter_context(open_output(path, key="output", new_file=new_file))
                for path in config.output or (None,)
            ]
        words = _unknown_words(config, translator)
        processes = None
        if config.processes > 1:
            threads = max(1, torch.get_num_threads() // config.processes)
            begin = partial(_begin_process, config, threads)
            processes = stack.enter_context(
                open_processes(translator, number=config.processes, prepare=begin)
            )
        reports = stack.enter_context(open_reports(config, translator, new_file=new_file))
        progress = stack.enter_context(open_progress(config, first=inputs.first, stop=inputs.stop))
        translations = _translations(
            config,
            translator,
            inputs,
            banned_phrases=_read_phrases(config),
            unknown_words=words,
            progress=progress,
            processes=processes,
        )
        first = inputs.first
        if partial_output is not None:
            translations = partial_output.saving(
                translations, every=BATCHES_PER_WINDOW * config.batch_size
            )
        try:
            is_read = _write(config, translations, inputs, outputs=outputs, reports=reports)
        except PrefixError as error:
            name = inputs.companion_name(first + error.index)
            raise ValueError(f"{name} {error.reason}") from error
        if words is not None:
            words.report()
        if is_read:
            progress.log_speed()


def _prepare(kernels: Kernels, threads: int | None) -> None:
    """Set what a process needs before its first product."""
    use_kernels(kernels)
    if threads is not None:
        torch.set_num_threads(threads)


def _begin_process(config: TranslateConfig, threads: int) -> None:
    """Prepare one of several processes."""
    keep_freed_memory()
    log_to_stderr()
    _prepare(config.kernels, threads)
    load_plugins(config.plugins)


def _translations(
    config: TranslateConfig,
    translator: Translator,
    inputs: Inputs,
    *,
    banned_phrases: Sequence[str],
    unknown_words: UnknownWords | None,
    progress: TranslationProgress,
    processes: TranslatorProcesses | None,
) -> Iterator[Translation]:
    """Yield one translation for each input line: found by a search, or the scored reference."""
    size, first = config.batch_size, inputs.first
    windows = inputs.windows(BATCHES_PER_WINDOW * size)
    if config.reference is not None:
        return translator.score_windows(windows, batch_size=size, on_translation=progress.advance)
    splitter = SentenceSplitter(
        size,
        split_length=config.most_tokens(),
        num_tokens=translator.num_tokens,
        leading_symbols=partial(leading_symbols, translator.tokenizers.source),
        name_line=lambda index: inputs.line_name(first + index),
        may_split=not config.needs_whole_lines(),
    )
    found = translator.translate_windows(
        splitter.split(windows),
        config.decoding,
        batch_size=size,
        banned_phrases=banned_phrases,
        on_translation=progress.advance,
        processes=processes,
    )
    if unknown_words is not None:
        found = map(unknown_words.replace, found)
    return splitter.join(found)


def _write(
    config: TranslateConfig,
    translations: Iterator[Translation],
    inputs: Inputs,
    *,
    outputs: Sequence[BinaryIO],
    reports: Sequence[Report],
) -> bool:
    """Write and report translations; return False if a pipe was closed before the end."""
    is_read = True
    for number, translation in enumerate(translations, start=inputs.first):
        for report in reports:
            report(translation, number)
        # With an output for each input, the lines of each output are numbered from 0.
        source, line = inputs.find_line(number) if len(outputs) > 1 else (0, number)
        content = format_translation(config, translation, index=line)
        is_read = write(outputs[source], content) and is_read
        if not (is_read or reports or len(outputs) > 1):
            break
    return is_read


def _read_phrases(config: TranslateConfig) -> list[str]:
    """Return the banned phrases; raise ValueError for an empty one."""
    if config.banned_phrases is None:
        return []
    with open_lines(config.banned_phrases, key="banned_phrases") as lines:
        phrases = list(lines)
        for number, phrase in enumerate(phrases, start=1):
            if not phrase.strip():
                raise ValueError(
                    f"{lines.name}:{number}: the line is empty but must contain a phrase; remove it"
                )
    return phrases


def _unknown_words(config: TranslateConfig, translator: Translator) -> UnknownWords | None:
    """Return what replaces unknown words; None if they are kept.

    Raises:
        ValueError: The dictionary has a wrong line, or the model has no attention.
        OSError: The dictionary cannot be read.
    """
    if config.unknown_words is UnknownTokens.keep:
        return None
    dictionary: dict[str, str] = {}
    if config.dictionary is not None:
        with open_lines(config.dictionary, key="dictionary") as lines:
            dictionary = read_dictionary(lines, name=lines.name)
    return UnknownWords(translator, dictionary=dictionary)


@contextlib.contextmanager
def open_reports(
    config: TranslateConfig, translator: Translator, *, new_file: NewFile
) -> Iterator[list[Report]]:
    """Open the reports that the configuration asks for, in a `whole_files` block around this one.

    Raises:
        ValueError: The model has no attention, or gold links do not fit the sentences.
        OSError: A file cannot be read or written.
    """
    wanted = {key: path for key in _REPORTS if (path := getattr(config, key)) is not None}
    for key, path in wanted.items():
        if translator.num_heads == 0:
            raise ValueError(
                f"{key}={path} needs attention weights, but checkpoint={shown(config.checkpoint)} "
                f"has none; remove {key} or use another checkpoint"
            )
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(_REPORTS[key](config, translator, new_file)) for key in wanted]


@contextlib.contextmanager
def _alignments(
    config: TranslateConfig, translator: Translator, new_file: NewFile
) -> Iterator[Report]:
    """Write the links of the best hypotheses."""
    with open_output(config.alignments, key="alignments", new_file=new_file) as file:

        def report(translation: Translation, index: int) -> None:
            links = translator.links(translation, translation.best)
            file.write(f"{format_links(links)}\n".encode())

        yield report


@contextlib.contextmanager
def _plots(config: TranslateConfig, translator: Translator, new_file: NewFile) -> Iterator[Report]:
    """Draw each hypothesis; the file names of all but the best contain their rank."""
    directory = expand_home(config.attention_plot or "", key="attention_plot")
    if directory.is_file():
        raise ValueError(f"attention_plot={directory} is a file; name a directory")
    directory.mkdir(parents=True, exist_ok=True)

    def report(translation: Translation, index: int) -> None:
        if not translation.source_ids:
            return
        for rank, found in enumerate(translation.hypotheses):
            figure = attention_figure(
                found.attention_weights, translation.source_tokens, found.tokens
            )
            name = f"{index:06d}" if rank == 0 else f"{index:06d}-{rank + 1}"
            with whole_file(directory / f"{name}.png") as file:
                figure.savefig(file, format="png")

    yield report


@contextlib.contextmanager
def _page(config: TranslateConfig, translator: Translator, new_file: NewFile) -> Iterator[Report]:
    """Show the best hypotheses on a page, numbered from 1."""
    with open_output(config.attention_html, key="attention_html", new_file=new_file) as file:
        page = AttentionPage(file)

        def report(translation: Translation, index: int) -> None:
            if not translation.source_ids:
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
    config: TranslateConfig, translator: Translator, new_file: NewFile
) -> Iterator[Report]:
    """Compare the links of the references with gold links, and print their agreement at the end."""
    counts = [0] * 4
    num_sentences = 0
    name = f"gold={config.gold}"
    with open_lines(config.gold or "", key="gold") as reader:
        lines = iter(reader)

        def report(translation: Translation, index: int) -> None:
            nonlocal num_sentences, counts
            num_sentences += 1
            line = next(lines, None)
            if line is None:
                raise ValueError(
                    f"{name} has {counted(index, 'line')}, fewer than the reference; it needs one "
                    "for each, which is empty for a sentence without links"
                )
            where = f"{name}:{num_sentences}"
            gold = parse_links(line, where=where, base=config.gold_base)
            best = translation.best
            lengths = len(translation.source.split()), len(best.text.split())
            check_links(gold, *lengths, where=where, base=config.gold_base)
            found = count_links(translator.links(translation, best), gold)
            counts = list(map(sum, zip(counts, found, strict=True)))

        yield report
        if num_more := sum(1 for _ in lines):
            raise ValueError(
                f"{name} has {counted(num_sentences + num_more, 'line')} but the reference has "
                f"{num_sentences:,}; it needs one for each"
            )
    predicted, sure, found_sure, right = counts
    parts = (right, predicted), (found_sure, sure), (found_sure + right, predicted + sure)
    precision, recall, agreement = (part / whole if whole else math.nan for part, whole in parts)
    print(
        f"alignment: precision {precision:.3f}, recall {recall:.3f}, AER {1 - agreement:.3f} "
        f"({counted(num_sentences, 'sentence')}, {counted(predicted, 'link')})",
        file=sys.stderr,
    )


_Opener = Callable[[TranslateConfig, Translator, NewFile], AbstractContextManager[Report]]
_REPORTS: dict[str, _Opener] = {
    "alignments": _alignments,
    "attention_plot": _plots,
    "attention_html": _page,
    "gold": _agreement,
}


if __name__ == "__main__":
    main()
