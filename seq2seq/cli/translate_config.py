"""The configuration of translate.py."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

from seq2seq.checks import Config, Count, FilePath, FilePaths, Threads
from seq2seq.cli.command_line import load_command
from seq2seq.cli.outputs import check_overwrites
from seq2seq.export.folder import check_decoding, is_exported
from seq2seq.runtime.devices import Device, Precision
from seq2seq.search.config import DecodingConfig
from seq2seq.text.sentences import Split


class OutputFormat(Enum):
    """The output for each input line."""

    text = "text"
    """The best translation of each line."""
    nbest = "nbest"
    """Moses' `id ||| translation ||| score`, one line for each hypothesis. `|||` in a translation
    becomes `&#124;&#124;&#124;`. Beam search divides the
    log-probability by the length penalty to get the score."""
    json = "json"
    """A JSON object for each line, with source, hypotheses, tokens, attention, the `score` as in
    `nbest`, and the `log_probability` without a penalty."""


NEED_ATTENTION = ("alignments", "attention_plot", "attention_html")
"""Keys that need the attention weights of the model."""
_READ = ("checkpoint", "plugins", "input", "reference")
"""Keys of input files."""
_WRITTEN = ("output", "alignments", "attention_html")
"""Keys of output files."""


_ONLY_TORCH: dict[str, tuple[object, ...]] = {
    "reference": (None,),
    "alignments": (None,),
    "attention_plot": (None,),
    "device": (Device.auto, Device.cpu),
    "precision": (Precision.fp32,),
}
"""Keys that an exported folder lacks, with the values that it allows."""


@dataclass(kw_only=True, slots=True, repr=False)
class TranslateConfig(Config):
    """The configuration of translate.py."""

    checkpoint: FilePaths
    """Checkpoint file, or a directory that contains best.pt; several checkpoints make an
    ensemble. An exported folder translates without torch."""
    plugins: list[str]
    """Python files that register the parts of the model, such as its attention type."""
    text: str | None
    """Text to translate instead of an input file."""
    input: FilePaths | None
    """Files to translate; None: standard input."""
    reference: FilePaths | None
    """Files of reference translations, parallel to the input, to score instead of searching."""
    output: FilePaths | None
    """One output file for all inputs, or one for each input; None: standard output."""
    output_format: OutputFormat
    alignments: FilePath | None
    """File for the word links of the best translations, in Pharaoh format."""
    attention_plot: FilePath | None
    """Directory for an image of the attention of each translation."""
    attention_html: FilePath | None
    """HTML file to write, which shows the attention of the best translations."""
    batch_size: Count
    """Number of sentences translated together."""
    expected_chrf: bool
    """Whether to say how good the translations are likely to be, and which to read first."""
    split: Split
    device: Device
    """Device to translate on."""
    precision: Precision
    threads: Threads | None
    """Number of CPU threads; None: torch's default or, with an exported folder, all cores."""
    decoding: DecodingConfig

    def __post_init__(self) -> None:
        Config.__post_init__(self)
        if reason := next(self._contradictions(), None):
            raise ValueError(reason)
        check_overwrites(
            read={key: self.paths(key) for key in self.given(_READ)},
            written={key: self.paths(key) for key in self.given(_WRITTEN)},
        )

    @property
    def is_exported(self) -> bool:
        """Return whether an exported folder translates; an ensemble consists of checkpoints."""
        return len(self.checkpoint) == 1 and is_exported(self.checkpoint[0])

    def given(self, keys: Iterable[str]) -> dict[str, str]:
        """Return those of some keys that name a path, each as `key=value`."""
        return {key: self._named(key) for key in keys if self.paths(key)}

    def paths(self, key: str) -> list[str]:
        """Return the paths that a key names; there may be none."""
        value: list[str] | str | None = getattr(self, key)
        return [value] if isinstance(value, str) else value or []

    def _named(self, key: str) -> str:
        """Return a key and its value as on the command line."""
        value = getattr(self, key)
        if isinstance(value, Enum):
            value = value.name
        if key == "text":
            value = repr(value)  # one line, even with line feeds
        return f"{key}={shown(value) if isinstance(value, list) else value}"

    def _contradictions(self) -> Iterator[str]:
        """Check for keys that would be ignored, and for files that have no counterpart."""
        if self.text is not None and self.input is not None:
            yield f"{self._named('text')} and {self._named('input')} exclude each other; remove one"
        num_inputs = len(self.input or [""])
        for key in ("reference", "output"):
            allowed = sorted({1, num_inputs} if key == "output" else {num_inputs})
            if (number := len(self.paths(key))) not in (0, *allowed):
                yield (
                    f"{self._named(key)} names {number} files; give "
                    f"{' or '.join(map(str, allowed))}, because the number of inputs is "
                    f"{num_inputs}"
                )
        if self.is_exported:
            check_decoding(self.decoding)
            for key, allowed_values in _ONLY_TORCH.items():
                if getattr(self, key) not in allowed_values:
                    yield (
                        f"{self._named(key)} needs torch, which {self._named('checkpoint')} does "
                        f"without, as an exported folder; remove {key}, or give the checkpoint "
                        "that was exported"
                    )


def load_translate_config(*arguments: str) -> TranslateConfig:
    """Compose the configuration of translate.py; raises as `load_config`.

    Args:
        arguments: Command-line arguments, such as `"checkpoint=checkpoints/a"`.
    """
    return load_command("translate", TranslateConfig, arguments)


def shown(paths: Sequence[str] | None) -> str:
    """Return paths as on the command line: one as it is, several as [a,b]."""
    joined = ",".join(paths or ())
    return joined if paths and len(paths) == 1 else f"[{joined}]"
