"""The configuration of translate.py."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from hydra.core.config_store import ConfigStore

from seq2seq.checks import check_positive
from seq2seq.cli.hydra_arguments import TRANSLATE_PATHS, quote_plain_values
from seq2seq.cli.outputs import check_overwrites
from seq2seq.config.composition import compose_yaml, to_dataclass
from seq2seq.config.plugins import load_plugins_of
from seq2seq.config.schema import register_schemas
from seq2seq.kernels.switch import Kernels
from seq2seq.runtime.numerics import Device, Precision
from seq2seq.search import DecodingConfig, decoding_config_types


class OutputFormat(Enum):
    """The output for each input line."""

    text = "text"
    """The best translation."""
    nbest = "nbest"
    """Moses' `id ||| translation ||| score`, one line for each hypothesis."""
    json = "json"
    """One object with source, hypotheses, scores, tokens and attention."""


class LongLines(Enum):
    """The treatment of lines of many tokens."""

    whole = "whole"
    """Translate the line as one sentence."""
    split = "split"
    """Split it into sentences, and join their translations with spaces."""


class UnknownTokens(Enum):
    """The treatment of unknown tokens."""

    keep = "keep"
    """Write them as a mark."""
    copy = "copy"
    """Replace them by the source word with the most attention, or its entry in a dictionary."""


