import itertools
import math

import numpy as np
import pytest
import sacrebleu
import torch
from hypothesis import given
from hypothesis import strategies as st

from seq2seq.evaluation.measures import (
    MEASURES,
    Sentences,
    alignment_error_rate,
    head_scores,
    measure,
    score_texts,
    total_scores,
)
from seq2seq.evaluation.metrics import ScoringRule
from seq2seq.files.links import GoldLinks

LINKS = st.frozensets(st.tuples(st.integers(0, 40), st.integers(0, 40)))


@pytest.mark.parametrize("num_words", range(1, 12))
def test_no_rounding_error_takes_a_score_above_100(num_words):
    text = " ".join("abcdefghijkl"[:num_words])

    scores = score_texts([text], [text])

    assert max(scores["bleu"], scores["chrf"]) <= 100
    assert scores["ter"] == 0
    assert num_words < 4 or scores["bleu"] == scores["chrf"] == 100


@pytest.mark.parametrize(
    ("tokenize", "hypothesis", "reference", "ter"),
    [
        ("13a", "the dog runs", "the dog runs fast", 100 * 1 / 4),
        ("zh", "\u6211\u559c\u6b22\u82f9\u679c", "\u6211\u559c\u6b22\u68a8", 100 * 2 / 4),
        ("char", "\u6211\u559c\u6b22\u82f9\u679c", "\u6211\u559c\u6b22\u68a8", 100 * 2 / 4),
    ],
)
def test_ter_counts_edits_for_each_reference_word_or_ideogram(tokenize, hypothesis, reference, ter):
    scores = score_texts([hypothesis], [reference], rule=ScoringRule(tokenize))

    assert scores["ter"] == pytest.approx(ter)


SENTENCES = ["A dog runs through the deep snow.", "Two men sit.", "Nobody is here today, I think."]
TRANSLATIONS = [
    ["A dog runs through snow.", "Two men sit.", "Nobody is here, I think."],
    ["A dog runs through the deep snow.", "Two men stand up.", ""],
    ["Cats sleep", "men", "here I am"],  # no n-gram of two matching words
    ["dog", "Two", "think"],  # too short for n-grams of four words
    ["", "", ""],
    SENTENCES,
]


@pytest.mark.parametrize("name", ["bleu", "chrf", "ter"])
def test_many_sums_are_scored_at_once_and_by_several_references(name):
    sums = np.stack(
        [
            measure(Sentences(translations=each, references=[SENTENCES, TRANSLATIONS[0]]))[name][
                :, 0
            ].sum(axis=0)
            for each in TRANSLATIONS
        ]
    )

    scores = MEASURES[name].score(sums).tolist()

    corpus_score = getattr(sacrebleu, f"corpus_{name}")
    for found, texts in zip(scores, TRANSLATIONS, strict=True):
        expected = corpus_score(texts, [SENTENCES, TRANSLATIONS[0]]).score
        assert found == pytest.approx(expected, abs=1e-9)


def test_a_row_of_the_table_says_what_readers_need():
    assert len(MEASURES) >= 12
    for name, each in MEASURES.items():
        assert each.name == name
        assert each.title and each.__doc__ and not each.__doc__.endswith(".")
        assert each.better in ("higher", "lower", "")
        assert hasattr(Sentences(), each.needs)


def test_only_what_is_known_is_measured():
    assert measure(Sentences(references=[SENTENCES])) == {}
    losses = measure(Sentences(losses=[(3.0, 2, 0), (1.0, 2, 1)], references=[["two words", "b"]]))
    expected = {"loss": 1.0, "perplexity": pytest.approx(math.e), "character_loss": 0.4}
    assert total_scores(losses) == expected
    huge = measure(Sentences(losses=[(1e6, 1, 0)]), ["perplexity"])
    assert math.isfinite(total_scores(huge)["perplexity"])


