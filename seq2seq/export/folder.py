"""The folder of an exported model: the names of its files, and runtime.json, which describes it."""

import json
from dataclasses import asdict, dataclass, field
from enum import Enum
from operator import attrgetter
from pathlib import Path
from typing import Annotated

from seq2seq.checks import Config, Name, Range, Texts, check_format
from seq2seq.files.paths import check_sha256, expand_home, file_sha256, reading
from seq2seq.search.config import BeamConfig, DecodingConfig, GreedyConfig
from seq2seq.text.rules import TextRules

RUNTIME = "runtime.json"
CARD = "README.md"
CHECKPOINT = "best.pt"
"""File of the fp32 weights and all settings. `Translator` looks for this name in a directory."""
ENCODER, STEP = "encoder.onnx", "step.onnx"
SOURCE, TARGET = "source.spm", "target.spm"
FORMAT = 4
_READ = (ENCODER, STEP, SOURCE, TARGET)
"""Files that `OnnxTranslator` reads; runtime.json has their hashes."""
_SEARCHES = {each().name: each for each in (GreedyConfig, BeamConfig)}
_LACKING = ("min_length", "no_repeat_ngram", "coverage_penalty")
"""Options of a search that an exported model does not support."""


class ExportPrecision(Enum):
    """The type of the weights in the graphs."""

    fp32 = "fp32"
    int8 = "int8"
    """8-bit weights: smaller and faster, but the other sentences of a batch may change a
    translation."""


@dataclass(kw_only=True, slots=True, repr=False)
class Runtime(Config, section=RUNTIME):
    """The content of runtime.json."""

    format: int = FORMAT
    version: str
    """Version of the program that wrote the folder."""
    precision: ExportPrecision
    source: Name
    """Name of the source language."""
    target: Name
    """Name of the target language."""
    num_heads: Annotated[int, Range(0)]
    """Number of attention heads."""
    states: Annotated[list[str], Texts()]
    """Names of the tensors of the state: outputs of the encoder, and inputs of the step; the
    outputs of the step add the prefix `new_`."""
    decoding: GreedyConfig | BeamConfig
    """Settings of the default search."""
    tags: Annotated[list[str], Texts()]
    """Symbols, one of which begins each source in the training text."""
    normalizes: bool
    """Whether text is normalized; see `seq2seq.text.rules`."""
    patterns: Annotated[dict[str, str], Texts()]
    """Regular expressions of what a translation copies, by name."""
    symbols: list[int]
    """Target ids of the symbols that a translation copies."""
    user_symbols: Annotated[list[str], Texts()] = field(default_factory=list)
    """Texts that are one token each, such as tags."""
    habits: dict[str, float] = field(default_factory=dict)
    """Shares of the training pairs with a habit; see `seq2seq.text`."""
    confidence: dict[str, float] = field(default_factory=dict)
    """Fields of `Confidence`, fitted with the weights before any rounding; empty if unknown."""
    packages: Annotated[dict[str, str], Texts()]
    """Versions of the packages that wrote the graphs."""
    files: Annotated[dict[str, str], Texts()]
    """SHA-256 of each file that `OnnxTranslator` reads."""

    @property
    def rules(self) -> TextRules:
        """Return the rules of the tokenizers."""
        return TextRules(self.normalizes, self.patterns, tuple(self.user_symbols))


def is_exported(path: str) -> bool:
    """Return whether a checkpoint is an exported folder, which translates without torch."""
    return (expand_home(path, key="checkpoint") / RUNTIME).is_file()


def write_runtime(folder: Path, runtime: Runtime) -> None:
    """Write runtime.json with the hashes of the other files."""
    runtime.files = {name: file_sha256(folder / name) for name in _READ}
    text = json.dumps(asdict(runtime), default=attrgetter("name"), indent=2, ensure_ascii=False)
    (folder / RUNTIME).write_text(text + "\n", encoding="utf-8")


def read_runtime(folder: Path) -> Runtime:
    """Read runtime.json, and check the files that `OnnxTranslator` reads.

    Raises:
        FileNotFoundError: A file does not exist.
        ReadingError: The folder was not exported, is damaged, or is from another version.
    """
    with reading(folder):
        content = json.loads((folder / RUNTIME).read_bytes())
        check_format(content["format"], FORMAT)
        search = _SEARCHES[content["decoding"]["name"]](**content["decoding"])
        check_decoding(search)
        runtime = Runtime(**content | {"decoding": search})
        for name in _READ:
            check_sha256(folder / name, runtime.files[name], "export it again")
    return runtime


def check_decoding(config: DecodingConfig) -> None:
    """Raise ValueError for a search or an option that only `Translator` supports."""
    given = [f".{key}={value}" for key in _LACKING if (value := getattr(config, key, 0)) != 0]
    if type(config) not in _SEARCHES.values():
        given.insert(0, f"={config.name}")
    if given:
        raise ValueError(
            f"exported models do not support decoding{given[0]}; use greedy or beam without "
            f"{', '.join(_LACKING)}, or translate with the checkpoint"
        )
