"""Compose the report of a study and write it."""

from collections.abc import Sequence
from pathlib import Path

from seq2seq.cli.studies.attention import attention
from seq2seq.cli.studies.breakdowns import breakdowns
from seq2seq.cli.studies.comparison import BaselineComparison
from seq2seq.cli.studies.curves import learning_curves
from seq2seq.cli.studies.formats import in_words
from seq2seq.cli.studies.results import results
from seq2seq.cli.studies.runs import Group, Run, describe_repeated_seeds
from seq2seq.cli.studies.settings import devices
from seq2seq.cli.studies.translations import translations
from seq2seq.files.atomic import whole_file
from seq2seq.visualization.report_page import Section, StudyPage


def write_report(
    runs: Sequence[Run],
    groups: Sequence[Group],
    comparisons: Sequence[BaselineComparison],
    path: Path,
) -> None:
    """Write the report; the study is called like the directory of the file."""
    curves, no_curves = learning_curves(groups)
    details, no_details = breakdowns(groups)
    sentences, no_sentences = translations(groups)
    shown = Section(
        title="Translations",
        paragraphs=[
            "Test sentences of all lengths, translated by the run of each group with the best "
            "validation score. Point at a token, or reach it with Tab and the arrow keys, to see "
            "what it looked at or what looked at it."
        ],
        has_sentences=True,
    )
    missing = [*_missing(runs, groups, comparisons), *no_curves, *no_details, *no_sentences]
    sections = [
        results(runs, groups, comparisons),
        curves,
        attention(groups),
        details,
        *([shown] if sentences else []),
        Section(
            title="Not compared",
            paragraphs=[] if missing else ["All runs ended, and all of them are compared."],
            items=missing,
        ),
    ]
    page = StudyPage(
        title=f"Study {path.resolve().parent.name}",
        groups=[group.label for group in groups],
        sections=[each for each in sections if each.paragraphs or each.items or each.tables],
        sentences=sentences,
    )
    with whole_file(path) as file:
        page.write(file)


def _missing(
    runs: Sequence[Run], groups: Sequence[Group], comparisons: Sequence[BaselineComparison]
) -> list[str]:
    """Say which runs failed, which seeds are missing or repeated, and what is not compared."""
    texts = [f"{run.name} failed: {run.failure}." for run in runs if run.failure is not None]
    seeds = sorted({run.seed for run in runs if run.seed}, key=lambda seed: (len(seed), seed))
    for group in groups:
        absent = [seed for seed in seeds if seed not in {run.seed for run in group.runs}]
        if absent:
            name = "seed" if len(absent) == 1 else "seeds"
            texts.append(f"{group.label} has no results with {name} {in_words(absent)}.")
    texts += describe_repeated_seeds(groups)
    if len(groups) > 1 and all(len(group.runs) == 1 for group in groups):
        texts.append(
            "Each group has one run, so the tests say nothing about other seeds; add seed=1,2,3 to "
            "the sweep."
        )
    texts += [
        f"{group.label} is not compared with a baseline: {compared.reason}."
        for group, compared in zip(groups, comparisons, strict=True)
        if compared.reason
    ]
    signatures = dict.fromkeys(run.results.signature for run in runs if run.results.signature)
    if len(signatures) > 1:
        pairs = [
            f"{each} ({sum(run.results.signature == each for run in runs)} runs)"
            for each in signatures
        ]
        texts.append(
            f"The scores have different signatures, so BLEU cannot be compared between them: "
            f"{'; '.join(pairs)}."
        )
    if len(found := devices(runs)) > 1:
        texts.append(
            f"The runs were trained on different devices, so their times cannot be compared: "
            f"{'; '.join(found)}."
        )
    return texts
