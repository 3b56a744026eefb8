import json

from tiny_study import SIGNATURE, write_run

from seq2seq.cli.studies.runs import read_runs
from seq2seq.cli.studies.settings import devices, settings_table


def write_config(path, text, **values):
    write_run(path, **values)
    (path / "config.yaml").write_text(text)


def set_device(path, device):
    results = json.loads((path / "results.json").read_text())
    (path / "results.json").write_text(json.dumps({**results, "device": device}))


def rows_of(table):
    return {key.text: value.text for key, value in table.rows}


def test_equal_settings_are_listed_without_those_of_the_machine(tmp_path):
    for number, attention in enumerate(("dot", "none")):
        write_config(
            tmp_path / f"{number}",
            f"seed: {number}\nattention: {{name: {attention}}}\n"
            "data: {name: grammar, cache_dir: /home/me/cache}\ntraining: {max_epochs: 2}\n",
        )

    [table] = settings_table(read_runs([tmp_path]))

    assert rows_of(table) == {
        "data": "grammar",
        "training.max_epochs": "2",
        "signature of BLEU": SIGNATURE,
    }
    assert table.is_folded


def test_scores_of_different_signatures_have_no_common_one(tmp_path):
    for number in (0, 1):
        write_config(tmp_path / f"{number}", "data: {name: grammar}\n")
    results = tmp_path / "1" / "results.json"
    results.write_text(results.read_text().replace("tok:13a", "tok:char"))

    [table] = settings_table(read_runs([tmp_path]))

    assert rows_of(table) == {"data": "grammar"}


def test_a_common_device_is_listed(tmp_path):
    for number in (0, 1):
        write_config(tmp_path / f"{number}", "data: {name: grammar}\n")
        set_device(tmp_path / f"{number}", "cpu, 2 threads")

    runs = read_runs([tmp_path])

    [table] = settings_table(runs)
    assert rows_of(table)["device"] == "cpu, 2 threads"
    assert devices(runs) == ["cpu, 2 threads"]


def test_a_run_without_a_configuration_leaves_the_table_out(tmp_path):
    write_config(tmp_path / "0", "data: {name: grammar}\n")
    write_run(tmp_path / "1")

    assert settings_table(read_runs([tmp_path])) == []
