import numpy as np
import pytest

from seq2seq import BeamConfig
from seq2seq.export.search import Step, search


class NanModel:
    vocabulary_size, symbols = 5, np.array([], np.int64)

    def encode(self, source_ids, source_mask):
        return [source_mask], [np.zeros((len(source_ids), 1), np.float32)]

    def step(self, tokens, totals, width, memory, missing, states):
        best = np.full((len(tokens), width), np.nan, np.float32)
        weights = np.zeros((tokens.size, 1, 2), np.float32)
        return Step(best, np.zeros((len(tokens), width), np.int64), weights, states)


def test_probabilities_that_are_not_numbers_are_an_error():
    with pytest.raises(ValueError, match="NaN"):
        search(NanModel(), [[4]], BeamConfig())
