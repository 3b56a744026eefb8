"""Test sentences that a report shows, with their translations and attention."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import TypedDict

import numpy as np
import pandas as pd

from seq2seq.config.composition import USER_ERRORS, describe_error
from seq2seq.evaluation.measures import MEASURES
from seq2seq.evaluation.metrics import text_lengths
from seq2seq.inference.translations import sentences_of
from seq2seq.studies.interventions import changed_words
from seq2seq.studies.run import Run, without_warnings
from seq2seq.visualization.page import ShownAttention, shown_attention

NUM_SENTENCES = 12
"""Number of sentences of different lengths on the page; those with the highest AER and so on are
added."""
NUM_EXTREME = 4
_MAX_WEIGHTS = 1_500_000
"""Maximum number of weights on the page, which bounds its size; each weight takes two to four
bytes."""


class ShownTranslation(TypedDict):
    """A sentence's translation by one group."""

    group: int
    text: str
    attention: ShownAttention


class ShownSentence(TypedDict):
    """A sentence with the translations of all groups."""

    source: str
    reference: str
    translations: Sequence[ShownTranslation]
    numbers: Mapping[str, float]
    """Numbers that can order the sentences: the first ascending, all others descending."""


def shown_sentences(
    finished: pd.DataFrame, sources: Sequence[str], notes: list[str]
) -> list[ShownSentence]:
    """Translate some test sentences with the best run of each group; `notes` gets what is left out.

    All groups with the test set of the first group, which has the sources, translate.
    """
    if not sources:
        notes.append("No sentences are shown, because no run has kept its test.src.")
        return []
    labels = list(finished["group"].unique())
    runs = with_first_test_set(finished)
    best = runs.loc[runs.groupby("group", sort=False)["valid_bleu"].idxmax()]
    references = best["references"].iloc[0]
    numbers = sentence_numbers(references, best)
    chosen = choose_sentences(sources, NUM_SENTENCES)
    for values in numbers.values():
        highest = sorted(range(len(sources)), key=lambda i: (-values[i], i))
        chosen += [i for i in highest[:NUM_EXTREME] if sources[i].strip()]
    lengths, unit = text_lengths(sources)
    chosen = sorted(dict.fromkeys(chosen), key=lambda i: (lengths[i], i))
    numbers = {f"Source {unit}": list(map(float, lengths)), **numbers}
    found = {}
    for _, run in best.iterrows():
        try:
            trained = Run(run["path"], device="cpu")
            texts, decoding = [sources[i] for i in chosen], trained.config.decoding
            with without_warnings():
                lines = trained.translator(texts, decoding, split="never")
            found[labels.index(run["group"])] = sentences_of(lines)
        except USER_ERRORS as error:
            notes.append(f"{run['run']} translates no sentences here: {describe_error(error)}.")
    sentences: list[ShownSentence] = []
    left = _MAX_WEIGHTS
    for position, line in enumerate(chosen if found else []):
        of_groups = {index: translations[position] for index, translations in found.items()}
        left -= sum(each.best.attention_weights.numel() for each in of_groups.values())
        if left < 0:
            notes.append(
                f"Sentences that are not shown, because their attention would make the page too "
                f"large: {len(chosen) - position} of {len(chosen)}."
            )
            break
        sentences.append(
            {
                "source": sources[line],
                "reference": references[line],
                "translations": [
                    {
                        "group": index,
                        "text": each.best.text,
                        "attention": shown_attention(
                            each.source_tokens, each.best.tokens, each.best.attention_weights
                        ),
                    }
                    for index, each in of_groups.items()
                ],
                "numbers": {name: round(values[line], 3) for name, values in numbers.items()},
            }
        )
    return sentences


def with_first_test_set(finished: pd.DataFrame) -> pd.DataFrame:
    """Return the runs of the groups with the test set of the first group, if it has one."""
    test_sets = finished.groupby("group", sort=False)["test_set"]
    is_alone = finished["group"].map(test_sets.nunique()) == 1
    first = finished["test_set"].iloc[0] if is_alone.iloc[:1].any() else ""
    return finished[is_alone & (finished["test_set"] == first) & (first != "")]


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


def sentence_numbers(references: Sequence[str], runs: pd.DataFrame) -> dict[str, list[float]]:
    """Return the numbers by which a reader may order the sentences.

    The number of different translations, the mean share of words that differ from the reference,
    and, with gold links, the mean AER.

    Args:
        references: The references.
        runs: The runs that translate.
    """
    texts = list(zip(*runs["translations"], strict=True))
    found = {
        "Different translations": [float(len(set(each))) for each in texts],
        "Words unlike the reference": [
            fmean(changed_words([text], [reference]) for text in each)
            for each, reference in zip(texts, references, strict=True)
        ],
    }
    # The first row is the mean of the heads, whose number depends on the type.
    if links := [each["aer"][:, 0] for each in runs["statistics"] if "aer" in each]:
        rates = MEASURES["aer"].score(np.stack(links))
        found["AER"] = rates.mean(axis=0).tolist()
    return found
