"""The part of an exported folder that a checkpoint has: weights, configuration and tokenizers."""

import importlib.util
import json
import shutil
from pathlib import Path
from typing import NamedTuple, cast

import torch
from torch import Tensor

from seq2seq.config.schema import TrainConfig
from seq2seq.config.serialization import read_yaml, save_config
from seq2seq.data.tokenizers.interface import TokenizerState
from seq2seq.files.exported import CONFIG, RUNTIME, WEIGHTS, TokenizerEntry, read_runtime

_TIED = "tied"
"""Key of the names that share the tensor of another name, which the file contains once."""


def write_model(
    folder: Path,
    *,
    config: TrainConfig,
    tokenizers: dict[str, TokenizerState],
    model_state: dict[str, Tensor],
) -> dict[str, TokenizerEntry]:
    """Write the files of a model, and return the entries of its tokenizers in runtime.json."""
    from safetensors.torch import save_file  # an extra package

    save_config(config, folder / CONFIG)
    names: dict[int, str] = {}
    for name, value in model_state.items():
        names.setdefault(value.data_ptr() if value.numel() else id(value), name)
    stored = {name: model_state[name].contiguous() for name in names.values()}
    tied = {
        name: names[value.data_ptr()] for name, value in model_state.items() if name not in stored
    }
    save_file(stored, folder / WEIGHTS, metadata={_TIED: json.dumps(tied)})
    shutil.copymode(folder / CONFIG, folder / WEIGHTS)  # safetensors lets only the owner read it
    entries: dict[str, TokenizerEntry] = {}
    for side, state in tokenizers.items():
        entry: TokenizerEntry = {}
        for key, part in state.items():
            if isinstance(part, Tensor):
                entry[key] = f"{side}.spm"
                (folder / f"{side}.spm").write_bytes(part.numpy().tobytes())
            else:
                entry[key] = part
        entries[side] = entry
    return entries


def is_exported(path: Path) -> bool:
    """Return whether a path is a folder that seq2seq-export wrote."""
    return (path / RUNTIME).is_file()


class ExportedModel(NamedTuple):
    """The parts that a checkpoint contains too."""

    version: str
    config: dict[str, dict[str, str]]
    tokenizers: dict[str, TokenizerState]
    model_state: dict[str, Tensor]


def read_model(folder: Path) -> ExportedModel:
    """Read what a checkpoint contains too.

    Raises:
        ValueError: A file is damaged, or the package safetensors is missing.
    """
    if importlib.util.find_spec("safetensors") is None:
        raise ValueError(
            f"{folder / WEIGHTS} needs the package safetensors; run: pip install safetensors"
        )
    from safetensors import safe_open

    runtime = read_runtime(folder)
    with safe_open(folder / WEIGHTS, "pt") as file:
        model_state = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        tied = json.loads(file.metadata()[_TIED])
    model_state |= {name: model_state[other] for name, other in tied.items()}
    states: dict[str, TokenizerState] = {}
    for side, entry in runtime["tokenizers"].items():
        state: TokenizerState = {**entry}
        if "model" in entry:
            content = (folder / str(entry["model"])).read_bytes()
            state["model"] = torch.frombuffer(bytearray(content), dtype=torch.uint8)
        states[side] = state
    config = cast(dict[str, dict[str, str]], read_yaml(folder / CONFIG))
    return ExportedModel(runtime["version"], config, states, model_state)
