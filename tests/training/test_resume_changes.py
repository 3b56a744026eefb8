"""Keys that are named may change when a run is resumed, and the change is noted."""

import logging
import re
from dataclasses import asdict, replace

import pytest
import torch
from tiny_training import tiny_config, tiny_run, tiny_trainer, training_state

from seq2seq.config.schema import load_config
from seq2seq.training.progress import Progress
from seq2seq.training.resume import check_changes, continue_training
from seq2seq.training.updates import NonFiniteError, Updater

SHORT = ("training.max_updates=4", "training.schedule.name=constant", "training.max_epochs=9")
WHERE = "checkpoints/mine"


def check(*overrides: str) -> None:
    check_changes(load_config(), load_config("resume=true", *overrides), where=WHERE)


@pytest.mark.parametrize(
    ("second", "shown", "advice"),
    [
        (
            "training.label_smoothing=0.2",
            "training.label_smoothing (0.1 -> 0.2)",
            "give the same values, choose another run_name, or change them on purpose: "
            "resume_changes=[training.accumulation,training.label_smoothing]",
        ),
        (  # which cannot change
            "training.freeze_embeddings=true",
            "training.freeze_embeddings (false -> true)",
            "give the same values or choose another run_name",
        ),
    ],
)
def test_keys_that_are_not_named_are_refused_with_a_way_out(second, shown, advice) -> None:
    with pytest.raises(ValueError, match="has another configuration") as refusal:
        check("training.accumulation=2", second)

    assert str(refusal.value) == (
        "resume=true: checkpoints/mine has another configuration: training.accumulation (1 -> 2), "
        f"{shown}; {advice}"
    )


@pytest.mark.parametrize("named", ["training.accumulation", "training"])
def test_a_named_key_may_change_and_is_logged(named, caplog) -> None:
    with caplog.at_level(logging.WARNING):
        check("training.accumulation=2", f"resume_changes=[{named}]")

    assert caplog.messages == ["resume_changes: training.accumulation (1 -> 2) applies from now on"]


def test_naming_a_key_that_has_not_changed_does_nothing(caplog) -> None:
    check("resume_changes=[training.accumulation,seed]")

    assert caplog.messages == []


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (
            ["resume_changes=[training.acumulation]"],
            "resume_changes: unknown key 'training.acumulation'; did you mean training.acc",
        ),
        (
            ["training.accumulation=2", "resume_changes=[training.accum]"],
            "resume_changes: unknown key 'training.accum'",
        ),
        (
            ["training.accumulation=2", "seed=2", "resume_changes=[seed]"],
            "resume=true: checkpoints/mine has another configuration: training.accumulation (1 ->",
        ),
        (
            ["tokenizer.vocabulary_size=70", "resume_changes=[tokenizer]"],
            "resume_changes: tokenizer.vocabulary_size (600 -> 70) cannot change, because last.pt",
        ),
        (
            ["training.optimizer.name=sgd", "resume_changes=[training.optimizer]"],
            "resume_changes: training.optimizer.name (adam -> sgd) cannot change, because last.pt "
            "depends on it; begin another run, for example with init_from=checkpoints/mine",
        ),
        (
            ["model.decoder.hidden_size=300", "resume_changes=[model]"],
            "resume_changes: model.decoder.hidden_size (256 -> 300) cannot change, because last.pt "
            "depends on it; begin another run",
        ),
    ],
)
def test_other_changes_are_refused(overrides, message) -> None:
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        check(*overrides)


def test_sampling_may_change_although_the_tokenizers_stay() -> None:
    check("tokenizer.sampling_alpha=0.2", "resume_changes=[tokenizer.sampling_alpha]")


def test_keys_of_the_training_data_allow_other_data(tmp_path, caplog) -> None:
    trainer = tiny_trainer(tmp_path)
    saved = trainer.config
    state = {**training_state(trainer), "fingerprint": "old"}
    changed = f"have changed since {trainer.directory.last} was written"
    for key in ("data.train", "data.train.news", "data"):
        caplog.clear()
        trainer.config = replace(saved, resume_changes=[key])
        continue_training(trainer, state, saved=saved)
        assert f"{changed}; training continues on them" in caplog.text
    for key in ("seed", "training", "data.valid", "data.test", "data.long_pairs"):
        trainer.config = replace(saved, resume_changes=[key])
        with pytest.raises(ValueError, match=rf"{changed}; .*=\[data\]$"):
            continue_training(trainer, state, saved=saved)