def test_error_rate_sums_over_the_corpus_before_it_divides():
    predicted = [frozenset({(0, 0), (1, 1), (2, 2)}), frozenset({(0, 0)})]
    gold = [
        GoldLinks(sure=frozenset({(0, 0)}), possible=frozenset({(0, 0), (1, 1)})),
        GoldLinks(sure=frozenset({(1, 0), (0, 1)}), possible=frozenset({(1, 0), (0, 1)})),
    ]

    # |A & S| = 1 + 0, |A & P| = 2 + 0, |A| = 3 + 1, |S| = 1 + 2
    assert alignment_error_rate(predicted, gold) == pytest.approx(1 - 3 / 7)


@given(links=LINKS.filter(bool))
def test_error_rate_is_0_for_the_gold_links_and_1_for_none_of_them(links):
    gold = [GoldLinks(sure=links, possible=frozenset())]  # sure links are possible, too
    others = frozenset((source + 50, target) for source, target in links)

    assert alignment_error_rate([links], gold) == 0
    assert alignment_error_rate([others], gold) == 1
    assert alignment_error_rate([others], [links]) == 1  # those of another seed


@pytest.mark.parametrize("num_sentences", [0, 1, 2])
def test_error_rate_without_any_link_is_refused(num_sentences):
    nothing = [frozenset()] * num_sentences

    with pytest.raises(ValueError, match="neither side has a link"):
        alignment_error_rate(nothing, nothing)


NUM_HEADS = 3
LENGTHS = [(4, 2), (1, 5), (6, 3), (2, 1), (5, 7)]
"""Numbers of source and target tokens of each sentence, including EOS."""


def draw_weights(lengths):
    """Return weights (N, T, S) of each sentence, some of them exactly 0."""
    generator = torch.Generator().manual_seed(3)
    scores = [
        3 * torch.randn(NUM_HEADS, target, source, generator=generator, dtype=torch.float64)
        for source, target in lengths
    ]
    low = [each < each.mean(dim=-1, keepdim=True) for each in scores]
    return [
        each.masked_fill(mask, -math.inf).softmax(dim=-1).numpy()
        for each, mask in zip(scores, low, strict=True)
    ]


SENTENCES_OF_WEIGHTS = draw_weights(LENGTHS)


def expected(sentences, head):
    """Compute the statistics of a head from the definitions, one weight at a time."""
    entropies, sharpnesses, coverages, ends, jumps = [], [], [], [], []
    for rows in (each[head].tolist() for each in sentences):
        for row in rows:
            entropies.append(-sum(weight * math.log(weight) for weight in row if weight > 0))
            sharpnesses.append(max(row))
            ends.append(row[-1])
        places = [row.index(max(row)) for row in rows]
        jumps += [after < before for before, after in itertools.pairwise(places)]
        for column in range(len(rows[0]) - 1):  # the last is EOS
            coverages.append(min(1.0, sum(row[column] for row in rows)))
    found = entropies, coverages, sharpnesses, ends, jumps
    return [sum(each) / len(each) for each in found]


def test_statistics_are_those_of_the_definitions_and_the_first_part_is_their_mean():
    statistics = measure(Sentences(attention=SENTENCES_OF_WEIGHTS))

    heads = head_scores(statistics)

    for number, head in enumerate(heads):
        assert list(head) == ["entropy", "coverage", "sharpness", "end", "backward"]
        wanted = expected(SENTENCES_OF_WEIGHTS, number)
        assert list(head.values()) == pytest.approx(wanted, rel=1e-12)
    assert len({head["entropy"] for head in heads}) == NUM_HEADS
    for name, mean in total_scores(statistics).items():
        assert mean == pytest.approx(sum(head[name] for head in heads) / NUM_HEADS)


def test_low_precision_is_summed_up_in_double():
    weights = np.full((1, 3000, 4), 0.25, dtype=np.float16)

    [head] = head_scores(measure(Sentences(attention=[weights])))

    assert head["entropy"] == pytest.approx(math.log(4), rel=1e-12)


def test_taus_are_averaged_over_the_target_words_that_have_one():
    words = [np.array([1.0, -0.5, np.nan]), np.array([np.nan])]

    statistics = measure(Sentences(taus={"tau_erasure": words}), ["tau_erasure"])

    assert statistics["tau_erasure"][:, 0].tolist() == [[0.5, 2], [0, 0]]
    assert total_scores(statistics) == {"tau_erasure": 0.25}
