"""A validation takes part in every process; test_trainer.py has whole runs."""

import json
import math
import signal
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from tiny_training import read_scalars, tiny_numerics, tiny_run, tiny_trainer, write_corpus
from tiny_translator import GREEDY

from seq2seq.config.schema import Metric, load_config
from seq2seq.data.cache import encode_corpus
from seq2seq.data.corpus import Pair
from seq2seq.data.tokenizers.interface import TokenizerPair
from seq2seq.data.tokenizers.words import CharacterTokenizer
from seq2seq.files.links import GoldLinks
from seq2seq.inference import translator
from seq2seq.runtime.distributed import Ranks
from seq2seq.runtime.process import DeviceMemoryError, Interrupted
from seq2seq.search.config import Hypothesis
from seq2seq.training.curves import TensorBoard
from seq2seq.training.preparation import EvaluationSet
from seq2seq.training.validation import Evaluator, metric_value

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
        yield Pair("c", "x", gold_links({(0, 0)}))
        yield Pair("a b", "z y", gold_links({(1, 0), (1, 1)}))


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
        gold=[pair.links for pair in pairs] if gold else None,
    )
    return Evaluator(
        data=data,
        tokenizers=tokenizers,
        decoding=GREEDY,
        batch_size=batch_size,
        numerics=tiny_numerics(config),
    )


def gold_links(links: set[tuple[int, int]]) -> GoldLinks:
    return GoldLinks(frozenset(links), frozenset(links))


class FakeModel(torch.nn.Module):
    """Has the attention weights above and a loss of 2 nats per token."""

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.attention = torch.nn.Module()
        self.attention.num_heads = num_heads


@pytest.fixture
def answers(monkeypatch):
    """Replace loss and search by known results."""

    def known(model, source_ids, source_mask, *, target_ids, target_mask):
        assert not model.training
        found = []
        for ids, target, source in zip(
            target_ids.tolist(), target_mask.sum(1), source_mask.sum(1), strict=True
        ):
            both = [SHORT, SECOND_SHORT] if target == 2 else [WEIGHTS, SECOND]
            weights = torch.tensor(both)[: model.attention.num_heads, :target, :source]
            total = -2.0 * int(target)
            found.append(Hypothesis(ids[: target - 1], total, total, True, weights))
        return found

    def search(model, source_ids, source_mask, config, **keywords):
        assert config is GREEDY
        lengths = source_mask.sum(1).tolist()
        ids = {4: [6, 7, 5], 2: [4]}  # "z y" and "x"
        return [[Hypothesis(ids[n], 0.0, 0.0, True, torch.zeros(1, 1, 1))] for n in lengths]

    monkeypatch.setattr(translator, "score_targets", known)
    monkeypatch.setattr(translator, "search", search)


def entropy(row: list[float]) -> float:
    return -sum(weight * math.log(weight) for weight in row if weight > 0)


@pytest.mark.parametrize("batch_size", [1, 2])
def test_loss_attention_and_alignment_follow_their_definitions(tmp_path, answers, batch_size):
    found = evaluator(tmp_path, batch_size=batch_size).evaluate(FakeModel(1), slow=False)

    assert "ter" not in found.scores
    assert found.scores["loss"] == pytest.approx(2.0)
    assert str(found).endswith(f", Perplexity 7.39, AER {1 / 3:.3f}")
    assert found.scores["perplexity"] == pytest.approx(math.exp(2.0))
    rows = [*WEIGHTS, SHORT[0], SHORT[1]]
    [head] = found.heads
    assert head["entropy"] == pytest.approx(sum(map(entropy, rows)) / 6, rel=1e-6)
    assert head["sharpness"] == pytest.approx((0.9 + 0.25 + 0.5 + 1.0 + 1.0 + 0.5) / 6)
    # a got 0.85, the space 0.5, b more than 1, c more than 1; EOS is no word.
    assert head["coverage"] == pytest.approx((0.85 + 0.5 + 1.0 + 1.0) / 4)
    # Predicted z-b, y-a, x-c against gold z-b, y-b, x-c: 2 of 3 match.
    assert found.scores["aer"] == pytest.approx(1 - 2 * 2 / (3 + 3))
    # The diagonal z-a, y-b, x-c matches 2 of 3 as well.
    assert found.scores["aer_of_diagonal"] == pytest.approx(1 - 2 * 2 / (3 + 3))
    assert head["aer"] == found.scores["aer"]
    assert [each["entropy"] for each in found.heads] == [found.scores["entropy"]]


