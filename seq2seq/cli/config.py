"""The configuration of translate.py."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from hydra.core.config_store import ConfigStore

from seq2seq.checks import check_positive
from seq2seq.cli.hydra_arguments import quote_plain_values
from seq2seq.config.composition import compose_yaml, to_dataclass
from seq2seq.config.schema import register_schemas
from seq2seq.files.paths import expand_home
from seq2seq.kernels.switch import Kernels
from seq2seq.runtime.numerics import Device, Precision
from seq2seq.search import DecodingConfig, decoding_config_types


class OutputFormat(Enum):
    """What is written for each input line."""

    text = "text"
    """the best translation"""
    nbest = "nbest"
    """Moses' `id ||| translation ||| score`, one line for each hypothesis"""
    json = "json"
    """one object with source, hypotheses, scores, tokens and attention"""


class LongLines(Enum):
    """What becomes of a line of many tokens."""

    whole = "whole"
    """it is translated as one sentence"""
    split = "split"
    """it is cut at the ends of its sentences, whose translations are joined with a space"""


class UnknownTokens(Enum):
    """What becomes of a token that stands for whatever the vocabulary lacks."""

    keep = "keep"
    """it stays, as a sign of its own"""
    copy = "copy"
    """the source word that it attends to takes its place, translated where a dictionary has it"""


