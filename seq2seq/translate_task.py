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

from seq2seq.alignment import format_links
from seq2seq.figures import attention_figure
from seq2seq.translate_config import TranslateConfig
from seq2seq.translate_io import LineReader, format_translation, open_output
from seq2seq.translator import Translation, Translator

PATH_KEYS = ("checkpoint", "input", "output", "alignments", "attention_plot")


class _Lines(NamedTuple):
    """Where lines come from."""

    lines: Iterator[str]
    has_more: Callable[[], bool]


def translate(config: TranslateConfig) -> None:
    """Translate the text, the input file, standard input or what is typed at a prompt.

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
        _check_attention(config, translator)
        output = stack.enter_context(open_output(config.output, key="output"))
        alignments = None
        if config.alignments is not None:
            alignments = stack.enter_context(open_output(config.alignments, key="alignments"))
        translations = translator.translate(
            source.lines,
            config.decoding,
            batch_size=config.batch_size,
            has_more=source.has_more,
        )
        for index, translation in enumerate(translations):
            if alignments is not None:
                links = translator.links(translation, translation.hypotheses[0])
                alignments.write(f"{format_links(links)}\n".encode())
            if config.attention_plot is not None:
                _plot(translation, Path(config.attention_plot).expanduser(), index=index)
            line = format_translation(config.output_format, translation, index=index)
            if not _write(output, line):
                break


def quote_plain_values(arguments: Sequence[str]) -> list[str]:
    """Quote `text` and paths on the command line, so that Hydra takes them as they are.

    Without it a comma would ask for a sweep, and an umlaut would be a syntax error. A path that
    is quoted already is left alone, as is `null`.
    """
    return [_quote(argument) for argument in arguments]


@contextlib.contextmanager
def _open_lines(config: TranslateConfig) -> Iterator[_Lines]:
    """Open whatever the configuration reads from."""
    if config.text is not None:
        text = io.BytesIO(os.fsencode(config.text) + b"\n")
        yield _Lines(iter(LineReader(text, name="text")), has_more=lambda: True)
    elif config.input is None and sys.stdin.isatty():
        yield _Lines(_prompt(), has_more=lambda: False)
    else:
        path = sys.stdin.fileno() if config.input is None else Path(config.input).expanduser()
        name = "standard input" if config.input is None else f"input={config.input}"
        with open(path, "rb", buffering=0, closefd=config.input is not None) as file:
            reader = LineReader(file, name=name)
            yield _Lines(iter(reader), has_more=reader.has_more)


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


def _check_attention(config: TranslateConfig, translator: Translator) -> None:
    """Raise ValueError where attention is asked for that the model does not have."""
    for key in ("alignments", "attention_plot"):
        path = getattr(config, key)
        if path is not None and translator.num_heads == 0:
            raise ValueError(
                f"{key}={path} needs attention weights, but checkpoint={config.checkpoint} has "
                f"none; leave {key} out or translate with another checkpoint"
            )
    if config.attention_plot is not None:
        Path(config.attention_plot).expanduser().mkdir(parents=True, exist_ok=True)


def _plot(translation: Translation, directory: Path, *, index: int) -> None:
    """Draw each hypothesis; those after the best have their rank in the file's name."""
    if not translation.source_ids:
        return
    for rank, found in enumerate(translation.hypotheses):
        figure = attention_figure(found.weights, translation.source_pieces, found.pieces)
        name = f"{index:06d}" if rank == 0 else f"{index:06d}-{rank + 1}"
        figure.savefig(directory / f"{name}.png")


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
