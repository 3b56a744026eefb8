import copy
import logging

import pytest
import torch
from same_run import act_in, is_equal
from tiny_training import read_scalars, saved_weights, tiny_trainer, training_state

from seq2seq.inference.checkpoint import load_checkpoint
from seq2seq.training import trainer as trainer_module
from seq2seq.training.resume import continue_training
from seq2seq.training.trainer import Trainer
from seq2seq.training.updates import NonFiniteError, Updater
from seq2seq.training.validation import Evaluator


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("trainer")


@pytest.fixture
def make(folder):
    """Return a function that makes trainers in one run directory, which it empties."""

    def make_trainer(*overrides: str) -> Trainer:
        return tiny_trainer(folder, "overwrite=true", *overrides)

    return make_trainer


def score_as(monkeypatch, **columns: list[float]) -> None:
    """Replace the BLEU, chrF or losses of validations."""
    original = Evaluator.evaluate
    rows = [
        dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)
    ]

    def evaluate(self, model, *, slow):
        evaluation = original(self, model, slow=slow)
        evaluation.scores |= {} if slow else rows.pop(0)  # slow: of the test
        return evaluation

    monkeypatch.setattr(Evaluator, "evaluate", evaluate)


def updates_made(monkeypatch) -> list[dict]:
    """Record the arguments of each update."""
    original, made = Updater.update_weights, []

    def make_update(self, batches, **keywords):
        made.append({**keywords, "pairs": [batch.indices.tolist() for batch in batches]})
        return original(self, batches, **keywords)

    monkeypatch.setattr(Updater, "update_weights", make_update)
    return made


@pytest.mark.parametrize(
    ("overrides", "validated"),
    [
        (("training.max_epochs=2", "training.max_updates=99"), [6, 12]),
        (("training.max_updates=8",), [6, 8]),
        (("training.max_updates=9", "training.validation.every_updates=4"), [4, 8, 9]),
    ],
)
def test_training_ends_with_a_validation_when_a_budget_is_used_up(make, overrides, validated):
    trainer = make(*overrides)

    trainer.train()

    assert trainer.progress.update == validated[-1]
    assert sorted(read_scalars(trainer.directory.tensorboard)["valid/loss"]) == validated


def test_minutes_end_the_training_and_the_log_says_so(make, caplog):
    trainer = make("training.max_epochs=null", "training.max_minutes=1e-9")

    with caplog.at_level("INFO"):
        trainer.train()

    update = trainer.progress.update
    assert update in (1, 2)  # the minutes are measured before each update
    said = f"stopped after update {update}: training.max_minutes=1e-09 is used up"
    assert caplog.messages[-1] == said


def test_patience_ends_the_training_and_the_log_says_so(make, monkeypatch, caplog):
    score_as(monkeypatch, loss=[3.0, 2.0, 2.5, 2.0, 1.0])
    trainer = make(
        "training.max_epochs=9",
        "training.validation.patience=2",
        "training.validation.metric=loss",
        "training.validation.every_updates=1",
    )

    with caplog.at_level("INFO"):
        trainer.train()

    assert trainer.progress.update == 4
    assert trainer.progress.best == [(-2.0, 4)]
    assert caplog.messages[-1] == (
        "stopped after update 4: 2 validations without an improvement "
        "(training.validation.patience); best.pt is the latest checkpoint with the best "
        "score, from update 4"
    )


def test_best_has_the_lowest_loss_and_last_the_last_update(make, monkeypatch):
    score_as(monkeypatch, loss=[3.0, 2.0, 2.5])
    trainer = make("training.max_epochs=3", "training.validation.metric=loss")
    states = {}
    original = Trainer._validate

    def validate(self, board):
        states[self.progress.update] = copy.deepcopy(self.model.state_dict())
        original(self, board)

    monkeypatch.setattr(Trainer, "_validate", validate)

    trainer.train()

    run = trainer.directory.path
    assert is_equal(saved_weights(run / "best.pt"), states[12])
    assert is_equal(saved_weights(run / "last.pt"), states[18])
    assert {path.name for path in run.glob("*.pt")} == {"best.pt", "last.pt"}


EVERY_UPDATE = ("training.max_updates=4", "training.validation.every_updates=1")


def test_the_loss_ranks_checkpoints_with_a_bleu_near_zero_and_the_log_says_so(
    make, monkeypatch, caplog
):
    caplog.set_level(logging.INFO)
    score_as(monkeypatch, bleu=[0.0, 0.0, 0.9, 0.0], loss=[4.0, 2.0, 3.0, 2.0])
    trainer = make(*EVERY_UPDATE)

    trainer.train()

    assert trainer.progress.best == [(-2.0, 4)]
    assert sum(each.endswith("; ranked by the loss") for each in caplog.messages) == 4


