"""The cases of the translation benchmark run in turn and give the expected output."""

import pytest
from tiny_translator import (
    BEAM,
    SENTENCES,
    make_config,
    make_translate_config,
    make_translator,
    write_checkpoint,
)

from benchmarks.translate_cases import (
    Case,
    Command,
    WithoutAttention,
    ask_peer,
    read_test_set,
    time_in_turn,
)
from seq2seq.cli.translate_config import load_translate_config
from seq2seq.data.corpus import load_corpora
from seq2seq.kernels.products import Kernels
from seq2seq.runtime.devices import Precision


def test_test_set_is_that_of_the_checkpoint_by_default(tmp_path):
    config = load_translate_config(f"checkpoint={write_checkpoint(tmp_path / 'run')}")

    pairs = read_test_set(config)

    test = load_corpora(make_config().data).test
    assert pairs == [(pair.source, pair.target) for pair in test]


def test_peer_without_a_speed_is_refused():
    with pytest.raises(SystemExit, match="must print 'NAME, beam SIZE: X sentences/s'"):
        ask_peer("echo 10.0 sentences/s")


def test_runs_take_turns():
    made = []

    times = time_in_turn([lambda: made.append("a"), lambda: made.append("b")], repeats=3)

    assert made == ["a", "b"] * 3
    assert [len(seconds) for seconds in times] == [3, 3]


def test_without_attention_the_texts_are_equal_and_the_weights_missing():
    case = Case(make_translator(), SENTENCES, BEAM, 3)
    recording = RecordingCase(case)

    texts = WithoutAttention(recording)()

    assert texts == case()
    lengths = [
        translation.best.attention_weights.shape[2]
        for translation in recording.translations
        if translation.source_ids
    ]
    assert lengths == [0] * 6


class RecordingCase:
    """A case that keeps its translations."""

    def __init__(self, case):
        self._case = case

    def __call__(self):
        case = self._case
        self.translations = case.translator(case.lines, case.decoding, batch_size=case.batch_size)
        return [translation.text for translation in self.translations]


@pytest.mark.slow
def test_command_prints_one_line(tmp_path):
    config = make_translate_config(write_checkpoint(tmp_path / "run"), kernels=Kernels.plain)

    assert Command(config, Precision.int8)().count("\n") == 1
