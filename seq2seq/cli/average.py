"""Average the weights of several checkpoints of one run into one file."""

import logging
from dataclasses import dataclass

from seq2seq.runtime.process import imports_in_one_line

with imports_in_one_line():
    from seq2seq.checks import Config, FilePath, FilePaths
    from seq2seq.cli.command_line import run_command
    from seq2seq.files.paths import expand_patterns
    from seq2seq.inference.checkpoint import average_files

logger = logging.getLogger(__name__)


@dataclass(kw_only=True, slots=True, repr=False)
class AverageConfig(Config):
    """The configuration of the command."""

    checkpoints: FilePaths
    """Checkpoint files, patterns such as step-*.pt, or directories that contain best.pt."""
    output: FilePath
    """File to write; it must not exist yet."""
    plugins: list[str]
    """Python files that register the attention type in use."""


def main() -> None:
    """Run the command with the arguments of this process."""
    run_command("average", AverageConfig, average)


def average(config: AverageConfig) -> None:
    """Average the checkpoints.

    Raises:
        ValueError: The checkpoints are from different runs, or the output exists.
        OSError: A file cannot be read or written.
    """
    paths = expand_patterns(config.checkpoints, key="checkpoints")
    average_files(paths, output=config.output)
    logger.info("wrote %s, the average of %d checkpoints", config.output, len(paths))


if __name__ == "__main__":
    main()
