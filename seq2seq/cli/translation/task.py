"""Run translate.py: open the streams, translate or score, and write the results."""

import contextlib
from collections.abc import Iterator, Sequence
from functools import partial
from typing import BinaryIO

import torch

from seq2seq.cli.outputs import open_output, write
from seq2seq.cli.translation.config import LongLines, TranslateConfig
from seq2seq.cli.translation.formats import format_scored, format_translation
from seq2seq.cli.translation.inputs import Inputs, open_inputs
from seq2seq.cli.translation.progress import TranslationProgress, open_progress
from seq2seq.cli.translation.reports import Report, open_reports
from seq2seq.cli.translation.word_rules import WordRules, open_word_rules
from seq2seq.data.tokenizers.symbols import leading_symbols
from seq2seq.files.atomic import whole_files
from seq2seq.inference.lexical_constraints import PrefixError
from seq2seq.inference.sentence_splitting import SentenceSplitter
from seq2seq.inference.streaming import BATCHES_PER_WINDOW
from seq2seq.inference.translation import Translation
from seq2seq.inference.translator import Translator
from seq2seq.kernels.switch import use_kernels


def translate(config: TranslateConfig) -> None:
    """Translate the text, the input files, standard input or the lines typed at a prompt.

    With references, no search runs: their lines are scored as translations of the input.

    A closed pipe is not an error. Files are complete or absent: all of them appear at the end, if
    there was no error.

    Raises:
        ValueError: The configuration does not fit the checkpoint, or an input is damaged.
        OSError: A file cannot be read or written.
    """
    use_kernels(config.kernels)
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    with contextlib.ExitStack() as stack:
        inputs = stack.enter_context(open_inputs(config))
        translator = Translator.load(
            config.checkpoint, device=config.device, precision=config.precision
        )
        new_file = stack.enter_context(whole_files())
        outputs = [
            stack.enter_context(open_output(path, key="output", new_file=new_file))
            for path in config.output or (None,)
        ]
        rules = stack.enter_context(open_word_rules(config, translator))
        reports = stack.enter_context(open_reports(config, translator, new_file=new_file))
        progress = stack.enter_context(open_progress(config))
        translations = _translations(config, translator, inputs, rules=rules, progress=progress)
        try:
            is_read = _write(config, translations, inputs, outputs=outputs, reports=reports)
        except PrefixError as error:
            raise ValueError(f"{inputs.companion_name(error.index)} {error.reason}") from error
        if is_read:
            progress.log_speed()


def _translations(
    config: TranslateConfig,
    translator: Translator,
    inputs: Inputs,
    *,
    rules: WordRules,
    progress: TranslationProgress,
) -> Iterator[Translation]:
    """Yield one translation for each input line: found by a search, or the scored reference."""
    size = config.batch_size
    windows = inputs.windows(BATCHES_PER_WINDOW * size)
    if config.reference is not None:
        return translator.score_windows(windows, batch_size=size, on_translation=progress.advance)
    splitter = SentenceSplitter(
        size,
        split_length=config.split_length,
        num_tokens=translator.num_tokens,
        leading_symbols=partial(leading_symbols, translator.tokenizers.source),
    )
    is_split = config.long_lines is LongLines.split
    found = translator.translate_windows(
        splitter.split(windows) if is_split else windows,
        config.decoding,
        batch_size=size,
        banned_phrases=rules.banned_phrases,
        on_translation=progress.advance,
    )
    replaced = map(rules.replace, found)
    return splitter.join(replaced) if is_split else replaced


def _write(
    config: TranslateConfig,
    translations: Iterator[Translation],
    inputs: Inputs,
    *,
    outputs: Sequence[BinaryIO],
    reports: Sequence[Report],
) -> bool:
    """Write and report translations; return False if a pipe was closed before the end."""
    format_line = format_translation if config.reference is None else format_scored
    is_read = True
    for number, translation in enumerate(translations):
        for report in reports:
            report(translation, number)
        # With an output for each input, the lines of each output are numbered from 0.
        source, line = inputs.find_line(number) if len(outputs) > 1 else (0, number)
        content = format_line(config.output_format, translation, index=line)
        is_read = write(outputs[source], content) and is_read
        if not (is_read or reports or len(outputs) > 1):
            break
    return is_read
