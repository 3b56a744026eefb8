"""The settings that the runs of a study share, which say what the study was made with."""

from collections.abc import Sequence

from seq2seq.cli.studies.run_files import read_config
from seq2seq.cli.studies.runs import Run
from seq2seq.visualization.report_page import Cell, Column, Table

_LOCAL = ("data.cache_dir",)
"""Keys that describe the machine and not the study."""


def settings_table(runs: Sequence[Run]) -> list[Table]:
    """Return a table of the settings that are equal in all runs with results.

    Returns:
        A list with the table; empty if a run has no configuration or the runs share no setting.
    """
    finished = [run for run in runs if run.failure is None]
    configs = [read_config(run.path) for run in finished]
    signatures = list(dict.fromkeys(run.results.signature for run in finished))
    shared = {
        key: value
        for key, value in (configs[0] if configs else {}).items()
        if key not in _LOCAL and all(config.get(key) == value for config in configs)
    }
    if not shared:
        return []
    for name, found in (("signature of BLEU", signatures), ("device", devices(finished))):
        if len(found) == 1:
            shared[name] = found[0]
    caption = "Settings that all runs share"
    columns = [Column("Key", is_numeric=False), Column("Value", is_numeric=False)]
    rows = [[Cell(key), Cell(value)] for key, value in shared.items()]
    return [Table(caption=caption, columns=columns, rows=rows, is_folded=True)]


def devices(runs: Sequence[Run]) -> list[str]:
    """Return the devices that the runs with results were trained on."""
    return list(dict.fromkeys(run.results.device for run in runs if run.results.device))
