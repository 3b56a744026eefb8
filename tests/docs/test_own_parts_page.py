"""Follow docs/how-to/own-parts.md: text of a Hugging Face data set, and the examples."""

import json
import shlex
import shutil
import sys

import pytest
from datasets import Dataset, DatasetDict
from documents import ROOT, Page, quickened, run_script

from seq2seq.config import plugin_modules
from seq2seq.config.plugins import load_plugins
from seq2seq.config.schema import load_config
from seq2seq.data.corpus import DATA, load_corpora
from seq2seq.evaluation.measures import MEASURES

PAGE = Page("docs/how-to/own-parts.md")
EXAMPLE = ROOT / "docs/examples/huggingface.py"
[TRAINING] = [each for each in PAGE.commands() if "train.py" in each]
GIVEN = ("data=huggingface", "data.path=my/books", "data.source=de", "data.target=en")


@pytest.fixture(autouse=True)
def forgotten(monkeypatch):
    """Forget the examples at the end."""
    for registry in (DATA, MEASURES):
        monkeypatch.setattr(registry, "_parts", dict(registry._parts))
    yield
    sys.modules.pop(f"{plugin_modules.__name__}.{EXAMPLE.stem}", None)


@pytest.fixture
def books(tmp_path, monkeypatch):
    """Save splits of a data set, each with a pair that has an empty side, in my/books."""
    monkeypatch.chdir(tmp_path)
    pairs = list(load_corpora(load_config().data).valid)[:60]
    rows = [{"de": pair.source, "en": pair.target} for pair in pairs] + [{"de": " ", "en": "no"}]
    whole = Dataset.from_list([{"translation": row, **row} for row in rows])
    DatasetDict({"train": whole, "validation": whole}).save_to_disk("my/books")
    return rows[:-1]


def load(*overrides):
    load_plugins([str(EXAMPLE)])
    return load_config(f"plugins=[{EXAMPLE}]", *GIVEN, *overrides)


def test_command_trains_on_a_saved_data_set(books, tmp_path, caplog):
    _, script, *arguments = shlex.split(TRAINING.replace("docs/examples", str(EXAMPLE.parent)))

    shutil.copy(ROOT / script, tmp_path)
    run_script(tmp_path, script, quickened(arguments))

    [results] = tmp_path.glob("checkpoints/huggingface-*/results.json")
    assert json.loads(results.read_text())
    assert "train: skipped 1 of 61 pairs with an empty side" in caplog.text


@pytest.mark.parametrize("columns", [(), ("data.columns=[de,en]",)])
def test_pairs_come_from_the_translation_dictionary_or_from_two_columns(books, columns):
    corpora = load_corpora(load(*columns).data)

    assert [(each.source, each.target) for each in corpora.train] == [
        (row["de"], row["en"]) for row in books
    ]
    assert corpora.test is None


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("data.valid=none", r"^data\.path=my/books: there is no split 'none'$"),
        ("data.columns=[fr,en]", r"^data\.path=my/books: no fr and en in \{"),
    ],
)
def test_missing_split_or_column_is_named(books, wrong, message):
    with pytest.raises(ValueError, match=message):
        list(load_corpora(load(wrong).data).valid)


def test_examples_run(tmp_path, capsys):
    PAGE.run_examples(tmp_path)

    assert capsys.readouterr().out == "MeanQueryRecurrence\n['loss', 'context_norm']\n"
