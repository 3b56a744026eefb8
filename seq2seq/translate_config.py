"""The configuration of translate.py."""

from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from seq2seq.checks import check_positive
from seq2seq.search import DecodingConfig, decoding_config_types
from seq2seq.training.config import Device, Precision


class OutputFormat(Enum):
    """What is written for each input line."""

    text = "text"
    """the best translation"""
    nbest = "nbest"
    """Moses' `id ||| translation ||| score`, one line for each hypothesis"""
    json = "json"
    """one object with source, hypotheses, scores, pieces and attention"""


@dataclass(kw_only=True, slots=True)
class TranslateConfig:
    """What translate.py is told."""

    checkpoint: str
    """a file, or a directory, which means its best.pt"""
    text: str | None
    """translated instead of the input"""
    input: str | None
    """None: standard input"""
    reference: str | None
    """a file parallel to the input: its lines are scored as translations, nothing is searched"""
    output: str | None
    """None: standard output"""
    output_format: OutputFormat
    alignments: str | None
    """a file for the word links of the best translations, as Pharaoh text"""
    attention_plot: str | None
    """a directory for a picture of each translation's attention"""
    attention_html: str | None
    """a file for a page that shows the attention of the best translations"""
    gold: str | None
    """a file of Pharaoh text parallel to the reference, which its links are compared with"""
    gold_base: int
    """the number of the first word in gold: 0 or 1"""
    batch_size: int
    """sentences translated at once"""
    device: Device
    precision: Precision
    threads: int | None
    """of the CPU; None leaves the choice to torch"""
    decoding: DecodingConfig

    def __post_init__(self) -> None:
        check_positive("translate", self, "batch_size")
        if self.threads is not None:
            check_positive("translate", self, "threads")
        if self.text is not None and self.input is not None:
            raise ValueError(f"text={self.text!r} and input={self.input} exclude each other")
        self._check_reference()
        self._check_outputs()
        if decoding_config_types().get(self.decoding.name) is not type(self.decoding):
            raise ValueError(
                f"decoding.name={self.decoding.name} is not the name of this search; leave it and "
                f"choose decoding= one of {', '.join(sorted(decoding_config_types()))}"
            )

    def _check_reference(self) -> None:
        if self.reference is not None and self.text is not None:
            raise ValueError(
                f"text={self.text!r} and reference={self.reference} exclude each other; give "
                "input=FILE, whose lines are parallel to those of the reference"
            )
        if self.gold is not None and self.reference is None:
            raise ValueError(
                f"gold={self.gold} has the links of a reference; give reference=FILE too"
            )
        if self.gold_base not in (0, 1):
            raise ValueError(f"gold_base={self.gold_base} must be 0 or 1")

    def _check_outputs(self) -> None:
        """Let no file be written that another key names too."""
        taken: dict[Path, str] = {}
        for key in ("input", "reference", "gold", "output", "alignments", "attention_html"):
            name = getattr(self, key)
            path = None if name is None else Path(name).expanduser().resolve()
            # A device or a named pipe may serve several.
            if path is None or (path.exists() and not path.is_file()):
                continue
            if path in taken and key in ("output", "alignments", "attention_html"):
                raise ValueError(
                    f"{key}={name} would overwrite what {taken[path]} names; give it another name"
                )
            taken[path] = f"{key}={name}"
