"""Differences between processes are named; test_processes.py has real processes."""

from dataclasses import replace

import pytest
import torch
from tiny_training import tiny_config, write_corpus

from seq2seq.data import TokenizerPair
from seq2seq.data.batching import IdRows
from seq2seq.runtime.distributed import SINGLE_PROCESS, Ranks
from seq2seq.training import agreement
from seq2seq.training.agreement import check_same_config, prepare_in_turn
from seq2seq.training.preparation import prepare_data

SECOND = Ranks(1, 1, 2)


@pytest.fixture
def second_process(monkeypatch):
    """Return a list for what the first process shares; this process is the second one."""
    shared: list[object] = []
    monkeypatch.setattr(agreement, "share_from_first", lambda value, ranks: shared.pop(0))
    monkeypatch.setattr(agreement, "barrier", lambda ranks: None)
    return shared


def test_another_configuration_is_refused_and_other_paths_are_not(tmp_path, second_process):
    own = tiny_config(tmp_path, "data.cache_dir=here", "checkpoint_dir=here")
    second_process += [
        tiny_config(tmp_path, "data.cache_dir=there", "checkpoint_dir=there"),
        tiny_config(tmp_path, "training.max_epochs=7"),
    ]

    check_same_config(own, SECOND)
    with pytest.raises(ValueError, match=r"the first process: training\.max_epochs .*; give all"):
        check_same_config(own, SECOND)


def test_equal_data_are_accepted(tmp_path, second_process):
    config = tiny_config(tmp_path)
    second_process.append(checksums(config))

    prepare_in_turn(config, None, SECOND)


@pytest.mark.parametrize(
    ("name", "named"),
    [
        ("a.train", "the training data and the training ids"),
        ("b.valid", "the validation data"),
        ("a.test", "the test data"),
    ],
)
def test_data_that_differ_are_refused_and_named(tmp_path, second_process, name, named):
    config = tiny_config(tmp_path)
    write_corpus(tmp_path / "first")
    second_process.append(checksums(tiny_config(tmp_path / "first")))
    text = (tmp_path / name).read_text()
    (tmp_path / name).write_text(text.replace("a", "b", 1))

    with pytest.raises(ValueError, match=f"^{named} differ from those of the first process; copy"):
        prepare_in_turn(config, None, SECOND)


def test_a_cache_with_other_ids_is_refused(tmp_path, second_process, monkeypatch):
    """Both processes read the same text; the ids of one cache are others."""
    config = tiny_config(tmp_path)
    second_process.append(checksums(config))
    data = prepare_data(config)
    rows = data.train.epoch(0).source_rows
    changed = rows.ids.copy()
    changed[3] += 1
    encoded = replace(data.train.epoch(0), source_rows=IdRows(changed, rows.offsets))
    monkeypatch.setattr(agreement, "prepare_data", lambda *_: replace(data, train=encoded))

    with pytest.raises(ValueError, match=r"^the training ids differ from those of the first"):
        prepare_in_turn(config, None, SECOND)


class Model:
    """A tokenizer with nothing but a model of many bytes, as SentencePiece has one."""

    def __init__(self, model):
        self._model = model

    def state(self):
        return {"kind": "sentencepiece", "model": self._model}


def test_tokenizers_that_differ_in_one_byte_are_refused(tmp_path, second_process, monkeypatch):
    data, model = prepare_data(tiny_config(tmp_path)), torch.zeros(2000, dtype=torch.uint8)
    first, second = (
        replace(data, tokenizers=TokenizerPair(Model(each), Model(model)))
        for each in (model, model.index_fill(0, torch.tensor([1000]), 1))
    )
    second_process.append(dict(agreement._checksums(first)))
    monkeypatch.setattr(agreement, "prepare_data", lambda *_: second)

    with pytest.raises(ValueError, match=r"^the tokenizers differ from those of the first process"):
        prepare_in_turn(tiny_config(tmp_path), None, SECOND)


@pytest.mark.parametrize(
    ("ranks", "turn"),
    [(SINGLE_PROCESS, 0), (Ranks(0, 0, 4), 0), (Ranks(1, 1, 4), 2), (Ranks(2, 0, 4), 1)],
)
def test_the_first_process_of_each_machine_prepares_before_the_others(
    tmp_path, monkeypatch, ranks, turn
):
    calls: list[str] = []
    monkeypatch.setattr(agreement, "barrier", lambda ranks: calls.append("barrier"))
    monkeypatch.setattr(agreement, "prepare_data", lambda *_: calls.append("prepare"))
    monkeypatch.setattr(agreement, "_check_same_data", lambda data, ranks: None)

    prepare_in_turn(tiny_config(tmp_path), None, ranks)

    assert calls.index("prepare") == turn
    assert calls.count("barrier") == 3


def checksums(config) -> dict[str, str]:
    return dict(agreement._checksums(prepare_data(config)))
