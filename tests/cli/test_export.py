import re
import subprocess
import sys
from dataclasses import fields

import pytest
from tiny_export import make_exportable
from web_runtime_cache import CACHE, needs_web_runtime

from seq2seq.cli import export
from seq2seq.cli.command_line import load_command
from seq2seq.cli.export import ExportConfig
from seq2seq.config.composition import describe_error
from seq2seq.inference.checkpoint import save_checkpoint


def export_page(tmp_path, **changes):
    """Export run to page.html, or as the changed keys say."""
    places = {"checkpoint": tmp_path / "run", "output": tmp_path / "page.html"}
    given = {**places, "format": "web", **changes}
    arguments = [f"{key}={value}" for key, value in given.items()]
    export.export(load_command("export", ExportConfig, arguments))


def test_command_writes_a_folder(tmp_path):
    (tmp_path / "run").mkdir()
    save_checkpoint(tmp_path / "run" / "best.pt", make_exportable())

    given = [f"checkpoint={tmp_path / 'run'}", f"output={tmp_path / 'folder'}"]

    done = subprocess.run(
        [sys.executable, "-m", "seq2seq.cli.export", *given],
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        "the graphs compute what the checkpoint does, up to rounding",
        f"wrote {tmp_path / 'folder'}",
    ]


def test_help_fits_a_terminal_and_names_every_key(run):
    lines = run(export.main, "--help")[1].splitlines()

    named = {found[1] for line in lines if (found := re.match(r" +(\w+)  +\w", line))}
    assert named == {field.name for field in fields(ExportConfig)}
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["checkpoint=missing", "output=a", "precision=int4"], "fp32"),
        (["checkpoint=missing", "output=a"], "missing: no such file"),
    ],
)
def test_wrong_arguments_are_one_line(tmp_path, refusal, arguments, text):
    assert text in refusal(export.main, *arguments)
    assert list(tmp_path.iterdir()) == []


def test_missing_extra_is_one_line(tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "seq2seq.export.exporting", raising=False)
    monkeypatch.delitem(sys.modules, "seq2seq.export.graphs", raising=False)
    monkeypatch.setitem(sys.modules, "onnxscript", None)

    with pytest.raises(ModuleNotFoundError) as error:
        export_page(tmp_path)

    line = "this needs the package onnxscript; install it with pip"
    assert describe_error(error.value) == line


@needs_web_runtime
def test_page_of_an_exported_folder_has_the_first_lines_of_the_examples(
    tmp_path, exported, monkeypatch
):
    monkeypatch.setattr(export, "_CACHE", CACHE)
    examples = tmp_path / "examples.de"
    examples.write_text("eins\n\n zwei \ndrei\nvier\n\u00fcnf\n", encoding="utf-8")

    export_page(tmp_path, checkpoint=exported, examples=str(examples))

    page = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert '"examples":["eins","zwei","drei","vier"]' in page
    assert {path.name for path in tmp_path.iterdir()} == {"examples.de", "page.html"}


@needs_web_runtime
def test_missing_examples_are_named(tmp_path, monkeypatch):
    monkeypatch.setattr(export, "_CACHE", CACHE)
    with pytest.raises(FileNotFoundError, match=r"no\.de"):
        export_page(tmp_path, examples=str(tmp_path / "no.de"))
