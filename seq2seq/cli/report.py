"""Compare the runs of one or several sweeps again, for example after a run was added."""

import sys
from collections.abc import Sequence
from pathlib import Path

from seq2seq.runtime.process import imports_in_one_line

with imports_in_one_line():
    from seq2seq.cli.command_line import OneLineParser, one_line_errors
    from seq2seq.config.plugins import load_plugins
    from seq2seq.files.paths import expand_home
    from seq2seq.inference.interventions import find_intervention
    from seq2seq.runtime.process import log_to_stderr
    from seq2seq.studies.interventions import check_others
    from seq2seq.studies.runs import group_runs, is_run, read_runs
    from seq2seq.studies.study import list_files, write_tables


def argument_parser() -> OneLineParser:
    """Return the parser of the command's arguments."""
    parser = OneLineParser(
        prog="seq2seq-report",
        allow_abbrev=False,
        description="Compare the runs of one or several sweeps: leaderboard.csv has a row for each "
        "run, groups.csv a row for the runs that differ only in their seed, with the significance "
        "of the difference from a baseline, and report.html shows both with learning curves, "
        "attention and translations.",
    )
    parser.add_argument(
        "sweeps", nargs="+", type=Path, metavar="SWEEP", help="a sweep's or a run's directory"
    )
    parser.add_argument(
        "--baseline",
        help="the group to compare with: a swept value, or 'key=value' pairs; default: the best by "
        "validation",
    )
    parser.add_argument(
        "--output", type=Path, help="directory of the files; default: that of a single sweep"
    )
    parser.add_argument(
        "--interventions",
        default="",
        metavar="NAME,NAME",
        help="translate the test set again with other attention weights, which takes as long as "
        "the translations: uniform, permuted, strongest, without_end, frozen, drop_head:N and "
        "only_head:N (heads count from 1), gold, other:seed, other:GROUP",
    )
    parser.add_argument(
        "--plugins",
        default="",
        metavar="FILE,FILE",
        help="plug-ins that the runs were trained with",
    )
    return parser


def _items(text: str) -> list[str]:
    """Return the items of a list, with or without brackets."""
    return [item for item in text.strip("[]").split(",") if item]


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> None:
    """Write the tables and the report of the runs that are named."""
    options = argument_parser().parse_args(arguments)
    load_plugins(_items(options.plugins))
    interventions = list(map(find_intervention, _items(options.interventions)))
    if options.output is None:
        if len(options.sweeps) > 1:
            raise ValueError("several directories have no common place; add --output=DIRECTORY")
        output = options.sweeps[0]
        if is_run(output):
            raise ValueError(f"{output} is a single run, not a sweep; add --output=DIRECTORY")
    else:
        output = expand_home(options.output, key="--output")
    log_to_stderr()
    runs = read_runs(options.sweeps)
    check_others(interventions, group_runs(runs))
    print(write_tables(runs, output, baseline=options.baseline, interventions=interventions))
    print(f"\n{list_files(output)}", file=sys.stderr)


if __name__ == "__main__":
    main()