@dataclass(kw_only=True, slots=True)
class TranslateConfig:
    """What translate.py is told."""

    checkpoint: list[str]
    """a file, or a directory, which means its best.pt; several are an ensemble"""
    text: str | None
    """translated instead of the input"""
    input: list[str] | None
    """files, one after another; None: standard input"""
    reference: list[str] | None
    """files parallel to the input: their lines are scored as translations, nothing is searched"""
    prefixes: list[str] | None
    """files parallel to the input: translations begin with their lines; empty ones are free"""
    forbidden: str | None
    """a file of phrases, one a line, that no translation is to hold"""
    unknown_words: UnknownTokens
    dictionary: str | None
    """a file of source word, tab and target word, which unknown words are looked up in"""
    output: list[str] | None
    """a file for all, or one for each of the input; None: standard output"""
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
    progress: bool | None
    """a bar on stderr; None: where that is a terminal and the translations go elsewhere"""
    long_lines: LongLines
    split_length: int
    """tokens; longer lines are split where long_lines says so"""
    device: Device
    precision: Precision
    kernels: Kernels
    """plain: only torch's own operations, which are slower"""
    threads: int | None
    """of the CPU; None leaves the choice to torch"""
    decoding: DecodingConfig

    def __post_init__(self) -> None:
        check_positive("", self, "batch_size", "split_length")
        if self.threads is not None:
            check_positive("", self, "threads")
        if not (self.checkpoint and all(self.checkpoint)):
            raise ValueError(
                f"checkpoint={self.checkpoint} must name a checkpoint, or several: [a.pt,b.pt]"
            )
        if self.text is not None and self.input is not None:
            raise ValueError(f"text={self.text!r} and input={shown(self.input)} exclude each other")
        self._check_counts()
        self._check_reference()
        self._check_words()
        self._check_outputs()
        self._check_long_lines()
        if decoding_config_types().get(self.decoding.name) is not type(self.decoding):
            raise ValueError(
                f"decoding.name={self.decoding.name} is not the name of this search; leave it and "
                f"choose decoding= one of {', '.join(sorted(decoding_config_types()))}"
            )

    def _check_reference(self) -> None:
        if self.reference is not None and self.text is not None:
            raise ValueError(
                f"text={self.text!r} and reference={shown(self.reference)} exclude each other; "
                "give input=FILE, whose lines are parallel to those of the reference"
            )
        if self.gold is not None and self.reference is None:
            raise ValueError(
                f"gold={self.gold} has the links of a reference; give reference=FILE too"
            )
        if self.gold_base not in (0, 1):
            raise ValueError(f"gold_base={self.gold_base} must be 0 or 1")

    def _check_words(self) -> None:
        """Refuse rules for words where they have nothing to rule."""
        if self.dictionary is not None and self.unknown_words is UnknownTokens.keep:
            raise ValueError(
                f"dictionary={self.dictionary} goes with unknown_words=copy alone; set that too"
            )
        if self.prefixes is not None and self.long_lines is LongLines.split:
            raise ValueError(
                f"prefixes={shown(self.prefixes)} goes with long_lines=whole alone; sentences of a "
                "line that was split have no prefix of their own"
            )
        if self.reference is None:
            return
        if self.unknown_words is UnknownTokens.copy:
            raise ValueError("unknown_words=copy changes translations; leave out reference= for it")
        for key in ("prefixes", "forbidden"):
            if paths := self._paths(key):
                raise ValueError(
                    f"{key}={shown(paths)} rules a search, but with reference= nothing is "
                    "searched; leave out one of them"
                )

    def _check_counts(self) -> None:
        """Let each input have the files that belong to it."""
        for key in ("input", "reference", "prefixes", "output"):
            paths = self._paths(key)
            if getattr(self, key) is not None and not (paths and all(paths)):
                raise ValueError(f"{key}={shown(paths)} must name a file, or several: [a,b]")
        num_inputs = len(self.input or [""])
        for key, allowed in (
            ("reference", {num_inputs}),
            ("prefixes", {num_inputs}),
            ("output", {1, num_inputs}),
        ):
            num_files = len(self._paths(key))
            if num_files not in {0, *allowed}:
                raise ValueError(
                    f"{key}={shown(self._paths(key))} has {num_files} files for {num_inputs} of "
                    f"input; give {' or '.join(map(str, sorted(allowed)))}"
                )

    def _check_long_lines(self) -> None:
        """Refuse what a translation that was joined of several does not have."""
        if self.long_lines is LongLines.whole:
            return
        if self.output_format is not OutputFormat.text:
            raise ValueError(
                f"output_format={self.output_format.value} goes with long_lines=whole alone; a "
                "line that was split has no score or attention of its own, only a text"
            )
        for key in ("reference", "alignments", "attention_plot", "attention_html"):
            if paths := self._paths(key):
                raise ValueError(
                    f"{key}={shown(paths)} goes with long_lines=whole alone; a line that was "
                    "split has no score or attention of its own, only a text"
                )

    def _paths(self, key: str) -> list[str]:
        """Return the paths that a key names, be it none."""
        value: list[str] | str | None = getattr(self, key)
        return [value] if isinstance(value, str) else value or []

    def _check_outputs(self) -> None:
        """Let no file be written that another key names too."""
        taken: dict[Path, str] = {}
        read = ("checkpoint", "input", "reference", "prefixes", "forbidden", "dictionary", "gold")
        keys = (*read, "output", "alignments", "attention_html")
        named = [(key, name) for key in keys for name in self._paths(key)]
        for key, name in named:
            path = expand_home(name, key=key).resolve()
            # A device or a named pipe may serve several.
            if path.exists() and not path.is_file():
                continue
            if path in taken and key in ("output", "alignments", "attention_html"):
                raise ValueError(
                    f"{key}={name} would overwrite what {taken[path]} names; give it another name"
                )
            taken[path] = f"{key}={name}"


def load_translate_config(*arguments: str) -> TranslateConfig:
    """Compose the configuration that `translate.py` would translate with; raises as `load_config`.

    Args:
        arguments: Of `translate.py`, such as `"checkpoint=checkpoints/a"` or `"decoding=greedy"`.
    """
    register_translate_schema()
    config = to_dataclass(compose_yaml("translate", quote_plain_values(arguments)))
    assert isinstance(config, TranslateConfig)
    return config


def register_translate_schema() -> None:
    """Register the dataclass with Hydra, and those of the searches."""
    register_schemas()
    ConfigStore.instance().store(name="translate_schema", node=TranslateConfig)


def shown(paths: Sequence[str] | None) -> str:
    """Write paths as they are given on the command line: one as it is, several as [a,b]."""
    joined = ",".join(paths or ())
    return joined if paths and len(paths) == 1 else f"[{joined}]"
