import dataclasses
import logging
import threading

import pytest
import torch
from pretend_cuda import CUDA, pretend_cuda
from tiny_translator import (
    BEAM,
    BEST,
    GREEDY,
    SENTENCES,
    make_checkpoint,
    make_translator,
)

from seq2seq.checkpoints.checkpoint import save_checkpoint
from seq2seq.config.composition import describe_error
from seq2seq.config.schema import load_config
from seq2seq.inference.lines import LONG_SENTENCE
from seq2seq.inference.tally import StreamCounts
from seq2seq.inference.translations import EncodedLine, make_translation
from seq2seq.inference.translator import Translator
from seq2seq.kernels import Kernels
from seq2seq.kernels.products import kernels_in_use
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.runtime.devices import Precision
from seq2seq.runtime.numerics import Numerics
from seq2seq.runtime.process import DeviceMemoryError
from seq2seq.search.config import Hypothesis


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


def test_long_targets_share_smaller_batches_too(translator, monkeypatch):
    shapes, encode = [], translator._model.encode

    def record(source_ids, source_mask):
        shapes.append(tuple(source_ids.shape))
        return encode(source_ids, source_mask)

    monkeypatch.setattr(translator._model, "encode", record)
    pairs = [("a", "b" * LONG_SENTENCE * 3), ("bb", "c"), ("d", "e" * LONG_SENTENCE * 3)]

    list(translator.score(pairs, batch_size=4))

    assert shapes == [(1, 3), (1, 2), (1, 2)]


@pytest.mark.parametrize("scored", [False, True])
def test_a_gpu_gets_each_batch_in_one_copy_and_finds_the_same(monkeypatch, scored):
    def run(translator):
        if scored:
            pairs = [("ja", "a"), ("nein und ja", "b a d")]
            return [(each.text, each.score) for each in translator.score(pairs)]
        return [(each.text, each.score) for each in translator(SENTENCES, GREEDY)]

    plain = make_translator()
    with kernels_in_use(Kernels.plain):  # a GPU uses torch's tanh
        expected = run(plain)
    with pretend_cuda() as cuda:
        monkeypatch.setattr(Seq2Seq, "to", lambda model, _: cuda.move(model))
        numerics = Numerics(CUDA, Precision.fp32)
        found = run(Translator(plain._model, tokenizers=plain.tokenizers, numerics=numerics))

    assert [text for text, _ in found] == [text for text, _ in expected]
    assert [score for _, score in found] == pytest.approx([score for _, score in expected])
    assert not any(line.startswith("translator") for line in cuda.waits)


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


TAGGED = (
    "data=files",
    "data.train={a: {files: [a.tsv], tag: '<2x>'}, b: {files: [b.tsv], tag: '<2y>'}}",
    "data.valid=[c.tsv]",
)
LINES = ["<2x> ja", "ja", "", " <2y> nein", "x <2x> ja"]


@pytest.fixture
def tagged_translator(tmp_path) -> Translator:
    """Load a checkpoint whose training corpora all had a tag."""
    checkpoint = make_checkpoint()
    config = dataclasses.replace(checkpoint.config, data=load_config(*TAGGED).data)
    save_checkpoint(tmp_path / "best.pt", dataclasses.replace(checkpoint, config=config))
    return Translator.load(tmp_path, device="cpu")


def test_sentences_without_a_tag_are_counted_in_translating(tagged_translator, caplog):
    unlimited = dataclasses.replace(BEST, max_length_offset=1000)
    with caplog.at_level(logging.WARNING):
        list(tagged_translator.translate(LINES[::3], unlimited))
        assert not [each for each in caplog.messages if "tag" in each]
        list(tagged_translator.translate(LINES, unlimited, batch_size=2))

    [message] = [each for each in caplog.messages if "tag" in each]
    assert message.startswith(
        "sentences that do not begin with a tag of the training text (<2x>, <2y>): 2 of 5 "
    )


def test_sentences_without_a_tag_are_counted_in_scoring(tagged_translator, caplog):
    with caplog.at_level(logging.WARNING):
        list(tagged_translator.score([(line, "abc") for line in LINES]))

    assert [each.split(";")[0] for each in caplog.messages if "unknown" not in each] == [
        "sentences that do not begin with a tag of the training text (<2x>, <2y>): 2 of 5 "
        "(lines 2, 5)",
        "pairs with text on one side only: 1 of 5 (line 3)",
    ]


def test_unknown_tokens_of_the_input_are_counted_in_translating_and_scoring(caplog):
    translator = make_translator()
    lines = ["ja", "<ja-", "\u65e5\u672c\u8a9e ja"]

    with caplog.at_level(logging.WARNING):
        found = list(translator.translate(lines, BEST, batch_size=2))
        scored = list(translator.score([(line, "abc") for line in lines]))
        list(translator.translate(lines[:1], BEST))

    assert [each.num_unknown_tokens for each in found] == [0, 2, 3]
    assert [each.num_unknown_tokens for each in scored] == [0, 2, 3]
    counts = [each.partition(": ")[2].split("; ")[:2] for each in caplog.messages]
    number = "5 of 12, sentences with them: 2 of 3 (lines 2, 3)"
    assert counts == 2 * [[number, "< (U+003C) x 1, - (U+002D) x 1, '\u65e5\u672c\u8a9e' x 1"]]


def test_warnings_name_the_first_lines(caplog):
    lines = ["ja", *["\u00a0ja"] * 7]

    with caplog.at_level(logging.WARNING):
        list(make_translator().translate(lines, BEST, batch_size=2))

    [message] = [each for each in caplog.messages if "unknown" in each]
    assert "(lines 2, 3, 4, 5, 6, ...); U+00A0 x 7; check the language" in message


@pytest.mark.parametrize(
    ("target", "is_loop"),
    [("aaaaa", True), ("dabcabcabcabc", True), ("abcdabcdcdcdcdcd", True), ("abcdbadcb", False)],
)
def test_loops_are_told_from_long_translations(target, is_loop, caplog):
    tokenizers = make_translator().tokenizers
    [ids] = tokenizers.target.encode([target])
    hypothesis = Hypothesis(ids, -1.0, -1.0, False, torch.zeros(1, len(ids), 2))
    counts = StreamCounts((), BEST)

    counts.add(make_translation(EncodedLine("j", [4]), [hypothesis], tokenizers=tokenizers), 2)
    counts.report()

    [message] = caplog.messages
    expected = (
        "translations that repeat themselves up to the length limit: 1 of 1 (line 3); the input "
        "may be unlike the training text; decoding.no_repeat_ngram=3 forbids repetitions"
    )
    assert (message == expected) == is_loop
    assert ("raise decoding.max_length_ratio" in message) != is_loop


def test_translations_at_the_length_limit_are_counted(caplog):
    short = dataclasses.replace(BEST, max_length_ratio=0.0, max_length_offset=1)

    with caplog.at_level(logging.WARNING):
        found = list(make_translator().translate(SENTENCES, short))

    num_cut = sum(not each.best.finished for each in found)
    assert 0 < num_cut < 8
    [message] = caplog.messages
    assert message.startswith(
        f"translations that reached the length limit: {num_cut} of 8 (line 2); raise "
    )
