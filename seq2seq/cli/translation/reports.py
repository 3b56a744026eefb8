"""Write reports about attention: links, pictures, a page, and the agreement with gold links."""

import contextlib
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from seq2seq.cli.outputs import open_output
from seq2seq.cli.translation.config import TranslateConfig, shown
from seq2seq.evaluation.alignment import Agreement, check_links, format_links, parse_links
from seq2seq.files.atomic import NewFile, whole_file
from seq2seq.files.lines import open_lines
from seq2seq.files.paths import expand_home
from seq2seq.inference.translation import Translation
from seq2seq.inference.translator import Translator
from seq2seq.visualization.page import AttentionPage
from seq2seq.visualization.plots import attention_figure

Report = Callable[[Translation, int], None]
"""Called with each translation and the index of its line."""


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
    agreement = Agreement()
    num_sentences = 0
    name = f"gold={config.gold}"
    with open_lines(config.gold or "", key="gold") as reader:
        lines = iter(reader)

        def report(translation: Translation, index: int) -> None:
            nonlocal num_sentences
            num_sentences += 1
            line = next(lines, None)
            if line is None:
                raise ValueError(
                    f"{name} has {index:,} lines, fewer than the reference; it needs one for "
                    "each, which is empty for a sentence without links"
                )
            where = f"{name}:{num_sentences}"
            gold = parse_links(line, where=where, base=config.gold_base)
            best = translation.best
            lengths = len(translation.source.split()), len(best.text.split())
            check_links(gold, *lengths, where=where, base=config.gold_base)
            agreement.add(translator.links(translation, best), gold)

        yield report
        if num_more := sum(1 for _ in lines):
            raise ValueError(
                f"{name} has {num_sentences + num_more:,} lines but the reference has "
                f"{num_sentences:,}; it needs one for each"
            )
    print(
        f"alignment: precision {agreement.precision:.3f}, recall {agreement.recall:.3f}, "
        f"AER {agreement.error_rate:.3f} "
        f"({num_sentences:,} sentences, {agreement.num_links:,} links)",
        file=sys.stderr,
    )


_Opener = Callable[[TranslateConfig, Translator, NewFile], AbstractContextManager[Report]]
_REPORTS: dict[str, _Opener] = {
    "alignments": _alignments,
    "attention_plot": _plots,
    "attention_html": _page,
    "gold": _agreement,
}
