"""The same sentences translated by each group of a study, with attention."""

from collections.abc import Sequence

from seq2seq.cli.studies.breakdowns import read_sources
from seq2seq.cli.studies.comparison import groups_with_first_test_set
from seq2seq.cli.studies.run_files import read_scored_lines
from seq2seq.cli.studies.runs import Group, Run
from seq2seq.config.errors import USER_ERRORS, describe_error
from seq2seq.inference.translation import Translation
from seq2seq.inference.translator import Translator
from seq2seq.visualization.report_page import ShownSentence, ShownTranslation

NUM_SENTENCES = 12
_MAX_WEIGHTS = 1_500_000
"""Weights on the page, which bounds its size; each takes two to four bytes."""


def translations(groups: Sequence[Group]) -> tuple[list[ShownSentence], list[str]]:
    """Translate some test sentences with the best run of each group.

    Returns:
        The sentences, and what could not be translated.
    """
    members = groups_with_first_test_set(groups)
    sources = read_sources(groups[members[0]].runs[0]) if members else None
    if not sources:
        return [], ["No sentences are shown, because no run has kept its test.src."]
    _, references = read_scored_lines(groups[members[0]].runs[0].path)
    chosen = choose_sentences(sources, NUM_SENTENCES)
    found, notes = {}, []
    for index in members:
        run = best_run(groups[index])
        try:
            translator = Translator.load(run.path, device="cpu")
            found[index] = translator([sources[i] for i in chosen])
        except USER_ERRORS as error:
            notes.append(f"{run.name} translates no sentences here: {describe_error(error)}.")
    sentences: list[ShownSentence] = []
    left = _MAX_WEIGHTS
    for position, line in enumerate(chosen):
        of_groups = [(index, each[position]) for index, each in found.items()]
        left -= sum(each.best.attention_weights.numel() for _, each in of_groups)
        if left < 0:
            notes.append(
                f"{len(chosen) - position} of {len(chosen)} sentences are not shown, because "
                "their attention would make the page too large."
            )
            break
        shown = [_shown(index, each) for index, each in of_groups]
        sentences.append(ShownSentence(sources[line], references[line], shown))
    return (sentences if found else []), notes


def choose_sentences(sources: Sequence[str], number: int) -> list[int]:
    """Choose sentences of all lengths, from the shortest to the longest.

    Example:
        >>> choose_sentences(["a b c", "a", "", "a b", "a b c d"], 2)
        [3, 4]
    """
    known = [i for i, source in enumerate(sources) if source.strip()]
    ordered = sorted(known, key=lambda i: (len(sources[i].split()), i))
    number = min(number, len(ordered))
    return [ordered[(2 * k + 1) * len(ordered) // (2 * number)] for k in range(number)]


def best_run(group: Group) -> Run:
    """Return the run with the best validation score."""
    return max(group.runs, key=lambda run: run.results.measures.get("valid_bleu", 0.0))


def _shown(group: int, translation: Translation) -> ShownTranslation:
    best = translation.best
    return ShownTranslation(
        group=group,
        text=best.text,
        source_tokens=translation.source_tokens,
        target_tokens=best.tokens,
        weights=(100 * best.attention_weights.double()).round().int().tolist(),
    )
