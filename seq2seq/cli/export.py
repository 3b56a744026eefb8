"""Export a trained model: `seq2seq-export checkpoint=checkpoints/NAME output=FOLDER`."""

import logging
from dataclasses import dataclass
from enum import Enum
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory

from seq2seq.runtime.process import imports_in_one_line

with imports_in_one_line():
    from seq2seq.checks import Config, FilePath
    from seq2seq.cli.command_line import run_command
    from seq2seq.export.folder import ExportPrecision, is_exported
    from seq2seq.files.paths import expand_home
    from seq2seq.files.text import open_lines

logger = logging.getLogger(__name__)

_NUM_EXAMPLES = 4
_CACHE = Path("data/cache")
"""Directory that keeps onnxruntime-web, which a page needs."""


class ExportFormat(Enum):
    """The format of an exported model."""

    onnx = "onnx"
    """A folder with two ONNX graphs."""
    web = "web"
    """An HTML file that translates in the browser, without a network."""


@dataclass(kw_only=True, slots=True, repr=False)
class ExportConfig(Config):
    """The configuration of the command."""

    checkpoint: FilePath
    """Checkpoint file, or a directory that contains best.pt; with format=web, also an exported
    folder, whose precision the page then has."""
    plugins: list[str]
    """Python files that register the attention type in use."""
    output: FilePath
    """Folder to write; with format=web, HTML file to write."""
    format: ExportFormat
    precision: ExportPrecision
    examples: FilePath | None
    """Text file whose first lines the page offers as examples."""
    overwrite: bool
    """Whether to replace an earlier export."""


def main() -> None:
    """Run the command with the arguments of this process."""
    run_command("export", ExportConfig, export)


def export(config: ExportConfig) -> None:
    """Export a model.

    Raises:
        ModuleNotFoundError: A package is missing.
        ValueError: The file is not a checkpoint, or the model cannot be exported.
        OSError: A file cannot be read or written.
    """
    export_as = _export_page if config.format is ExportFormat.web else _export_folder
    export_as(config)


def _export_folder(config: ExportConfig) -> None:
    from seq2seq.export.exporting import export_model  # needs packages that only exporting needs

    export_model(
        config.checkpoint,
        config.output,
        precision=config.precision,
        overwrite=config.overwrite,
    )
    logger.info("wrote %s", config.output)


def _export_page(config: ExportConfig) -> None:
    """Write a page that contains the graphs of an exported folder, if need be a temporary one."""
    from seq2seq.export.exporting import check_output, export_model
    from seq2seq.export.web_page import write_page
    from seq2seq.export.web_runtime import load_web_runtime

    output = expand_home(config.output, key="output")
    check_output(output, is_ours=True, overwrite=config.overwrite)
    runtime = load_web_runtime(_CACHE)  # before the slow part, because it may fail
    examples = [] if config.examples is None else _first_lines(config.examples)
    with TemporaryDirectory() as directory:
        folder = expand_home(config.checkpoint, key="checkpoint")
        if not is_exported(config.checkpoint):
            folder = Path(directory, "model")
            export_model(config.checkpoint, folder, precision=config.precision)
        write_page(folder, output, runtime=runtime, examples=examples)
    logger.info("wrote %s, %.1f MB; open it in a browser", output, output.stat().st_size / 1e6)


def _first_lines(name: str) -> list[str]:
    """Return the first non-empty lines of a text."""
    with open_lines(name, key="examples") as lines:
        return list(islice(filter(None, map(str.strip, lines)), _NUM_EXAMPLES))


if __name__ == "__main__":
    main()
