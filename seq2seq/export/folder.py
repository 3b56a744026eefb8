"""The files of an exported model, and the description that comes with them."""

import json
from enum import Enum
from pathlib import Path
from typing import TypedDict, cast

from seq2seq.files.paths import file_sha256

RUNTIME = "runtime.json"
CARD = "README.md"
CONFIG = "config.yaml"
WEIGHTS = "model.safetensors"
ENCODER = "encoder.onnx"
STEP = "step.onnx"
FORMAT = 1


class ExportPrecision(Enum):
    """The type of the weights in the graphs."""

    fp32 = "fp32"
    int8 = "int8"
    """Smaller and faster; the other sentences of a batch may change a translation."""


TokenizerEntry = dict[str, str | bool | list[str]]
"""The state of a tokenizer; of its binary model the name of the file."""


class Runtime(TypedDict):
    """The content of runtime.json."""

    format: int
    version: str
    """Of the program that wrote the folder."""
    precision: str
    """fp32 or int8."""
    source: str
    target: str
    """Names of the languages."""
    special_tokens: dict[str, int]
    target_vocabulary_size: int
    num_heads: int
    states: list[str]
    """Names of the state's tensors: outputs of the encoder, and inputs of the step, whose outputs
    have `new_` before them."""
    decoding: dict[str, str | int | float]
    """The search of the checkpoint; `name` is that of the search."""
    tags: list[str]
    """Symbols of which each source of the training text began with one."""
    tokenizers: dict[str, TokenizerEntry]
    """By `source` and `target`, or one for both by `joint`."""
    packages: dict[str, str]
    """Versions of the packages that wrote the graphs."""
    files: dict[str, str]
    """SHA-256 of each other file."""


def write_runtime(folder: Path, runtime: Runtime) -> None:
    """Write runtime.json."""
    text = json.dumps(runtime, indent=2, ensure_ascii=False)
    (folder / RUNTIME).write_text(text + "\n", encoding="utf-8")


def read_runtime(folder: Path) -> Runtime:
    """Read runtime.json and check the files that it names.

    Raises:
        FileNotFoundError: The folder does not exist.
        ValueError: It was not exported, is damaged, or another version wrote it.
    """
    path = folder / RUNTIME
    if not path.is_file():
        raise FileNotFoundError(
            f"{folder}: no folder with a {RUNTIME}; give one that seq2seq-export wrote"
        )
    try:
        runtime = json.loads(path.read_bytes())
        version = runtime["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is damaged; export the model again") from error
    if version != FORMAT:
        raise ValueError(
            f"{folder} has format {version}, this version reads {FORMAT}; export the model again"
        )
    if runtime.keys() != Runtime.__required_keys__:
        raise ValueError(f"{path} is damaged; export the model again")
    for name, digest in runtime["files"].items():
        if not (folder / name).is_file():
            raise ValueError(f"{folder} lacks {name}; export the model again")
        if file_sha256(folder / name) != digest:
            raise ValueError(f"{folder / name} is damaged; export the model again")
    return cast(Runtime, runtime)
