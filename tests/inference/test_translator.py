import dataclasses
import math
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from itertools import count, islice

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
    translated,
    write_checkpoint,
)

from seq2seq.cli.translate_config import load_translate_config
from seq2seq.config.composition import describe_error
from seq2seq.config.schema import load_config
from seq2seq.data.tokenizers.words import CharacterTokenizer
from seq2seq.inference.checkpoint import save_checkpoint
from seq2seq.inference.lines import BATCHES_PER_WINDOW
from seq2seq.inference.tally import StreamCounts
from seq2seq.inference.translations import EncodedLine, make_sentence, sentences_of
from seq2seq.inference.translator import Translator, map_in_threads
from seq2seq.model.seq2seq import Seq2Seq, count_parameters
from seq2seq.runtime.devices import Precision
from seq2seq.runtime.kernels import Kernels
from seq2seq.runtime.kernels.operations import kernels_in_use
from seq2seq.runtime.numerics import Numerics
from seq2seq.runtime.process import DeviceMemoryError
from seq2seq.search.config import GreedyConfig, Hypothesis
from seq2seq.search.searches import search
from seq2seq.special_tokens import EOS, UNK


@pytest.fixture(scope="module")
def translator():
    return make_translator()


def texts(translations):
    return [[found.text for found in translation.hypotheses] for translation in translations]


@pytest.mark.parametrize("batch_size", [1, 3, 7])
@pytest.mark.parametrize("decoding", [GREEDY, BEAM])
def test_each_line_gets_what_search_finds_for_it_alone(translator, decoding, batch_size):
    model, (source, target) = make_checkpoint().build_model(), translator.tokenizers

    translations = list(translator.translate(SENTENCES, decoding, batch_size=batch_size))

    assert [each.source for each in translations] == SENTENCES
    for translation in translations:
        if not translation.source.strip():
            continue
        ids = torch.tensor([[*source.encode([translation.source])[0], EOS]])
        [expected] = search(model, ids, torch.ones_like(ids, dtype=torch.bool), decoding)

        [sentence] = translation.sentences
        for found, hypothesis in zip(sentence.hypotheses, expected, strict=True):
            assert found.text == target.decode(hypothesis.ids)
            assert found.score == pytest.approx(hypothesis.score, rel=1e-6, abs=1e-5)
            torch.testing.assert_close(found.attention_weights, hypothesis.attention_weights)


@pytest.mark.parametrize("targets", [None, ["", "\t"]])
@pytest.mark.parametrize("attention", ["additive", "none"])
def test_a_line_without_text_has_probability_1_without_the_model(
    attention, targets, monkeypatch, caplog
):
    translator, lines = make_translator(attention), ["", " \t\u3000"]
    monkeypatch.setattr(translator._model, "encode", None)

    if targets is None:
        translations = translator.translate(lines, BEAM, batch_size=2)
    else:
        translations = translator.score(zip(lines, targets, strict=True), batch_size=2)

    for translation, text in zip(translations, targets or ["", ""], strict=True):
        [sentence] = translation.sentences
        [found] = sentence.hypotheses
        assert translation.text == text
        assert (found.text, found.score, found.log_probability) == (text, 0.0, 0.0)
        assert (found.ids, found.finished) == ([], True)
        assert found.attention_weights.shape == (translator.num_heads, 1, 1)
        assert sentence.source_tokens == found.tokens == ["</s>"]
    assert caplog.records == []


def test_a_figure_shows_the_chosen_hypothesis_also_of_an_exported_model(translator):
    [translation] = translator.translate(SENTENCES[:1], BEAM)
    [sentence] = translation.sentences
    best, second, *_ = sentence.hypotheses
    exported = second._replace(attention_weights=second.attention_weights.numpy())

    labels = [
        [label.get_text() for label in sentence.figure(chosen).axes[0].get_yticklabels()]
        for chosen in (None, second, exported)
    ]

    assert labels == [best.tokens, second.tokens, second.tokens]


class Line(str):
    """A line that a weak set can hold."""


def echo(batch, **arguments):
    """Replace the search: each line is its own translation."""
    return [translated(str(source.text), str(source.text)) for source in batch]


def test_only_two_windows_of_an_endless_stream_are_held(monkeypatch):
    translator = make_translator()
    monkeypatch.setattr(translator, "search_batch", echo)
    window = 3 * BATCHES_PER_WINDOW
    alive, most = weakref.WeakSet(), 0

    def endless():
        nonlocal most
        for line in map(Line, count()):
            alive.add(line)
            yield line
            most = max(most, len(alive))

    translations = translator.translate(endless(), batch_size=3)
    for number, translation in enumerate(islice(translations, 5 * window)):
        assert translation.text == str(number)

    # The stream itself holds one more line.
    assert window <= most <= 2 * window + 1


