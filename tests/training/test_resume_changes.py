"""A resumed run continues the saved configuration and the same data."""

import re

import pytest
from tiny_training import tiny_run, tiny_trainer, training_state

from seq2seq.config.schema import load_config
from seq2seq.config.serialization import flatten_config
from seq2seq.training.resume import MAY_CHANGE, check_same_run, continue_training
from seq2seq.training.updates import NonFiniteError, Updater

SHORT = ("training.max_updates=4", "training.schedule.name=constant", "training.max_epochs=9")
WHERE = "checkpoints/mine"
FILES = ("data=files", "data.train=[a.tsv]", "data.valid=[b.tsv]", "data.target=en")


def test_the_keys_that_may_change_exist() -> None:
    known = {"decoding"}
    for overrides in (FILES, ("data=multi30k",)):
        known |= flatten_config(load_config(*overrides)).keys()

    assert sorted(MAY_CHANGE - known) == []


def test_what_only_bounds_shows_or_scores_a_run_may_change() -> None:
    saved = load_config(*FILES)
    changed = load_config(
        *FILES,
        *("resume=true", "run_name=other", "checkpoint_dir=/elsewhere", "plugins=[]"),
        *("data.root=/elsewhere", "data.cache_dir=/elsewhere", "data.test=[c.tsv]"),
        *("training.max_epochs=40", "training.max_updates=900", "training.max_minutes=3"),
        *("training.device=cpu", "training.threads=1", "training.save_every_minutes=1"),
        *("training.log_every=7", "training.monitor=wandb"),
        "training.validation.num_samples=0",
        *("decoding=beam", "decoding.beam_size=9"),
    )

    check_same_run(saved, changed, where=WHERE)


@pytest.mark.parametrize(
    ("changes", "shown", "advice"),
    [
        (
            ["training.optimizer.learning_rate=0.1", "data.valid=[d.tsv]"],
            "data.valid (['b.tsv'] -> ['d.tsv']), training.optimizer.learning_rate (0.004 -> 0.1)",
            " and begin with these weights: init_from=checkpoints/mine",
        ),
        (["seed=2"], "seed (1 -> 2)", " and begin with these weights: init_from=checkpoints/mine"),
        (["model.encoder.hidden_size=300"], "model.encoder.hidden_size (128 -> 300)", ""),
    ],
)
def test_any_other_change_is_refused_with_key_values_and_a_way_out(changes, shown, advice) -> None:
    message = (
        f"resume=true: checkpoints/mine has another configuration: {shown}; give the same values, "
        f"or choose another run_name{advice}"
    )
    with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
        check_same_run(load_config(*FILES), load_config(*FILES, *changes), where=WHERE)


@pytest.mark.parametrize("name", ["training", "validation"])
def test_another_text_of_the_training_or_the_validation_set_is_refused(tmp_path, name) -> None:
    trainer = tiny_trainer(tmp_path)
    state = training_state(trainer)
    state["fingerprint" if name == "training" else "valid_fingerprint"] = "of another text"

    with pytest.raises(ValueError, match=rf"^resume=true: the {name} data .*; .* init_from=/.*$"):
        continue_training(trainer, state)


def test_a_failed_continuation_leaves_no_results_of_the_smaller_budget(
    tmp_path, monkeypatch
) -> None:
    tiny_run(tmp_path, *SHORT)
    results = tmp_path / "runs" / "tiny" / "results.json"
    assert results.exists()

    def fail(*_, **keywords):
        raise NonFiniteError("the loss is nan")

    monkeypatch.setattr(Updater, "update_weights", fail)
    with pytest.raises(NonFiniteError):
        tiny_run(tmp_path, *SHORT, "resume=true", "training.max_updates=40")

    assert not results.exists()