@pytest.mark.parametrize(
    ("override", "is_forgotten"),
    [
        ("training.validation.metric=loss", True),
        ("training.validation.lowercase=true", True),
        ("data.source=b data.target=a", True),
        ("decoding.max_length_offset=3", True),
        ("decoding=beam", False),  # validations search greedily
        ("training.label_smoothing=0.2", False),
        ("data.max_epochs=9", False),
    ],
)
def test_scores_that_cannot_be_compared_are_forgotten(tmp_path, override, is_forgotten) -> None:
    keeps = "training.validation.keep_best=2"
    trainer = tiny_trainer(tmp_path, keeps)
    best = [(3.0, 8), (2.0, 4)]
    before = Progress(best=best, since_best=1, update=9, validated_update=9)

    state = {**training_state(trainer), "progress": asdict(before)}
    continue_training(trainer, state, saved=tiny_config(tmp_path, keeps, *override.split()))

    progress = trainer.progress
    expected = ([], 0, 0) if is_forgotten else (best, 1, 9)
    assert (progress.best, progress.since_best, progress.validated_update) == expected


def test_a_changed_validation_file_is_noticed_when_the_run_is_resumed(tmp_path) -> None:
    tiny_run(tmp_path, *SHORT, "training.validation.metric=loss")
    for side in ("a", "b"):
        path = tmp_path / f"{side}.valid"
        path.write_text(path.read_text().replace("a", "b"))

    longer = ("training.max_updates=6", "training.validation.metric=loss", "resume=true")
    tiny_run(tmp_path, *SHORT[1:], *longer)

    log = (tmp_path / "runs" / "tiny" / "train.log").read_text()
    assert log.count("starts over, because the validation data changed") == 1
    last = torch.load(tmp_path / "runs" / "tiny" / "last.pt", weights_only=True)["training"]
    assert [update for _, update in last["progress"]["best"]] == [6]


def test_a_run_continues_with_the_changes_and_config_yaml_names_them(tmp_path) -> None:
    tiny_run(tmp_path, *SHORT)
    changed = (
        *SHORT[1:],
        "training.max_updates=6",
        "training.optimizer.weight_decay=0.25",
        "training.validation.metric=loss",
        "resume=true",
    )
    names = "training.optimizer.weight_decay,training.validation.metric"

    tiny_run(tmp_path, *changed, f"resume_changes=[{names}]")

    run = tmp_path / "runs" / "tiny"
    log = (run / "train.log").read_text()
    assert (
        "resume_changes: training.optimizer.weight_decay (0.0 -> 0.25) applies from now on" in log
    )
    assert (
        f"resume_changes:\n- {names.replace(',', chr(10) + '- ')}\n"
        in (run / "config.yaml").read_text()
    )
    last = torch.load(run / "last.pt", weights_only=True)["training"]
    groups = last["updater"]["optimizer"]["param_groups"]
    assert [group["weight_decay"] for group in groups] == [0.25, 0.0]
    assert all(value < 0 for value, _ in last["progress"]["best"])
    # The changes are part of the run now.
    tiny_run(tmp_path, *changed, "training.max_updates=7")
    assert "- training.optimizer.weight_decay\n" in (run / "config.yaml").read_text()


def test_changes_without_a_run_to_resume_are_refused(tmp_path) -> None:
    with pytest.raises(ValueError, match=r"^resume_changes names keys to change in a run: add res"):
        tiny_run(tmp_path, *SHORT, "resume_changes=[seed]")


def test_a_failed_continuation_leaves_no_results_of_the_smaller_budget(
    tmp_path, monkeypatch
) -> None:
    tiny_run(tmp_path, *SHORT)
    results = tmp_path / "runs" / "tiny" / "results.json"
    assert results.exists()

    def fail(*_, **keywords):
        raise NonFiniteError("the loss is nan")

    monkeypatch.setattr(Updater, "update_weights", fail)
    more = ("resume=true", "training.max_updates=40", "resume_changes=[training]")
    with pytest.raises(NonFiniteError):
        tiny_run(tmp_path, *SHORT, *more)

    assert not results.exists()


def test_fewer_checkpoints_are_kept_after_a_change(tmp_path) -> None:
    trainer = tiny_trainer(tmp_path, "training.validation.keep_best=2")
    state = training_state(trainer)
    state["progress"]["best"] = [(3.0, 6), (2.0, 4), (1.0, 2)]

    continue_training(trainer, state, saved=trainer.config)

    assert trainer.progress.best_updates == [6, 4]
