"""The benchmark of exported models prints its tables, for a tiny model."""

import re

from tiny_export import SENTENCES

from benchmarks.export_speed import main


def test_each_model_has_a_row_in_each_table(checkpoint_path, exported, tmp_path, capsys):
    source = tmp_path / "test.src"
    source.write_text("".join(f"{line}\n" for line in SENTENCES))
    sources = ["--input", str(source), "--reference", str(source)]

    main([str(checkpoint_path), str(exported), *sources, "--single=2", "--repeats=1"])

    tables = re.findall(r"(?<=:\|\n)(?:\|.*\n)+", capsys.readouterr().out)
    assert [table.count("\n") for table in tables] == [4, 4, 2]
    assert tables[1].count(f"| {len(SENTENCES)} of {len(SENTENCES)} |") == 4
