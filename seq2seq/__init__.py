"""Train, inspect and use attention-based translation models.

The names below are loaded on first use, so that `import seq2seq` takes no time.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from seq2seq.version import __version__

if TYPE_CHECKING:
    from seq2seq.analysis.interventions import Intervention, register_intervention
    from seq2seq.analysis.run import load_run
    from seq2seq.attention.base import (
        Attention,
        AttentionConfig,
        build_attention,
        register_attention,
    )
    from seq2seq.attention.contract import check_attention
    from seq2seq.attention.normalizers import masked_softmax
    from seq2seq.config.plugins import load_plugins
    from seq2seq.config.schema import TrainConfig, build_model, load_config
    from seq2seq.data.batching import make_batch
    from seq2seq.data.corpus import Pair
    from seq2seq.data.tokenizers.interface import train_tokenizers
    from seq2seq.export.translator import OnnxTranslator
    from seq2seq.inference.results import TranslatedHypothesis, Translation
    from seq2seq.inference.translator import Translator
    from seq2seq.model.seq2seq import Seq2Seq
    from seq2seq.search.config import BeamConfig, GreedyConfig, MbrConfig, SamplingConfig
    from seq2seq.training.run import run_training
    from seq2seq.training.updates import batch_gradients
    from seq2seq.visualization.page import AttentionPage
    from seq2seq.visualization.plots import attention_figure

__all__ = [
    "Attention",
    "AttentionConfig",
    "AttentionPage",
    "BeamConfig",
    "GreedyConfig",
    "Intervention",
    "MbrConfig",
    "OnnxTranslator",
    "Pair",
    "SamplingConfig",
    "Seq2Seq",
    "TrainConfig",
    "TranslatedHypothesis",
    "Translation",
    "Translator",
    "__version__",
    "attention_figure",
    "batch_gradients",
    "build_attention",
    "build_model",
    "check_attention",
    "load_config",
    "load_plugins",
    "load_run",
    "make_batch",
    "masked_softmax",
    "register_attention",
    "register_intervention",
    "run_training",
    "train_tokenizers",
]

_MODULES = {
    "seq2seq.analysis.interventions": ("Intervention", "register_intervention"),
    "seq2seq.analysis.run": ("load_run",),
    "seq2seq.attention.base": (
        "Attention",
        "AttentionConfig",
        "build_attention",
        "register_attention",
    ),
    "seq2seq.attention.contract": ("check_attention",),
    "seq2seq.attention.normalizers": ("masked_softmax",),
    "seq2seq.config.plugins": ("load_plugins",),
    "seq2seq.config.schema": ("TrainConfig", "build_model", "load_config"),
    "seq2seq.data.batching": ("make_batch",),
    "seq2seq.data.corpus": ("Pair",),
    "seq2seq.data.tokenizers.interface": ("train_tokenizers",),
    "seq2seq.export.translator": ("OnnxTranslator",),
    "seq2seq.inference.results": ("TranslatedHypothesis", "Translation"),
    "seq2seq.inference.translator": ("Translator",),
    "seq2seq.model.seq2seq": ("Seq2Seq",),
    "seq2seq.search.config": ("BeamConfig", "GreedyConfig", "MbrConfig", "SamplingConfig"),
    "seq2seq.training.run": ("run_training",),
    "seq2seq.training.updates": ("batch_gradients",),
    "seq2seq.visualization.page": ("AttentionPage",),
    "seq2seq.visualization.plots": ("attention_figure",),
}
"""The module of each public name."""


def __getattr__(name: str) -> object:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(import_module(module), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
