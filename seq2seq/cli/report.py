"""Compare the runs of one or several sweeps again, for example after a run was added."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from seq2seq.runtime.process import equal_messages_once, imports_in_one_line

with imports_in_one_line():
    from seq2seq.checks import Config, FilePath, FilePaths, Filled, OneOf, visible
    from seq2seq.cli.command_line import run_command
    from seq2seq.files.paths import expand_home, expand_patterns
    from seq2seq.studies.interventions import find_intervention
    from seq2seq.studies.runs import is_run, read_runs
    from seq2seq.studies.study import list_files, write_tables


@dataclass(kw_only=True, slots=True, repr=False)
class ReportConfig(Config):
    """The configuration of the command."""

    sweeps: FilePaths
    """Directories of sweeps or runs, or patterns such as checkpoints/sweep-*."""
    baseline: Annotated[str, Filled("a group")] | None
    """Swept value, or key=value pairs, of the group to compare with; None: the best group on the
    validation set."""
    output: FilePath | None
    """Directory to write to; None: the directory of the sweep, if there is only one."""
    interventions: list[str]
    """Changes of the attention weights: uniform, permuted, strongest, without_end, frozen and
    drop_head:N (heads numbered from 1). The test set is translated again with each change."""
    attributions: bool
    """Whether attention is compared with erasure and gradient on the test set."""
    format: Annotated[str, OneOf(("latex", "markdown"))] | None
    """Format of a file with all tables of the report, tables.tex (for booktabs) or tables.md; None
    writes no such file."""
    plugins: list[str]
    """Python files that register the attention types of the runs, or interventions."""


def main() -> None:
    """Run the command with the arguments of this process."""
    run_command("report", ReportConfig, report)


def report(config: ReportConfig) -> None:
    """Write the tables and the report of the runs.

    Raises:
        ValueError: A directory has no runs, the output directory is missing, or a baseline or an
            intervention is unknown.
        OSError: A file cannot be read or written.
    """
    interventions = list(map(find_intervention, config.interventions))
    found = expand_patterns(config.sweeps, key="sweeps", only_directories=True)
    sweeps = list(map(Path, found))
    if config.output is None and (len(sweeps) > 1 or is_run(sweeps[0])):
        names = ", ".join(map(str, sweeps))
        raise ValueError(f"sweeps={names}: not a single sweep; add output=DIRECTORY")
    output = expand_home(config.output or sweeps[0], key="output")
    runs = read_runs(sweeps)
    with equal_messages_once():
        shown = write_tables(
            runs,
            output,
            baseline=config.baseline,
            interventions=interventions,
            attributions=config.attributions,
            tables=config.format,
        )
    print(visible(shown))
    print(f"\n{list_files(output)}", file=sys.stderr)


if __name__ == "__main__":
    main()
