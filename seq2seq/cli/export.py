"""Export a trained model: `seq2seq-export checkpoint=checkpoints/NAME output=FOLDER`."""

import importlib.util
import logging
from dataclasses import dataclass
from enum import Enum

from seq2seq.runtime.process import interrupts_in_one_line

with interrupts_in_one_line():  # these imports take seconds
    from seq2seq.checks import Config, FilePath, Name
    from seq2seq.cli.command_line import run_command
    from seq2seq.files.exported import ExportPrecision

logger = logging.getLogger(__name__)

_PACKAGES = ("onnx", "onnxscript", "onnxruntime", "safetensors")
"""Packages of the extra `onnx`."""


class ExportFormat(Enum):
    """The format of an exported model."""

    onnx = "onnx"
    """A folder with two graphs of ONNX."""


@dataclass(kw_only=True, slots=True, repr=False)
class ExportConfig(Config):
    """The configuration of the command."""

    checkpoint: FilePath
    """A file, or a directory that contains best.pt."""
    plugins: list[str]
    """Python files or modules that register the attention type in use."""
    output: FilePath
    """The folder to write."""
    format: ExportFormat
    precision: ExportPrecision
    license: Name | None
    """The licence that the model card names; None: the card names none."""
    overwrite: bool
    """Replace a folder that was exported before."""


def main() -> None:
    """Run the command with the arguments of this process."""
    run_command("export", ExportConfig, export)


def export(config: ExportConfig) -> None:
    """Export a model.

    Raises:
        ValueError: A package is missing, the file is not a checkpoint, or the model cannot be
            exported.
        OSError: A file cannot be read or written.
    """
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise ValueError(
            f"format={config.format.name} needs the packages {', '.join(missing)}; run: pip "
            "install 'attention-seq2seq[onnx]'"
        )
    from seq2seq.export.exporting import export_model  # it imports these packages

    export_model(
        config.checkpoint,
        config.output,
        precision=config.precision,
        license_name=config.license,
        overwrite=config.overwrite,
    )


if __name__ == "__main__":
    main()
