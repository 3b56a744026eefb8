"""Studies train every row in every setting with every seed, and tabulate the results."""

import json
import shlex

import pytest

from benchmarks.compare import STUDIES, Run, Study, plan, table
from seq2seq.attention import attention_config_types

STUDY = Study(
    common=("model=luong",),
    rows={"dot": ("attention=dot",), "dot+wide": ("attention=dot", "attention.scaled=false")},
    settings={"de-en": ("data.source=de",), "en-de": ("data.source=en",)},
    seeds=range(1, 3),
    columns={"BLEU": ("bleu", ".1f"), "AER": ("aer", ".3f")},
)


def finish(run, parameters=1234, **test):
    run.directory.mkdir(parents=True)
    record = run.directory.with_name(f"{run.directory.name}.arguments")
    record.write_text(shlex.join(run.overrides))
    results = {"test": test, "parameters": parameters}
    (run.directory / "results.json").write_text(json.dumps(results))


def test_every_row_is_trained_in_every_setting_with_every_seed(tmp_path):
    runs = list(plan(STUDY, tmp_path, overrides=("data.num_train=10",)))

    assert len({run.directory for run in runs}) == len(runs) == 8
    assert runs[3].command()[1:] == [
        "train.py",
        "model=luong",
        "data.source=en",
        "attention=dot",
        "attention.scaled=false",
        "seed=1",
        "data.num_train=10",
        "run_name=dot-wide-en-de-1",
        f"checkpoint_dir='{tmp_path}'",
        "training.threads=1",
        "overwrite=true",
    ]


def test_table_has_mean_and_standard_deviation_over_seeds(tmp_path):
    runs = list(plan(STUDY, tmp_path, overrides=()))
    for number, run in enumerate(runs):
        finish(run, bleu=10.0 * number, **({} if "wide" in run.row else {"aer": 0.25}))

    lines = table(STUDY, runs).splitlines()

    assert lines[0] == "| | BLEU de-en | AER de-en | BLEU en-de | AER en-de | parameters |"
    assert lines[2:] == [
        "| dot | 20.0 ± 28.3 | 0.250 ± 0.000 | 40.0 ± 28.3 | 0.250 ± 0.000 | 1,234 |",
        "| dot+wide | 30.0 ± 28.3 | - | 50.0 ± 28.3 | - | 1,234 |",
    ]


def test_a_finished_run_is_not_repeated(tmp_path, monkeypatch):
    run = next(plan(STUDY, tmp_path, overrides=()))
    finish(run, bleu=1.0)
    monkeypatch.setattr("subprocess.run", lambda *_, **__: pytest.fail("trained again"))

    run.train()


def test_results_of_another_command_are_refused(tmp_path):
    finish(next(plan(STUDY, tmp_path, overrides=("training.max_updates=1",))), bleu=1.0)

    with pytest.raises(SystemExit, match=r"dot-de-en-1 was trained by another command; delete it"):
        next(plan(STUDY, tmp_path, overrides=())).train()


def test_a_failed_run_names_its_log(tmp_path, monkeypatch):
    run = next(plan(STUDY, tmp_path, overrides=()))
    monkeypatch.setattr(Run, "command", lambda self: ["false"])

    with pytest.raises(SystemExit, match=r"false failed; see .*dot-de-en-1\.txt"):
        run.train()


def test_every_registered_type_is_compared():
    assert set(attention_config_types()) <= set(STUDIES["attention-types"].rows)
