import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from tiny_export import BEAM, BEAMS, SENTENCES

from seq2seq import BeamConfig, GreedyConfig, MbrConfig, SamplingConfig, Translator
from seq2seq.export.folder import read_runtime
from seq2seq.export.search import GraphEngine, GraphStep
from seq2seq.export.translator import OnnxTranslator
from seq2seq.search.loop import beam_search

GREEDY = [GreedyConfig(), GreedyConfig(max_length_ratio=0.0, max_length_offset=3)]


@pytest.fixture(scope="module")
def original(checkpoint_path):
    return Translator.load(checkpoint_path, device="cpu")


@pytest.fixture(scope="module")
def translator(exported):
    return OnnxTranslator.load(exported, threads=2)


@pytest.mark.parametrize(
    ("decoding", "batch_size"),
    [*((each, 3) for each in GREEDY + BEAMS), (BEAM, 1), (BEAM, 64)],
    ids=repr,
)
def test_translations_are_those_of_the_translator(original, translator, decoding, batch_size):
    lines = [*SENTENCES, "Ein hund. Zwei kinder --- im park!  Ja", "12:30"]
    expected = original(lines, decoding)

    found = translator(lines, decoding, batch_size=batch_size)

    assert [each.text for each in found] == [each.text for each in expected]
    expected, found = ([s for each in lines for s in each.sentences] for lines in (expected, found))
    for first, second in zip(expected, found, strict=True):
        texts = [each.text for each in first.hypotheses]
        assert len(set(texts)) == len(texts)
        assert first[:3] == second[:3]  # the source, its ids and tokens
        assert first.text == second.text
        assert first.num_unknown_tokens == second.num_unknown_tokens
        assert second.score == pytest.approx(first.score, rel=1e-6, abs=1e-5)
        assert second.expected_chrf == pytest.approx(first.expected_chrf, abs=1e-3)
        assert (first.expected_chrf is None) == (not first.source_ids)
        # Rounding may exchange two hypotheses of nearly equal scores.
        places = {tuple(each.ids): each for each in second.hypotheses}
        for old, same_rank in zip(first.hypotheses, second.hypotheses, strict=True):
            assert same_rank.score == pytest.approx(old.score, rel=1e-6, abs=1e-5)
            if (new := places.get(tuple(old.ids))) is None:  # or leave out the last of them
                assert old.score == pytest.approx(second.hypotheses[-1].score, abs=1e-5)
                continue
            assert (old.text, old.tokens) == (new.text, new.tokens)
            assert old.finished is new.finished
            assert new.score == pytest.approx(old.score, rel=1e-6, abs=1e-5)
            assert new.log_probability == pytest.approx(old.log_probability, rel=1e-6, abs=1e-5)
            assert new.token_log_probabilities == pytest.approx(
                old.token_log_probabilities, abs=3e-5
            )
            np.testing.assert_allclose(
                new.attention_weights, old.attention_weights.numpy(), atol=1e-5
            )


@pytest.mark.parametrize(
    ("threads", "num_lines", "expected"), [(2, 5, [2, 3]), (1000, 24, 8 * [3])]
)
def test_threads_share_the_lines_of_a_single_batch(
    exported, monkeypatch, threads, num_lines, expected
):
    translator = OnnxTranslator.load(exported, threads=threads)
    sizes = []

    def recording(engine, config):
        sizes.append(len(engine.source_mask))
        return beam_search(engine, config)

    monkeypatch.setattr("seq2seq.export.translator.beam_search", recording)
    translator(num_lines * ["ein hund rennt"], GreedyConfig(), batch_size=64)

    assert sorted(sizes) == expected


def test_an_exported_model_of_longer_texts_does_not_split_lines(exported):
    line = "Ein hund. Zwei kinder."
    single = read_runtime(exported)
    several = replace(single, habits={"several_sentences": 0.9})

    split, whole = (
        OnnxTranslator(exported, runtime, threads=1)([line])[0] for runtime in (single, several)
    )

    assert [each.source for each in split.sentences] == ["Ein hund.", "Zwei kinder."]
    assert [each.source for each in whole.sentences] == [line]


@pytest.mark.parametrize(
    ("decoding", "text"),
    [
        (SamplingConfig(), "decoding=sampling"),
        (MbrConfig(), "decoding=mbr"),
        (GreedyConfig(min_length=3), "decoding.min_length=3"),
        (BeamConfig(no_repeat_ngram=2), "decoding.no_repeat_ngram=2"),
        (BeamConfig(coverage_penalty=0.2), "decoding.coverage_penalty=0.2"),
    ],
)
def test_other_searches_are_refused_in_one_line(translator, decoding, text):
    with pytest.raises(ValueError, match=text) as error:
        translator(["ein hund"], decoding)

    assert "\n" not in str(error.value)


def test_translating_needs_no_torch(exported):
    code = f"""
import sys
from seq2seq import BeamConfig, GreedyConfig
from seq2seq.export.translator import OnnxTranslator, SubwordTokenizer
[translation] = OnnxTranslator.load({str(exported)!r})(["ein hund"], BeamConfig())
loaded = {{name.split(".")[0] for name in sys.modules}}
print(translation.text, loaded & {{"torch", "hydra", "omegaconf", "onnx", "sacrebleu"}})
"""

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(" set()\n")


class NanModel:
    vocabulary_size, symbols = 5, np.array([], np.int64)

    def encode(self, source_ids, source_mask):
        return [source_mask], [np.zeros((len(source_ids), 1), np.float32)]

    def step(self, tokens, totals, width, memory, missing, states):
        best = np.full((len(tokens), width), np.nan, np.float32)
        weights = np.zeros((tokens.size, 1, 2), np.float32)
        return GraphStep(best, np.zeros((len(tokens), width), np.int64), weights, states)


def test_probabilities_that_are_not_numbers_are_an_error():
    with pytest.raises(FloatingPointError, match="NaN"):
        beam_search(GraphEngine(NanModel(), [[4]]), BeamConfig())