def test_without_options_a_translator_searches_as_translate_does():
    checkpoint, expected = make_checkpoint(), make_translator()

    plain = Translator(checkpoint.build_model(), tokenizers=checkpoint.tokenizers)

    assert expected.decoding == checkpoint.config.decoding
    assert texts(plain(SENTENCES)) == texts(
        expected(SENTENCES, load_translate_config("checkpoint=a").decoding)
    )


def test_repr_is_one_line_with_the_size_and_the_device():
    translator = make_translator()
    num_parameters = count_parameters(make_checkpoint().build_model())

    assert repr(translator) == (
        f"Translator({num_parameters:,} parameters, 31 source and 14 target tokens, cpu, fp32, "
        f"decoding={translator.decoding.name})"
    )


def test_a_single_text_is_not_taken_for_lines_of_one_letter(translator):
    with pytest.raises(TypeError, match=r"'ja' must be a list of strings; write translator\(\["):
        translator("ja")


def test_device_and_precision_may_be_named(tmp_path):
    path = write_checkpoint(tmp_path / "run")
    with pytest.raises(ValueError, match="'gpu' is not a valid Device"):
        Translator.load(path, device="gpu")
    with pytest.raises(ValueError, match="'fp8' is not a valid Precision"):
        Translator.load(path, device="cpu", precision="fp8")


@pytest.mark.parametrize("attention", ["additive", "multihead", "none"])
def test_a_scored_translation_has_the_probability_and_weights_of_the_found_one(attention):
    translator = make_translator(attention)
    found = [
        (translation, hypothesis)
        for translation in sentences_of(translator.translate(SENTENCES, BEAM, batch_size=3))
        for hypothesis in translation.hypotheses
        # Without EOS, or of whitespace only, a text is encoded differently.
        if hypothesis.finished and hypothesis.text.strip()
    ]
    assert len(found) > 1
    pairs = [(translation.source, hypothesis.text) for translation, hypothesis in found]

    all_scored = sentences_of(translator.score(pairs, batch_size=2))

    for (translation, expected), scored in zip(found, all_scored, strict=True):
        [hypothesis] = scored.hypotheses
        assert scored[:3] == translation[:3]
        assert hypothesis.score == hypothesis.log_probability
        assert (hypothesis.text, hypothesis.ids) == (expected.text, expected.ids)
        assert (hypothesis.tokens, hypothesis.finished) == (expected.tokens, True)
        assert hypothesis.log_probability == pytest.approx(expected.log_probability, abs=1e-4)
        by_token = hypothesis.token_log_probabilities
        assert by_token == pytest.approx(expected.token_log_probabilities, abs=1e-4)
        assert sum(by_token) == pytest.approx(expected.log_probability, abs=1e-4)
        torch.testing.assert_close(
            hypothesis.attention_weights, expected.attention_weights, rtol=0, atol=1e-5
        )


PAIRS = list(zip(SENTENCES, ["abc", "a.", "", "hgfe dcb", "ab", "", "c" * 40, "e"], strict=True))


def test_batch_size_and_neighbours_change_neither_order_nor_labels(translator):
    alone, together, backwards = (
        sentences_of(translator.score(pairs, batch_size=size))
        for pairs, size in ((PAIRS, 1), (PAIRS, 7), (PAIRS[::-1], 3))
    )
    backwards.reverse()

    assert [(each.source, each.hypotheses[0].text) for each in alone] == PAIRS
    for one, *others in zip(alone, together, backwards, strict=True):
        [expected] = one.hypotheses
        for other in others:
            [found] = other.hypotheses
            assert (other[:3], found.ids, found.tokens) == (one[:3], expected.ids, expected.tokens)
            assert found.log_probability == pytest.approx(expected.log_probability, abs=1e-4)
            torch.testing.assert_close(found.attention_weights, expected.attention_weights)


