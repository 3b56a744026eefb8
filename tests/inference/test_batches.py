import threading

import pytest
import torch
from pretend_cuda import CUDA, pretend_cuda
from tiny_translator import BEAM, GREEDY, SENTENCES, make_translator, record_shapes

from seq2seq.config.errors import describe_error
from seq2seq.inference.streaming import LONG_SENTENCE
from seq2seq.inference.translator import Translator
from seq2seq.runtime.device_memory import DeviceMemoryError
from seq2seq.runtime.numerics import Numerics, Precision


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


@pytest.mark.parametrize("scored", [False, True])
def test_a_gpu_gets_each_batch_in_one_copy_and_finds_the_same(scored):
    def run(translator):
        if scored:
            pairs = [("ja", "a"), ("nein und ja", "b a d")]
            return [(each.text, each.score) for each in translator.score(pairs)]
        return [(each.text, each.score) for each in translator(SENTENCES, GREEDY)]

    plain = make_translator()
    expected = run(plain)
    with pretend_cuda() as cuda:
        numerics = Numerics(CUDA, Precision.fp32)
        moved = Translator(plain._model, tokenizers=plain.tokenizers, numerics=numerics)
        cuda.clear()

        found = run(moved)

    assert [text for text, _ in found] == [text for text, _ in expected]
    assert [score for _, score in found] == pytest.approx([score for _, score in expected])
    assert not any("inference/batches" in line for line in cuda.syncs)


@pytest.mark.parametrize("scored", [False, True])
def test_too_little_memory_of_a_gpu_names_the_batch_and_the_key(monkeypatch, scored):
    translator = make_translator()

    def fail(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(translator._model, "encode", fail)
    with pytest.raises(DeviceMemoryError) as caught:
        if scored:
            list(translator.score([("ja", "yes"), ("nein", "never")], batch_size=7))
        else:
            translator(["ja", "nein und"], GREEDY, batch_size=7)

    size = "2 sentences of at most 6 tokens" if scored else "2 sentences of at most 9 tokens"
    line = f"the memory of a GPU is too small for {size} at a time; lower batch_size=7"
    assert describe_error(caught.value) == line
