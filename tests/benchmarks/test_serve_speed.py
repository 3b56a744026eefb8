"""The benchmark of the service prints its table, for a tiny checkpoint."""

import pytest
from tiny_translator import SENTENCES, write_checkpoint

from benchmarks.serve_speed import main


@pytest.mark.slow
def test_each_search_number_of_clients_and_server_has_a_row(tmp_path, capsys):
    path = write_checkpoint(tmp_path / "run")
    (path / "test.src").write_text("\n".join(SENTENCES))
    sizes = ["--clients=1,3", "--searches=beam 5", "--requests=6", "--repeats=1"]

    main([f"--checkpoint={path}", *sizes, "device=cpu", "split_length=100"])

    rows = [line.split("|") for line in capsys.readouterr().out.splitlines() if "batching" in line]
    assert [[cell.strip() for cell in row[1:4]] for row in rows] == [
        ["beam 5", clients, server] for clients in "13" for server in ("no batching", "batching")
    ]
    assert [row[-2].strip() for row in rows] == 4 * ["0"]
