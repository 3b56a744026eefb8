"""Validation sets that choose nothing are scored at each validation and at the end."""

import json

from tiny_training import read_scalars, tiny_run, write_corpus


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
    curves, single = read_scalars(first), read_scalars(tmp_path / "runs" / "tiny")
    assert curves["valid/loss"] == single["valid/loss"]
    assert curves["valid.talks/loss"].keys() == curves["valid/loss"].keys()
    assert not [tag for tag in single if tag.startswith("valid.")]
    log = (first / "train.log").read_text()
    assert log.count("valid.talks perplexity") == 2
    assert f"valid.talks BLEU {one['test']['bleu']:.2f}" in log
