"""A validation takes part in every process; test_trainer.py has whole runs."""

import json

import pytest
from tiny_training import read_scalars, tiny_run, tiny_trainer, write_corpus

from seq2seq.runtime.distributed import Ranks
from seq2seq.training import validation
from seq2seq.training.monitoring.tensorboard import TensorBoard


@pytest.fixture
def trainer(tmp_path):
    trainer = tiny_trainer(tmp_path, "training.validation.metric=loss")
    trainer.progress.update = 5
    return trainer


def validate(trainer) -> None:
    with TensorBoard(None, first_update=1) as board:
        trainer.validator.validate(trainer.model, trainer.updater, trainer.progress, board)


def test_the_validation_is_counted_and_the_weights_are_kept(trainer):
    validate(trainer)

    assert trainer.progress.validated_update == 5
    assert trainer.progress.best_update == 5
    assert trainer.directory.next_best(5).exists()


def test_another_process_counts_and_writes_nothing(trainer, monkeypatch):
    trainer.validator._ranks = Ranks(1, 1, 2)
    monkeypatch.setattr(validation, "check_equal_weights", lambda model, ranks: None)
    monkeypatch.setattr(validation, "share_from_first", lambda own, ranks: [*own, (0.0, 3)])

    validate(trainer)

    # The first process knows which checkpoints it could keep.
    assert trainer.progress.best_update == 5
    assert [update for _, update in trainer.progress.best] == [5, 3]
    assert not trainer.directory.next_bests()


def test_other_weights_than_those_of_the_first_process_stop_before_scoring(trainer, monkeypatch):
    def differ(model, ranks):
        raise ValueError("the weights differ")

    monkeypatch.setattr(validation, "check_equal_weights", differ)

    with pytest.raises(ValueError, match="the weights differ"):
        validate(trainer)

    assert trainer.progress.validated_update == 0
    assert not trainer.directory.next_bests()


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
    assert log.count("valid.talks perplexity") == 2
    assert f"valid.talks BLEU {one['test']['bleu']:.2f}" in log
