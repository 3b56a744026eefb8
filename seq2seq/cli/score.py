"""Score files of translations: `python -m seq2seq.cli.score reference=R hypotheses=[A,B]`."""

import json
import logging
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Annotated

from seq2seq.checks import counted
from seq2seq.runtime.process import imports_in_one_line

with imports_in_one_line():
    from tabulate import tabulate

    from seq2seq.checks import Config, FilePath, FilePaths, OneOf
    from seq2seq.cli.command_line import run_command
    from seq2seq.cli.outputs import check_overwrites, open_output, write
    from seq2seq.evaluation.measures import MEASURES
    from seq2seq.evaluation.metrics import (
        CHOICES,
        ScoringRule,
        choose_bleu_tokenize,
        text_warnings,
    )
    from seq2seq.evaluation.significance import LEVEL, MetricScore, SystemScores, compare_systems
    from seq2seq.files.atomic import whole_files
    from seq2seq.files.text import open_lines

logger = logging.getLogger(__name__)


class ScoreFormat(Enum):
    """The format of the scores."""

    text = "text"
    """A table of the scores, and their signatures."""
    json = "json"
    """A JSON object with the same numbers, not rounded."""


@dataclass(kw_only=True, slots=True, repr=False)
class ScoreConfig(Config):
    """The configuration of the command."""

    hypotheses: FilePaths
    """One file for each system; each further system is compared with the first."""
    reference: FilePaths
    """Files of reference translations, parallel to the hypotheses; several files are
    alternatives."""
    bleu_tokenize: Annotated[str, OneOf(CHOICES)]
    """sacreBLEU's tokenizer for BLEU; auto: chosen by the language in the name of the reference
    file. With zh, ja-mecab, char and flores200, TER normalizes the text and counts each ideogram as
    a word."""
    lowercase: bool
    """Ignore case in BLEU and chrF; TER always ignores it."""
    output: FilePath | None
    """File for the scores; None: standard output."""
    output_format: ScoreFormat

    def __post_init__(self) -> None:
        Config.__post_init__(self)
        check_overwrites(
            read={"hypotheses": self.hypotheses, "reference": self.reference},
            written={"output": [] if self.output is None else [self.output]},
        )


def main() -> None:
    """Run the command with the arguments of this process."""
    # sacreBLEU logs the steps of its tests at INFO.
    logging.getLogger("sacrebleu").setLevel(logging.WARNING)
    run_command("score", ScoreConfig, score_systems)


def score_systems(config: ScoreConfig) -> None:
    """Score files of translations and write the scores.

    Raises:
        ValueError: A file is empty, or has a different number of lines from the reference.
        OSError: A file cannot be read or written.
    """
    references = [_read_lines(name, key="reference") for name in config.reference]
    hypotheses = [_read_lines(name, key="hypotheses") for name in config.hypotheses]
    count = len(references[0])
    named = [("reference", *each) for each in zip(config.reference, references, strict=True)]
    named += [("hypotheses", *each) for each in zip(config.hypotheses, hypotheses, strict=True)]
    for key, name, lines in named:
        if len(lines) != max(count, 1):
            first = f", but reference={config.reference[0]} has {count:,}" if count else ""
            raise ValueError(
                f"{key}={name} has {counted(len(lines), 'line')}{first}; give equally many lines, "
                "at least one: line n of all files must translate the same sentence"
            )
    # The name of a file ends with the language of its text: ref.en or ref.en.gz.
    language = Path(config.reference[0].removesuffix(".gz")).suffix.removeprefix(".")
    bleu_tokenize = choose_bleu_tokenize(config.bleu_tokenize, language=language)
    texts = {name: lines for _, name, lines in named}
    for warning in text_warnings(texts, bleu_tokenize, key="bleu_tokenize"):
        logger.warning("%s", warning)
    with (
        whole_files() as new_file,
        open_output(config.output, key="output", new_file=new_file) as output,
    ):
        scores = compare_systems(
            list(zip(config.hypotheses, hypotheses, strict=True)),
            references,
            rule=ScoringRule(bleu_tokenize, config.lowercase),
        )
        format_scores = _json if config.output_format is ScoreFormat.json else _table
        # `write` returns False for a closed pipe, which is not an error.
        write(output, format_scores(scores, config).encode("utf-8", errors="replace"))


def _read_lines(name: str, *, key: str) -> list[str]:
    with open_lines(name, key=key) as reader:
        return list(reader)


def _json(found: SystemScores, config: ScoreConfig) -> str:
    is_compared = len(found.names) > 1
    systems = [
        {"name": name} | {metric: found.scores[metric][index]._asdict() for metric in found.scores}
        for index, name in enumerate(found.names)
    ]
    content = {
        "systems": systems,
        "reference": config.reference,
        "significance": "approximate_randomization" if is_compared else None,
        "signatures": found.signatures,
    }
    return json.dumps(content, ensure_ascii=False) + "\n"


def _table(found: SystemScores, config: ScoreConfig) -> str:
    columns = {"system": list(found.names)}
    columns |= {
        MEASURES[name].title: [_cell(each, MEASURES[name].form) for each in scores]
        for name, scores in found.scores.items()
    }
    lines = tabulate(columns, headers="keys", tablefmt="plain", disable_numparse=True).splitlines()
    if len(found.names) > 1:
        lines += [
            "",
            f"p: probability of at least this difference from {found.names[0]} by chance "
            f"(approximate randomization); * below {LEVEL}",
            "in brackets: mean over bootstrap resamples and 95% interval",
        ]
        if len(found.names) > 2:
            lines.append("p is not corrected for several comparisons")
    if "norm:yes" in found.signatures["ter"]:
        lines += [
            "",
            "TER: on normalized text, where each ideogram is a word, because of bleu_tokenize",
        ]
    titles = {name: MEASURES[name].title for name in found.signatures}
    width = max(map(len, titles.values()))
    lines += ["", *(f"{titles[name]:{width}}  {text}" for name, text in found.signatures.items())]
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _cell(score: MetricScore, form: str) -> str:
    text = f"{score.score:{form}}"
    if score.mean is not None:
        text += f" ({score.mean:{form}} +- {score.interval:{form}})"
    if score.p_value is not None:
        text += f" p={score.p_value:.4f}" + "*" * (score.p_value < LEVEL)
    return text


if __name__ == "__main__":
    main()
