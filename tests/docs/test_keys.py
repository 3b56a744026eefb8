"""The reference of all keys describes each key of each command."""

import re
import subprocess
import sys

import pytest
from documents import ROOT, load_script

from seq2seq.checks import field_types
from seq2seq.cli.score import ScoreConfig
from seq2seq.cli.translate_config import TranslateConfig
from seq2seq.config.schema import config_groups, load_config
from seq2seq.config.serialization import flatten_config

ROW = re.compile(
    r"^\| `(?P<key>[^`]+)` \| (?P<values>.+?) \| (?P<default>.+?) \| "
    r"(?P<meaning>.*) \|$"
)


@pytest.fixture(scope="module")
def rows() -> list[re.Match[str]]:
    lines = load_script("keys").reference_of_keys().splitlines()
    return [found for line in lines if (found := ROW.match(line))]


@pytest.mark.parametrize(
    ("kind", "path"), [((), "docs/reference/keys.md"), (("groups",), "configs/README.md")]
)
def test_the_page_is_current(kind: tuple[str, ...], path: str) -> None:
    """In a process of its own, because plug-ins of other tests have keys too."""
    command = [sys.executable, "docs/keys.py", *kind]
    text = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True, text=True).stdout

    assert (ROOT / path).read_text(encoding="utf-8") == text, (
        f"run: python docs/keys.py {' '.join(kind)} > {path}"
    )


def test_each_key_of_each_command_has_a_meaning(rows: list[re.Match[str]]) -> None:
    keys = {*flatten_config(load_config()), *field_types(ScoreConfig)}
    keys |= field_types(TranslateConfig).keys() - {"decoding"}
    for group, types in config_groups().items():
        keys |= {f"{group}.{name}" for each in types.values() for name in field_types(each)}

    described = {row["key"] for row in rows}
    without_meaning = [row["key"] for row in rows if not row["meaning"].partition("Only with")[0]]

    assert sorted(keys - described) == []
    assert without_meaning == []


@pytest.mark.parametrize(
    ("key", "cells"),
    [
        (
            "training.optimizer.learning_rate",
            "above 0; `0.004` with `data=files`; rate",
        ),
        ("training.max_epochs", "or `null`; passes"),
        ("decoding.beam_size", "at least 1 and at most 10,000; `5`; Only with `decoding=beam`"),
        ("attention.size", "or `null`; `256`; Only with `attention=gaussian`"),
        ("tokenizer.normalization", "`identity`, `nfc`; `nfc`; `identity`: No change"),
        ("tokenizer.vocabulary_size", "integer; `600`; `8000` with `data=files`; Maximum"),
        ("data.train", "list or dictionary of files; required; Only with `data=files`"),
        ("checkpoint", "a file, or several; required; ensemble"),
    ],
)
def test_a_key_has_values_default_and_meaning(
    key: str, cells: str, rows: list[re.Match[str]]
) -> None:
    form = ".*".join(map(re.escape, cells.split("; ")))
    assert any(row["key"] == key and re.search(form, row[0]) for row in rows)
