"""What translate.py does: open the streams, translate, and write what was asked for."""

import contextlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import BinaryIO, NamedTuple

import torch

from seq2seq.translating.config import LongLines, TranslateConfig
from seq2seq.translating.formats import format_forced, format_translation
from seq2seq.translating.inputs import Portion, open_portions
from seq2seq.translating.long_lines import SentenceSplitter
from seq2seq.translating.outputs import open_output, write
from seq2seq.translating.progress import open_progress
from seq2seq.translating.reports import open_reports
from seq2seq.translating.word_rules import WordRules, open_word_rules
from seq2seq.translation import Translation
from seq2seq.translator import Translator


class _Answer(NamedTuple):
    """A translation, and where it goes."""

    translation: Translation
    place: int
    """of its line among those of this output"""
    output: BinaryIO


def translate(config: TranslateConfig) -> None:
    """Translate the text, the input files, standard input or what is typed at a prompt.

    With references nothing is searched: their lines are scored as translations of the input's.

    A reader that closes standard output ends it quietly. Files are complete or not there: all of
    them get their names at the end, when nothing has gone wrong.

    Raises:
        ValueError: what is asked for cannot be had from this checkpoint.
        OSError: a file cannot be read or written.
    """
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    format_line = format_translation if config.reference is None else format_forced
    with contextlib.ExitStack() as stack:
        portions = stack.enter_context(open_portions(config))
        translator = Translator.load(
            config.checkpoint, device=config.device, precision=config.precision
        )
        outputs = [
            stack.enter_context(open_output(path, key="output"))
            for path in config.output or (None,)
        ]
        rules = stack.enter_context(open_word_rules(config, translator))
        reports = stack.enter_context(open_reports(config, translator))
        progress = stack.enter_context(open_progress(config))
        is_read = True
        needs_all = bool(reports) or len(outputs) > 1
        run = partial(_translations, config, translator, rules=rules, observe=progress.advance)
        answers = (
            _Answer(translation, place, output)
            for portion, output in zip(portions, outputs, strict=True)
            for place, translation in enumerate(run(portion))
        )
        for number, (translation, place, output) in enumerate(answers):
            for report in reports:
                report(translation, number)
            line = format_line(config.output_format, translation, index=place)
            is_read = write(output, line) and is_read
            if not is_read and not needs_all:
                break
        if is_read:
            progress.log_speed()


def _translations(
    config: TranslateConfig,
    translator: Translator,
    portion: Portion,
    *,
    rules: WordRules,
    observe: Callable[[Translation], None],
) -> Iterator[Translation]:
    """Search for translations, or take those of the references."""
    size, has_more = config.batch_size, portion.has_more
    if config.reference is not None:
        return translator.force(
            portion.pairs(), batch_size=size, has_more=has_more, observe=observe
        )
    search = partial(
        translator.translate if config.prefixes is None else translator.complete,
        decoding=config.decoding,
        batch_size=size,
        forbidden=rules.forbidden,
        observe=observe,
    )
    if config.prefixes is not None:
        return map(rules.replace, search(portion.pairs(), has_more=has_more))
    if config.long_lines is LongLines.whole:
        return map(rules.replace, search(portion.lines(), has_more=has_more))
    splitter = SentenceSplitter(
        portion.lines(),
        has_more=has_more,
        num_pieces=translator.num_pieces,
        split_length=config.split_length,
    )
    return splitter.join(map(rules.replace, search(splitter, has_more=splitter.has_more)))
