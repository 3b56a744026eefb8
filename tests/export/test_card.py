import json
import re

import pytest
import yaml
from tiny_export import make_exportable

from seq2seq.export.card import RunResults, model_card, read_results
from seq2seq.export.folder import ExportPrecision
from seq2seq.inference.checkpoint import save_checkpoint

RESULTS = RunResults(
    split="test",
    content={
        "test": {"bleu": 12.345, "chrf": 40.0, "ter": 70.0, "signature": "nrefs:1|case:mixed"},
        "epochs": 2.5,
        "target_tokens": 12345,
        "command": "python train.py 'data.train=[a|b]'",
        "device": "cpu, 1 thread",
        "processor": "AMD EPYC",
        "date": "2026-11-29",
        "seconds": 3550.0,
    },
)


def card(results=RESULTS, precision=ExportPrecision.fp32):
    return model_card(
        make_exportable(),
        results=results,
        precision=precision,
        folder_name="shared",
    )


def metadata(text):
    _, front, _ = text.split("---\n", 2)
    return yaml.safe_load(front)


def test_the_code_of_the_card_translates(exported, monkeypatch, capsys):
    [code] = re.findall(r"```python\n(.*?)```", (exported / "README.md").read_text(), re.DOTALL)
    monkeypatch.chdir(exported.parent)

    exec(code)

    assert capsys.readouterr().out.strip()


def test_card_names_languages_scores_and_how_the_model_was_trained():
    text = card()
    found = metadata(text)

    assert found["language"] == ["de", "en"]
    assert found["pipeline_tag"] == "translation"
    [result] = found["model-index"][0]["results"]
    assert result["dataset"] == {"name": "grammar", "type": "grammar", "split": "test"}
    assert {each["type"]: each["value"] for each in result["metrics"]} == {
        "bleu": 12.35,
        "chrf": 40.0,
        "ter": 70.0,
    }
    assert "nrefs:1|case:mixed" in text
    for row in (
        "command | `python train.py 'data.train=[a\\|b]'`",  # the bar does not break the table
        "seed | 1",
        "text | 12,345 target tokens in 2.5 epochs",
        "license of the text | not stated",
        "machine | AMD EPYC (cpu, 1 thread), 59 minutes",
        "date | 2026-11-29",
    ):
        assert f"| {row} |" in text
    assert "other sentences" not in text


def test_checkpoint_without_results_names_none():
    text = card(results=None)

    assert "model-index" not in metadata(text)
    assert "without the results of a run" in text


def test_int8_says_that_neighbours_may_change_a_text():
    assert "int8: the other sentences" in card(precision=ExportPrecision.int8)


@pytest.mark.parametrize("split", ["test", "valid"])
def test_results_are_those_of_the_best_checkpoint(tmp_path, split):
    save_checkpoint(tmp_path / "best.pt", make_exportable())
    (tmp_path / "config.yaml").touch()
    content = RESULTS.content | {"test": None, split: RESULTS.content["test"]}
    (tmp_path / "results.json").write_text(json.dumps(content))

    assert read_results(tmp_path) == read_results(tmp_path / "best.pt")
    assert read_results(tmp_path) == RESULTS._replace(split=split, content=content)
    assert read_results(tmp_path / "last.pt") is None
