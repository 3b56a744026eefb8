import math
from types import SimpleNamespace

import pytest
import torch
from pretend_cuda import pretend_cuda
from tiny_training import tiny_config, tiny_numerics, tiny_trainer
from tiny_translator import GREEDY

from seq2seq.config.models import build_model
from seq2seq.config.schema import load_config
from seq2seq.data import CharacterTokenizer, Pair, TokenizerPair, encode_corpus
from seq2seq.evaluation.alignment import GoldLinks
from seq2seq.evaluation.attention_statistics import HeadStatistics
from seq2seq.runtime.device_memory import DeviceMemoryError
from seq2seq.search import Hypothesis
from seq2seq.training import evaluator as module
from seq2seq.training.evaluator import Evaluation, Evaluator
from seq2seq.training.preparation import EvaluationSet, prepare_data

# Source tokens a, space, b, EOS; target tokens z, space, y: rows z, space, y, EOS.
WEIGHTS = [
    [0.1, 0.0, 0.9, 0.0],
    [0.25, 0.25, 0.25, 0.25],
    [0.5, 0.25, 0.125, 0.125],
    [0.0, 0.0, 0.0, 1.0],
]
SHORT = [[1.0, 0.0, 0.0, 0.0], [0.5, 0.5, 0.0, 0.0], [0.0] * 4, [0.0] * 4]
# Weights of the second head.
SECOND = [[0.6, 0.0, 0.4, 0.0], [1.0, 0.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0], [0.0, 0.0, 0.0, 1.0]]
SECOND_SHORT = [[0.0, 1.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0] * 4, [0.0] * 4]


class Corpus:
    """Two sentences: "c" becomes "x", and "a b", which is scored first, "z y" crossed over."""

    name = "valid"
    fingerprint = "crossed"
    num_lines = 2

    def __iter__(self):
        return self.lines()

    def lines(self):
        yield Pair("c", "x", frozenset({(0, 0)}))
        yield Pair("a b", "z y", frozenset({(1, 0), (1, 1)}))


def evaluator(folder, *, batch_size: int = 2, gold: bool = True) -> Evaluator:
    config = load_config(
        f"data.cache_dir='{folder}'", "training.device=cpu", "training.precision=fp32"
    )
    tokenizers = TokenizerPair(CharacterTokenizer("abc "), CharacterTokenizer("xyz "))
    pairs = list(Corpus())
    data = EvaluationSet(
        encoded=encode_corpus(Corpus(), tokenizers, config.data),
        sources=[pair.source for pair in pairs],
        references=[pair.target for pair in pairs],
        gold=[gold_of(pair) for pair in pairs] if gold else None,
    )
    return Evaluator(
        data=data,
        tokenizers=tokenizers,
        decoding=GREEDY,
        batch_size=batch_size,
        numerics=tiny_numerics(config),
    )


def gold_of(pair: Pair) -> GoldLinks:
    assert pair.links is not None
    return GoldLinks(pair.links, pair.links)


class FakeModel(torch.nn.Module):
    """Has the attention weights above and a loss of 2 nats per token."""

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.attention = torch.nn.Module()
        self.attention.num_heads = num_heads


@pytest.fixture
def answers(monkeypatch):
    """Replace loss and search by known results."""

    def known_loss(model, batch, *, label_smoothing):
        assert label_smoothing == 0.0
        assert not model.training
        rows, columns = batch.target_ids.shape[1], batch.source_ids.shape[1]
        both = torch.tensor([[SHORT, SECOND_SHORT], [WEIGHTS, SECOND]])[batch.indices]
        weights = both[:, : model.attention.num_heads, :rows, :columns]
        tokens = batch.target_mask.sum()
        return SimpleNamespace(cross_entropy=2.0 * tokens, attention_weights=weights)

    def search(model, source_ids, source_mask, config):
        assert config is GREEDY
        lengths = source_mask.sum(1).tolist()
        ids = {4: [6, 7, 5], 2: [4]}  # "z y" and "x"
        return [[Hypothesis(ids[n], 0.0, 0.0, True, torch.zeros(1, 1, 1))] for n in lengths]

    monkeypatch.setattr(module, "sequence_loss", known_loss)
    monkeypatch.setattr(module, "search", search)


def entropy(row: list[float]) -> float:
    return -sum(weight * math.log(weight) for weight in row if weight > 0)


@pytest.mark.parametrize("batch_size", [1, 2])
def test_loss_attention_and_alignment_follow_their_definitions(tmp_path, answers, batch_size):
    found = evaluator(tmp_path, batch_size=batch_size).evaluate(FakeModel(1), ter=False)

    assert found.loss == pytest.approx(2.0)
    assert found.perplexity == pytest.approx(math.exp(2.0))
    rows = [*WEIGHTS, SHORT[0], SHORT[1]]
    [head] = found.heads
    assert head.entropy == pytest.approx(sum(map(entropy, rows)) / 6, rel=1e-6)
    assert head.sharpness == pytest.approx((0.9 + 0.25 + 0.5 + 1.0 + 1.0 + 0.5) / 6)
    # a got 0.85, the space 0.5, b more than 1, c more than 1; EOS is no word.
    assert head.coverage == pytest.approx((0.85 + 0.5 + 1.0 + 1.0) / 4)
    # Predicted z-b, y-a, x-c against gold z-b, y-b, x-c: 2 of 3 match.
    assert found.alignment is not None
    assert found.alignment.error_rate == pytest.approx(1 - 2 * 2 / (3 + 3))
    # The diagonal z-a, y-b, x-c matches 2 of 3 as well.
    assert found.alignment.diagonal_error_rate == pytest.approx(1 - 2 * 2 / (3 + 3))
    assert head.alignment_error_rate == found.alignment.error_rate