@dataclass(kw_only=True, slots=True)
class TranslateConfig:
    """The configuration of translate.py."""

    checkpoint: list[str]
    """A file, or a directory that contains best.pt; several make an ensemble."""
    plugins: list[str]
    """Python files or modules that register the attention types and searches in use."""
    text: str | None
    """Text to translate in place of an input."""
    input: list[str] | None
    """Files to translate; None: standard input."""
    reference: list[str] | None
    """Files parallel to the input, scored as its translations; no search runs."""
    prefixes: list[str] | None
    """Files parallel to the input: the text each translation begins with, or an empty line."""
    banned_phrases: str | None
    """A file of phrases, one on each line, that no translation may contain."""
    unknown_words: UnknownTokens
    dictionary: str | None
    """A file of source word, tab and target word, to translate unknown words."""
    output: list[str] | None
    """A file for all inputs, or one for each; None: standard output."""
    output_format: OutputFormat
    alignments: str | None
    """A file for the word links of the best translations, in Pharaoh format."""
    attention_plot: str | None
    """A directory for a picture of each translation's attention."""
    attention_html: str | None
    """A file for a page that shows the attention of the best translations."""
    gold: str | None
    """A file of gold links in Pharaoh format, to compare with the links of the reference."""
    gold_base: int
    """Number of the first word in gold: 0 or 1."""
    batch_size: int
    """Sentences translated together."""
    progress: bool | None
    """Show a bar on stderr; None: if stderr is a terminal and the translations go elsewhere."""
    long_lines: LongLines
    split_length: int
    """Most tokens of a line that long_lines=split leaves whole."""
    device: Device
    precision: Precision
    kernels: Kernels
    """plain: only torch's own operations, which are slower"""
    threads: int | None
    """CPU threads; None: as many as torch chooses."""
    decoding: DecodingConfig

    def __post_init__(self) -> None:
        check_positive("", self, "batch_size", "split_length", "threads")
        if not (self.checkpoint and all(self.checkpoint)):
            raise ValueError(
                f"checkpoint={self.checkpoint} must name a checkpoint, or several: [a.pt,b.pt]"
            )
        if self.text is not None and self.input is not None:
            raise ValueError(f"text={self.text!r} and input={shown(self.input)} exclude each other")
        for key in TRANSLATE_PATHS:
            if getattr(self, key) == "":
                raise ValueError(f"{key}= is empty; give a path, or remove it")
        self._check_counts()
        self._check_reference()
        self._check_words()
        read = ("checkpoint", "input", "reference", "prefixes", "banned_phrases")
        check_overwrites(
            read={key: self._paths(key) for key in (*read, "dictionary", "gold")},
            written={key: self._paths(key) for key in ("output", "alignments", "attention_html")},
        )
        self._check_long_lines()
        self._check_n_best()
        if decoding_config_types().get(self.decoding.name) is not type(self.decoding):
            raise ValueError(
                f"decoding.name={self.decoding.name} is not the name of this search; remove it "
                f"and choose decoding= one of {', '.join(sorted(decoding_config_types()))}"
            )

    def _check_reference(self) -> None:
        if self.reference is not None and self.text is not None:
            raise ValueError(
                f"text={self.text!r} and reference={shown(self.reference)} exclude each other; "
                "give input=FILE, a file parallel to the reference"
            )
        if self.gold is not None and self.reference is None:
            raise ValueError(
                f"gold={self.gold} contains the links of a reference; give reference=FILE too"
            )
        if self.gold_base not in (0, 1):
            raise ValueError(f"gold_base={self.gold_base} must be 0 or 1")

    def _check_words(self) -> None:
        """Raise ValueError for rules about words that would have no effect."""
        if self.dictionary is not None and self.unknown_words is UnknownTokens.keep:
            raise ValueError(f"dictionary={self.dictionary} needs unknown_words=copy; set that too")
        if self.reference is None:
            return
        if self.unknown_words is UnknownTokens.copy:
            raise ValueError(
                "unknown_words=copy changes translations, but reference= scores them as they are; "
                "remove one of them"
            )
        for key in ("prefixes", "banned_phrases"):
            if paths := self._paths(key):
                raise ValueError(
                    f"{key}={shown(paths)} constrains a search, but with reference= no search "
                    "runs; remove one of them"
                )

    def _check_counts(self) -> None:
        """Raise ValueError unless the numbers of files fit together."""
        for key in ("input", "reference", "prefixes", "output"):
            paths = self._paths(key)
            if getattr(self, key) is not None and not (paths and all(paths)):
                raise ValueError(f"{key}={shown(paths)} must name a file, or several: [a,b]")
        num_inputs = len(self.input or [""])
        for key in ("reference", "prefixes", "output"):
            allowed = {1, num_inputs} if key == "output" else {num_inputs}
            paths = self._paths(key)
            if len(paths) not in {0, *allowed}:
                raise ValueError(
                    f"{key}={shown(paths)} names {len(paths)} files; give "
                    f"{' or '.join(map(str, sorted(allowed)))}, because the number of inputs is "
                    f"{num_inputs}"
                )

    def _check_long_lines(self) -> None:
        """Raise ValueError for keys that cannot be combined with split lines."""
        if self.long_lines is LongLines.whole:
            return
        keys = ("reference", "prefixes", "alignments", "attention_plot", "attention_html")
        given = {key: shown(paths) for key in keys if (paths := self._paths(key))}
        if self.output_format is not OutputFormat.text:
            given["output_format"] = self.output_format.value
        for key, value in given.items():
            raise ValueError(
                f"{key}={value} needs long_lines=whole; a split line has a text, but no prefix, "
                "score or attention of its own"
            )

    def _check_n_best(self) -> None:
        """Raise ValueError for translations that nothing would write."""
        n_best = getattr(self.decoding, "n_best", 1)  # greedy search has none
        if n_best == 1:
            return
        shows_all = self.output_format is not OutputFormat.text or self.attention_plot is not None
        if self.reference is None and not shows_all:
            raise ValueError(
                f"decoding.n_best={n_best} asks for several translations, but "
                "output_format=text writes the best one; choose nbest or json"
            )

    def _paths(self, key: str) -> list[str]:
        """Return the paths that a key names, which may be none."""
        value: list[str] | str | None = getattr(self, key)
        return [value] if isinstance(value, str) else value or []


def load_translate_config(*arguments: str) -> TranslateConfig:
    """Compose the configuration of translate.py; raises as `load_config`.

    Args:
        arguments: Command-line arguments, such as `"checkpoint=checkpoints/a"`.
    """
    quoted = quote_plain_values(arguments)
    load_plugins_of(quoted)
    register_translate_schema()
    return to_dataclass(compose_yaml("translate", quoted), TranslateConfig)


def register_translate_schema() -> None:
    """Register the dataclasses of translate.py and of the searches with Hydra."""
    register_schemas()
    ConfigStore.instance().store(name="translate_schema", node=TranslateConfig)


def shown(paths: Sequence[str] | None) -> str:
    """Return paths as on the command line: one as it is, several as [a,b]."""
    joined = ",".join(paths or ())
    return joined if paths and len(paths) == 1 else f"[{joined}]"