@pytest.mark.parametrize("batch_size", [1, 2])
def test_translations_have_the_order_of_the_corpus(tmp_path, answers, batch_size):
    found = evaluator(tmp_path, batch_size=batch_size).evaluate(FakeModel(1), slow=True)

    assert found.translations == ["x", "z y"]
    assert found.scores["ter"] == 0.0
    assert found.scores["chrf"] == pytest.approx(100.0)
    assert [len(rows) for rows in found.statistics.values()] == [2] * len(found.statistics)
    assert found.statistics["loss"][:, 0].tolist() == [[4.0, 2.0, 0.0], [8.0, 4.0, 0.0]]


@pytest.mark.parametrize("batch_size", [1, 2])
def test_each_head_and_their_mean_are_compared_with_gold(tmp_path, answers, batch_size):
    found = evaluator(tmp_path, batch_size=batch_size).evaluate(FakeModel(2), slow=False)

    # Gold z-b, y-b, x-c: the first head says z-b, y-a, x-c; the second z-a, y-b, x-EOS, no link.
    rates = [head["aer"] for head in found.heads]
    assert rates == pytest.approx([1 - 2 * 2 / (3 + 3), 1 - 2 * 1 / (2 + 3)])
    # Their mean says z-b (0.65 to 0.35), y-b (0.5625 to 0.25), x-c.
    assert found.scores["aer"] == 0.0


def test_without_heads_or_gold_alignments_there_is_no_error_rate(tmp_path, answers):
    headless = evaluator(tmp_path).evaluate(FakeModel(0), slow=False)
    found = evaluator(tmp_path, gold=False).evaluate(FakeModel(2), slow=False)

    assert headless.heads == []
    assert not headless.scores.keys() & {"aer", "aer_of_diagonal", "entropy"}
    assert not found.scores.keys() & {"aer", "aer_of_diagonal"}
    assert ["aer" in head for head in found.heads] == [False, False]