def test_a_pair_without_text_on_one_side_has_no_links_and_is_counted(translator, caplog):
    pairs = [("ja", " "), ("\t", "abc"), ("ja", "abc"), ("nein", "a")]

    scored = list(translator.score(pairs, batch_size=2))

    links = [translator.links(each, each.hypotheses[0]) for each in scored]
    assert [len(each) > 0 for each in links] == [False, False, True, True]
    without_target, without_source, *_ = sentences_of(scored)
    assert without_target.hypotheses[0].attention_weights.shape == (1, 1, 3)
    assert without_source.hypotheses[0].attention_weights.shape == (1, 4, 1)
    assert without_source.hypotheses[0].log_probability < 0
    [record] = caplog.records
    assert record.getMessage().startswith("pairs with text on one side only: 2 of 4 (lines 1, 2)")


def test_target_tokens_outside_the_vocabulary_are_scored_as_unknown_and_counted(translator, caplog):
    outside, known = sentences_of(
        translator.score([("ja", "a\u65e5b"), ("ja", "ab")], batch_size=2)
    )

    assert math.isfinite(outside.score)
    assert outside.hypotheses[0].ids.count(UNK) == 1
    assert UNK not in known.hypotheses[0].ids
    [record] = caplog.records
    assert record.getMessage() == (
        "target tokens that are unknown to the model, and are scored as <unk>: 1 of 5 (line 1)"
    )


def test_probabilities_that_are_not_numbers_are_an_error():
    translator = make_translator()
    translator._model.decoder.output.bias.data[5] = torch.nan

    with pytest.raises(FloatingPointError, match=r"NaN.*compute in fp32"):
        list(translator.score([("ja", "abc")]))


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

    size = "sentences of at most 6 tokens, 2" if scored else "sentences of at most 9 tokens, 2"
    line = f"the memory of a GPU is too small for {size} at a time; lower batch_size=7"
    assert describe_error(caught.value) == line


TAGGED = (
    "data=files",
    "data.train={a: {files: [a.tsv], tag: '<x>'}, b: {files: [b.tsv], tag: '<y>'}}",
    "data.valid=[c.tsv]",
)
LINES = ["<x> ja", "ja", "", " <y> nein", "x <x> ja"]


@pytest.fixture
def tagged_translator(tmp_path) -> Translator:
    """Load a checkpoint whose training corpora all had a tag."""
    checkpoint = make_checkpoint()
    config = dataclasses.replace(checkpoint.config, data=load_config(*TAGGED).data)
    save_checkpoint(tmp_path / "best.pt", dataclasses.replace(checkpoint, config=config))
    return Translator.load(tmp_path, device="cpu")


@pytest.mark.parametrize("scored", [False, True])
def test_sentences_without_a_tag_are_counted(tagged_translator, caplog, scored):
    for lines in (LINES[::3], LINES):  # the first warn of nothing
        if scored:
            list(tagged_translator.score([(line, "abc") for line in lines], batch_size=2))
        else:
            list(tagged_translator.translate(lines, GREEDY, batch_size=2))

    [message] = [each for each in caplog.messages if "tag" in each]
    assert message.split(";")[0] == (
        "sentences that do not begin with a tag of the training text (<x>, <y>): 2 of 5 "
        "(lines 2, 5)"
    )


def test_unknown_tokens_of_the_input_are_counted_in_translating_and_scoring(caplog):
    translator = make_translator()
    lines = ["ja", "<ja-", "\u65e5\u672c\u8a9e ja"]

    found = list(translator.translate(lines, BEST, batch_size=2))
    scored = list(translator.score([(line, "abc") for line in lines]))
    list(translator.translate(lines[:1], BEST))

    assert [each.num_unknown_tokens for each in found] == [0, 2, 3]
    assert [each.num_unknown_tokens for each in scored] == [0, 2, 3]
    unknown = [each for each in caplog.messages if "unknown" in each]
    counts = [each.partition(": ")[2].split("; ")[:2] for each in unknown]
    number = "5 of 12, sentences with them: 2 of 3 (lines 2, 3)"
    assert counts == 2 * [[number, "< (U+003C) x 1, - (U+002D) x 1, '\u65e5\u672c\u8a9e' x 1"]]


def test_empty_translations_are_counted(caplog):
    found = list(make_translator().translate(["ja", "", "12:30"], BEST))

    assert [each.text for each in found] == ["", "", "12:30"]
    assert caplog.messages == [
        "sentences whose translation is empty: 1 of 3 (line 1); the input may be unlike the "
        "training text; decoding.min_length=2 asks for a word"
    ]


def test_a_sentence_after_a_passed_stop_that_may_be_lost_is_named(caplog):
    few = GreedyConfig(max_length_ratio=0.3, max_length_offset=1)

    list(make_translator().translate(["am 3. mai ja nein", "ja nein doch 3."], few))

    [message] = [each for each in caplog.messages if "go on after a stop" in each]
    assert "much shorter, which may lack what follows: 1 of 2 (line 1); put each" in message


