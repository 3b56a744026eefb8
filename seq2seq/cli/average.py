"""Average the weights of several checkpoints of one run into one file."""

import logging
import sys
from collections.abc import Sequence

from seq2seq.runtime.process import imports_in_one_line

with imports_in_one_line():
    from seq2seq.checkpoints.checkpoint import average_files
    from seq2seq.cli.command_line import OneLineParser, one_line_errors, quote_plain_values
    from seq2seq.config.plugins import KEY, load_plugins_of
    from seq2seq.runtime.process import log_to_stderr

logger = logging.getLogger(__name__)


def argument_parser() -> OneLineParser:
    """Return the parser of the command's arguments, without plug-ins."""
    parser = OneLineParser(
        prog="seq2seq-average",
        description="Average the weights of several checkpoints of one run into one file, which "
        "translate.py loads like any other checkpoint.",
        epilog=f"{KEY}=FILE.py loads the plug-in of the checkpoints' attention type.",
    )
    parser.add_argument("output", help="the file to write; it must not exist yet")
    parser.add_argument(
        "checkpoints", nargs="+", metavar="checkpoint", help="a file, or a directory: its best.pt"
    )
    return parser


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> None:
    """Average the checkpoints that the command line names."""
    log_to_stderr()
    given = sys.argv[1:] if arguments is None else arguments
    plugins = [each for each in given if each.startswith(f"{KEY}=")]
    load_plugins_of(quote_plain_values(plugins))
    options = argument_parser().parse_args([each for each in given if each not in plugins])
    average_files(options.checkpoints, output=options.output)
    logger.info("wrote %s, the average of %d checkpoints", options.output, len(options.checkpoints))


if __name__ == "__main__":
    main()