def test_too_little_memory_of_a_gpu_names_the_batch_and_the_key(tmp_path, monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr(translator, "score_targets", fail)

    with pytest.raises(DeviceMemoryError) as caught:
        evaluator(tmp_path, batch_size=2).evaluate(FakeModel(1), slow=False)

    assert str(caught.value) == (
        "the memory of a GPU is too small for sentences of at most 4 tokens, 2 at a time; "
        "choose a smaller model"
    )


@pytest.fixture
def trainer(tmp_path):
    trainer = tiny_trainer(tmp_path, "training.validation.metric=loss")
    trainer.progress.update = 5
    return trainer


def validate(trainer) -> None:
    with TensorBoard(None, first_update=1) as board:
        trainer._validate(board)


class OtherProcess(Ranks):
    """Ranks of two processes, of which the second has received a signal."""

    def gather_in_first(self, value):
        return [value, None]


def test_a_signal_to_another_process_stops_the_evaluation_of_this_process_too(tmp_path, answers):
    scorer = replace(evaluator(tmp_path), ranks=OtherProcess(0, 0, 1))

    with pytest.raises(Interrupted) as interrupted:
        scorer.evaluate(FakeModel(1), slow=False)

    assert interrupted.value.signal_number == signal.SIGTERM


def test_another_process_counts_and_writes_nothing(trainer, monkeypatch):
    trainer.ranks = Ranks(1, 1, 2)
    monkeypatch.setattr(Ranks, "check_equal_weights", lambda *_: None)
    monkeypatch.setattr(Ranks, "share_from_first", lambda _, own: own)

    validate(trainer)

    assert trainer.progress.best_updates == [5]
    assert not trainer.directory.best.exists()


def test_other_weights_than_those_of_the_first_process_stop_before_scoring(trainer, monkeypatch):
    def differ(ranks, model):
        raise ValueError("the weights differ")

    monkeypatch.setattr(Ranks, "check_equal_weights", differ)

    with pytest.raises(ValueError, match="the weights differ"):
        validate(trainer)

    assert trainer.progress.validated_update == 0
    assert not trainer.directory.best.exists()


def test_every_validation_set_is_scored_and_the_first_one_chooses(tmp_path):
    write_corpus(tmp_path)
    sets = {name: f"['{tmp_path}/a.{name}','{tmp_path}/b.{name}']" for name in ("valid", "test")}
    first = tmp_path / "first"
    short = ("training.max_epochs=2", "training.validation.metric=loss")
    tiny_run(tmp_path, f"data.valid={{first: {sets['valid']}, talks: {sets['test']}}}", *short)
    (tmp_path / "runs" / "tiny").rename(first)
    tiny_run(tmp_path, f"data.valid={sets['valid']}", *short)

    several, one = (
        json.loads((path / "results.json").read_text()) for path in (first, tmp_path / "runs/tiny")
    )
    assert several["valid"] == one["valid"]
    assert several["best_update"] == one["best_update"]
    assert one["other_valid"] == {}
    # The other set is the test set here.
    assert several["other_valid"] == {"talks": one["test"]}
    for text in ("src", "hyp", "ref"):
        of_talks = (first / f"valid.talks.{text}").read_text()
        assert of_talks == (tmp_path / "runs" / "tiny" / f"test.{text}").read_text()
    curves, single = read_scalars(first), read_scalars(tmp_path / "runs" / "tiny")
    assert curves["valid/loss"] == single["valid/loss"]
    assert curves["valid.talks/loss"].keys() == curves["valid/loss"].keys()
    assert not [tag for tag in single if tag.startswith("valid.")]
    log = (first / "train.log").read_text()
    assert log.count("valid.talks BLEU") == 3
    assert f"valid.talks BLEU {one['test']['bleu']:.2f}" in log


def evaluation(*, bleu: float = 20.0, chrf: float = 40.0, loss: float = 2.0) -> SimpleNamespace:
    return SimpleNamespace(scores={"bleu": bleu, "chrf": chrf, "loss": loss})


@pytest.mark.parametrize(
    ("metric", "expected"), [(Metric.bleu, 20.0), (Metric.chrf, 40.0), (Metric.loss, -2.0)]
)
def test_a_higher_value_is_better_by_every_metric(metric, expected):
    assert metric_value(evaluation(), metric) == expected


@pytest.mark.parametrize(("metric", "least"), [(Metric.bleu, 1.0), (Metric.chrf, 0.005)])
def test_a_score_near_zero_is_ranked_by_loss_below_every_other_score(metric, least):
    values = [
        metric_value(evaluation(bleu=score, chrf=score, loss=loss), metric)
        for score, loss in ((0.0, 7.0), (0.9 * least, 3.0), (0.0, 2.0), (least, 9.0))
    ]

    assert values == sorted(values)
    assert values == [-7.0, -3.0, -2.0, least]


def test_a_loss_that_is_not_a_number_names_the_way_out(trainer):
    trainer.model.decoder.output.bias.data[5] = torch.nan

    with pytest.raises(FloatingPointError, match=r"NaN.*compute in fp32"):
        validate(trainer)


def test_every_validation_is_kept(run):
    kept = json.loads((run / "validations.json").read_text())["validations"]

    results = json.loads((run / "results.json").read_text())
    assert [each["update"] for each in kept] == [6, 12]
    assert results["validations"] == kept
    [best] = [each for each in kept if each["update"] == results["best_update"]]
    assert best["loss"] == pytest.approx(results["valid"]["loss"], rel=1e-6)
    for name in ("entropy", "coverage", "sharpness", "end", "backward"):
        assert best[name] == pytest.approx(results["valid"][name], abs=1e-6)


def test_a_run_that_was_killed_after_a_validation_keeps_each_once(trainer):
    evaluation = trainer.evaluator.evaluate(trainer.model, slow=False)
    for update in (6, 12, 18):
        trainer.directory.add_validation(evaluation.scores, update=update)
    expected = trainer.directory.validations.read_bytes()

    for update in (12, 18):  # of a run that is resumed from the last.pt of update 6
        trainer.directory.add_validation(evaluation.scores, update=update)

    assert trainer.directory.validations.read_bytes() == expected
