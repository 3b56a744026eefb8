import math
from dataclasses import replace

import pytest
import torch
from sacrebleu import sentence_chrf
from tiny_translator import SENTENCES, make_translator

from seq2seq.data.tokenizers.words import CharacterTokenizer
from seq2seq.inference.scoring import rank_by_utility
from seq2seq.search.config import BeamConfig, Hypothesis, MbrConfig

MBR = MbrConfig(max_length_ratio=1.0, max_length_offset=3, beam_size=6, n_best=6)
EVERY = BeamConfig(max_length_ratio=1.0, max_length_offset=3, beam_size=6, n_best=6)


def by_two_loops(hypotheses, config):
    """Return texts and expected utilities of the n best of the hypotheses of a beam."""
    texts = [each.text for each in hypotheses]
    powers = [math.exp(each.log_probability) for each in hypotheses]
    found = [
        sum(p * sentence_chrf(text, [other]).score for p, other in zip(powers, texts, strict=True))
        / sum(powers)
        for text in texts
    ]
    order = sorted(range(len(texts)), key=lambda i: (not hypotheses[i].finished, -found[i]))
    return [(texts[i], pytest.approx(found[i], abs=1e-4)) for i in order][: config.n_best]


@pytest.mark.parametrize("changes", [{}, {"n_best": 2}])
def test_the_translation_has_the_largest_expected_utility_of_the_beam(changes):
    config, translator = replace(MBR, **changes), make_translator()

    found = translator(SENTENCES, config)

    of_beam = translator(SENTENCES, EVERY)
    pairs = [pair for pair in zip(found, of_beam, strict=True) if pair[0].source.strip()]
    for mbr, beam in pairs:
        texts_and_scores = [(each.text, each.score) for each in mbr.hypotheses]
        assert texts_and_scores == by_two_loops(beam.hypotheses, config)
    assert any(mbr.best.text != beam.best.text for mbr, beam in pairs)


def test_equal_utilities_keep_the_order_of_the_beam_and_unfinished_ones_come_last():
    weights = torch.zeros(1, 1, 1)
    beam = [Hypothesis([token], -1.0, -1.0, token != 4, weights) for token in (4, 5, 6)]

    ranked = rank_by_utility(beam, CharacterTokenizer("abc"))

    assert [each.ids for each in ranked] == [[5], [6], [4]]
