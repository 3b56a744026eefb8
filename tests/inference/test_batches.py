import threading

import pytest
import torch
from tiny_translator import BEAM, GREEDY, SENTENCES, make_translator, record_shapes

from seq2seq.inference.streaming import LONG_SENTENCE


@pytest.fixture(scope="module")
def translator():
    return make_translator()


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


def test_threads_change_nothing(translator, threads):
    threads(1)
    expected = translator(SENTENCES, BEAM, batch_size=2)
    threads(3)

    found = translator(SENTENCES, BEAM, batch_size=2)

    assert [each.text for each in found] == [each.text for each in expected]
    assert [each.score for each in found] == [each.score for each in expected]


@pytest.mark.parametrize("scored", [False, True])
def test_each_batch_has_a_thread(translator, threads, monkeypatch, scored):
    threads(2)
    workers, encode = set(), translator._model.encode
    both_began = threading.Barrier(2, timeout=30)

    def record(*batch):
        if threading.get_ident() not in workers:
            workers.add(threading.get_ident())
            both_began.wait()
        return encode(*batch)

    monkeypatch.setattr(translator._model, "encode", record)
    if scored:
        list(translator.score([("ja", "yes"), ("nein", "no")], batch_size=1))
    else:
        list(translator.translate(["ja", "nein"], GREEDY, batch_size=1))

    assert len(workers - {threading.get_ident()}) == 2


def test_a_batch_does_not_wait_for_the_batches_behind_it(translator, monkeypatch, threads):
    threads(1)  # several threads begin with the batches behind it
    shapes = record_shapes(translator, monkeypatch)

    next(translator.translate(["a", "b", "cc", "dd"], GREEDY, batch_size=2))

    assert shapes == [(2, 2)]


def test_long_sentences_share_smaller_batches(translator, monkeypatch):
    shapes = record_shapes(translator, monkeypatch)
    lines = ["a" * LONG_SENTENCE * 5, "b" * LONG_SENTENCE * 2, "c", "d", "e" * LONG_SENTENCE * 2]

    list(translator.translate(lines, GREEDY, batch_size=4))

    assert shapes == [(2, 2), (2, 2 * LONG_SENTENCE + 1), (1, 5 * LONG_SENTENCE + 1)]


def test_long_targets_share_smaller_batches_too(translator, monkeypatch):
    shapes = record_shapes(translator, monkeypatch)
    pairs = [("a", "b" * LONG_SENTENCE * 3), ("bb", "c"), ("d", "e" * LONG_SENTENCE * 3)]

    list(translator.score(pairs, batch_size=4))

    assert shapes == [(1, 3), (1, 2), (1, 2)]
