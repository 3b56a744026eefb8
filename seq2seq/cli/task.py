"""What translate.py does: open the streams, translate, and write what was asked for."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import BinaryIO

import torch

from seq2seq.cli.config import LongLines, TranslateConfig
from seq2seq.cli.formats import format_forced, format_translation
from seq2seq.cli.inputs import Inputs, open_inputs
from seq2seq.cli.outputs import open_output, write
from seq2seq.cli.progress import open_progress
from seq2seq.cli.reports import Report, open_reports
from seq2seq.cli.word_rules import WordRules, open_word_rules
from seq2seq.files.atomic import whole_files
from seq2seq.inference.lexical_constraints import PrefixError
from seq2seq.inference.sentence_splitting import SentenceSplitter
from seq2seq.inference.translation import Translation
from seq2seq.inference.translator import Translator
from seq2seq.kernels.switch import use_kernels


def translate(config: TranslateConfig) -> None:
    """Translate the text, the input files, standard input or what is typed at a prompt.

    With references nothing is searched: their lines are scored as translations of the input's.

    A reader that closes standard output ends it quietly. Files are complete or not there: all of
    them get their names at the end, when nothing has gone wrong.

    Raises:
        ValueError: what is asked for cannot be had from this checkpoint.
        OSError: a file cannot be read or written.
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
        translations = _translations(
            config, translator, inputs, rules=rules, observe=progress.advance
        )
        if _write(config, translations, inputs, outputs=outputs, reports=reports):
            progress.log_speed()


def _write(
    config: TranslateConfig,
    translations: Iterator[Translation],
    inputs: Inputs,
    *,
    outputs: Sequence[BinaryIO],
    reports: Sequence[Report],
) -> bool:
    """Write and report translations until nobody wants them; say whether all were read."""
    format_line = format_translation if config.reference is None else format_forced
    is_read = True
    for number, translation in enumerate(translations):
        for report in reports:
            report(translation, number)
        # Where each input has its own output, lines are numbered there from 0.
        source, line = inputs.place(number) if len(outputs) > 1 else (0, number)
        content = format_line(config.output_format, translation, index=line)
        is_read = write(outputs[source], content) and is_read
        if not (is_read or reports or len(outputs) > 1):
            break
    return is_read


def _translations(
    config: TranslateConfig,
    translator: Translator,
    inputs: Inputs,
    *,
    rules: WordRules,
    observe: Callable[[Translation], None],
) -> Iterator[Translation]:
    """Search for translations, or take those of the references."""
    size, has_more = config.batch_size, inputs.has_more
    if config.reference is not None:
        return translator.force(inputs.pairs(), batch_size=size, has_more=has_more, observe=observe)
    search = partial(
        translator.translate if config.prefixes is None else translator.complete,
        decoding=config.decoding,
        batch_size=size,
        forbidden=rules.forbidden,
        observe=observe,
    )
    if config.prefixes is not None:
        return map(rules.replace, _named(search(inputs.pairs(), has_more=has_more), inputs))
    if config.long_lines is LongLines.whole:
        return map(rules.replace, search(inputs.lines(), has_more=has_more))
    splitter = SentenceSplitter(
        inputs.lines(),
        has_more=has_more,
        num_tokens=translator.num_tokens,
        split_length=config.split_length,
    )
    return splitter.join(map(rules.replace, search(splitter, has_more=splitter.has_more)))


def _named(translations: Iterator[Translation], inputs: Inputs) -> Iterator[Translation]:
    """Let an error of a prefix say in which file it stands."""
    try:
        yield from translations
    except PrefixError as error:
        raise ValueError(f"{inputs.companion_name(error.index)} {error.reason}") from error