@pytest.mark.parametrize("batch_size", [1, 2])
def test_translations_have_the_order_of_the_corpus(tmp_path, answers, batch_size):
    found = evaluator(tmp_path, batch_size=batch_size).evaluate(FakeModel(1), ter=True)

    assert found.translations == ["x", "z y"]
    assert found.scores.ter == 0.0
    assert found.scores.chrf == pytest.approx(100.0)


def test_ter_is_computed_only_on_request(tmp_path, answers):
    assert evaluator(tmp_path).evaluate(FakeModel(1), ter=False).scores.ter is None


@pytest.mark.parametrize("batch_size", [1, 2])
def test_each_head_and_their_mean_are_compared_with_gold(tmp_path, answers, batch_size):
    found = evaluator(tmp_path, batch_size=batch_size).evaluate(FakeModel(2), ter=False)

    # Gold z-b, y-b, x-c: the first head says z-b, y-a, x-c; the second z-a, y-b, x-EOS, no link.
    rates = [head.alignment_error_rate for head in found.heads]
    assert rates == pytest.approx([1 - 2 * 2 / (3 + 3), 1 - 2 * 1 / (2 + 3)])
    # Their mean says z-b (0.65 to 0.35), y-b (0.5625 to 0.25), x-c.
    assert found.alignment is not None
    assert found.alignment.error_rate == 0.0


def test_each_head_has_its_own_statistics(tmp_path, answers):
    first, second = evaluator(tmp_path).evaluate(FakeModel(2), ter=False).heads

    [alone] = evaluator(tmp_path).evaluate(FakeModel(1), ter=False).heads
    assert first == alone
    assert second.entropy == pytest.approx(entropy([0.6, 0.4]) / 6, rel=1e-6)
    assert second.sharpness == pytest.approx((0.6 + 5) / 6)
    assert second.coverage == pytest.approx(2 / 4)  # a and b, neither the space nor c


def test_without_heads_there_are_neither_statistics_nor_alignment(tmp_path, answers):
    found = evaluator(tmp_path).evaluate(FakeModel(0), ter=False)

    assert found.heads == []
    assert found.alignment is None


def test_without_gold_alignments_there_is_no_error_rate(tmp_path, answers):
    found = evaluator(tmp_path, gold=False).evaluate(FakeModel(2), ter=False)

    assert found.alignment is None
    assert [head.alignment_error_rate for head in found.heads] == [None, None]


def evaluate_tiny(folder, *, batch_size: int) -> Evaluation:
    config = tiny_config(folder)
    data = prepare_data(config)
    torch.manual_seed(2)
    model = build_model(
        config,
        source_vocabulary_size=len(data.tokenizers.source),
        target_vocabulary_size=len(data.tokenizers.target),
    )
    for parameter in model.parameters():
        parameter.data.normal_(std=0.7)
    return Evaluator(
        data=data.valid,
        tokenizers=data.tokenizers,
        decoding=GREEDY,
        batch_size=batch_size,
        numerics=tiny_numerics(config),
    ).evaluate(model, ter=True)


def test_the_batch_size_changes_no_score(tmp_path):
    alone, together = (evaluate_tiny(tmp_path, batch_size=size) for size in (1, 4))

    assert alone.translations == together.translations
    assert alone.scores == together.scores
    assert alone.loss == pytest.approx(together.loss, rel=1e-6)
    assert flatten(alone.heads) == pytest.approx(flatten(together.heads), rel=1e-5)


def flatten(heads: list[HeadStatistics]) -> list[float]:
    return [value for head in heads for value in head[:3]]


def test_too_little_memory_of_a_gpu_names_the_batch_and_the_key(tmp_path, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(module, "sequence_loss", fail)

    with pytest.raises(DeviceMemoryError) as caught:
        evaluator(tmp_path, batch_size=2).evaluate(FakeModel(1), ter=False)

    assert str(caught.value) == (
        "the memory of a GPU is too small for 2 sentences of at most 4 tokens at a time; "
        "lower training.validation.batch_size=2"
    )


@pytest.mark.parametrize("training", [True, False])
def test_the_mode_of_the_model_is_restored(tmp_path, answers, training):
    model = FakeModel(1).train(training)

    evaluator(tmp_path).evaluate(model, ter=False)

    assert model.training is training


def test_a_loss_beyond_floats_has_a_perplexity():
    evaluation = Evaluation(
        scores=None,  # type: ignore[arg-type]  # not looked at
        loss=1e9,
        heads=[],
        alignment=None,
        hypotheses=[],
        translations=[],
    )

    assert evaluation.perplexity == math.exp(700)


@pytest.mark.parametrize("has_gold", [False, True])
def test_beside_its_search_the_host_waits_for_a_batch_once_for_each_result(tmp_path, has_gold):
    with pretend_cuda() as cuda:
        trainer = tiny_trainer(tmp_path, "training.device=cuda", "training.validation.batch_size=2")
        scored = trainer.validator.evaluator
        if has_gold:
            links = frozenset({(0, 0)})
            scored.data.gold = [GoldLinks(links, links)] * len(scored.data.sources)
        model = cuda.move(trainer.model)
        cuda.clear()
        scored.evaluate(model, ter=False)

    waits = [count for line, count in cuda.syncs.items() if not line.startswith("search/")]
    num_batches = 3  # of 5 sentences
    # The loss, the statistics of attention, and the weights that word links are computed from.
    assert waits == [num_batches] * (3 if has_gold else 2)
