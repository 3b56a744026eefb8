"""What translate.py does: open the streams, translate, and write what was asked for."""

import contextlib
import io
import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import BinaryIO, NamedTuple

import torch

from seq2seq.translate_attention import open_reports
from seq2seq.translate_config import TranslateConfig
from seq2seq.translate_io import (
    LineReader,
    format_forced,
    format_translation,
    open_output,
    parallel,
)
from seq2seq.translation import Translation
from seq2seq.translator import Translator

PATH_KEYS = (
    "checkpoint",
    "input",
    "reference",
    "output",
    "alignments",
    "attention_plot",
    "attention_html",
    "gold",
)


class _Lines(NamedTuple):
    """Where lines come from."""

    lines: Iterator[str]
    has_more: Callable[[], bool]
    name: str
    """for messages"""


def translate(config: TranslateConfig) -> None:
    """Translate the text, the input file, standard input or what is typed at a prompt.

    With a reference nothing is searched: its lines are scored as translations of the input's.

    A reader that closes standard output ends it quietly. A file is complete or not there.

    Raises:
        ValueError: what is asked for cannot be had from this checkpoint.
        OSError: a file cannot be read or written.
    """
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(_open_lines(config))
        translator = Translator.load(
            config.checkpoint, device=config.device, precision=config.precision
        )
        output = stack.enter_context(open_output(config.output, key="output"))
        reports = stack.enter_context(open_reports(config, translator))
        translations = stack.enter_context(_open_translations(config, translator, source))
        format_line = format_translation if config.reference is None else format_forced
        for index, translation in enumerate(translations):
            for report in reports:
                report(translation, index)
            line = format_line(config.output_format, translation, index=index)
            if not _write(output, line) and not reports:
                break


def quote_plain_values(arguments: Sequence[str]) -> list[str]:
    """Quote `text` and paths on the command line, so that Hydra takes them as they are.

    Without it a comma would ask for a sweep, and an umlaut would be a syntax error. A path that
    is quoted already is left alone, as is `null`.
    """
    return [_quote(argument) for argument in arguments]


@contextlib.contextmanager
def _open_translations(
    config: TranslateConfig, translator: Translator, source: _Lines
) -> Iterator[Iterator[Translation]]:
    """Search for translations, or take those of the reference."""
    if config.reference is None:
        yield translator.translate(
            source.lines,
            config.decoding,
            batch_size=config.batch_size,
            has_more=source.has_more,
        )
        return
    name = f"reference={config.reference}"
    with Path(config.reference).expanduser().open("rb", buffering=0) as file:
        pairs = parallel(source.lines, LineReader(file, name=name), names=(source.name, name))
        yield translator.force(pairs, batch_size=config.batch_size, has_more=source.has_more)


@contextlib.contextmanager
def _open_lines(config: TranslateConfig) -> Iterator[_Lines]:
    """Open whatever the configuration reads from."""
    if config.text is not None:
        text = io.BytesIO(os.fsencode(config.text) + b"\n")
        yield _Lines(iter(LineReader(text, name="text")), has_more=lambda: True, name="text")
    elif config.input is None and sys.stdin.isatty():
        if config.reference is not None:
            raise ValueError(
                f"reference={config.reference} has no place at a prompt; give input=FILE, whose "
                "lines are parallel to those of the reference"
            )
        yield _Lines(_prompt(), has_more=lambda: False, name="prompt")
    else:
        path = sys.stdin.fileno() if config.input is None else Path(config.input).expanduser()
        name = "standard input" if config.input is None else f"input={config.input}"
        with open(path, "rb", buffering=0, closefd=config.input is not None) as file:
            reader = LineReader(file, name=name)
            yield _Lines(iter(reader), has_more=reader.has_more, name=name)


def _prompt() -> Iterator[str]:
    """Yield what is typed until end of file or an interrupt; each line is answered at once."""
    print("Type a sentence and Enter; Ctrl-D ends.", file=sys.stderr)
    while True:
        try:
            # Where output goes to a file, no prompt may get into it.
            yield input("> " if sys.stdout.isatty() else "")
        except (EOFError, KeyboardInterrupt):
            print(file=sys.stderr)
            return


def _write(output: BinaryIO, content: bytes) -> bool:
    """Write at once; say whether somebody still reads."""
    try:
        output.write(content)
        output.flush()
    except BrokenPipeError:
        if output is sys.stdout.buffer:
            # Else the interpreter would try again to flush at its end, and complain.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return False
    return True


def _quote(argument: str) -> str:
    key, equals, value = argument.partition("=")
    if equals and (key == "text" or (key in PATH_KEYS and not _is_hydra_value(value))):
        # Hydra takes backslashes before a quote, and OmegaConf those before "${", as escapes.
        value = re.sub(r"(\\*)('|\Z)", lambda match: match[1] * 2 + "\\'" * bool(match[2]), value)
        value = re.sub(r"(\\*)\$\{", r"\1\1\\${", value)
        return f"{key}='{value}'"
    return argument


def _is_hydra_value(value: str) -> bool:
    is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return is_quoted or value in ("", "null", "???")