def test_the_time_of_a_validation_counts_and_may_use_up_the_minutes(make, monkeypatch):
    now, original = [100.0], Evaluator.evaluate

    def evaluate(self, model, *, slow):
        now[0] += 60.0
        return original(self, model, slow=slow)

    monkeypatch.setattr(Evaluator, "evaluate", evaluate)
    monkeypatch.setattr(trainer_module.time, "monotonic", lambda: now[0])
    trainer = make("training.max_minutes=1", "training.validation.every_updates=2")

    trainer.train()

    assert trainer.progress.update == 2
    state = load_checkpoint(trainer.directory.last).training_state
    assert trainer.progress.seconds == state["progress"]["seconds"] == 60.0


def test_the_average_of_the_weights_is_validated_and_kept_and_the_raw_ones_continue(
    make, monkeypatch
):
    scored, raw = [], []
    evaluate, update = Evaluator.evaluate, Updater.update_weights

    def record_scored(self, model, *, slow):
        scored.append(copy.deepcopy(model.state_dict()))
        return evaluate(self, model, slow=slow)

    def record_raw(self, batches, **keywords):
        result = update(self, batches, **keywords)
        raw.append(copy.deepcopy(self._model.state_dict()))
        return result

    monkeypatch.setattr(Evaluator, "evaluate", record_scored)
    monkeypatch.setattr(Updater, "update_weights", record_raw)
    trainer = make(*EVERY_UPDATE, "training.ema_decay=0.5", "training.validation.metric=loss")

    trainer.train()

    shares = torch.tensor([1.0, 2.0, 4.0, 8.0]) / 15
    for name, value in scored[3].items():
        mean = sum(share * state[name] for share, state in zip(shares, raw, strict=True))
        torch.testing.assert_close(value, mean, rtol=1e-5, atol=1e-7)
    kept = scored[trainer.progress.best_updates[0] - 1]
    assert is_equal(saved_weights(trainer.directory.best), kept)
    assert is_equal(saved_weights(trainer.directory.last), raw[3])


def test_the_learning_rate_follows_its_schedule(make, monkeypatch):
    score_as(monkeypatch, loss=[1.0, 2.0, 2.0, 2.0])
    made = updates_made(monkeypatch)

    make(
        *EVERY_UPDATE,
        "training.optimizer.learning_rate=0.1",
        "training.schedule.name=plateau",
        "training.schedule.warmup_updates=2",
        "training.validation.metric=loss",
    ).train()

    assert [each["learning_rate"] for each in made] == pytest.approx([0.05, 0.1, 0.1, 0.05])


def test_dropout_rises_with_the_epochs(make, monkeypatch):
    made = updates_made(monkeypatch)

    make("training.max_epochs=2", "training.dropout_warmup_epochs=1.5").train()

    factors = [min(update / 9, 1) for update in range(12)]  # 6 updates an epoch
    assert [each["dropout_factor"] for each in made] == pytest.approx(factors)


@pytest.mark.parametrize(
    ("update", "kept"), [(2, "no checkpoint was written yet"), (9, r"last\.pt is not affected")]
)
def test_a_loss_that_is_not_finite_stops_with_update_and_pairs(make, monkeypatch, update, kept):
    made = updates_made(monkeypatch)
    trainer = make("training.max_epochs=3")
    last = trainer.directory.last

    def spoil() -> None:
        trainer.model.decoder.output.bias.data[5] = float("nan")

    act_in(monkeypatch, Updater, "update_weights", call=update, action=spoil)

    with pytest.raises(NonFiniteError, match=kept) as stop:
        trainer.train()

    pairs = ", ".join(str(pair + 1) for batch in made[-1]["pairs"] for pair in batch)
    assert str(stop.value).startswith(f"update {update}: loss nan, ")
    first = trainer.data.tokenizers.source.decode(
        trainer.data.train.source_rows[made[-1]["pairs"][0][0]].tolist()
    )
    assert f"training pairs {pairs}, the first {first!r}; " in str(stop.value)
    assert last.exists() == (update > 6)
    if last.exists():
        content = torch.load(last, weights_only=True)
        assert content["training"]["progress"]["update"] == 6
        assert all(value.isfinite().all() for value in content["model"].values())


@pytest.mark.parametrize(
    ("made", "expected"), [(2, (0, 2, 2 / 3)), (3, (1, 0, 1.0)), (6, (1, 0, 1.0))]
)
def test_a_run_of_longer_epochs_continues_in_its_epoch_or_the_next(make, made, expected):
    """A run of fewer processes has more updates in an epoch."""
    trainer = make("training.accumulation=2")  # 6 batches make 3 updates
    trainer.progress.update = trainer.progress.updates_of_epoch = made
    trainer.progress.updates_per_epoch = 12

    continue_training(trainer, training_state(trainer))

    progress = trainer.progress
    assert (progress.epoch, progress.updates_of_epoch, progress.epochs) == expected


@pytest.mark.parametrize(("minutes", "expected"), [("1e-9", [1, 2, 3, 4]), ("null", [2, 4])])
def test_last_is_saved_between_validations_after_some_minutes(make, monkeypatch, minutes, expected):
    every_2 = ("training.max_updates=4", "training.validation.every_updates=2")
    trainer = make(*every_2, f"training.save_every_minutes={minutes}")
    saved = []
    monkeypatch.setattr(trainer, "_save_last", lambda board: saved.append(trainer.progress.update))

    trainer.train()

    assert saved == expected
