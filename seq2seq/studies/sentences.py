"""Test sentences that a report shows, with their translations and attention."""

from collections.abc import Sequence
from statistics import fmean

import numpy as np

from seq2seq.analysis.interventions import changed_words
from seq2seq.config.composition import USER_ERRORS, describe_error
from seq2seq.config.serialization import load_saved_config
from seq2seq.evaluation.measures import MEASURES, Statistics
from seq2seq.evaluation.metrics import text_lengths
from seq2seq.inference.translator import Translator
from seq2seq.studies.comparison import groups_with_first_test_set
from seq2seq.studies.runs import Group
from seq2seq.visualization.page import ShownSentence, ShownTranslation, shown_attention

NUM_SENTENCES = 12
"""Number of sentences of different lengths on the page; those with the highest AER and so on are
added."""
NUM_EXTREME = 4
_MAX_WEIGHTS = 1_500_000
"""Maximum number of weights on the page, which bounds its size; each weight takes two to four
bytes."""


def shown_sentences(groups: Sequence[Group], notes: list[str]) -> list[ShownSentence]:
    """Translate some test sentences with the best run of each group; `notes` gets what is left out.

    All groups with the test set of the first group translate.
    """
    members = groups_with_first_test_set(groups)
    try:
        [first] = [groups[i].runs[0] for i in members[:1]]
        sources, references = first.directory.read_texts("test", ("src", "ref"))
    except (ValueError, OSError):
        notes.append("No sentences are shown, because no run has kept its test.src.")
        return []
    best = [groups[i].best for i in members]
    translated = [run.translations for run in best]
    numbers = sentence_numbers(references, translated, [run.statistics for run in best])
    chosen = choose_sentences(sources, NUM_SENTENCES)
    for values in numbers.values():
        highest = sorted(range(len(sources)), key=lambda i: (-values[i], i))
        chosen += [i for i in highest[:NUM_EXTREME] if sources[i].strip()]
    lengths, unit = text_lengths(sources)
    chosen = sorted(dict.fromkeys(chosen), key=lambda i: (lengths[i], i))
    found = {}
    for index in members:
        run = groups[index].best
        try:
            translator = Translator.load(run.directory.path, device="cpu")
            decoding = load_saved_config(run.directory.config).decoding
            found[index] = translator([sources[i] for i in chosen], decoding, split="never")
        except USER_ERRORS as error:
            notes.append(f"{run.name} translates no sentences here: {describe_error(error)}.")
    sentences: list[ShownSentence] = []
    left = _MAX_WEIGHTS
    for position, line in enumerate(chosen if found else []):
        of_groups = [(index, each[position]) for index, each in found.items()]
        left -= sum(each.best.attention_weights.numel() for _, each in of_groups)
        if left < 0:
            notes.append(
                f"Sentences that are not shown, because their attention would make the page too "
                f"large: {len(chosen) - position} of {len(chosen)}."
            )
            break
        shown: list[ShownTranslation] = [
            {
                "group": index,
                "text": each.best.text,
                "attention": shown_attention(
                    each.source_tokens, each.best.tokens, each.best.attention_weights
                ),
            }
            for index, each in of_groups
        ]
        of_line = {f"Source {unit}": float(lengths[line])}
        of_line |= {name: round(values[line], 3) for name, values in numbers.items()}
        sentences.append(
            {
                "source": sources[line],
                "reference": references[line],
                "translations": shown,
                "numbers": of_line,
            }
        )
    return sentences


def choose_sentences(sources: Sequence[str], number: int) -> list[int]:
    """Choose sentences of all lengths, from the shortest to the longest.

    Example:
        >>> choose_sentences(["a b c", "a", "", "a b", "a b c d"], 2)
        [3, 4]
    """
    lengths, _ = text_lengths(sources)
    known = [i for i, length in enumerate(lengths) if length]
    ordered = sorted(known, key=lambda i: (lengths[i], i))
    number = min(number, len(ordered))
    return [ordered[(2 * k + 1) * len(ordered) // (2 * number)] for k in range(number)]


def sentence_numbers(
    references: Sequence[str],
    translations: Sequence[Sequence[str]],
    statistics: Sequence[Statistics],
) -> dict[str, list[float]]:
    """Return the numbers by which a reader may order the sentences.

    The number of different translations, the mean share of words that differ from the reference,
    and, with gold links, the mean AER.

    Args:
        references: The references.
        translations: The translations of each run.
        statistics: The statistics of each run.
    """
    texts = list(zip(*translations, strict=True))
    found = {
        "Different translations": [float(len(set(each))) for each in texts],
        "Words unlike the reference": [
            fmean(changed_words([text], [reference]) for text in each)
            for each, reference in zip(texts, references, strict=True)
        ],
    }
    # The first row is the mean of the heads, whose number depends on the type.
    if links := [each["aer"][:, 0] for each in statistics if "aer" in each]:
        rates = MEASURES["aer"].score(np.stack(links))
        found["AER"] = rates.mean(axis=0).tolist()
    return found
