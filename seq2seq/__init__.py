"""Train, inspect and use attention sequence-to-sequence translators.

The names below are loaded on first use, so that `import seq2seq` takes no time.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from seq2seq.version import __version__

if TYPE_CHECKING:
    from seq2seq.attention import build_attention
    from seq2seq.config.plugins import load_plugins
    from seq2seq.config.schema import TrainConfig, build_model, load_config
    from seq2seq.inference import TranslatedHypothesis, Translation, Translator
    from seq2seq.model import Seq2Seq
    from seq2seq.search import BeamConfig, GreedyConfig, MbrConfig, SamplingConfig
    from seq2seq.training.run import run_training
    from seq2seq.training.updates import batch_gradients

__all__ = [
    "BeamConfig",
    "GreedyConfig",
    "MbrConfig",
    "SamplingConfig",
    "Seq2Seq",
    "TrainConfig",
    "TranslatedHypothesis",
    "Translation",
    "Translator",
    "__version__",
    "batch_gradients",
    "build_attention",
    "build_model",
    "load_config",
    "load_plugins",
    "run_training",
]

_MODULES = {
    "seq2seq.attention": ("build_attention",),
    "seq2seq.config.plugins": ("load_plugins",),
    "seq2seq.config.schema": ("TrainConfig", "build_model", "load_config"),
    "seq2seq.inference": ("TranslatedHypothesis", "Translation", "Translator"),
    "seq2seq.model": ("Seq2Seq",),
    "seq2seq.search": ("BeamConfig", "GreedyConfig", "MbrConfig", "SamplingConfig"),
    "seq2seq.training.run": ("run_training",),
    "seq2seq.training.updates": ("batch_gradients",),
}
"""The module of each public name."""


def __getattr__(name: str) -> object:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