def test_warnings_name_the_first_lines(caplog):
    lines = ["ja", *["\u00a0ja"] * 7]

    list(make_translator().translate(lines, BEST, batch_size=2))

    [message] = [each for each in caplog.messages if "unknown" in each]
    assert "(lines 2, 3, 4, 5, 6, ...); U+00A0 x 7; check the language" in message


def test_columns_that_become_one_sentence_are_named(caplog):
    list(make_translator().translate(["ja", "ja\tja", "\tja\t"], BEST))

    assert any(
        "lines with tabs, which become spaces: 1 (line 2)" in each for each in caplog.messages
    )


LOOPS = [
    "aaaaa",
    "dabcabcabcabc",
    "abcdabcdcdcdcdcd",
    "hahahahahahaha",
    "Donaudampfschiffschiffschiffschiffschi",
    "The street is wet today sister reads at is wet today sister reads at",
    "1,000,000,000,000,000,000",
    "Yes. Yes. Yes. Yes. Yes.",
    "The rain fell all night on the old town and so so so so so so so",
    "\u3053\u3093\u306b\u3061\u306f\u3053\u3093\u306b\u3061\u306f\u3053\u3093\u306b\u3061\u306f",
    "- - - - - - - - -",
    "the red man and the blue man and the red man and the blue man and",
    "international-nationalnationalnational",
    "der alte Mann geht durch das der alte Mann geht du",
    "\u732b\u3068\u72ac\u3068\u9ce5\u3068\u732b\u3068\u72ac\u3068\u9ce5\u3068\u732b\u3068",
    "a man in a red shirt and a man in a blue shirt and a man in a",
    "<b>x</b><b>x</b><b>x</b><b>x",
]
LONG = [
    "abcdbadcb",
    "No, no, said the man who had come from the town to see it",
    "the man with the dog and the woman with the cat went to the market together",
    "He bought 12 apples, 15 pears and 125 plums for 12.50 euros in the shop",
    "the president of the company and the president of the bank met in the town",
]


@pytest.mark.parametrize(
    ("target", "is_loop"), [*((each, True) for each in LOOPS), *((each, False) for each in LONG)]
)
def test_loops_are_told_from_long_translations(target, is_loop, caplog):
    characters = CharacterTokenizer(sorted({*target} - {" "}))
    tokenizers = make_translator().tokenizers._replace(target=characters)
    [ids] = characters.encode([target])
    hypothesis = Hypothesis(ids, -1.0, -1.0, False, torch.zeros(1, len(ids), 2))
    counts = StreamCounts((), BEST)

    counts.add(make_sentence(EncodedLine("j", [4]), [hypothesis], tokenizers=tokenizers), 2)
    counts.report()

    [message] = caplog.messages
    expected = (
        "translations that repeat themselves up to the length limit: 1 of 1 (line 3); the input "
        "may be unlike the training text; decoding.no_repeat_ngram=3 forbids repetitions"
    )
    assert (message == expected) == is_loop
    assert ("raise decoding.max_length_ratio" in message) != is_loop


@pytest.fixture
def _two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@pytest.mark.usefixtures("_two_threads")
def test_results_come_in_the_order_of_the_items():
    second_is_done = threading.Event()

    def work(item):
        if item == 0:
            assert second_is_done.wait(timeout=10)
        if item == 1:
            second_is_done.set()
        return item

    assert list(map_in_threads(work, range(5))) == list(range(5))


@pytest.mark.usefixtures("_two_threads")
def test_each_worker_uses_one_thread_and_the_caller_keeps_its_number():
    def num_threads(item):
        return torch.get_num_threads()

    assert list(map_in_threads(num_threads, range(4))) == [1] * 4
    assert list(map_in_threads(num_threads, range(1))) == [2]
    assert torch.get_num_threads() == 2
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(torch.get_num_threads).result() == 2


@pytest.mark.usefixtures("_two_threads")
def test_an_error_reaches_the_caller_and_stops_the_work():
    begun = []

    def work(item):
        begun.append(item)
        if item == 1:
            raise ValueError("the second")
        time.sleep(0.001)  # else a fast thread may take all items before the caller sees the error

    with pytest.raises(ValueError, match="the second"):
        list(map_in_threads(work, range(1000)))
    assert len(begun) < 1000
