"""A run that was stopped and resumed is, to the bit, the run that never was."""

import os
import shutil
import signal
from pathlib import Path

import pytest
import torch
from same_run import Killed, act_in, assert_equal, assert_same_run, kill_in
from tiny_training import read_scalars, tiny_run, write_corpus

from seq2seq.data.batching import SampledCorpus, batches_by_length
from seq2seq.runtime.process import Interrupted
from seq2seq.training import validation
from seq2seq.training.run_directory import RunDirectory
from seq2seq.training.trainer import Trainer
from seq2seq.training.updates import Updater
from seq2seq.training.validation import Evaluator

# 22 pairs, 2 at once, 2 batches an update: 6 updates an epoch; validations after 4, 8, 12, 16, 18.
OVERRIDES = (
    "training.batching.size=2",
    "training.accumulation=2",
    "training.max_epochs=3",
    "training.max_updates=18",
    "training.schedule.name=cosine",
    "training.teacher_forcing.end=0.4",
    "training.teacher_forcing.updates=15",
    "training.validation.every_updates=4",
    "training.validation.metric=loss",
    "training.validation.keep_best=2",
    "training.optimizer.learning_rate=0.02",
    "training.log_every=3",
    "training.dropout_warmup_epochs=2.5",
    "training.ema_decay=0.8",
    "training.coverage_loss=0.5",
    "model.encoder.num_layers=2",
    "model.decoder.num_layers=2",
    "model.residual=true",
    "model.layer_norm=true",
    "model.dropout=0.2",
    "model.word_dropout=0.1",
)


