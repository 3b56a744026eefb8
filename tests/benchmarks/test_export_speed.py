"""The benchmark of exported models prints its tables, for a tiny model."""

import re

import pytest
from tiny_export import SENTENCES, make_exportable

from benchmarks.export_speed import main
from seq2seq.checkpoints.checkpoint import save_checkpoint
from seq2seq.export import exporting


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    save_checkpoint(folder / "best.pt", make_exportable())
    exporting.export_model(folder, folder / "exported")
    (folder / "test.src").write_text("".join(f"{line}\n" for line in SENTENCES))
    return folder


def test_each_model_has_a_row_in_each_table(run, capsys):
    sources = ["--input", str(run / "test.src"), "--reference", str(run / "test.src")]

    main([str(run), str(run / "exported"), *sources, "--single=2", "--repeats=1"])

    tables = re.findall(r"(?<=:\|\n)(?:\|.*\n)+", capsys.readouterr().out)
    assert [table.count("\n") for table in tables] == [4, 4, 2]
    assert tables[1].count(f"| {len(SENTENCES)} of {len(SENTENCES)} |") == 4
