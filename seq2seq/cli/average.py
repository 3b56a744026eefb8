"""Average the weights of several checkpoints of one run into one file."""

import argparse
import logging
import sys
from collections.abc import Sequence

from seq2seq.checkpoints.average import average_files
from seq2seq.cli.errors import one_line_errors
from seq2seq.cli.hydra_arguments import quote_plain_values
from seq2seq.config.plugins import KEY, load_plugins_of
from seq2seq.runtime.console import log_to_stderr

logger = logging.getLogger(__name__)


@one_line_errors
def main(arguments: Sequence[str] | None = None) -> None:
    """Average the checkpoints that the command line names."""
    log_to_stderr()
    parser = argparse.ArgumentParser(
        prog="seq2seq-average",
        description="Average the weights of several checkpoints of one run into one file, which "
        "translate.py loads like any other checkpoint.",
        epilog=f"{KEY}=FILE.py loads the plug-in of the checkpoints' attention type.",
    )
    parser.add_argument("output", help="the file to write; it must not exist yet")
    parser.add_argument(
        "checkpoints", nargs="+", metavar="checkpoint", help="a file, or a directory: its best.pt"
    )
    given = sys.argv[1:] if arguments is None else arguments
    plugins = [each for each in given if each.startswith(f"{KEY}=")]
    load_plugins_of(quote_plain_values(plugins))
    options = parser.parse_args([each for each in given if each not in plugins])
    average_files(options.checkpoints, output=options.output)
    logger.info("wrote %s, the average of %d checkpoints", options.output, len(options.checkpoints))


if __name__ == "__main__":
    main()