@pytest.fixture(scope="module", autouse=True)
def small_batches():
    """Score in batches of two, so that a signal may come between them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(validation, "batches_by_length", lambda rows, _: batches_by_length(rows, 2))
        yield


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("resume")


@pytest.fixture(scope="module")
def uninterrupted(folder):
    tiny_run(folder, *OVERRIDES)
    return (folder / "runs" / "tiny").rename(folder / "uninterrupted")


@pytest.fixture
def run(folder, uninterrupted):
    """Yield the directory of another run of the same configuration."""
    path = folder / "runs" / "tiny"
    yield path
    if path.exists():
        path.rename(folder / f"done-{len(list(folder.iterdir()))}")


def train(folder: Path, *overrides: str) -> float:
    return tiny_run(folder, *OVERRIDES, *overrides)


def send_in(
    patch: pytest.MonkeyPatch, owner: type, name: str, *, call: int, number: int = signal.SIGTERM
) -> list[int]:
    """Send a signal in the n-th call of a method; return a list of the calls so far."""
    return act_in(patch, owner, name, call=call, action=lambda: os.kill(os.getpid(), number))


def test_the_run_has_validations_curves_and_schedules(uninterrupted):
    curves = read_scalars(uninterrupted / "tensorboard")

    assert sorted(curves["valid/loss"]) == [4, 8, 12, 16, 18]
    assert sorted(curves["train/loss"]) == [3, 6, 9, 12, 15, 18]
    losses = curves["valid/loss"]
    assert losses[18] < losses[4]  # it learns, so a wrong update would show
    ratios = curves["train/teacher_forcing_ratio"]
    assert ratios[3] > ratios[9] > ratios[15] == ratios[18]
    assert (uninterrupted / "step-18.pt").exists()


@pytest.mark.parametrize(
    ("owner", "name", "call"),
    [
        pytest.param(Updater, "update_weights", 4, id="before-any-checkpoint"),
        pytest.param(Updater, "update_weights", 11, id="between-validations"),
        pytest.param(Trainer, "_save_last", 3, id="between-best-and-last"),
        pytest.param(RunDirectory, "delete_steps", 5, id="before-old-checkpoints-are-deleted"),
        pytest.param(Evaluator, "evaluate", 6, id="while-scoring-the-best"),
    ],
)
def test_a_killed_and_resumed_run_equals_an_uninterrupted_one(
    folder, uninterrupted, run, monkeypatch, owner, name, call
):
    with monkeypatch.context() as patch, pytest.raises(Killed):
        kill_in(patch, owner, name, call=call)
        train(folder)

    train(folder, "resume=true")

    assert_same_run(uninterrupted, run)
    histories = [(path / "validations.json").read_bytes() for path in (uninterrupted, run)]
    assert histories[0] == histories[1]


def corpora(folder: Path) -> tuple[str, ...]:
    """Return two training corpora, drawn by temperature."""
    large, small = (f"['{folder}/a.{name}','{folder}/b.{name}']" for name in ("train", "valid"))
    both = f"{{large: {{files: {large}}}, small: {{files: {small}, tag: '<2b>'}}}}"
    return f"data.train={both}", "data.temperature=3"


RESTRICTED = ("model.tied_embeddings=all",)


@pytest.mark.parametrize(
    ("tokenizer", "alpha", "given"),
    [("unigram", 0.1, corpora), ("bpe", 0.5, lambda _: RESTRICTED)],
)
def test_a_resumed_run_draws_the_same_pairs_and_segmentations(
    tmp_path, monkeypatch, tokenizer, alpha, given
):
    write_corpus(tmp_path)
    overrides = (
        *given(tmp_path),
        f"tokenizer={tokenizer}",
        f"tokenizer.sampling_alpha={alpha}",
        "tokenizer.vocabulary_size=30",
        "training.max_updates=13",
    )
    drawn = record_segmentations(monkeypatch)
    train(tmp_path, *overrides)
    uninterrupted = (tmp_path / "runs" / "tiny").rename(tmp_path / "uninterrupted")
    expected = dict(drawn)
    assert len({str(each) for each in expected.values()}) == len(expected) > 1
    drawn.clear()

    with monkeypatch.context() as patch, pytest.raises(Killed):
        kill_in(patch, Updater, "update_weights", call=11)
        train(tmp_path, *overrides)
    train(tmp_path, *overrides, "resume=true")

    assert_same_run(uninterrupted, tmp_path / "runs" / "tiny")
    assert drawn == expected


def record_segmentations(monkeypatch) -> dict[int, list[list[int]]]:
    """Return a dictionary that will have the targets of each epoch that was trained on."""
    original, drawn = SampledCorpus.epoch, {}

    def epoch(self, number):
        encoded = original(self, number)
        drawn[number] = [encoded.target_rows[row].tolist() for row in range(len(encoded))]
        return encoded

    monkeypatch.setattr(SampledCorpus, "epoch", epoch)
    return drawn


@pytest.mark.parametrize(("number", "update"), [(signal.SIGTERM, 1), (signal.SIGINT, 18)])
def test_a_signal_saves_and_the_resumed_run_equals_an_uninterrupted_one(
    folder, uninterrupted, run, monkeypatch, number, update
):
    with monkeypatch.context() as patch, pytest.raises(Interrupted) as interrupted:
        send_in(patch, Updater, "update_weights", call=update, number=number)
        train(folder)

    assert interrupted.value.signal_number == number
    saved = torch.load(run / "last.pt", weights_only=True)["training"]["progress"]["update"]
    assert saved in (update, update + 1)
    train(folder, "resume=true")

    assert_same_run(uninterrupted, run)


@pytest.mark.parametrize(
    ("batch", "update", "validated"),
    [
        pytest.param(1, 4, 0, id="the first validation"),
        pytest.param(8, 12, 8, id="a later one"),
        pytest.param(14, 18, 16, id="the last one"),
        pytest.param(16, 18, 18, id="the final score of the validation set"),
        pytest.param(19, 18, 18, id="the score of the test set"),
    ],
)
def test_a_signal_stops_scoring_after_a_batch_and_the_resumed_run_is_the_same(
    folder, uninterrupted, run, monkeypatch, batch, update, validated
):
    """Five validations and the final one have 3 batches each, and the test set 2."""
    with monkeypatch.context() as patch, pytest.raises(Interrupted) as interrupted:
        calls = send_in(patch, Evaluator, "_read", call=batch)
        train(folder)

    assert interrupted.value.signal_number == signal.SIGTERM
    assert len(calls) == batch
    progress = torch.load(run / "last.pt", weights_only=True)["training"]["progress"]
    assert (progress["update"], progress["validated_update"]) == (update, validated)
    train(folder, "resume=true")

    assert_same_run(uninterrupted, run)


def test_keys_that_only_show_or_score_may_change_and_leave_the_same_run(
    folder, uninterrupted, run, monkeypatch
):
    with monkeypatch.context() as patch, pytest.raises(Killed):
        kill_in(patch, Updater, "update_weights", call=11)
        train(folder)

    train(
        folder,
        "resume=true",
        "training.log_every=1",
        "training.validation.num_samples=2",
        f"data.test=['{folder}/a.valid','{folder}/b.valid']",
    )

    for name in ("best.pt", "last.pt"):
        contents = (torch.load(path / name, weights_only=True) for path in (uninterrupted, run))
        assert_equal(*(each["model"] for each in contents))
    assert (run / "test.ref").read_text() == (folder / "b.valid").read_text()


def test_a_resumed_finished_run_is_only_scored_again(
    folder, uninterrupted, run, monkeypatch, caplog
):
    shutil.copytree(uninterrupted, run)
    before = (run / "last.pt").read_bytes()
    (run / "results.json").unlink()

    def update_weights(self, *arguments, **keywords):
        raise AssertionError("an update was made")

    monkeypatch.setattr(Updater, "update_weights", update_weights)
    with caplog.at_level("INFO"):
        train(folder, "resume=true")

    assert "the budget is already used up; " in caplog.text
    assert "start again with overwrite=true" in caplog.text
    assert (run / "last.pt").read_bytes() == before
    assert_same_run(uninterrupted, run)
