"""The benchmark of the loader measures both ways on any corpus."""

from tiny_training import corpus_overrides, write_corpus

from benchmarks.loader_speed import measure
from seq2seq.data.batching import Batches


def test_every_epoch_is_loaded_with_and_without_a_mixture(tmp_path, monkeypatch):
    write_corpus(tmp_path)
    sizes: list[int] = []
    original = Batches.epoch

    def epoch(self, number):
        batches = original(self, number)
        sizes.append(sum(map(len, batches)))
        return batches

    monkeypatch.setattr(Batches, "epoch", epoch)
    once, mixed = measure([*corpus_overrides(tmp_path), "tokenizer=characters"], 3)

    assert sizes == [22] * 6
    assert once > 0
    assert mixed > 0
