"""Scores of whole systems: files of translations against references, and against each other."""

import json
from collections.abc import Sequence
from typing import NamedTuple

from sacrebleu.significance import PairedTest, Result

from seq2seq.cli.outputs import open_output, write
from seq2seq.cli.score_config import ScoreConfig, ScoreFormat, Significance
from seq2seq.evaluation.metrics import build_metrics
from seq2seq.files.atomic import whole_files
from seq2seq.files.lines import open_lines

LEVEL = 0.05
"""a difference that chance alone makes less often is marked"""
TITLES = {"bleu": "BLEU", "chrf": "chrF2", "ter": "TER"}
_TESTS = {Significance.bootstrap: "bs", Significance.approximate_randomization: "ar"}


class MetricScore(NamedTuple):
    """What one metric says of one system."""

    score: float
    mean: float | None
    """over resamples of the lines; None: there were none"""
    interval: float | None
    """the mean plus or minus this holds 95% of the resamples"""
    p_value: float | None
    """of the difference from the first system; None: it is the first"""


class SystemScores(NamedTuple):
    """The scores of systems, and how they were computed."""

    names: Sequence[str]
    scores: dict[str, list[MetricScore]]
    """by metric, for each name"""
    signatures: dict[str, str]
    """sacreBLEU's, by metric; only figures of one signature compare"""


def score_systems(config: ScoreConfig) -> None:
    """Score files of translations and write what came out.

    Raises:
        ValueError: a file has no lines, or not as many as the reference.
        OSError: a file cannot be read or written.
    """
    references = [_read_lines(name, key="reference") for name in config.reference]
    hypotheses = [_read_lines(name, key="hypotheses") for name in config.hypotheses]
    _check_counts(config, references=references, hypotheses=hypotheses)
    with (
        whole_files() as new_file,
        open_output(config.output, key="output", new_file=new_file) as output,
    ):
        scores = compare_systems(
            list(zip(config.hypotheses, hypotheses, strict=True)),
            references,
            significance=config.significance,
            num_samples=config.significance_samples,
        )
        format_scores = _json if config.output_format is ScoreFormat.json else _table
        # Whoever has stopped to read wants no scores.
        write(output, format_scores(scores, config).encode("utf-8", errors="replace"))


def compare_systems(
    systems: Sequence[tuple[str, Sequence[str]]],
    references: Sequence[Sequence[str]],
    *,
    significance: Significance,
    num_samples: int | None,
) -> SystemScores:
    """Score systems with BLEU, chrF2 and TER, and test whether they differ from the first.

    Args:
        systems: their names and detokenised translations; one alone is only scored.
        references: one or more for each translation, each a text of as many lines.
        significance: the test.
        num_samples: how often lines are drawn anew; None: as often as sacreBLEU does.
    """
    names = [name for name, _ in systems]
    metrics = build_metrics()
    if len(systems) == 1:
        [(_, lines)] = systems
        alone = {name: metric.corpus_score(lines, references) for name, metric in metrics.items()}
        return SystemScores(
            names,
            {name: [MetricScore(each.score, None, None, None)] for name, each in alone.items()},
            {name: str(metric.get_signature()) for name, metric in metrics.items()},
        )
    test = PairedTest(
        list(systems),
        metrics,
        references,
        test_type=_TESTS[significance],
        n_samples=num_samples or 0,
    )
    signatures, results = test()
    # The test calls the metrics by titles of its own, but keeps their order.
    titles = dict(zip(metrics, signatures, strict=True))
    return SystemScores(
        names,
        {name: _metric_scores(results[title]) for name, title in titles.items()},
        {name: str(signatures[title]) for name, title in titles.items()},
    )


def _read_lines(name: str, *, key: str) -> list[str]:
    with open_lines(name, key=key) as reader:
        lines = list(reader)
    if not lines:
        raise ValueError(f"{key}={name} is empty; give a file with a translation on each line")
    return lines


def _check_counts(
    config: ScoreConfig, *, references: list[list[str]], hypotheses: list[list[str]]
) -> None:
    """Let every file have as many lines as the first reference."""
    count = len(references[0])
    files = [("reference", *each) for each in zip(config.reference, references, strict=True)]
    files += [("hypotheses", *each) for each in zip(config.hypotheses, hypotheses, strict=True)]
    for key, name, lines in files:
        if len(lines) != count:
            raise ValueError(
                f"{key}={name} has {len(lines):,} lines but reference={config.reference[0]} has "
                f"{count:,}; line for line they must translate the same sentences"
            )


def _metric_scores(results: Sequence[Result | str]) -> list[MetricScore]:
    """Take over what a test found, but for systems that score the same as the first.

    Chance always makes a difference as large as none. sacreBLEU counts only larger ones, so that
    for two equal systems it says next to 0.
    """
    scores: list[MetricScore] = []
    for result in results:
        assert isinstance(result, Result)
        p_value = _plain(result.p_value)
        if scores and result.score == scores[0].score:
            p_value = 1.0
        scores.append(
            MetricScore(float(result.score), _plain(result.mean), _plain(result.ci), p_value)
        )
    return scores


def _plain(value: float | None) -> float | None:
    """Turn a number of numpy, which JSON does not know, into one of Python."""
    return None if value is None else float(value)


def _json(found: SystemScores, config: ScoreConfig) -> str:
    is_compared = len(found.names) > 1
    systems = [
        {"name": name} | {metric: found.scores[metric][index]._asdict() for metric in found.scores}
        for index, name in enumerate(found.names)
    ]
    content = {
        "systems": systems,
        "reference": config.reference,
        "significance": config.significance.name if is_compared else None,
        "signatures": found.signatures,
    }
    return json.dumps(content, ensure_ascii=False) + "\n"


def _table(found: SystemScores, config: ScoreConfig) -> str:
    columns = [["system", *found.names]]
    columns += [[TITLES[metric], *map(_cell, scores)] for metric, scores in found.scores.items()]
    widths = [max(map(len, column)) for column in columns]
    rows = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in zip(*columns, strict=True)
    ]
    if len(found.names) > 1:
        rows += ["", *_explanation(config.significance, found.names[0])]
    rows += ["", *(f"{TITLES[name]:5}  {text}" for name, text in found.signatures.items())]
    return "".join(f"{row}\n" for row in rows)


def _cell(score: MetricScore) -> str:
    text = f"{score.score:.2f}"
    if score.mean is not None:
        text += f" ({score.mean:.2f} +- {score.interval:.2f})"
    if score.p_value is not None:
        text += f" p={score.p_value:.4f}" + "*" * (score.p_value < LEVEL)
    return text


def _explanation(significance: Significance, baseline: str) -> list[str]:
    """Say what the figures beside the scores are."""
    lines = [
        f"p: how often chance alone makes a system differ so much from {baseline}, by paired "
        f"{significance.name.replace('_', ' ')}; * below {LEVEL}"
    ]
    if significance is Significance.bootstrap:
        lines.append("in brackets: the mean over resamples and its 95% interval")
    return lines
